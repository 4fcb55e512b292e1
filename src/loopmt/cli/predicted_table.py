"""Predicted gains of a plan: a row for each candidate, or for each kind of candidate where there are many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from rich.console import Console

from loopmt.cli.tables import number_table, print_table
from loopmt.path import LanguagePath
from loopmt.planning.predictor import NO_GAIN, formulas
from loopmt.progress import visible

Json = Mapping[str, Any]
_MANY = 24  # candidates above which kinds are listed instead


def print_predicted(out: Console, predicted: Mapping[str, Json], everything: bool = False) -> None:
    """The gains that `plan` predicts, then what they rest on."""
    rows = [(hop, path, one) for hop, paths in predicted.items() for path, one in paths.items()]
    if not rows:
        return
    many = len(rows) > _MANY and not everything
    table = number_table(
        "Predicted gain over a control with the same updates (80% intervals)",
        *(("candidates", "control") if many else ("trained as", "control")),
        *("BLEU", "chrF", "verdict"),
    )
    for cells in _by_kind(rows) if many else _by_path(rows):
        table.add_row(*cells)
    print_table(out, table, names=2)
    _say(out, _rests_on(many))
    for line in _unlike([one for _, _, one in rows]):
        _say(out, line)


def _by_path(rows: Sequence[tuple[str, str, Json]]) -> Iterator[list[str]]:
    for _, path, one in rows:
        yield [path, one["over"], _estimate(one["bleu"]), f"{one['chrf'][0]:+z.1f}", _verdict(one)]


def _verdict(one: Json) -> str:
    return f"{one['verdict']} (measured)" if one["measured"] else str(one["verdict"])


def _estimate(values: Sequence[float]) -> str:
    centre, low, high = (f"{value:+z.1f}" for value in values)
    return f"{centre} ({low} to {high})"


def _by_kind(rows: Sequence[tuple[str, str, Json]]) -> Iterator[list[str]]:
    """Means over candidates of one kind and verdict."""
    groups: dict[tuple[str, str], list[Json]] = {}
    for _, path, one in rows:
        groups.setdefault((_kind(path, one), _verdict(one)), []).append(one)
    for (kind, verdict), found in sorted(groups.items()):
        bleu = [sum(one["bleu"][place] for one in found) / len(found) for place in range(3)]
        chrf = sum(one["chrf"][0] for one in found) / len(found)
        control = found[0]["over"] if len({one["over"] for one in found}) == 1 else "by a third language"
        yield [f"{len(found)} {kind}", control, _estimate(bleu), f"{chrf:+z.1f}", verdict]


def _kind(path: str, one: Json) -> str:
    if ">" in one["over"]:
        return "without bitext"
    return "dual loops" if len(LanguagePath.parse(path).hops) == 2 else "longer loops"


def _rests_on(many: bool) -> str:
    runs, more = max(one.runs for one in formulas().values()), ", --all lists every path" if many else ""
    return (
        f'"{NO_GAIN}": the interval contains 0. Fitted on up to {runs} recorded runs of small networks; on corpora '
        f"unlike them the intervals are too narrow (docs/planning.md{more})."
    )


def _unlike(found: Sequence[Json]) -> Iterator[str]:
    """What the recorded runs do not cover."""
    spans: dict[str, list[list[float]]] = {}
    for label, span in ((label, span) for one in found for label, span in one["unlike"].items()):
        spans.setdefault(label, []).append(span)
    concerned = sum(bool(one["unlike"]) for one in found)
    if spans:
        reasons = "; ".join(starmap(_outside, spans.items()))
        yield f"{concerned} of {len(found)} candidates are unlike the recorded runs, so uncertain: {reasons}."


def _outside(label: str, spans: Sequence[Sequence[float]]) -> str:
    values, (low, high) = [span[0] for span in spans], spans[0][1:]
    least, most = _number(min(values)), _number(max(values))
    here = least if least == most else f"{least} to {most}"
    return f"{label} {here} (recorded: {_number(low)} to {_number(high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def listed(names: Sequence[str]) -> str:
    """At most six of them."""
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


def _say(out: Console, text: str) -> None:
    out.print(visible(text), markup=False, highlight=False)
