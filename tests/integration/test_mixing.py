"""What a mix may ask of its rows: generated targets, one sentence by two paths, the least doubtful, other subwords."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers.facts import lacks
from helpers.stages import CPU, assembled, records, stage
from loopmt.config import loads
from loopmt.distributed import Processes
from loopmt.errors import ConfigError
from loopmt.learn.gather import GatheredRound
from loopmt.learn.trainer import Trainer
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.text.ragged import Ragged
from loopmt.text.subword_dropout import Merges, SubwordDropout
from loopmt.translate.protocol import DecodeLimits, Sentences
from loopmt.translate.scoring import dual_cross_entropy
from loopmt.translate.walker import Rollout, Translators, generate_along
from loopmt.workflow.stages import TrainingContext, routes_of, starting_point
from loopmt.workflow.train import TrainOptions, train

ASK = Callable[..., TrainOptions]
GREEDY = 'generate = { how = "greedy" }'
Pairs = list[tuple[tuple[int, ...], tuple[int, ...]]]


def gathered(trainer: Trainer, number: int = 0) -> GatheredRound:
    return trainer.gatherer.round(number, trainer._weights())


def pairs(trainer: Trainer, round_: GatheredRound, path: str) -> Pairs:
    """Sources and targets of the rows of a path."""
    route = next(route for route in trainer.routes if str(route.path) == path)
    rows = round_.networks[trainer.translators.network(route.path.taught)]
    mine = rows.take(np.flatnonzero(rows.paths == route.number))
    return list(zip(listed(mine.sources), listed(mine.targets), strict=True))


def listed(text: Ragged) -> list[tuple[int, ...]]:
    return [tuple(row.tolist()) for row in text.rows()]


def generated(trainer: Trainer, sources: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The translations of these sources by the last path of the mix."""
    route = trainer.routes[-1]
    start = Sentences(trainer.translators.vocab, route.path.languages[0], ids=Ragged.of(sources))
    rollout = Rollout(route.path, route.settings, start)
    generate_along(Translators(trainer.translators), [rollout], DecodeLimits(), ("test",))
    return listed(rollout.text.ids)


def test_a_backward_arrow_learns_generated_targets(ask_for: ASK) -> None:
    trainer = assembled(ask_for(stage(f'["X>Y", {{ path = "en>fr<en", {GREEDY} }}]')))
    real = {*listed(trainer.gatherer.store.mono("en").take(np.arange(len(trainer.gatherer.store.mono("en")))))}
    found = pairs(trainer, gathered(trainer), "en>fr<en")
    assert found and all(source in real for source, _ in found)
    assert generated(trainer, [source for source, _ in found]) == [target for _, target in found]


def test_a_direct_translator_learns_from_a_pivot(ask_for: ASK) -> None:
    """fr>es learns from the output of en>es for the English side of a pair."""
    trainer = assembled(ask_for(stage(f'["X>Y", {{ path = "en>es<fr", {GREEDY} }}]')))
    english, french = (listed(side.take(np.arange(len(side)))) for side in trainer.gatherer.store.bitext("en", "fr"))
    meant = dict(zip(french, english, strict=True))
    found = pairs(trainer, gathered(trainer), "en>es<fr")
    assert found and generated(trainer, [meant[source] for source, _ in found]) == [target for _, target in found]


def test_two_paths_give_sources_for_the_same_sentences(ask_for: ASK) -> None:
    mix = '["X>Y", {{ path = "X>Y>X"{0} }}, {{ path = "X>Z>Y>X"{0} }}]'
    shared = {}
    for same in (", same_rows = true", ""):
        trainer = assembled(ask_for(stage(mix.format(f"{same}, {GREEDY}"))))
        round_ = gathered(trainer)
        one, other = ({target for _, target in pairs(trainer, round_, path)} for path in ("en>fr>en", "en>es>fr>en"))
        shared[same] = len(one & other) / min(len(one), len(other))
    assert shared[", same_rows = true"] > 0.9 > shared[""]


