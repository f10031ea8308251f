"""The tool that owns the life of a simulated site: `python -m rehearsal --help`."""
