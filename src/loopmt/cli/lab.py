"""`loopmt lab`: tests of the theory in small languages with exact verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from loopmt.cli.tables import console, number_table, print_table
from loopmt.errors import LoopmtError

TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "theorem1": (
        "Dual learning: the truth, and by how much each formula is off",
        {
            "dependence": "dependence", "forward": "start", "r": "r", "lam": "lambda", "delta": "delta",
            "alpha": "alpha", "beta": "beta", "gamma": "gamma", "kappa": "kappa", "eta": "eta", "rho": "rho",
            "p_d": "after", "theorem1_error": "Theorem 1", "hypothesis_h_error": "H", "exact_error": "exact",
        },
    ),
    "halves": (
        "Parameters from one half of the sentences, the gain predicted on the other",
        {
            "prediction": "prediction", "mean error": "mean error", "mean absolute error": "mean absolute error",
            "correlation": "correlation", "right sign": "right sign",
        },
    ),
    "theorem2": (
        "The triangle after dual learning: Theorem 2 and the truth",
        {
            "dependence": "dependence", "q12": "q12", "q23": "q23", "q31": "q31", "lambda1": "lambda1",
            "lambda2": "lambda2", "delta": "delta", "alpha": "alpha'", "kappa": "kappa'", "q_m": "after",
            "c11_plus_alpha_c2_error": "c11 + alpha' c2", "printed_error": "printed", "corrected_error": "corrected",
        },
    ),
    "triangle": (
        "Which loop: gains from the same start, by accuracy of the pivots",
        {
            "dependence": "dependence", "pivots": "pivots", "dual": "dual", "dual_longer": "dual, longer",
            "instead": "instead", "together": "together", "on_top": "on top", "r": "r", "q23_q31": "q23 q31",
            "M2": "M2", "M3": "M3", "M3_given_2": "M3|2",
        },
    ),
    "verdicts": (
        "How often the condition of the theory agrees with the outcome",
        {
            "condition": "condition", "says better": "says better", "is better": "is better", "agrees": "agrees",
            "decided": "worlds decided",
        },
    ),
    "gradients": ("Exact and sampled training from the same start", {"training": "training", "gain": "gain"}),
    "length": (
        "One loop of K steps alone",
        {"pivots": "helpers", "length": "K", "M": "M", "gain": "gain", "theorem1": "Theorem 1", "hypothesis_h": "H"},
    ),
    "rewards": (
        "Bias of the policy gradient, relative to the largest gradient, in the first and the 16th update of a round",
        {
            "draws": "drawn with", "updates": "updates", "estimate": "estimate", "first": "first", "last": "16th",
            "moved": "truncations changed",
        },
    ),
}  # fmt: skip
_NAMES = {
    "theorem1": 2,
    "triangle": 2,
    "length": 2,
    "rewards": 3,
}  # columns that say which row it is, where it is not the first


def lab(
    out: Annotated[Path, typer.Option(help="Folder for lab.json and the pictures.")] = Path("loopmt-lab"),
    seed: Annotated[int, typer.Option(help="Seed of all random worlds.")] = 1,
    meanings: Annotated[int, typer.Option(help="Number of meanings in every language.")] = 40,
    sentences: Annotated[int, typer.Option(help="Number of sentences for each meaning.")] = 3,
    worlds: Annotated[int, typer.Option(help="Number of random worlds that each point is averaged over.")] = 8,
    steps: Annotated[int, typer.Option(help="Number of steps of training.")] = 30,
    pictures: Annotated[bool, typer.Option(help="Draw the pictures (needs matplotlib).")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of tables.")] = False,
) -> None:
    """Test the theory of loops in small languages where the truth is exact.

    Tabular translators start at chosen accuracies, with independent or
    shared errors, and are trained by Algorithms 1 and 2. The tables compare
    Theorems 1 and 2 and hypothesis H with what is measured, and loops with
    each other. Takes seconds on a CPU.

    Example: loopmt lab --out loopmt-lab --seed 1
    """
    from loopmt.files.regular import replacing
    from loopmt.lab import LabSettings, draw, require_matplotlib, run_lab
    from loopmt.progress import standard

    settings = LabSettings(meanings=meanings, sentences=sentences, worlds=worlds, steps=steps, seed=seed)
    if pictures:
        require_matplotlib()
    _make_folder(out)
    report = run_lab(settings, standard())
    with replacing(out / "lab.json") as file:
        file.write(json.dumps(report, indent=1, allow_nan=False).encode() + b"\n")
    drawn = draw(report, out) if pictures else []
    if as_json:
        print(json.dumps({name: report[name]["rows"] for name in TABLES}, indent=1, allow_nan=False))
        return
    shown = console()
    for name, (title, columns) in TABLES.items():
        print_table(shown, _table(title, columns, report[name]["rows"]), _NAMES.get(name, 1))
    shown.print(f"Wrote {out / 'lab.json'} and {len(drawn)} pictures in {out}.", soft_wrap=True)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoopmtError(f"Cannot make the folder {folder}: {error.strerror}. Choose another with --out.") from None


def _table(title: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> Table:
    table = number_table(title, *columns.values())
    for row in rows:
        table.add_row(*(_show(row[key]) for key in columns))
    return table


def _show(value: object) -> str:
    if value is None:
        return "-"
    return f"{round(value, 3) + 0.0:.3f}" if isinstance(value, float) else str(value)
