"""The table that verbs print: a first column of names, then columns of numbers."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from loopmt.terminal import visible


def number_table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=plain(title), title_justify="left", title_style="bold", header_style="bold")
    table.add_column(plain(first))
    for column in columns:
        table.add_column(plain(column), justify="right")
    return table


def plain(text: str) -> str:
    """A name in a table is text: no markup, no control sequence. A test set may be called anything."""
    return escape(visible(text))
