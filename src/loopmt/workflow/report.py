"""`loopmt report`: one page about runs, finished or in training.

RUN/report.html     the page
RUN/report.json     example sentences translated along loops; kept as long as the stages' weights are the same
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopmt.config import Experiment, available_hops, expansions
from loopmt.errors import DamagedError, RunError
from loopmt.files.documents import content_of
from loopmt.files.regular import has_file, reading
from loopmt.planning.round_trips import held_out_text
from loopmt.progress import Progress
from loopmt.report.followed import RIGHT, CheckedTest, chosen_loops, show
from loopmt.report.gather import gather
from loopmt.report.page import page
from loopmt.report.pictures import require_extra
from loopmt.report.tables import seed_tables
from loopmt.run import Json, Run, read_json, write_json, write_text
from loopmt.text.store import Store
from loopmt.translate.networks import all_hops
from loopmt.workflow.cached_translator import CachedTranslator
from loopmt.workflow.show import overview
from loopmt.workflow.stages import exact_agreement

_VERSION = 1
_READ_ONLY = "Decode nothing and write elsewhere: --sentences 0 --out FILE; or copy the run, and name the copy."
_READ = ("scorecard.json", "analysis.json", "plan.json", "report.json")
_HEAD = 2**16  # bytes of a page within which its title comes


@dataclass(frozen=True)
class ReportOptions:
    """What the user asked for."""

    out: Path | None = None
    sentences: int = 24  # of the first test set, tried on each loop; 0: none
    beam: int = 4
    paper: bool = False  # also the paper's tables


def report(folders: Sequence[Path], options: ReportOptions, progress: Progress) -> tuple[Path, list[Json]]:
    """Translate example sentences if stages are finished, and write the page; returns the data of each run, too."""
    require_extra()
    runs = [Run.open(folder) for folder in folders]
    out = options.out or (folders[0] / "report.html" if len(folders) == 1 else Path("report.html"))
    _refuse_stranger(out)
    for run in runs:
        if out.parent == run.folder:
            run.check_writable(_READ_ONLY)
    for run in runs:
        if options.sentences:
            follow(run, options, progress)
    with content_of(*(run.folder / name for run in runs for name in _READ)):
        found = [collect(run) for run in runs]
        for first, tables in _over_seeds(runs, found):
            found[first]["paper"] = tables + found[first]["paper"]
        text = page(found if options.paper else list(map(_without_paper, found)))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, text)
    return out, found


def _without_paper(found: Json) -> Json:
    return {**found, "paper": []}


def _refuse_stranger(out: Path) -> None:
    """Before anything is decoded: only a page of ours is written over."""
    if out.is_dir():
        raise RunError(f"{out} is a folder. Name a file with --out, such as {out / 'report.html'}.")
    if has_file(out) and not _is_page(out):
        raise RunError(f"{out} is there already, and it is no report of loopmt. Name another file with --out.")


def _is_page(file: Path) -> bool:
    with reading(file) as stream:
        head = stream.read(_HEAD)
    return head.startswith(b"<!doctype html>") and b"loopmt report</title>" in head


def _over_seeds(runs: Sequence[Run], found: Sequence[Json]) -> list[tuple[int, list[Json]]]:
    """Tables of means over runs of the same experiment, each with the first of these runs."""
    experiments = {number: run.experiment() for number, run in enumerate(runs) if found[number]["scores"]}
    tables = []
    for group in _together(experiments):
        if len(group) > 1:
            cards = {experiments[number].seed: found[number]["scores"] for number in group}
            tables.append((group[0], seed_tables(experiments[group[0]], cards)))
    return tables


def _together(experiments: Mapping[int, Experiment]) -> list[list[int]]:
    """Runs of the same experiment, by number, one for each seed."""
    groups: list[list[int]] = []
    for number, experiment in experiments.items():
        alike = [group for group in groups if all(experiment.alike(experiments[one]) for one in group)]
        if not alike:
            groups.append([number])
        elif experiment.seed not in [experiments[one].seed for one in alike[0]]:
            alike[0].append(number)
    return groups


def write_report(run_folder: Path, out: Path | None = None) -> Path:
    """Write the page of a run as it is now, from its files alone. A failure is a warning: it must not end training."""
    out = out or run_folder / "report.html"
    try:
        require_extra()
        write_text(out, page([_without_paper(collect(Run.open(run_folder)))]))
    except Exception as error:
        warnings.warn(f"{out} was not written: {error}", stacklevel=2)
    return out


def collect(run: Run) -> Json:
    """The data of a page; nothing is decoded."""
    kept = _kept(run)
    return gather(run, overview(run.folder), kept["followed"] if kept else None)


# -- sentences round loops -------------------------------------------------------------------------------------


def follow(run: Run, options: ReportOptions, progress: Progress) -> None:
    """Translate some test sentences along the loops of the compared stages, before and after, and store the result."""
    experiment = run.experiment()
    steps = steps_to_show(experiment, run.finished())
    results = {stage: run.stage(stage).result_digest() for step in steps for stage in step}
    made_with = {"version": _VERSION, "results": results, "sentences": options.sentences, "beam": options.beam}
    made_with["threshold"] = threshold = _threshold(run)
    kept = _kept(run)
    if not steps or (kept and {**kept, "followed": None} == {**made_with, "followed": None}):
        return
    run.check_writable(_READ_ONLY)
    rows = [row for step in steps for row in _followed(run, experiment, step, options, threshold, progress)]
    write_json(run.folder / "report.json", {**made_with, "followed": rows})


def steps_to_show(experiment: Experiment, finished: Sequence[str]) -> list[tuple[str, ...]]:
    """Before and after each compared stage; without comparisons, of the last stage."""
    compared = [compare.of for compare in experiment.compare if compare.of in finished] or list(finished[-1:])
    found = []
    for stage in dict.fromkeys(compared):
        before = [name for name in experiment.ancestors(stage) if name in finished][:1]
        found.append((*before, stage))
    return found


def _followed(
    run: Run,
    experiment: Experiment,
    step: Sequence[str],
    options: ReportOptions,
    threshold: float,
    progress: Progress,
) -> list[Json]:
    store = Store.open(run.folder / "store")
    name = next(iter(store.tests), "valid")
    last = experiment.stage(step[-1])
    paths = [path for _, expansion in expansions(experiment, last) for path in expansion.paths]
    hops = all_hops(experiment.languages, available_hops(experiment, step[0]))
    loops = chosen_loops([path for path in paths if set(path.hops) <= set(hops)])
    starts = held_out_text(store, name, hops, options.sentences, experiment.data.lowercase)
    agree = exact_agreement(experiment)
    walked = []
    for stage in step:
        translator = CachedTranslator.of(run, stage, options.beam)
        round_trips = translator.round_trips(starts, loops, progress, f"sentences along loops, {stage}")
        walked.append([CheckedTest.of(stage, round_trip, agree, threshold) for round_trip in round_trips])
    rows = [row for round_trips in zip(*walked, strict=True) for row in show(round_trips, name)]
    return [{**row, "threshold": threshold} for row in rows]


def _threshold(run: Run) -> float:
    """The threshold of the run's plan, or of its analysis."""
    for name, key in (("plan.json", "rule"), ("analysis.json", "right")):
        file = run.folder / name
        with content_of(file):
            rule = str(read_json(file).get(key, "")) if has_file(file) else ""
        if rule.startswith("BLEU > "):
            return float(rule.removeprefix("BLEU > "))
    return RIGHT


def _kept(run: Run) -> Json | None:
    """The stored example sentences, if the weights are the same."""
    try:
        kept = read_json(run.folder / "report.json")
        same = all(run.stage(name).result_digest() == digest for name, digest in kept["results"].items())
    except (DamagedError, KeyError):
        return None
    return kept if same and kept["version"] == _VERSION else None
