"""Rewards in training: rows of generating hops, budgets, the log, resuming, and that rewards rise."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.resuming import assert_same, outcome, started, wait_for
from helpers.stages import ASK, assembled, folder_of, records, stage
from loopmt.config import Generate
from loopmt.errors import ConfigError, ExternalError
from loopmt.learn.gather import GatheredRound
from loopmt.learn.objectives import Objective, PathRows
from loopmt.learn.routes import path_of, taught_by
from loopmt.learn.trainer import Trainer
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.text.batch import Factors
from loopmt.translate.protocol import Sentences
from loopmt.translate.utility import Candidates
from loopmt.workflow.train import TrainOptions, train

OWN = Path(__file__).stem
WEIGHTED = 'samples = 3, reward = { likelihood = 0.5, "round-trip" = 0.01 }'
ALL = f'{WEIGHTED}, credit = "all"'


def mix(settings: str = ALL, path: str = "X>Y>X") -> str:
    return f'["X>Y", {{ path = "{path}", {settings} }}]'


class Spy(Objective):
    """Keeps the rows of the last round."""

    def __init__(self) -> None:
        self.seen: list[PathRows] = []

    def round_factors(self, rows: list[PathRows]) -> list[Factors] | None:  # type: ignore[override]
        self.seen = list(rows)
        return None


def gathered(trainer: Trainer) -> tuple[GatheredRound, list[PathRows]]:
    spy = Spy()
    trainer.gatherer.objectives = [*trainer.gatherer.objectives, spy]
    return trainer.gatherer.round(0, trainer._weights()), spy.seen


# -- rows ----------------------------------------------------------------------------------------------------------


def test_a_generating_hop_learns_what_it_drew(ask_for: ASK) -> None:
    """Source, target, advantage and the log-probability of drawing it, in the network of the hop."""
    trainer = assembled(ask_for(stage(mix("kl = 0.1, " + ALL), tokens=512), "guards.filters=[]"))
    found, seen = gathered(trainer)
    (route,) = (one for one in trainer.routes if str(one) == "en>fr>en rewards en>fr")
    (mine,) = (one for one in seen if one.drawn is not None and one.path == route.path)
    assert mine.drawn is not None and route.taught == Hop("en", "fr") == taught_by(str(route))
    model, vocab = trainer.translators, trainer.translators.vocab
    sides = Sentences(vocab, "en", ids=mine.sources), Sentences(vocab, "fr", ids=mine.targets)
    scores = model.drawn_scores(route.taught, *sides, Generate())  # type: ignore[attr-defined]
    assert mine.scores == pytest.approx(scores, abs=1e-4) and (scores < 0).any()
    assert trainer.gatherer.routes[6].path == path_of(str(route)), "the route whose rollouts these are"
    learnt = found.networks[model.network(Hop("en", "fr"))]
    rows = learnt.take(np.flatnonzero(learnt.paths == route.number))
    count = len(rows)
    assert 0 < count <= len(mine.scores) and rows.scores == pytest.approx(mine.scores[:count], abs=1e-5)
    assert [row.tolist() for row in rows.targets.rows()] == [row.tolist() for row in mine.targets.rows()][:count]
    for sentence in np.unique(mine.drawn.sentences):
        own = mine.drawn.sentences == sentence
        if own.sum() == 3 and own[:count].sum() == 3:
            assert rows.factors[own[:count]].sum() == pytest.approx(0, abs=1e-4), "advantages over the other samples"


def test_the_reward_is_the_weighted_sum_of_its_utilities(ask_for: ASK) -> None:
    """By hand for the likelihood of the real sentence; chrF of what comes home lies between 0 and 1 here."""
    rounds = {}
    for settings in ('reward = "likelihood"', "reward = { likelihood = -2.0 }", 'reward = { "round-trip" = 0.01 }'):
        trainer = assembled(ask_for(stage(mix(settings, "en>fr>en"), tokens=512), "guards.filters=[]"))
        (path,) = (route for route in trainer.routes if route.synthetic)
        found, seen = gathered(trainer)
        (rows,) = (one for one in seen if one.generated is not None)
        total, count = found.measured["reward"][str(path)]
        rounds[settings] = total / count
        vocab = trainer.translators.vocab
        sides = Sentences(vocab, "fr", ids=rows.sources), Sentences(vocab, "en", ids=rows.targets)
        expected = -np.divide(*trainer.translators.score(Hop("fr", "en"), *sides)).mean()
    one, other, third = rounds.values()
    assert one == pytest.approx(expected, abs=1e-4) and other == pytest.approx(-2 * one) and 0 < third < 1


def test_every_sampling_hop_with_live_weights_is_rewarded(ask_for: ASK) -> None:
    how = 'generate = [{ how = "greedy" }, { temperature = 0.9 }]'
    trainer = assembled(ask_for(stage(mix(f"{ALL}, {how}", "en>fr>es>en"))))
    assert [str(route) for route in trainer.routes if route.drawn] == ["en>fr>es>en rewards fr>es"]
    trainer = assembled(ask_for(stage(mix(ALL, "en>fr>es>en"))))
    names = [str(route) for route in trainer.routes if route.drawn]
    assert names == ["en>fr>es>en rewards en>fr", "en>fr>es>en rewards fr>es"]
    _, seen = gathered(trainer)
    first, second = (one for one in seen if one.drawn is not None)
    assert first.drawn is not None and second.drawn is not None
    shared = min(len(first.scores), len(second.scores), 3)
    assert first.drawn.rewards[:shared].tolist() == second.drawn.rewards[:shared].tolist()
    targets, sources = ({tuple(row) for row in rows.rows()} for rows in (first.targets, second.sources))
    assert targets & sources, "the second hop starts from what the first one drew"


# -- budgets -------------------------------------------------------------------------------------------------------


def test_rewarded_rows_count_with_their_target_tokens(ask_for: ASK) -> None:
    """An update has its tokens; each direction has a third of bitext, of loops and of rewarded rows."""
    updates = {}
    for settings in (WEIGHTED, ALL):
        trainer = assembled(ask_for(stage(mix(settings), tokens=1024, round=8)))
        batches = trainer._batches()
        updates[settings] = np.mean([batch.target_tokens.sum() for batch in batches])
    assert updates[ALL] == pytest.approx(updates[WEIGHTED], rel=0.05)
    spent = trainer.progress.spent
    rewarded = {name: entry["target_tokens"] for name, entry in spent.items() if "rewards" in name}
    total = sum(entry["target_tokens"] for entry in spent.values())
    assert len(rewarded) == 6 and sum(rewarded.values()) / total == pytest.approx(1 / 3, abs=0.05)
    assert all(spent[name]["meant_tokens"] == pytest.approx(tokens, rel=0.3) for name, tokens in rewarded.items())


def test_a_fair_comparison_counts_rewarded_rows(ask_for: ASK) -> None:
    """Bitext has a third of the tokens of both: with rewards, loops have half the weight."""
    control = (
        '[[stage]]\nname = "dual"\nfrom = "vanilla"\nmix = ["X>Y", {{ path = "X>Y>X", weight = {} }}]\nupdates = 8\n'
    )
    same = "train = { tokens = 256, round = 4, log_every = 4, validate_every = 8, validate_sentences = 4 }\n"
    compare = '[[compare]]\nof = "loops"\nagainst = "dual"\n'
    assembled(ask_for(control.format(2) + same + stage(mix()) + compare))
    with pytest.raises(ConfigError, match="supervised share"):
        assembled(ask_for(control.format(1) + same + stage(mix()) + compare))


# -- training ------------------------------------------------------------------------------------------------------


def test_with_credit_last_the_update_is_that_without_a_reward(ask_for: ASK) -> None:
    plain, logged = ask_for(stage(mix("samples = 2"))), ask_for(stage(mix('samples = 2, reward = "likelihood"')))
    for request in (plain, logged):
        assert train(request, Silent())
    (weights, expected), (found, log) = outcome(plain), outcome(logged)
    assert weights.keys() == found.keys() and all(torch.equal(weights[name], found[name]) for name in weights)
    measured = [record.pop("measured") for record in log if record["kind"] == "train"]
    assert log == expected, "nothing else in the log differs"
    assert all(set(one) == {"reward"} and -10 < one["reward"]["en>fr>en"] < 0 for one in measured)


def test_the_log_has_rewards_ratios_and_divergences(ask_for: ASK) -> None:
    request = ask_for(stage(mix(f"{ALL}, kl = 0.05", "en>fr>en"), updates=4, log_every=1, round=2, learning_rate=1e-3))
    assert train(request, Silent())
    name = "en>fr>en rewards en>fr"
    first, second, *_ = (record["measured"] for record in records(request))
    assert set(first) == {"reward", "divergence", "ratio", "clipped"} and first["reward"].keys() == {"en>fr>en"}
    assert first["ratio"].keys() == first["clipped"].keys() == first["divergence"].keys() == {name}
    assert first["divergence"][name] < 3 and 0 <= second["clipped"][name] <= 1 and 0.3 < first["ratio"][name] < 3


def short(candidates: Candidates) -> np.ndarray:
    """Prefers short translations."""
    return -candidates.generated.ids.lengths.astype(np.float64)


def undefined(candidates: Candidates) -> np.ndarray:
    return np.full(len(candidates.generated), math.nan)


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("LOOPMT_ALLOW_CODE", "1")


def test_the_reward_rises_where_only_rewards_are_learnt(ask_for: ASK, own_module: None) -> None:
    """Without likelihood, a generator that is rewarded for short sentences makes shorter ones."""
    settings = (
        f'reward = {{ "{OWN}:short" = 0.3 }}, samples = 6, credit = "all", likelihood = 0.0, '
        "generate = { top_k = 0, temperature = 1.0 }"
    )
    text = f'[{{ path = "en>fr>en", {settings} }}, {{ path = "fr>en", weight = 0.01 }}]'
    options = {"updates": 16, "tokens": 512, "round": 2, "log_every": 4, "validate_every": 16, "learning_rate": 5e-3}
    request = ask_for(stage(text, **options), "guards.filters=[]")  # type: ignore[arg-type]
    assert train(request, Silent())
    rewards = [record["measured"]["reward"]["en>fr>en"] for record in records(request)]
    assert rewards[-1] > rewards[0] + 0.5, rewards


def test_a_reward_that_is_not_finite_is_named(ask_for: ASK, own_module: None) -> None:
    with pytest.raises(ExternalError, match="undefined"):
        gathered(assembled(ask_for(stage(mix(f'reward = "{OWN}:undefined"')))))


# -- resuming ------------------------------------------------------------------------------------------------------

STAGE = stage(mix(f"{ALL}, kl = 0.05"), updates=16, round=4, validate_every=4, log_every=2, dropout=0.1)


def test_a_killed_stage_resumes_bit_for_bit(ask_for: ASK, reference: TrainOptions) -> None:
    """Rows that wait keep their advantages and their scores."""
    request = ask_for(STAGE)
    process = started(request)
    wait_for(lambda: bool(folder_of(request).updates()) and folder_of(request).updates()[-1] >= 8, process)
    process.kill()
    process.communicate()
    assert train(request, Silent())
    assert_same(request, reference)


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "facts"),
    [
        ('path = "X>Y>X", credit = "all"', ["credit", "reward"]),
        ('path = "X>Y>X", kl = 0.1', ["kl", "reward"]),
        ('path = "X>Y>X", reward = "likelihood", kl = 0.1', ["kl", 'credit = "all"']),
        ('path = "X>Y<X", reward = "likelihood"', ["X>Y<X", "reward"]),
        ('path = "X>Y", reward = "likelihood"', ["X>Y", "reward"]),
        ('path = "X>Y>X", reward = "consensus"', ["consensus"]),
        ('path = "X>Y>X", reward = "likelyhood"', ["likelyhood", "likelihood"]),
        ('path = "X>Y>X", reward = "likelihood", credit = "all"', ["samples", 'baseline = "none"']),
        ('path = "X>Y>X", samples = 2, reward = "dual", credit = "all", candidates = 2', ["candidates", "samples"]),
        (
            'path = "X>Y>X", samples = 2, reward = "dual", credit = "all", generate = { how = "beam" }',
            ['how = "sample"', 'credit = "last"'],
        ),
        (
            'path = "X>Y>X", samples = 2, reward = "dual", credit = "all", generate = { by = "frozen" }',
            ['by = "live"', 'credit = "last"'],
        ),
    ],
)
def test_what_makes_no_sense_is_refused(ask_for: ASK, entry: str, facts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        assembled(ask_for(stage(f'["X>Y", {{ {entry} }}]')))
    assert all(fact in str(error.value) for fact in facts), str(error.value)


def test_a_divergence_needs_a_start(ask_for: ASK) -> None:
    with pytest.raises(ConfigError, match="kl"):
        assembled(ask_for(stage(mix(f"{ALL}, kl = 0.1"), parent=False), parent=False))
