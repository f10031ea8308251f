"""Drills: what the checkpoint's fetch does when hosts, disks, peers and the origin fail; see docs/en/drills.md."""
