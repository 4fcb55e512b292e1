"""A hook of mkdocs: adds pages that stand beside docs/ to the site, and leads links between both to the right page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
BESIDE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")
PAGES = {name: name.lower().replace("_", "-") for name in BESIDE}
LINKS = {**PAGES, "README.md": "index.md"}


def on_files(files: Files, config: Any) -> Files:
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=_with_links(text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _with_links(markdown)


def _with_links(text: str) -> str:
    """`](../ARCHITECTURE.md` and, in the pages beside docs/, `](ARCHITECTURE.md`. Other links stay."""
    return re.sub(
        r"\]\((?:\.\./)?([A-Z_]+\.md)", lambda link: f"]({LINKS[link[1]]}" if link[1] in LINKS else link[0], text
    )
