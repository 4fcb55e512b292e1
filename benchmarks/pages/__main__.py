"""Write every measured table and plot of the documentation anew: `python -m benchmarks.pages`.

A page marks the place of a table with `<!-- table: NAME -->` and `<!-- end -->`; what is between them is replaced.
"""

from __future__ import annotations

from benchmarks.pages import plots
from benchmarks.pages.blocks import fill, pages
from benchmarks.pages.raw import DOCS
from benchmarks.pages.tables import TABLES


def main() -> None:
    for page in pages():
        if fill(page, TABLES):
            print(f"{page.relative_to(DOCS.parent)}: tables changed")
    plots.draw(DOCS / "images")


if __name__ == "__main__":
    main()