def test_rows_with_the_lowest_dual_cross_entropy_are_kept(ask_for: ASK) -> None:
    kept = {}
    for keep in (1.0, 0.5):
        trainer = assembled(ask_for(stage(f'["X>Y", {{ path = "X>Y>X", keep = {keep}, {GREEDY} }}]')))
        kept[keep] = pairs(trainer, gathered(trainer), "en>fr>en")
    translators, hop = trainer.translators, Hop("fr", "en")

    def cross_entropies(rows: Pairs) -> np.ndarray:
        sources, targets = (
            Sentences(translators.vocab, language, ids=Ragged.of([row[side] for row in rows]))
            for side, language in enumerate((hop.source, hop.target))
        )
        return dual_cross_entropy(translators, hop, sources, targets)

    assert cross_entropies(kept[0.5]).max() < np.quantile(cross_entropies(kept[1.0]), 0.7)
    assert len(kept[0.5]) == pytest.approx(len(kept[1.0]), rel=0.2)  # as many more are generated


def test_dual_cross_entropy_is_of_both_directions(tiny_run: Path) -> None:
    context = TrainingContext.open(Run(tiny_run), CPU, Processes())
    translators = starting_point(context, context.experiment.stage("dual"))
    english, french = (
        Sentences(context.vocab, language, ids=side.take(np.arange(20)))
        for language, side in zip(("en", "fr"), context.store.bitext("en", "fr"), strict=True)
    )
    mixed = french.take(np.arange(20)[::-1])
    right, wrong = (dual_cross_entropy(translators, Hop("en", "fr"), english, other) for other in (french, mixed))
    assert right.mean() < wrong.mean()
    there, tokens = translators.score(Hop("en", "fr"), english, french)
    back, _ = translators.score(Hop("fr", "en"), french, english)
    there, back = there / tokens, back / (english.ids.lengths + 1)
    assert np.allclose(right, np.abs(there - back) + (there + back) / 2)


