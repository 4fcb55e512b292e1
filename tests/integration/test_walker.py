"""Generation along paths, hop by hop, with real translators: batched or alone, with counts of dropped rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.facts import refused
from loopmt.config import Generate
from loopmt.distributed import Processes
from loopmt.errors import PathError
from loopmt.path import Hop, LanguagePath
from loopmt.run import Run
from loopmt.text.ragged import Ragged
from loopmt.translate.decoder import generate_each
from loopmt.translate.filters import FilterContext, SyntheticTextFilter
from loopmt.translate.networks import NetworkStack, all_hops, stack_of
from loopmt.translate.protocol import DecodeLimits, Sentences
from loopmt.translate.walker import Rollout, Translators, generate_along, generated_tokens, recorder
from loopmt.workflow.stages import TrainingContext

GREEDY, SAMPLE = Generate(how="greedy"), Generate(how="sample", top_k=5, temperature=1.0)
LIMITS = DecodeLimits(longest=40)


@pytest.fixture(scope="module")
def context(tiny_run: Path) -> TrainingContext:
    return TrainingContext.open(Run.open(tiny_run), torch.device("cpu"), Processes())


@pytest.fixture(scope="module")
def translators(context: TrainingContext) -> NetworkStack:
    found = stack_of(context.networks(context.experiment.stage("vanilla")))
    found.load(context.run.stage("vanilla").result().tensors["weights"])
    return found


@pytest.fixture(scope="module")
def english(context: TrainingContext) -> Sentences:
    return Sentences(context.vocab, "en", ids=context.store.mono("en").take(np.arange(24)))


def walked(
    translators: NetworkStack, *walks: Rollout, text_filter: SyntheticTextFilter | None = None, key: int = 1
) -> int:
    generate_along(Translators(translators), walks, LIMITS, (key,), observe=recorder(text_filter))
    return generated_tokens(walks)


def walk(path: str, text: Sentences, *settings: Generate) -> Rollout:
    return Rollout(LanguagePath.parse(path), settings, text)


def trace(rollout: Rollout) -> list[Ragged]:
    """The ids at the start and after each hop."""
    return [rollout.start.ids, *(hop.best().sentences.ids for hop in rollout.trace)]


def same(one: Ragged, other: Ragged) -> bool:
    return np.array_equal(one.flat, other.flat) and np.array_equal(one.offsets, other.offsets)


def test_a_path_generates_on_every_hop_but_the_last(translators: NetworkStack, english: Sentences) -> None:
    one = walk("en>fr>es>en", english, GREEDY, GREEDY)
    tokens = walked(translators, one)
    assert len(trace(one)) == 3
    assert same(trace(one)[0], english.ids)
    for number, hop in enumerate(one.path.generating):
        decoder = translators.decoder(hop)
        texts = Sentences(translators.vocab, hop.source, ids=trace(one)[number])
        outputs = generate_each(decoder, translators.source_rows(texts, hop).rows(), GREEDY, LIMITS)
        assert same(trace(one)[number + 1], Ragged.of([output.ids for output in outputs]))
    assert [record.hop for record in one.records] == [Hop("en", "fr"), Hop("fr", "es")]
    assert tokens == sum(int(text.lengths.sum()) + len(text) for text in trace(one)[1:])
    assert (one.scores < 0).all()
    assert one.keep.all(), "without a filter nothing is dropped"


def test_a_supervised_path_generates_nothing(translators: NetworkStack, english: Sentences) -> None:
    one = walk("en>fr", english)
    assert walked(translators, one) == 0
    assert len(trace(one)) == 1
    assert walked(translators) == 0


def test_rollouts_in_a_batch_equal_single_rollouts(translators: NetworkStack, english: Sentences) -> None:
    def fresh() -> list[Rollout]:
        return [
            walk("en>fr>en", english.take(np.arange(0, 9)), GREEDY),
            walk("en>fr>es", english.take(np.arange(9, 20)), GREEDY),
            walk("en>es>fr>en", english.take(np.arange(20, 24)), GREEDY, GREEDY),
        ]

    together, alone = fresh(), fresh()
    walked(translators, *together)
    for one in alone:
        walked(translators, one)
    assert all(same(trace(one)[-1], trace(other)[-1]) for one, other in zip(together, alone, strict=True))


def test_samples_depend_on_the_key_and_on_nothing_else(translators: NetworkStack, english: Sentences) -> None:
    once, again, other = (walk("en>fr>en", english, SAMPLE) for _ in range(3))
    walked(translators, once, key=1)
    torch.rand(10)
    walked(translators, again, key=1)
    walked(translators, other, key=2)
    assert same(trace(once)[-1], trace(again)[-1])
    assert not same(trace(once)[-1], trace(other)[-1])


def test_hops_may_be_generated_in_different_ways(translators: NetworkStack, english: Sentences) -> None:
    first = walk("en>fr>es>en", english, GREEDY, SAMPLE)
    second = walk("en>fr>es>en", english, GREEDY, Generate(how="beam", beam=3))
    walked(translators, first, second)
    assert same(trace(first)[1], trace(second)[1])
    assert not same(trace(first)[2], trace(second)[2])


def test_frozen_hops_use_their_own_model(translators: NetworkStack, english: Sentences) -> None:
    translators.copy("frozen")
    try:
        with torch.no_grad():
            translators.live.mul_(0.5)
        live, frozen = walk("en>fr>en", english, GREEDY), walk("en>fr>en", english, Generate(by="frozen", how="greedy"))
        walked(translators, live, frozen)
        assert not same(trace(live)[-1], trace(frozen)[-1])
    finally:
        translators.live.copy_(translators.copies.pop("frozen"))
    again = walk("en>fr>en", english, GREEDY)
    walked(translators, again)
    assert same(trace(frozen)[-1], trace(again)[-1])


def test_every_drop_is_counted_once(translators: NetworkStack, english: Sentences) -> None:
    one = walk("en>fr>es>en", english, Generate(how="sample", temperature=5.0, top_k=0), GREEDY)
    walked(translators, one, text_filter=SyntheticTextFilter(FilterContext(longest=30)))
    first, second = one.records
    assert first.offered == len(english)
    assert second.offered == first.offered - sum(first.dropped.values())
    assert one.keep.sum() == second.offered - sum(second.dropped.values())
    assert sum(first.dropped.values()) > 0, "noise runs away"
    assert 0 < first.distinct_inputs <= first.offered
    assert len(trace(one)[-1]) == len(english), "a row that is out keeps its place"


def test_languages_tags_and_networks(context: TrainingContext, english: Sentences) -> None:
    model = context.experiment.model.model_copy(update={"sharing": "all"})
    shared = NetworkStack(
        model, context.vocab, stack_of(context.networks(context.experiment.stages[0])).hops, context.device
    )
    assert shared.num_networks == 1
    assert shared.names() == ["all"]
    tagged = shared.source_rows(english, Hop("en", "es"), synthetic=True)
    assert tagged.row(0)[:2].tolist() == [context.vocab.tag("es"), context.vocab.synthetic]
    assert tagged.row(0)[2:].tolist() == english.ids.row(0).tolist()
    with refused(PathError, "en>de", "en>fr, en>es, fr>en"):
        shared.network(Hop("en", "de"))


def test_a_shared_network_translates_all_directions_in_one_batch(context: TrainingContext, english: Sentences) -> None:
    model = context.experiment.model.model_copy(update={"sharing": "all"})
    shared = NetworkStack(
        model, context.vocab, stack_of(context.networks(context.experiment.stages[0])).hops, context.device
    )
    shared.start_fresh(3)
    routes = ("en>fr>en", "en>es>en", "en>fr>es>en")
    together = [walk(route, english, *[GREEDY] * (route.count(">") - 1)) for route in routes]
    walked(shared, *together)
    for route, one in zip(routes, together, strict=True):
        alone = walk(route, english, *[GREEDY] * (route.count(">") - 1))
        walked(shared, alone)
        assert [text.flat.tolist() for text in trace(one)] == [text.flat.tolist() for text in trace(alone)]
        assert [record.hop for record in one.records] == list(one.path.generating)


def test_logit_masks(translators: NetworkStack) -> None:
    vocab = translators.vocab
    logit_mask = translators.logit_mask("fr")
    forbidden = {vocab.pad, vocab.unk, vocab.synthetic, *(vocab.tag(language) for language in vocab.languages)}
    assert set(torch.isinf(logit_mask).nonzero()[:, 0].tolist()) == forbidden
    assert logit_mask[vocab.eos] == 0


def test_weights_by_name(context: TrainingContext, translators: NetworkStack) -> None:
    other = context.networks(context.experiment.stage("vanilla"))
    with refused(PathError, "no weights", "en>es, en>fr"):
        other.load({})
    assert other.load({}, strict=False) == sorted(other.names())
    assert other.load(translators.named()) == []
    assert torch.equal(stack_of(other).live, translators.live)


def test_directions_come_in_the_order_of_the_languages() -> None:
    wanted = {Hop("fr", "en"), Hop("en", "es"), Hop("en", "fr")}
    assert all_hops(["en", "fr", "es"], wanted) == (Hop("en", "fr"), Hop("en", "es"), Hop("fr", "en"))
