"""Candidates of a round: the best of several generated sentences is learnt, by a utility of any kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.stages import ASK, assembled, stage
from loopmt import Generate, load
from loopmt.cli import app
from loopmt.errors import ConfigError
from loopmt.learn.gather import GatheredRound
from loopmt.learn.trainer import Trainer
from loopmt.text.ragged import Ints
from loopmt.translate import utility
from loopmt.translate.protocol import Floats, Mask
from loopmt.translate.utility import Candidates, chrf_table

OWN = f"{Path(__file__).stem}:shortest"
OPEN = "generate = { temperature = 1.5, top_k = 0 }"


def gathered(request: ASK, settings: str) -> tuple[Trainer, GatheredRound]:
    mix = f'["X>Y", {{ path = "X>Y>X", {OPEN}, {settings} }}]'
    trainer = assembled(request(stage(mix, round=4, tokens=512), "guards.filters=[]"))
    return trainer, trainer.gatherer.round(0, dict.fromkeys(range(len(trainer.routes)), 1.0))


@pytest.mark.parametrize("name", ["consensus", "round-trip", "dual"])
def test_the_best_candidate_is_learnt(ask_for: ASK, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean utility of what is chosen is well above that of all candidates."""
    seen: list[tuple[float, float]] = []
    best_of = utility.best_of

    def watched(values: Floats, counts: Ints, allowed: Mask) -> Ints:
        chosen = best_of(values, counts, allowed)
        assert set(counts.tolist()) == {4} and len(chosen) * 4 == len(values)
        seen.append((float(values[chosen].mean()), float(values.mean())))
        return chosen

    monkeypatch.setattr("loopmt.learn.gather.best_of", watched)
    gathered(ask_for, f'candidates = 4, choose = "{name}"')
    assert seen and all(chosen > mean for chosen, mean in seen)


def test_rows_are_as_many_as_without_candidates(ask_for: ASK) -> None:
    rows = [sum(map(len, gathered(ask_for, settings)[1].networks)) for settings in ("samples = 1", "candidates = 3")]
    assert rows[0] == pytest.approx(rows[1], rel=0.05)


def shortest(candidates: Candidates) -> Floats:
    return -candidates.generated.ids.lengths.astype(np.float64)


@pytest.mark.parametrize(
    "settings", [f'candidates = 6, choose = "{OWN}"', f'keep = 0.2, keep_by = "{OWN}"'], ids=["choose", "keep"]
)
def test_a_utility_of_ones_own(ask_for: ASK, monkeypatch: pytest.MonkeyPatch, settings: str) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("LOOPMT_ALLOW_CODE", "1")
    assert mean_length(*gathered(ask_for, settings)) < 0.9 * mean_length(*gathered(ask_for, "samples = 1"))


def mean_length(trainer: Trainer, found: GatheredRound) -> float:
    """Of what was generated."""
    synthetic = [route.number for route in trainer.routes if route.synthetic]
    lengths = [rows.sources.lengths[np.isin(rows.paths, synthetic)] for rows in found.networks]
    return float(np.concatenate(lengths).mean())


@pytest.mark.parametrize(
    ("entry", "facts"),
    [
        ('{ path = "X>Y>X", candidates = 3, generate = { how = "greedy" } }', ["candidates = 3", '"sample"']),
        ('{ path = "X>Y", candidates = 3 }', ["X>Y", "candidates"]),
        ('{ path = "X>Y", noise = {} }', ["X>Y", "noise"]),
        ('{ path = "X>Y<X", noise = {} }', ["X>Y<X", "noise"]),
        ('{ path = "X>Y>X", candidates = 2, choose = "consenus" }', ["consenus", '"consensus"', "round-trip"]),
        ('{ path = "X>Y>X", keep = 0.5, keep_by = "chrf" }', ["chrf", "round-trip"]),
        ('{ path = "X>Y>X", noise = { drop = 2 } }', ["drop"]),
    ],
)
def test_what_makes_no_sense_is_refused(ask_for: ASK, entry: str, facts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        assembled(ask_for(stage(f'["X>Y", {entry}]')))
    assert all(fact in str(error.value) for fact in facts), str(error.value)


# -- at inference ------------------------------------------------------------------------------------------------


def test_mbr_and_reranking_choose_among_what_was_generated(tiny_run: Path) -> None:
    translator = load(tiny_run, "dual")
    texts, how = ["A dog sleeps.", "The cat sees a bird.", ""], Generate(temperature=1.5, top_k=0)
    drawn = translator.nbest(texts, "en>fr", 8, how=how)
    for best, candidates in zip(translator.mbr(texts, "en>fr", 8, how), drawn, strict=True):
        found = [one.text for one in candidates]
        means = chrf_table(found).sum(1) - 100
        assert best in found and means[found.index(best)] == pytest.approx(means.max())
    beam = translator.nbest(texts, "en>fr", 4, beam=4)
    for source, best, candidates in zip(texts, translator.rerank(texts, "en>fr", "dual", 4), beam, strict=True):
        found = [one.text for one in candidates]
        back = translator.score([(text, source) for text in found], "fr>en")
        assert best in found and len(back) == len(found)
    assert translator.rerank(texts, "en>fr", "round-trip", 4) != []


def test_reranking_without_a_way_back(tiny_run: Path) -> None:
    translator = load(tiny_run, "dual")
    with pytest.raises(ConfigError, match="consensus"):
        translator.rerank(["A dog."], "en>fr", "chrf")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--mbr", "4", "--rerank", "dual"], ["--mbr", "--rerank"]),
        (["--mbr", "4", "--nbest", "2"], ["--mbr", "--nbest"]),
        (["--rerank", "dual", "--sample"], ["--rerank", "--sample"]),
        (["--mbr", "1"], ["--mbr"]),
        (["--ensemble", "dual"], ["--ensemble", "two"]),
        (["--ensemble", "dual,vanilla", "--stage", "dual"], ["--ensemble", "--stage"]),
        (["--ensemble", "dual,nowhere"], ["nowhere", "vanilla", "dual"]),
    ],
)
def test_options_that_exclude_each_other(tiny_run: Path, options: list[str], facts: list[str]) -> None:
    found = CliRunner().invoke(app, ["translate", str(tiny_run), "en>fr", *options], input="A dog.\n")
    shown = found.output + str(found.exception)
    assert found.exit_code and all(fact in shown for fact in facts)


def test_the_command_line_prints_one_line_for_each(tiny_run: Path) -> None:
    for options in (["--mbr", "4", "--seed", "3"], ["--rerank", "dual"], ["--ensemble", "vanilla,dual"]):
        found = CliRunner().invoke(app, ["translate", str(tiny_run), "en>fr", *options], input="A dog.\n\nA cat.\n")
        assert found.exit_code == 0 and len(found.stdout.splitlines()) == 3
