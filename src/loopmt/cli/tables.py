"""Tables for the terminal: columns of names, then columns of numbers. Cells are never truncated."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Column, Table

from loopmt.progress import visible

_HYPHEN = re.compile(r"(?<=\w-)(?=\w)")
_ENDLESS = 1000  # a file and a pipe have no width of their own
_CONTINUED = " (continued)"
_BORDER = 3  # of a column, with its padding; one more closes the table


def console() -> Console:
    """Standard output at its own width."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console() if known else Console(width=_ENDLESS)


def number_table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=plain(title), title_justify="left", title_style="bold", header_style="bold")
    table.add_column(plain(first), overflow="fold")
    for column in columns:
        table.add_column(plain(column), justify="right", overflow="fold")
    return table


def plain(text: str) -> str:
    """A name as plain text in a table: no markup, no control characters."""
    return escape(visible(text))


def print_table(out: Console, table: Table, names: int = 1) -> None:
    """Print a table. If the terminal is narrow, in parts below each other, each with the first columns."""
    title = str(table.title or "")
    table.title = None  # a line of its own: rich would break it where the table ends
    if Measurement.get(out, out.options.update(max_width=_ENDLESS), table).maximum <= out.width:
        _print_titled(out, title, table)
        return
    for widths in _parts([_width(out, column) for column in table.columns], names, out.width):
        _print_titled(out, title, _part(table, widths))
        title = title.removesuffix(_CONTINUED) + _CONTINUED


def _print_titled(out: Console, title: str, table: Table) -> None:
    if title:
        out.print(title, style="bold", highlight=False)
    out.print(table)


def _width(out: Console, column: Column) -> int:
    """A cell keeps its line; a heading may be broken between words, and after a hyphen."""
    lines = [Measurement.get(out, out.options, cell).maximum for cell in column.cells]
    return max([Measurement.get(out, out.options, _broken(column.header)).minimum, *lines])


def _broken(heading: RenderableType, width: int = 0) -> str:
    """Words that are too wide, with a line break after each hyphen."""
    return " ".join(word if len(word) <= width else _HYPHEN.sub("\n", word) for word in str(heading).split(" "))


def _parts(widths: Sequence[int], names: int, total: int) -> Iterator[dict[int, int]]:
    """Columns that fit side by side, by number, with their widths; names that leave no space for one are wrapped."""
    heads = dict(enumerate(widths[:names]))
    if _taken(heads) + max(widths[names:], default=0) + _BORDER >= total:
        most = max(1, total // 2 // names - _BORDER)
        heads = {number: min(width, most) for number, width in heads.items()}
    room = total - 1 - _taken(heads)
    part: dict[int, int] = {}
    for number, width in enumerate(widths[names:], names):
        one = {number: max(1, min(width, room - _BORDER))}
        if part and _taken(part | one) > room:
            yield heads | part
            part = {}
        part |= one
    yield heads | part


def _taken(widths: Mapping[int, int]) -> int:
    return sum(width + _BORDER for width in widths.values())


def _part(table: Table, widths: Mapping[int, int]) -> Table:
    part = Table(header_style="bold")
    part.caption, part.caption_justify = table.caption, table.caption_justify
    columns = [table.columns[number] for number in widths]
    for column, width in zip(columns, widths.values(), strict=True):
        part.add_column(_broken(column.header, width), justify=column.justify, overflow="fold", width=width)
    for row, *cells in zip(table.rows, *(column.cells for column in columns), strict=True):
        part.add_row(*cells, style=row.style, end_section=row.end_section)
    return part
