"""The output of `loopmt theory`: a document with its answers, or a table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from loopmt.cli.tables import console
from loopmt.errors import TheoryError
from loopmt.files.documents import parse_json
from loopmt.files.regular import read_given_text, read_stream_text
from loopmt.theory import fill
from loopmt.theory.cases import jsonable
from loopmt.theory.summary import (
    Answers,
    Row,
    dual_answers,
    dual_rows,
    loop_answers,
    loop_rows,
    read_gamma,
    triangle_answers,
    triangle_rows,
)


def print_cases(source: str) -> None:
    """Print the document with its answers; "-" is standard input."""
    _print_json(fill(_read(source)))


def print_answers(given: dict[str, float], q: list[float], as_json: bool) -> None:
    answers, rows = _answer(given, q)
    if as_json:
        _print_json(answers)
    else:
        console().print(_table(rows))


def _print_json(value: Any) -> None:
    print(json.dumps(jsonable(value), indent=1, allow_nan=False))


def _read(source: str) -> Any:
    """The JSON in a file, or on standard input for "-"."""
    name = "standard input" if source == "-" else source
    try:
        if source == "-":
            text = read_stream_text(typer.get_binary_stream("stdin"), name)
        else:
            text = read_given_text(Path(source))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TheoryError(f"Cannot read {name}: {reason}.") from None
    try:
        return parse_json(text.removeprefix("\ufeff"), not_finite=float)  # a later message names the case
    except ValueError as error:
        raise TheoryError(f"{name} is not valid JSON: {error}.") from None


def _answer(given: dict[str, float], q: list[float]) -> tuple[Answers, list[Row]]:
    """The loop that the numbers describe, and all its quantities."""
    alpha, beta = given.get("alpha"), given.get("beta")
    if q:
        _refuse_others(given, {"delta", "gamma"}, "--q")
        answers = loop_answers(q, **given)
        return answers, loop_rows(answers, q, given.get("delta", 0.0))
    if any(name in given for name in ("q12", "q23", "q31", "lam1", "lam2")):
        _require(given, ("q12", "q23", "q31"))
        _refuse_others(given, {"q12", "q23", "q31", "lam1", "lam2", "delta", "alpha", "beta", "gamma", "r"}, "--q12")
        rest = {name: value for name, value in given.items() if name not in ("beta", "gamma")}
        answers = triangle_answers(**rest, gamma=read_gamma(alpha, beta, given.get("gamma")))
        return answers, triangle_rows(answers, alpha, given.get("r"))
    _require(given, ("p", "r"))
    answers = dual_answers(**given)
    return answers, dual_rows(answers, alpha, beta)


def _flag(name: str) -> str:
    return "--" + name.replace("lam", "lambda")


def _require(given: dict[str, float], names: tuple[str, ...]) -> None:
    missing = [_flag(name) for name in names if name not in given]
    if missing:
        raise TheoryError(
            f"{' and '.join(missing)} missing. Give --p and --r for the loop of two, --q12, --q23 and --q31 for "
            "the loop of three, several --q for a longer one, or a document of cases; --help shows examples."
        )


def _refuse_others(given: dict[str, float], known: set[str], loop: str) -> None:
    others = [_flag(name) for name in given if name not in known]
    if others:
        raise TheoryError(f"{', '.join(others)} cannot be used with {loop}: it belongs to another loop.")


def _table(rows: list[Row]) -> Table:
    table = Table(header_style="bold", title_style="bold")
    for heading, justify in (("quantity", "left"), ("value", "right"), ("as printed", "right"), ("", "left")):
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    section = ""
    for row in rows:
        if row.section != section:
            table.add_section()
            table.add_row(f"[bold cyan]{row.section}[/]")
            section = row.section
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> tuple[str, str, str, str]:
    value, printed = _show(row.value), "" if row.printed is None else _show(row.printed)
    if printed and printed != value:
        printed = f"[yellow]{printed}[/]"
    return f"  {row.name}", value, printed, f"[dim]{row.remark}[/]" if row.remark else ""


def _show(value: object) -> str:
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " to ".join(_show(item) for item in value)
    if isinstance(value, float) and not math.isinf(value):
        return f"{value:.6g}"
    return str(value)
