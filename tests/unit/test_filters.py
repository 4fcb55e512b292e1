"""Filters of generated text: what each one drops, and how an experiment chooses them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers.facts import refused
from loopmt.config import Generate, Guards, MixEntry, VocabConfig
from loopmt.errors import ConfigError, ExternalError
from loopmt.learn.alarms import AlarmMonitor
from loopmt.learn.routes import Route
from loopmt.path import Hop, LanguagePath
from loopmt.text.clean import Form
from loopmt.text.ragged import Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.filters import (
    FilterContext,
    Findings,
    LanguageFrequencies,
    Mask,
    RepetitionLimits,
    SyntheticTextFilter,
    repeated_share,
)
from loopmt.translate.protocol import Sentences, Translations
from loopmt.translate.walker import HopRecord, Rollout, recorder

HOP = Hop("en", "fr")
GERMAN = [
    "Die Mannschaft des FC Bayern hat das Spiel gegen die gegnerischen Mannschaft gewonnen .",
    "Ein Mann in einem roten Hemd spricht mit einer Frau , die einen Hut trägt .",
    "Zwei Kinder spielen im Sand und ein Hund läuft am Strand entlang .",
    "Der Spieler der gegnerischen Mannschaft schießt den Ball in das Tor .",
    "Viele Menschen stehen auf der Straße und sehen dem Umzug zu .",
    "Ein kleines Mädchen isst ein großes Stück Kuchen am Tisch .",
]
COLLAPSED = "Ein Spieler der gegnerischen Mannschaft" + " gegnerischen Mannschaft" * 12


def sentences(*rows: list[int], language: str = "fr") -> Sentences:
    return Sentences(None, language, ids=Ragged.of(rows))


def found(
    context: FilterContext, before: Sentences, outputs: Sentences, ended: Mask | None = None
) -> dict[str, list[int]]:
    """The outputs that each filter drops, if any."""
    ended = np.ones(len(outputs), dtype=np.bool_) if ended is None else ended
    reasons = SyntheticTextFilter(context)(before, outputs, ended, HOP).reasons
    return {reason: np.flatnonzero(bad).tolist() for reason, bad in reasons.items() if bad.any()}


# -- reasons -------------------------------------------------------------------------------------------------------


BEFORE = sentences([5, 6, 7], [5, 6, 7], [5, 6, 7], [5, 6], [5] * 30, [5, 6, 7], language="en")
OUTPUTS = sentences([8, 9], [], [5, 6, 7], [8] * 17, [8, 9], [8] * 20)
ENDED = np.array([True, True, True, True, True, False])


def test_each_filter_drops_its_outputs() -> None:
    expected = {"empty": [1], "runaway": [5], "copy": [2], "length": [3, 4, 5]}
    assert found(FilterContext(longest=20), BEFORE, OUTPUTS, ENDED) == expected


def test_thresholds_are_settings() -> None:
    wider = Guards(filters=["length"], ratio=4, slack=9)
    assert found(FilterContext(20, guards=wider), BEFORE, OUTPUTS, ENDED) == {"length": [4]}
    narrower = Guards(filters=["length"], ratio=1, slack=0)
    assert found(FilterContext(20, guards=narrower), BEFORE, OUTPUTS, ENDED) == {"length": [0, 1, 3, 4, 5]}


def test_outputs_in_another_language_are_dropped() -> None:
    samples = {"en": Ragged.of([[10, 11, 12, 13]] * 20), "fr": Ragged.of([[20, 21, 22, 13]] * 20)}
    frequencies = LanguageFrequencies.learn(samples, 30)
    rows = Ragged.of([[20, 21, 22, 20], [10, 11, 12, 10], [10, 11], [13, 13, 13, 13]])
    assert frequencies.other_language(rows, "fr").tolist() == [False, True, False, False], (
        "short text and shared words pass"
    )
    assert frequencies.other_language(rows, "en").tolist() == [True, False, False, False]
    assert not frequencies.other_language(rows, "de").any(), "a language without text of its own is not judged"
    assert frequencies.other_language(Ragged.of([]), "fr").tolist() == []
    before, outputs = sentences(*[[1]] * 4), Sentences(None, "fr", ids=rows)
    assert found(FilterContext(50, frequencies), before, outputs) == {"language": [1]}
    shorter = Guards(filters=["language"], fewest_subwords=2)
    assert found(FilterContext(50, frequencies, guards=shorter), before, outputs) == {"language": [1, 2]}
    assert found(FilterContext(50, frequencies, guards=Guards(margin=9)), before, outputs) == {}


def test_copies_are_detected_across_vocabularies(tmp_path: Path) -> None:
    texts = {"en": ["the cat sees the old dog ."] * 9, "fr": ["le chat voit le vieux chien ."] * 9}
    vocab = Vocab.learn(tmp_path, texts, VocabConfig(size=320, sharing="language"), ["en", "fr"], 1, Form())
    before = Sentences(vocab, "en", texts=["the cat", "où 日本", "le chat", ""])
    outputs = Sentences(vocab, "fr", texts=["the cat", "où 日本", "la chat", "le chat"])
    spelling = {language: vocab.spelling(language) for language in vocab.languages}
    context = FilterContext(50, spelling=spelling)
    assert found(context, before, outputs)["copy"] == [0, 1]
    same_ids = Sentences(vocab, "fr", ids=before.ids)
    assert 0 not in found(context, before, same_ids).get("copy", []), (
        "the same ids are other words in another vocabulary"
    )


# -- repetition ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> Vocab:
    folder = tmp_path_factory.mktemp("vocab")
    return Vocab.learn(folder, {"en": GERMAN, "fr": GERMAN}, VocabConfig(size=400), ["en", "fr"], 1, Form())


@pytest.fixture(scope="module")
def repetition(vocab: Vocab) -> RepetitionLimits:
    real = Ragged.of(vocab.encode(GERMAN, "fr"))
    return RepetitionLimits(lambda language: real if language == "fr" else None, 0.2)


def test_the_share_of_repeated_n_grams() -> None:
    rows = [list(range(20)), [7] * 20, [1, 2] * 10, [*range(10), *range(10)], [7] * 10, []]
    shares = repeated_share(Ragged.of(rows))
    assert shares == pytest.approx([0, 16 / 17, 15 / 17, 7 / 17, 0, 0]), "ten subwords are too few to tell"
    assert repeated_share(Ragged.of([])).tolist() == []


def test_repeated_n_grams_equal_a_direct_count() -> None:
    generator = np.random.default_rng(1)
    rows = [generator.integers(3, 7, size=length).tolist() for length in generator.integers(0, 60, size=200)]
    grams = [[tuple(row[place : place + 4]) for place in range(len(row) - 3)] for row in rows]
    expected = [1 - len(set(own)) / len(own) if len(own) >= 8 else 0.0 for own in grams]
    assert repeated_share(Ragged.of(rows)) == pytest.approx(expected)


def test_the_limit_is_that_of_real_text(vocab: Vocab, repetition: RepetitionLimits) -> None:
    assert 0.2 <= repetition.limit("fr") < 0.5
    assert repetition.limit("de") == 0.2, "without text only the margin"
    prone = RepetitionLimits(lambda language: Ragged.of([[1, 2] * 10] * 3 + [list(range(20))] * 97), 0.05)
    assert prone.limit("fr") == pytest.approx(15 / 17 + 0.05), "a language that repeats itself may"


def test_a_collapse_into_repetition_is_dropped_and_healthy_text_is_not(
    vocab: Vocab, repetition: RepetitionLimits
) -> None:
    outputs = Sentences(vocab, "fr", texts=[*GERMAN, COLLAPSED, "gegnerischen Mannschaft gegnerischen Mannschaft"])
    before = Sentences(vocab, "en", texts=[*GERMAN[1:], GERMAN[0], GERMAN[1] + GERMAN[2], GERMAN[0]])
    context = FilterContext(200, repetition=repetition, guards=Guards(filters=["repetition"]))
    assert found(context, before, outputs) == {"repetition": [6]}, "said twice is no collapse yet"
    default = FilterContext(200, repetition=repetition)
    assert "repetition" not in found(default, before, outputs), "not a reason by default"
    findings = SyntheticTextFilter(default)(before, outputs, np.ones(8, dtype=np.bool_), HOP)
    assert np.flatnonzero(findings.signs["repetition"]).tolist() == [6], "but a sign for the alarm"


def test_a_collapse_into_repetition_raises_an_alarm(vocab: Vocab, repetition: RepetitionLimits) -> None:
    """A generator that has collapsed in one of five sentences."""
    start = Sentences(vocab, "en", texts=GERMAN * 20)
    texts = [COLLAPSED if number % 5 == 0 else GERMAN[(number + 1) % len(GERMAN)] for number in range(len(start))]
    record = recorded(start, Sentences(vocab, "fr", texts=texts), FilterContext(400, repetition=repetition))
    assert (record.offered, record.repetitive) == (120, 24) and not any(record.dropped.values())
    monitor = AlarmMonitor([Route(0, LanguagePath.parse("en>fr>en"), MixEntry(path="en>fr>en"), 0)])
    monitor.add([(0, record)])
    monitor.window()
    (alarm,) = monitor.alarms()
    assert "20%" in alarm.what and "repeat" in alarm.what


def recorded(start: Sentences, outputs: Sentences, context: FilterContext) -> HopRecord:
    """The record of a path's hop."""
    rollout = Rollout(LanguagePath.parse("en>fr>en"), [Generate()], start)
    count = len(outputs)
    ended, ones = np.ones(count, dtype=np.bool_), np.ones(count, dtype=np.int64)
    rollout.append(Translations(outputs, np.zeros(count), ended, ones))
    recorder(SyntheticTextFilter(context))(rollout, HOP)
    return rollout.records[0]


