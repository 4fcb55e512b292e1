"""What a run has that predicts gains: text, held-out BLEU of the planned stage, and bitext read so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from loopmt.config import Experiment, Stage
from loopmt.evaluation.metrics import multi_bleu_statistics
from loopmt.path import Hop
from loopmt.planning.candidates import KnownAmounts
from loopmt.planning.round_trips import RoundTrip
from loopmt.run import Run
from loopmt.text.store import Store


def known_amounts(
    run: Run, experiment: Experiment, stage: Stage, round_trips: Sequence[RoundTrip], updates: int
) -> KnownAmounts:
    """`updates` are those of the suggested stage."""
    store, languages = Store.open(run.folder / "store"), experiment.languages
    pairs = [pair for pair in combinations(languages, 2) if store.has_bitext(*pair)]
    first = {trip.loop.hops[0]: trip for trip in round_trips}
    return KnownAmounts(
        {frozenset(pair): store.rows(*pair) for pair in pairs},
        {language: store.rows(language, language) for language in languages if store.has_mono(language)},
        {hop: _bleu(trip) for hop, trip in first.items()},
        _rows_read(run, experiment, stage.name),
        updates * experiment.training(stage).tokens,
        experiment.model.sharing == "all",
    )


def _bleu(trip: RoundTrip) -> float:
    """Of the first hop."""
    language = trip.loop.languages[1]
    references = trip.start.references[language]
    return multi_bleu_statistics(trip.texts[1], references, language=language.partition("_")[0]).score()


def _rows_read(run: Run, experiment: Experiment, stage: str) -> dict[Hop, float]:
    """Rows of bitext by direction, of the stage and all before it."""
    found: dict[Hop, float] = {}
    for name in _lineage(run, experiment, stage):
        for path, spent in run.stage(name).result_state().get("spent", {}).items():
            if path.count(">") == 1 and "<" not in path:
                hop = Hop(*path.split(">"))
                found[hop] = found.get(hop, 0.0) + spent["rows"]
    return found


def _lineage(run: Run, experiment: Experiment, stage: str | None) -> Iterator[str]:
    finished = run.finished()
    while stage is not None and stage in finished:
        yield stage
        stage = experiment.stage(stage).from_
