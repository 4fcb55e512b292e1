"""Safe access to files: checksums, locks, atomic writes, and checks of files that loopmt did not write."""
