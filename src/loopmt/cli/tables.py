"""The table that verbs print: a first column of names, then columns of numbers."""

from __future__ import annotations

from rich.table import Table


def number_table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table
