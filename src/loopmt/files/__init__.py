"""Safe files: checksums, locks, and files in a run folder that are not ours."""
