"""Fail unless a tag is the version of pyproject.toml and the changelog has it: `make check-tag TAG=v1.2.3`."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(words: list[str] | None = None) -> None:
    (tag,) = sys.argv[1:] if words is None else words
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != f"v{version}":
        sys.exit(
            f"The tag is {tag}, and the version in pyproject.toml is {version}: tag v{version}, or change the version."
        )
    if version not in releases():
        sys.exit(f'CHANGELOG.md has no section "## {version}": rename "## Unreleased", and start a new one above it.')


def releases() -> list[str]:
    """The versions of the changelog, newest first."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.findall(r"^## (\d+\.\d+\.\d+)$", changelog, re.MULTILINE)


if __name__ == "__main__":
    main()