@pytest.mark.parametrize(
    ("mix", "sentence"),
    [
        ('[{ path = "X>Y", keep = 0.5 }]', 'stage "loops", path X>Y generates nothing to keep a share of.'),
        (
            '["X>Y", { path = "X>Y<X", samples = 2, combine = "logmeanexp" }]',
            'stage "loops", path X>Y<X: with an arrow back the targets are generated, and combine = "logmeanexp" is of '
            'one real target. Use combine = "mean".',
        ),
        (
            '"auto"\nauto = { candidates = ["X>Y<X"] }',
            'stage "loops": auto.candidates must come home; X>Y<X has an arrow back. Write X>Y>X, or list it '
            "in a `mix` with a weight of its own.",
        ),
        (
            '"auto"\nauto = { candidates = ["X>Y>X", "X>Z>Y"] }',
            'stage "loops": auto.candidates must come home; X>Z>Y starts in X and ends in Y. Write X>Z>Y>X, or list it '
            "in a `mix` with a weight of its own.",
        ),
        ('"auto"\nauto = { candidates = ["X>y z"] }', "stage \"loops\": path 'X>y z': 'y z' is not a language code."),
    ],
)
def test_invalid_mixes_are_refused(ask_for: ASK, mix: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        train(ask_for(stage(mix)), Silent())
    assert not lacks(str(caught.value), sentence)


def test_all_settings_train_together(ask_for: ASK) -> None:
    entries = (
        f'{{ path = "X>Y>X", keep = 0.8, same_rows = true, {GREEDY} }}, {{ path = "X>Z<Y", tag = true, {GREEDY} }}'
    )
    request = ask_for(stage(f'["X>Y", {entries}]', subword_dropout=0.1))
    assert train(request, Silent())
    tokens = records(request)[-1]["tokens"]
    assert {"en>fr", "en>fr>en", "en>es<fr"} <= tokens.keys()


def test_chosen_loops_keep_their_best_rows(ask_for: ASK) -> None:
    trainer = assembled(ask_for(stage('"auto"\nauto = { keep = 0.5 }')))
    assert {(route.synthetic, route.entry.keep) for route in trainer.routes} == {(False, 1.0), (True, 0.5)}


def test_chosen_loops_are_filtered_if_there_is_a_reverse_translator() -> None:
    """Only a teacher trains es>fr: without one, there is no score for what fr>es is taught."""
    data = 'languages = ["en", "fr", "es"]\n[data]\nbitext = { "en-fr" = "b", "en-es" = "b" }\nmono = { es = "m" }\n'
    vanilla = '[[stage]]\nname = "vanilla"\nmix = ["X>Y"]\nupdates = 1\n'
    text = data + 'valid = "v"\n' + vanilla + stage('"auto"')
    assert kept_shares(text + "auto = { teachers = [] }\n") == {"es>en>es": 0.7, "es>en>fr>es": 1.0}
    assert kept_shares(text) == {"es>en>es": 0.7, "es>en>fr>es": 0.7, "es>en>fr<es": 0.7}


def kept_shares(text: str) -> dict[str, float]:
    experiment = loads(text)
    routes = routes_of(experiment, experiment.stage("loops"))
    return {str(route.path): route.entry.keep for route in routes if route.synthetic}


# -- subwords ------------------------------------------------------------------------------------------------------


@pytest.fixture
def english(tiny_run: Path) -> Iterator[tuple[TrainingContext, Ragged]]:
    context = TrainingContext.open(Run(tiny_run), CPU, Processes())
    side = context.store.mono("en")
    yield context, side.take(np.arange(len(side)))


def test_subword_dropout_keeps_the_text(english: tuple[TrainingContext, Ragged]) -> None:
    context, text = english
    loose = SubwordDropout(context.vocab, 0.3)(text, "en", 1)
    assert context.vocab.decode(loose.rows(), "en") == context.vocab.decode(text.rows(), "en")
    assert len(loose.flat) > 1.05 * len(text.flat)


def test_merges_are_undone_with_the_given_probability() -> None:
    """An inner merge is tried only after the outer one was undone, and every merge is tried at most once."""
    merges = Merges.of({"a": (5, -9), "b": (6, -9), "ab": (7, 0), "aba": (8, -1)}, 9)
    flat = merges.undone(Ragged.of([[8]] * 10_000), 0.25, np.random.default_rng(1)).flat
    counts = np.bincount(flat, minlength=9) / 10_000
    assert np.allclose(counts[[7, 8]], [0.25 * 0.75, 0.75], atol=0.015)
    assert counts[[5, 6]].tolist() == pytest.approx([0.25 + 0.0625, 0.0625], abs=0.015)


def test_subword_dropout_depends_on_its_key(english: tuple[TrainingContext, Ragged]) -> None:
    context, text = english
    loosened = SubwordDropout(context.vocab, 0.2)
    one, again, other = (loosened(text, "en", key) for key in (1, 1, 2))
    assert np.array_equal(one.flat, again.flat) and not np.array_equal(one.flat, other.flat)


@pytest.mark.parametrize(
    ("pieces", "halves"),
    [
        ({"a": (5, -9), "b": (6, -9), "ab": (7, 0)}, {7: (5, 6)}),
        (
            {"a": (5, -9), "b": (6, -9), "c": (4, -9), "bc": (7, 0), "ab": (8, -1), "abc": (9, -2)},
            {7: (6, 4), 8: (5, 6), 9: (5, 7)},
        ),
        ({"a": (5, -9), "abc": (7, 0)}, {}),
    ],
)
def test_the_merge_that_made_a_piece(pieces: dict[str, tuple[int, float]], halves: dict[int, tuple[int, int]]) -> None:
    found = Merges.of(pieces, 10).halves_V2
    assert {int(number): tuple(found[number].tolist()) for number in np.flatnonzero(found[:, 0] >= 0)} == halves
