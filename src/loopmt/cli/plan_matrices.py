"""A plan for many languages: matrices of directions, and verdicts on loops counted, in place of a row for each loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console

from loopmt.cli.matrices import print_matrix
from loopmt.cli.tables import number_table, plain, print_table
from loopmt.evaluation.means import MANY_LANGUAGES

Json = Mapping[str, Any]


def has_many_languages(plan: Json) -> bool:
    """Whether a row for each loop would be too many."""
    directions = (*plan["directions"], *plan["zero_resource"])
    return len({language for hop in directions for language in hop.split(">")}) >= MANY_LANGUAGES


def print_loop_matrices(out: Console, plan: Json, verdict: Callable[[Json], str]) -> None:
    """Share of right translations and M of the loop of two languages by direction; verdicts by length of the loop."""
    loops = {hop: outlook["loops"] for hop, outlook in plan["directions"].items() if outlook["loops"]}
    whose = f"{plan['stage']} on {plan['set']}"
    print_matrix(out, f"Share of translations that are right: {whose}", _values(loops, "p"), 2)
    if ratios := _values(loops, "M"):
        print_matrix(out, f"M of loops of two languages: {whose} (below 1: the loop can tell)", ratios, 2)
    counts = Counter((one["loop"].count(">"), verdict(one)) for rows in loops.values() for one in rows)
    words = list(dict.fromkeys(word for _, word in counts))
    table = number_table("Will loops help? Loops by verdict", "languages in the loop", *words)
    for length in sorted({length for length, _ in counts}):
        table.add_row(str(length), *(str(counts[length, word]) for word in words))
    print_table(out, table)


def _values(loops: Mapping[str, Any], name: str) -> dict[str, float]:
    """A value of the first loop of every direction, where it is known."""
    found = {hop: rows[0]["values"][name][0] for hop, rows in loops.items()}
    return {hop: float(value) for hop, value in found.items() if value is not None}


def print_untaught_matrix(out: Console, directions: Json) -> None:
    """How often the best way through other languages is right, which a direct translator must beat."""
    best: dict[str, float] = {}
    for hop, one in directions.items():
        rates = [float(rate[0]) for rate in one["through"].values() if rate[0] is not None]
        if rates:
            best[hop] = max(rates)
    print_matrix(out, "Directions without bitext: share that the best other way has right, to be beaten", best, 2)
    verdicts = Counter(one["verdict"] for one in directions.values())
    table = number_table("Could generated text train them?", "verdict", "directions")
    for verdict, count in verdicts.most_common():
        table.add_row(plain(verdict), str(count))
    print_table(out, table)
