"""Collects the contents of a run's files in one plain dict. Nothing is decoded, scored or drawn here."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from loopmt.commands import resume_command
from loopmt.config import Experiment, Stage, expansions
from loopmt.evaluation.choice import facts_of, first_metric
from loopmt.evaluation.means import MANY_LANGUAGES, differ, mean_over, shared
from loopmt.files.regular import has_file, read_text
from loopmt.path import LanguagePath, Pattern
from loopmt.report.followed import with_differences
from loopmt.report.measured import parameters, plan_rows, predicted, thresholds
from loopmt.report.tables import paper_tables
from loopmt.report.training import alarms, choices, curves, guards, spending
from loopmt.run import Json, Run, read_json
from loopmt.text.manifest import CorpusRecord, Manifest

_NETWORK = ("sharing", "norm", "activation", "layers", "width", "feed_forward", "heads", "dropout")
_TRAINING = ("tokens", "learning_rate", "warmup", "schedule", "round", "label_smoothing", "precision", "on_collapse")


def gather(run: Run, standing: Json, followed: Sequence[Json] | None) -> Json:
    """`standing` is the state of each stage; `followed` are example sentences along loops, if there are any."""
    experiment = run.experiment()
    records = {stage.name: run.stage(stage.name).records() for stage in experiment.all_stages}
    card, analysis, plan = (_optional(run, name) for name in ("scorecard", "analysis", "plan"))
    starts = _starts(experiment, standing)
    chosen = [row for name, rows in records.items() for row in choices(name, rows)]
    return {
        "folder": str(run.folder),
        "name": experiment.name,
        "seed": experiment.seed,
        "languages": experiment.languages,
        "finished": all(stage["state"] == "finished" for stage in standing["stages"]),
        "next": standing["next"],
        "data": _data(run),
        "exact": experiment.data.world is not None,
        "network": {name: getattr(experiment.model, name) for name in _NETWORK},
        "stages": [_stage(experiment, experiment.stage(one["name"]), one, chosen) for one in standing["stages"]],
        "scores": card,
        "metrics": facts_of(card or {}),
        "first": first_metric(card or {}),
        "scored": _scored(card) if card else {},
        "many": len(experiment.languages) >= MANY_LANGUAGES,
        "best": _best(card) if card else 0.0,
        "shared": _shared(card) if card else {},
        "means_of": _means_of(standing),
        "quality": _quality(standing, records, card),
        "curves": curves(records, starts, {stage.name: stage.from_ for stage in experiment.all_stages}),
        "spending": [spending(name, rows) for name, rows in records.items() if rows],
        "guards": [row for name, rows in records.items() for row in guards(name, rows)],
        "alarms": [row for name, rows in records.items() for row in alarms(name, rows)],
        "choices": chosen,
        "thresholds": thresholds(analysis) if analysis else [],
        "parameters": parameters(experiment, analysis) if analysis else [],
        "plan": plan_rows(plan) if plan else None,
        "predicted": predicted(experiment, plan, analysis) if plan and analysis else None,
        "paper": paper_tables(experiment, card, analysis),
        "followed": with_differences(followed or []),
        "again": _again(run, experiment),
    }  # fmt: skip


def _optional(run: Run, name: str) -> Json | None:
    file = run.folder / f"{name}.json"
    return read_json(file) if has_file(file) else None


def _starts(experiment: Experiment, standing: Json) -> dict[str, int]:
    """The number of updates before each stage, along the tree."""
    reached = {stage["name"]: stage["update"] for stage in standing["stages"]}
    starts: dict[str, int] = {}
    for stage in experiment.all_stages:
        starts[stage.name] = starts[stage.from_] + reached[stage.from_] if stage.from_ else 0
    return starts


# -- data ------------------------------------------------------------------------------------------------------


def _data(run: Run) -> Json | None:
    file = run.folder / "manifest.json"
    if not has_file(file):
        return None
    manifest = Manifest.load(file)
    return {
        "corpora": [_corpus(corpus) for corpus in manifest.corpora],
        "sets": [one.model_dump(mode="json") for one in manifest.sets],
        "vocab": manifest.vocab.model_dump(mode="json"),
        "files": [one.model_dump(mode="json") for one in manifest.files],
    }


def _corpus(corpus: CorpusRecord) -> Json:
    kept = corpus.model_dump(mode="json", exclude={"lengths", "removed"})
    return {**kept, "removed": {rule: count for rule, count in corpus.removed.items() if count}}


# -- stages ----------------------------------------------------------------------------------------------------


def _stage(experiment: Experiment, stage: Stage, standing: Json, chosen: Sequence[Json]) -> Json:
    expanded = expansions(experiment, stage)
    paths = list(dict.fromkeys(path for _, expansion in expanded for path in expansion.paths))
    refused = {row["path"] for row in chosen if row["stage"] == stage.name and not row["first"] + row["share"]}
    loops = _distinct_loops([path for path in paths if str(path) not in refused])
    train = experiment.training(stage)
    return {
        **standing,
        "until": stage.until,
        "mix": [_entry(entry.model_dump(), len(expansion.paths)) for entry, expansion in expanded],
        "auto": stage.mix == "auto",
        "hops": list(dict.fromkeys(str(path.taught) for path in paths)),
        "loops": [str(path) for path in loops],
        "num_loops": sum(path.loop for path in paths),
        "train": {name: getattr(train, name) for name in _TRAINING},
    }


def _entry(entry: Json, num_paths: int) -> Json:
    generate = entry["generate"] if isinstance(entry["generate"], list) else [entry["generate"]]
    generates = len(Pattern.parse(entry["path"]).places) > 2
    how = [f"{one['by']} {_how(one)}" for one in generate] if generates else []
    return {"path": entry["path"], "weight": entry["weight"], "paths": num_paths, "how": ", ".join(dict.fromkeys(how))}


def _how(generate: Json) -> str:
    if generate["how"] != "sample":
        return f"beam {generate['beam']}" if generate["how"] == "beam" else "greedy"
    top = [f"{name} {generate[name]}" for name, off in (("top_k", 0), ("top_p", 1.0)) if generate[name] != off]
    return " ".join(["sample", *top, *([f"at {generate['temperature']:g}"] if generate["temperature"] != 1 else [])])


def _distinct_loops(paths: Sequence[LanguagePath]) -> list[LanguagePath]:
    """Closed paths; of rotations of the same loop only the first."""
    found: dict[tuple[str, ...], LanguagePath] = {}
    for path in paths:
        if path.loop:
            round_ = path.languages[:-1]
            found.setdefault(min(round_[place:] + round_[:place] for place in range(len(round_))), path)
    return list(found.values())


def _quality(standing: Json, records: Mapping[str, Sequence[Json]], card: Json | None) -> Json:
    """Scores of every direction after each stage: on the tests if all stages have been scored, else on validation."""
    begun = [stage["name"] for stage in standing["stages"] if stage["state"] != "not begun"]
    metric = next((one for one in facts_of(card or {}) if one.higher_is_better), None)  # more is drawn as better
    if card and metric and all(stage["scores"] for stage in standing["stages"] if stage["name"] in begun):
        scores = {name: _mean_score(card["stages"][name], metric.name) for name in begun}
        return {"what": f"test {metric.label}", "stages": scores}
    best = {name: _best_validation(records[name]) for name in begun}
    return {"what": "validation BLEU", "stages": best}


def _best(card: Json) -> float:
    """The highest score of a direction, by which the colours of matrices are scaled."""
    first = first_metric(card).name
    sets = [one for stage in card["stages"].values() for one in stage["sets"].values()]
    return max((scores.get(first, 0.0) for one in sets for scores in one["directions"].values()), default=0.0)


def _scored(card: Json) -> dict[str, list[str]]:
    """The directions of every test set that some stage was scored on."""
    found: dict[str, dict[str, None]] = {}
    for stage in card["stages"].values():
        for name, one in stage["sets"].items():
            found.setdefault(name, {}).update(dict.fromkeys(one["directions"]))
    return {name: list(hops) for name, hops in found.items()}


def _shared(card: Json) -> dict[str, Json]:
    """For every test set whose stages have scores of different directions: how many each has, and which they share."""
    found = {}
    for name in _scored(card):
        judged = {stage: one["sets"].get(name, {}).get("directions", {}) for stage, one in card["stages"].items()}
        common = shared(list(judged.values()))
        if common is not None:
            means = {stage: mean_over(scores, common) for stage, scores in judged.items()}
            found[name] = {"counts": {stage: len(one) for stage, one in judged.items()}, "of": common, "means": means}
    return found


def _means_of(standing: Json) -> dict[str, list[str]]:
    """The directions of each stage's validation mean; empty if all stages have the same."""
    found = {stage["name"]: stage["valid_hops"] for stage in standing["stages"] if stage["valid_hops"]}
    return found if differ(found.values()) else {}


