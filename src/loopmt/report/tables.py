"""The paper's tables in their shape, its values beside ours; a table is a title, a head and rows of strings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from loopmt.config import Experiment, Stage, expansions
from loopmt.planning.paper import printed
from loopmt.run import Json

KINDS = ("vanilla", "dual", "multi-step")
_BY_LOOPS = ("dual", "multi-step", "back-translation")
_SIZES = {"multiun_2M": "paper, 2M pairs", "multiun_0.2M": "paper, 0.2M pairs"}
_LETTERS = {"eta": "η", "alpha": "α", "beta": "β", "gamma": "γ"}
Scores = Mapping[str, Mapping[str, float]]
"""BLEU by the paper's name of a regime and by direction."""


def paper_tables(experiment: Experiment, card: Json | None, analysis: Json | None) -> list[Json]:
    """The paper's tables that this run has values for."""
    tables = _bleu_tables(experiment, [card], experiment.name) if card else []
    if analysis:
        for one in _dual_steps(experiment, analysis["tables"]):
            tables += [_accuracy(one), _parameters(one)]
    return [table for table in tables if table["rows"]]


def seed_tables(experiment: Experiment, cards: Mapping[int, Json]) -> list[Json]:
    """The tables of BLEU for several runs that differ in nothing but their seeds, by seed: means."""
    whose = f"{experiment.name}, mean of seeds {', '.join(map(str, cards))}"
    return [table for table in _bleu_tables(experiment, list(cards.values()), whose) if table["rows"]]


def _bleu_tables(experiment: Experiment, cards: Sequence[Json], whose: str) -> list[Json]:
    tables = []
    for name in dict.fromkeys(name for stage in cards[0]["stages"].values() for name in stage["sets"]):
        stages = _representatives(experiment, cards, name)
        scores = {
            kind: _own(experiment, stage, _mean([_bleu(card, stage, name) for card in cards]))
            for kind, stage in stages.items()
        }
        if scores:
            other = [f'{kind} is stage "{stages[kind]}"' for kind in KINDS if stages.get(kind, kind) != kind]
            tables += [_step_table(scores, f"{whose}, {name}", other), _wmt_table(scores, f"{whose}, {name}")]
    return tables


def _representatives(experiment: Experiment, cards: Sequence[Json], name: str) -> dict[str, str]:
    """For each regime the stage of that name, else the first; only stages that all runs scored on the test set."""
    found: dict[str, str] = {}
    for stage in sorted(experiment.all_stages, key=lambda stage: stage.name != regime(experiment, stage)):
        if all(_bleu(card, stage.name, name) for card in cards):
            found.setdefault(regime(experiment, stage), stage.name)
    return found


def _bleu(card: Json, stage: str, name: str) -> dict[str, float]:
    scored = card["stages"].get(stage, {"sets": {}})["sets"].get(name, {"directions": {}})
    return {hop: scores["multi_bleu"] for hop, scores in scored["directions"].items() if "multi_bleu" in scores}


def _own(experiment: Experiment, name: str, bleu: dict[str, float]) -> dict[str, float]:
    """Only directions that a path of the stage teaches; other networks are unchanged copies."""
    stage = experiment.stage(name)
    if stage.from_ is None or experiment.shared:
        return bleu
    taught = {str(path.taught) for _, expansion in expansions(experiment, stage) for path in expansion.paths}
    return {hop: score for hop, score in bleu.items() if hop in taught}


