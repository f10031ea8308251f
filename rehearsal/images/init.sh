#!/bin/sh
# First process of a simulated host. The kernel is the machine's own, so a setting written under these
# directories would be written for the machine: every host gets a copy of its own that it may write.
set -u
mount -t tmpfs -o mode=755 shadow /run
for place in /proc/sys/vm /proc/sys/kernel /proc/sys/fs /sys/kernel/mm; do
    copy=/run/shadow$place
    mkdir -p "$copy"
    cp -rP "$place/." "$copy" 2>/dev/null
    mount --bind "$copy" "$place"
done
exec /sbin/init
