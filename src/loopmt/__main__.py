"""The command `loopmt`, also as `python -m loopmt`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C during the imports prints one line, too."""
    try:
        from loopmt import cli

        cli.main()
    except KeyboardInterrupt:
        print("loopmt: interrupted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
