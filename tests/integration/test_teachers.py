"""`mix = "auto"` and teacher paths: chosen where they translate better than the direct translator, and only there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.toy import EXPERIMENT
from loopmt.config import Auto, Generate, Guards, MixEntry, Stage, Train, VocabConfig, expansions, loads
from loopmt.errors import ConfigError
from loopmt.evaluation.validation import HeldOut
from loopmt.learn.routes import Route
from loopmt.path import Hop, Pattern
from loopmt.planning.loop_choice import chosen_kinds
from loopmt.planning.route_quality import BEST, decodings
from loopmt.progress import Silent
from loopmt.rng import numpy_generator
from loopmt.run import Json, Run
from loopmt.text.clean import Form
from loopmt.text.ragged import Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.filters import FilterContext, RepetitionLimits, SyntheticTextFilter
from loopmt.translate.function import FunctionTranslator
from loopmt.translate.protocol import Sentences
from loopmt.translate.walker import Translators
from loopmt.workflow.chooser import MEASURING, Chooser, candidates_of, measuring_interval
from loopmt.workflow.train import TrainOptions, train

SEVEN = ("en", "de", "es", "fr", "it", "nl", "pt")
ROWS, WORDS = 80, 12
PATTERNS = ("X>Y", "X>Y>X", "X>Y>Z>X", "X>Z>Y<X")
Function = Callable[[list[str], Hop], Sequence[str]]


def sentence(language: str, row: int) -> str:
    numbers = numpy_generator("sentence", row).integers(40, size=WORDS)
    return " ".join(f"{language}{number}" for number in numbers)


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> Vocab:
    texts = {language: [sentence(language, row) for row in range(ROWS)] for language in SEVEN}
    return Vocab.learn(tmp_path_factory.mktemp("vocab"), texts, VocabConfig(size=500), list(SEVEN), 1, Form())


def held_out(vocab: Vocab, languages: Sequence[str]) -> list[HeldOut]:
    sides = {one: Sentences(vocab, one, texts=[sentence(one, row) for row in range(ROWS)]) for one in languages}
    return [HeldOut(Hop(one, other), sides[one], sides[other]) for one, other in permutations(languages, 2)]


def erring(errors: Callable[[Hop], float]) -> Function:
    """Translates word by word, with the given share of wrong words."""

    def translate(texts: list[str], hop: Hop) -> list[str]:
        wrong = numpy_generator("wrong", str(hop)).random((len(texts), WORDS)) < errors(hop)
        rows = [zip(text.split(), one, strict=False) for text, one in zip(texts, wrong, strict=True)]
        return [" ".join(f"{hop.target}{'x' if bad else word[2:]}" for word, bad in row) for row in rows]

    return translate


def hub(good: float, poor: float) -> Function:
    """Errors of the directions with English, and of the others."""
    return erring(lambda hop: good if "en" in (hop.source, hop.target) else poor)


def routes_of(languages: Sequence[str]) -> list[Route]:
    """Pairs with English, every loop, and teachers where there are no pairs."""
    paths = [(number, path) for number, one in enumerate(PATTERNS) for path in Pattern.parse(one).expand(languages)]
    fed = [
        (number, path) for number, path in paths
        if number in (1, 2) or ("en" in (path.taught.source, path.taught.target)) == (number == 0)
    ]  # fmt: skip
    greedy = Generate(how="greedy")
    return [
        Route(place, path, MixEntry(path=PATTERNS[number], generate=greedy), number)
        for place, (number, path) in enumerate(fed)
    ]


def chooser(vocab: Vocab, languages: Sequence[str], function: Function) -> Chooser:
    model = FunctionTranslator("toy", function, vocab, torch.device("cpu"))
    real = Ragged.of(vocab.encode([sentence("en", row) for row in range(ROWS)], "en"))
    limits = RepetitionLimits(lambda language: real, Guards().repetition)
    text_filter = SyntheticTextFilter(FilterContext(128, repetition=limits))
    sets, routes = held_out(vocab, languages), routes_of(languages)
    return Chooser(Auto(), routes, Translators(model), sets, ("test",), Guards(), None, text_filter)


def chosen(found: Json, taught: str) -> dict[str, float]:
    """The routes with a share in a direction."""
    source, target = taught.split(">")
    ends = (f">{source}>{target}", f">{target}<{source}")
    return {path: one["share"] for path, one in found["worth"].items() if path.endswith(ends) and one["share"]}


THREE = ("en", "de", "fr")


def test_a_better_teacher_is_chosen(vocab: Vocab) -> None:
    choose = chooser(vocab, THREE, hub(good=0.02, poor=0.4))
    weights, found = choose(0)
    shares = chosen(found, "de>fr")
    assert shares["de>en>fr<de"] > 0.4 and set(shares) == {"de>en>fr<de", "fr>en>de>fr"}
    teacher = next(route for route in choose.routes if str(route.path) == "de>en>fr<de")
    assert weights[teacher.number] == shares["de>en>fr<de"], "no real pairs take a part"
    assert found["worth"]["de>en>fr<de"]["lead"] > 0 and not found["worth"]["de>en>fr<de"]["why"]
    assert not any("<en" in path for path in found["worth"]), "pairs teach the directions with English"


def test_a_worse_teacher_is_not_chosen(vocab: Vocab) -> None:
    _, found = chooser(vocab, THREE, hub(good=0.2, poor=0.05))(0)
    assert set(chosen(found, "de>fr")) == {"fr>de>fr"}
    worth = found["worth"]["de>en>fr<de"]
    assert worth["lead"] < 0 and "direct translator" in worth["why"]


def test_a_teacher_level_with_the_direct_translator_is_not_chosen(vocab: Vocab) -> None:
    perfect = hub(good=0.0, poor=0.0)
    _, found = chooser(vocab, THREE, perfect)(0)
    assert found["worth"]["de>en>fr<de"]["quality"] == 1.0 and set(chosen(found, "de>fr")) == {
        "fr>de>fr",
        "fr>en>de>fr",
    }


def test_a_teacher_that_collapsed_is_not_chosen(vocab: Vocab) -> None:
    """On the mean it is better than the direct translator, but a quarter of its output repeats itself."""
    good = hub(good=0.02, poor=0.6)

    def collapsed(texts: list[str], hop: Hop) -> list[str]:
        found = good(texts, hop)
        repeated = " ".join([f"{hop.target}7"] * 3 * WORDS)
        return [repeated if hop == Hop("en", "fr") and row % 4 == 0 else text for row, text in enumerate(found)]

    _, found = chooser(vocab, THREE, collapsed)(0)
    worth = found["worth"]["de>en>fr<de"]
    assert worth["lead"] > 0 and worth["share"] == 0 and "en>fr" in worth["alarm"] and worth["alarm"] in worth["why"]
    assert "fr>en>de>fr" in chosen(found, "de>fr"), "its loop does not pass that hop"
    assert found["worth"]["fr>en>fr"]["alarm"] is None


# -- seven languages -------------------------------------------------------------------------------------------


def test_with_seven_languages_only_the_most_promising_routes_are_measured(vocab: Vocab) -> None:
    calls = Counter[Hop]()
    good = erring(lambda hop: 0.02 if "en" in (hop.source, hop.target) else 0.1 if "es" in str(hop) else 0.3)

    def counted(texts: list[str], hop: Hop) -> list[str]:
        calls[hop] += 1
        return list(good(texts, hop))

    choose = chooser(vocab, SEVEN, counted)
    _, found = choose(0)
    assert found["candidates"] == 42 + 42 * 5 + 30 * 5 and len(found["hops"]) == 42
    assert found["measured"] == 42 + 42 * BEST + 30 * BEST == len(found["worth"])
    assert calls.total() == pytest.approx(decodings(candidates_of(choose.routes)), rel=0.05), "shared hops count once"
    measured = [path for path in found["worth"] if path.endswith((">de>fr", ">fr<de"))]
    assert set(measured) == {"fr>de>fr", *(f"fr>{z}>de>fr" for z in ("en", "es")), "de>en>fr<de", "de>es>fr<de"}
    assert next(iter(chosen(found, "de>fr"))) == "fr>en>de>fr" and "de>en>fr<de" in chosen(found, "de>fr")
    kinds = chosen_kinds(found["worth"])
    assert kinds["teachers through en"] == 30 and kinds["dual loops"] >= 12


def test_measurements_become_rarer_where_they_would_take_too_long(vocab: Vocab) -> None:
    """The tokens that they generate are bounded by those that the stage learns from."""
    stage = Stage(name="auto", mix="auto", updates=10)
    for languages, tokens, stretched in ((THREE, 64, False), (SEVEN, 64, True), (SEVEN, 100_000, False)):
        train, sets, routes = Train(tokens=tokens, round=8), held_out(vocab, languages), routes_of(languages)
        rounds = measuring_interval(stage, train, routes, sets)
        assert (rounds > Auto().measure_every) == stretched
        if stretched:
            length = np.mean([len(ids) + 1 for one in languages for ids in vocab.encode([sentence(one, 1)], one)])
            generated = decodings(candidates_of(routes)) * ROWS * length
            learnt = rounds * train.round * tokens * len({route.path.taught for route in routes})
            assert generated / learnt == pytest.approx(MEASURING, rel=0.15)


# -- experiment files ------------------------------------------------------------------------------------------

STAR = EXPERIMENT.partition("[[stage]]")[0].replace(
    '"en-fr" = "bi.en-fr", "en-es" = "bi.en-es", "fr-es" = "bi.fr-es"', '"en-fr" = "bi.en-fr", "en-es" = "bi.en-es"'
)
STAGES = """
[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 8

[[stage]]
name = "chosen"
from = "vanilla"
mix = "auto"
auto = { sentences = 10, measure_every = 1 }
updates = 8
"""


def teachers(text: str) -> list[str]:
    experiment = loads(text)
    found = expansions(experiment, experiment.stage("chosen"))
    return [str(path) for _, expansion in found for path in expansion.paths if path.backward]


def test_teachers_are_candidates_where_there_is_no_bitext() -> None:
    assert teachers(STAR + STAGES) == ["fr>en>es<fr", "es>en>fr<es"]
    assert teachers(EXPERIMENT.partition("[[stage]]")[0] + STAGES) == []
    assert teachers(STAR + STAGES.replace("auto = {", "auto = { teachers = [],")) == []
    assert teachers((STAR + STAGES).replace(', es = "mono"', "")) == ["fr>en>es<fr"]


@pytest.mark.parametrize("pattern", ["X>Y>X", "X>Y<X", "X>Z>Y", "X>Z<Y"])
def test_what_is_no_teacher_path_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError) as error:
        loads(STAR + STAGES.replace("auto = {", f'auto = {{ teachers = ["{pattern}"],'))
    assert all(fact in str(error.value) for fact in (pattern, "chosen", "auto.teachers", "X>Z>Y<X", "auto.candidates"))


def test_a_stage_learns_from_teachers(tiny_experiment_file: Path, tmp_path: Path) -> None:
    (tmp_path / "text").symlink_to(tiny_experiment_file.parent / "text")
    file, shared = tmp_path / "star.toml", 'model.sharing="all"'
    file.write_text(STAR + STAGES, encoding="utf-8")
    settings = [shared, "train.tokens=64", "train.round=4", "train.log_every=4", "train.validate_every=8"]
    assert train(TrainOptions(file, tmp_path / "run", [*settings, "guards.filters=[]"]), Silent())
    records = Run(tmp_path / "run").stage("chosen").records()
    choices = [record for record in records if record["kind"] == "choice"]
    assert len(choices) == 2 and all("fr>en>es<fr" in record["worth"] for record in choices)
    assert all(record["worth"]["fr>en>es<fr"]["lead"] is not None for record in choices)