# -- choosing ------------------------------------------------------------------------------------------------------

OWN = """
import numpy as np

def shouting(sources, outputs, ended, hop, context):
    return np.array([text.isupper() for text in outputs.texts])

def wrong(sources, outputs, ended, hop, context):
    return [True]

def scores(sources, outputs, ended, hop, context):
    return [0.5 for text in outputs.texts]
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with a module of filters, which is removed after the test."""
    (tmp_path / "own_filters.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    places = list(sys.path)
    yield tmp_path
    sys.path[:] = places
    sys.modules.pop("own_filters", None)


def chosen(*filters: str) -> FilterContext:
    return FilterContext(50, guards=Guards(filters=list(filters)))


def run(context: FilterContext, vocab: Vocab) -> Findings:
    before = Sentences(vocab, "en", texts=["one", "two", "three"])
    outputs = Sentences(vocab, "fr", texts=["UN", "two", "trois"])
    return SyntheticTextFilter(context)(before, outputs, np.ones(3, dtype=np.bool_), HOP)


def test_filters_may_be_external_functions_and_programs(own: Path, vocab: Vocab) -> None:
    program = "command:awk -F '\\t' '{ print ENVIRON[\"LOOPMT_TARGET\"] == \"fr\" && $1 == $2 }'"
    findings = run(chosen("own_filters:shouting", program, "empty"), vocab)
    assert list(findings.reasons) == ["own_filters:shouting", program, "empty"], "in their order"
    dropped = [np.flatnonzero(mask).tolist() for mask in findings.reasons.values()]
    assert dropped == [[0], [1], []]


def test_copies_are_counted_without_the_filter(vocab: Vocab) -> None:
    findings = run(chosen(), vocab)
    assert findings.reasons == {} and findings.signs["copy"].tolist() == [False, True, False]
    start, outputs = (Sentences(vocab, language, texts=["one", "two"]) for language in ("en", "fr"))
    record = recorded(start, outputs, chosen())
    assert (record.copies, record.dropped) == (2, {})


@pytest.mark.parametrize("name", ["own_filters:wrong", "own_filters:scores"])
def test_filters_that_return_invalid_values(own: Path, vocab: Vocab, name: str) -> None:
    with refused(ExternalError, f'"{name}"', "3 outputs", "True"):
        run(chosen(name), vocab)


def test_unknown_filters() -> None:
    with pytest.raises(ConfigError) as failed:
        SyntheticTextFilter(chosen("empty", "repetitive"))
    facts = ('filter "repetitive"', '"repetition"', "empty", "runaway", "copy", "length", "language", "module:function")
    assert all(fact in str(failed.value) for fact in facts)
