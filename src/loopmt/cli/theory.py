"""`loopmt theory`: the corrected closed forms, for a document of cases or for a few numbers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from loopmt.errors import TheoryError

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
    from loopmt.cli.theory_tables import print_answers, print_cases

    if cases is not None:
        print_cases(cases)
    else:
        print_answers(given, q or [], as_json)
