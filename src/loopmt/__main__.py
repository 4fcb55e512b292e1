"""`python -m loopmt` is the command `loopmt`."""

from loopmt.cli import main

main()