def _mean_score(stage: Json, metric: str) -> dict[str, float]:
    """Over the test sets that have the direction."""
    found: dict[str, list[float]] = {}
    for one in stage["sets"].values():
        for hop, scores in one["directions"].items():
            found.setdefault(hop, []).append(scores[metric])
    return {hop: sum(values) / len(values) for hop, values in found.items()}


def _best_validation(records: Sequence[Json]) -> dict[str, float]:
    validations = [record for record in records if record["kind"] == "valid"]
    best: Json = max(validations, key=lambda record: record["mean_bleu"], default={"bleu": {}})
    return dict(best["bleu"])


# -- again -----------------------------------------------------------------------------------------------------


def _again(run: Run, experiment: Experiment) -> Json:
    """The command and the file that reproduce the run."""
    file = run.folder / "experiment.toml"
    text = read_text(file) if has_file(file) else None
    return {
        "command": resume_command(run, experiment, f"{experiment.name}.toml"),  # the page has the file's text
        "toml": text,
        "resolved": json.dumps(experiment.model_dump(mode="json", by_alias=True), indent=1, ensure_ascii=False),
        "root": experiment.data.root,
        "versions": {**{name: version(name) for name in ("loopmt", "torch", "numpy", "sentencepiece", "sacrebleu")},
                     "python": platform.python_version()},
    }  # fmt: skip
