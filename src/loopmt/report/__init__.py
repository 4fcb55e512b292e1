"""One self-contained page about runs: plain data first, then pictures, then HTML.

gather -> a plain dict of what the run's files say; page -> the dicts of one or more runs as HTML.
"""
