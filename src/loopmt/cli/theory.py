"""`loopmt theory`: the corrected closed forms, for a document of cases or for a few numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

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

DUAL, TRIANGLE, LOOP, TRAINED = "Loop of two", "Loop of three", "Loop of any length", "What training does"


def _option(flag: str, panel: str, help: str) -> Any:
    return typer.Option(flag, help=help, rich_help_panel=panel, show_default=False)


Cases = Annotated[
    str | None,
    typer.Argument(metavar="CASES.json", help="A document of cases, or - for standard input.", show_default=False),
]
P = Annotated[float | None, _option("--p", DUAL, "Accuracy of the first translation.")]
R = Annotated[float | None, _option("--r", DUAL, "Accuracy of the translation back, on machine output.")]
Lam = Annotated[float | None, _option("--lambda", DUAL, "Covariance of the two steps; default 0.")]
Q12 = Annotated[float | None, _option("--q12", TRIANGLE, "Accuracy of the first step.")]
Q23 = Annotated[float | None, _option("--q23", TRIANGLE, "Accuracy of the second step.")]
Q31 = Annotated[float | None, _option("--q31", TRIANGLE, "Accuracy of the last step.")]
Lam1 = Annotated[float | None, _option("--lambda1", TRIANGLE, "Covariance of any two steps; default 0.")]
PAIRS = "Pr(all right) less the product; default 0. With dependence in pairs only: lambda1 (q12+q23+q31)."
Lam2 = Annotated[float | None, _option("--lambda2", TRIANGLE, PAIRS)]
Q = Annotated[list[float] | None, _option("--q", LOOP, "Accuracy of each step in turn; repeat it.")]
Delta = Annotated[
    float | None,
    _option("--delta", TRAINED, "Probability that a sentence returns in spite of two or more errors; default 0."),
]
Alpha = Annotated[float | None, _option("--alpha", TRAINED, "Of case 2, share that becomes right and reconstructed.")]
Beta = Annotated[float | None, _option("--beta", TRAINED, "Of case 2, share that becomes wrong and reconstructed.")]
Gamma = Annotated[float | None, _option("--gamma", TRAINED, "Of case 2, share still not reconstructed; default 0.")]
Kappa = Annotated[
    float | None,
    _option("--kappa", TRAINED, "Of case 2, share that becomes right, still not reconstructed; default 0."),
]
U11 = Annotated[float | None, _option("--u11", TRAINED, "Of case 1.1, share that becomes wrong; default 0.")]
U12 = Annotated[float | None, _option("--u12", TRAINED, "Of case 1.2, share that becomes right; default 0.")]
Json = Annotated[bool, typer.Option("--json", help="Print numbers as JSON instead of a table.")]


def theory(
    cases: Cases = None,
    p: P = None,
    r: R = None,
    lam: Lam = None,
    q12: Q12 = None,
    q23: Q23 = None,
    q31: Q31 = None,
    lam1: Lam1 = None,
    lam2: Lam2 = None,
    q: Q = None,
    delta: Delta = None,
    alpha: Alpha = None,
    beta: Beta = None,
    gamma: Gamma = None,
    kappa: Kappa = None,
    u11: U11 = None,
    u12: U12 = None,
    as_json: Json = False,
) -> None:
    """Compute the closed forms of the theory of loops, corrected, beside those of the paper.

    With a document of cases, print the same JSON with an "out" in every case.

    With numbers, print a table: every quantity, which conditions hold, and
    the formula as printed in the paper beside the corrected one.

    Examples:

    loopmt theory --p .65 --r .73 --lambda .1 --delta .3 --alpha .3 --beta .28

    loopmt theory --q12 .7 --q23 .75 --q31 .75 --delta .3 --alpha .3 --r .73

    loopmt theory --q .7 --q .8 --q .8 --q .9 --delta .2

    loopmt theory cases.json > answers.json
    """
    numbers = {
        "p": p, "r": r, "lam": lam, "q12": q12, "q23": q23, "q31": q31, "lam1": lam1, "lam2": lam2,
        "delta": delta, "alpha": alpha, "beta": beta, "gamma": gamma, "kappa": kappa, "u11": u11, "u12": u12,
    }  # fmt: skip
    given = {name: value for name, value in numbers.items() if value is not None}
    if cases is not None and (given or q):
        raise TheoryError("Give a document of cases or numbers, not both.")
    if cases is not None:
        print(json.dumps(jsonable(fill(_read(cases))), indent=1, allow_nan=False))
        return
    answers, rows = _answer(given, q or [])
    if as_json:
        print(json.dumps(jsonable(answers), indent=1, allow_nan=False))
    else:
        console().print(_table(rows))


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
    """Which loop the numbers describe, and all that is known about it."""
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