def _mean(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of the directions that all runs have."""
    return {hop: fmean(run[hop] for run in runs) for hop in runs[0] if all(hop in run for run in runs)}


def _dual_steps(experiment: Experiment, tables: Sequence[Json]) -> list[Json]:
    """The step from vanilla to dual, as in the paper; without one, the first step that learns from loops."""
    regimes = {stage.name: regime(experiment, stage) for stage in experiment.all_stages}
    wanted = [one for one in tables if (regimes[one["before"]], regimes[one["after"]]) == ("vanilla", "dual")]
    return wanted or [one for one in tables if regimes[one["after"]] in _BY_LOOPS][:1]


def regime(experiment: Experiment, stage: Stage) -> str:
    """The paper's name of a stage, by its longest loop and its generator."""
    expanded = [(entry, path) for entry, expansion in expansions(experiment, stage) for path in expansion.paths]
    loops = [(entry, path) for entry, path in expanded if path.loop]
    if not loops and any(path.generating for _, path in expanded):
        return "open paths"  # pivot training, self-training: the paper has none of it
    if not loops:
        return "vanilla" if stage.from_ is None else "vanilla, longer"
    if max(len(path.hops) for _, path in loops) > 2:
        return "multi-step"
    makers = {
        name for entry, path in loops for one in entry.hop_settings(len(path.generating)) for name in one.generators
    }
    return "back-translation" if makers == {"frozen"} else "dual"


def _step_table(scores: Scores, whose: str, remarks: Sequence[str]) -> Json:
    """A row for each direction; vanilla, dual, multi-step of ours, then of the paper's two amounts of text."""
    paper = {title: printed()[key] for key, title in _SIZES.items()}
    theirs = [hop for hop in next(iter(paper.values())) if ">" in hop]
    ours = list(dict.fromkeys(hop for by_hop in scores.values() for hop in by_hop))
    if not set(ours) & set(theirs):
        paper = {}
    rows = [
        [hop, *(_two(scores.get(kind, {}).get(hop)) for kind in KINDS),
         *(_two(cell) for table in paper.values() for cell in table.get(hop, [None] * len(KINDS)))]
        for hop in ours
    ]  # fmt: skip
    gains = [cell for table in paper.values() for cell in ("", *map(_signed, _paper_gains(table)))]
    rows.append(["average gain", "", *map(_signed, _gains(scores)), *gains])
    heads = [("", 1), (whose, len(KINDS)), *((title, len(KINDS)) for title in paper)]
    columns = ["direction", *KINDS * (1 + len(paper))]
    title = "BLEU step by step: vanilla, dual learning, multi-step dual learning"
    remarks = ["The gain of dual is over vanilla, that of multi-step over dual", *_counts(scores), *remarks]
    note = "; ".join(remarks) + "."
    return {"title": title, "heads": heads, "columns": columns, "rows": rows, "note": note}


_STEPS = (("vanilla", "dual"), ("dual", "multi-step"))


def _gains(scores: Scores) -> list[float | None]:
    """Over the directions that a stage and the one before it share: loops may teach directions without bitext."""
    return [
        fmean(scores[after][hop] - scores[before][hop] for hop in hops) if hops else None
        for (before, after), hops in zip(_STEPS, _both_have(scores), strict=True)
    ]


def _both_have(scores: Scores) -> list[list[str]]:
    return [[hop for hop in scores.get(after, {}) if hop in scores.get(before, {})] for before, after in _STEPS]


def _counts(scores: Scores) -> list[str]:
    """The number of directions of each average, unless it is the same everywhere."""
    everything = {hop for by_hop in scores.values() for hop in by_hop}
    counted = {after: len(hops) for (_, after), hops in zip(_STEPS, _both_have(scores), strict=True) if hops}
    if set(counted.values()) <= {len(everything)}:
        return []
    told = ", ".join(f"{kind} {count}" for kind, count in counted.items())
    return [f"average gains are over the directions that both stages have ({told} of {len(everything)})"]


def _paper_gains(table: Json) -> list[float]:
    return [table["average_gain"]["dual"], table["average_gain"]["multi-step over dual"]]


def _wmt_table(scores: Scores, whose: str) -> Json:
    """A row for each regime, a column for each of the paper's directions that the run has; ours, then the paper's."""
    table = printed()["bleu_wmt14_multiun"]
    known = {hop for by_hop in scores.values() for hop in by_hop}
    columns = [(place, hop) for place, hop in enumerate(table["columns"]) if hop in known]
    kinds = ("vanilla", "back-translation", "dual")
    rows = [
        [kind, *(_two(scores[kind].get(hop)) for _, hop in columns), *(_two(table[kind][n]) for n, _ in columns)]
        for kind in kinds
        if kind in scores
    ]
    hops = [hop for _, hop in columns]
    heads = [("", 1), (whose, len(hops)), ("paper", len(hops))]
    title = "BLEU of dual learning (paper: WMT14 for de, MultiUN for fr)"
    return {"title": title, "heads": heads, "columns": ["", *hops, *hops], "rows": rows if hops else [], "note": ""}


def _accuracy(tables: Json) -> Json:
    rows = [
        [
            row["pair"],
            row["quantity"],
            *(_two(cell[0]) for cell in row["ours"]),
            *map(_two, row["paper"] or (None,) * 2),
        ]
        for row in tables["accuracy"]
        if row["ours"]
    ]
    heads = [("", 2), (_step(tables), 2), ("paper", 2)]
    columns = ["pair", "", "10", "20", "10", "20"]
    note = "p before, pd after training, 12 there and 21 back; right is what scores above the threshold (unsmoothed)."
    title = "Accuracy at sentence BLEU thresholds"
    return {"title": title, "heads": heads, "columns": columns, "rows": rows, "note": note}


def _parameters(tables: Json) -> Json:
    rows = [
        [row["pair"], _LETTERS[row["quantity"]], *(_both(direction[0] for direction in cell) for cell in row["ours"]),
         *map(_both, row["paper"])]
        for row in tables["parameters"]
    ]  # fmt: skip
    heads = [("", 2), (_step(tables), 2), ("paper, en-de", 2)]
    columns = ["pair", "", "10", "20", "10", "20"]
    note = "In each cell the two directions of the pair."
    return {"title": "Estimated parameters", "heads": heads, "columns": columns, "rows": rows, "note": note}


def _step(tables: Json) -> str:
    return f"{tables['before']} to {tables['after']}, {tables['set']}"


def _both(values: Iterable[float | None]) -> str:
    return " | ".join(map(_two, values))


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:z.2f}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+z.2f}"
