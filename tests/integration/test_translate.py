from __future__ import annotations

import gzip
import io
import lzma
import shutil
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.facts import refused
from loopmt import Generate, LoopmtError, Translator, config, load
from loopmt.errors import ConfigError, DataError, PathError, RunError
from loopmt.evaluation.metrics import sacre_bleu
from loopmt.path import Hop
from loopmt.run import Run
from loopmt.text.files import read_files, read_stream
from loopmt.text.ragged import EOS, PAD, Ints
from loopmt.text.vocab import Vocab
from loopmt.translate.long_text import LongTextModel, join_pieces, split_in_two
from loopmt.translate.networks import NetworkStack, stack_of
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key, Sentences, Translations
from loopmt.workflow.models import result_of
from loopmt.workflow.translate import checked_path, growing_chunks, text_translator

SENTENCE = "The small child hears the kind cat often."


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    return load(tiny_run)


def test_translations_are_good_where_the_language_is_easy(translator: Translator, tiny_run: Path) -> None:
    folder = tiny_run / "store"
    sources, references = ((folder / f"set1.{one}.txt").read_text().splitlines() for one in ("en", "fr"))
    assert sacre_bleu(translator.translate(sources, "en>fr"), references).score > 30


def test_languages_and_directions(translator: Translator) -> None:
    assert translator.languages == ["en", "fr", "es"]
    assert translator.directions == ["en>fr", "en>es", "fr>en", "fr>es", "es>en", "es>fr"]


ODD = [
    "",
    "   ",
    "\t\x00\x01\x07",
    "中文 и русский, עברית ‏\u202eabc\u202c",
    "👩‍👩‍👧 \U0010ffff \ud800",
    "e\u0301 \u2028 \u2029 \x85 \x0b",
    "▁ ▁▁ <2en> <synthetic> <0x0A>",
    "a" * 500,
    "中" * 300,
]


@pytest.mark.parametrize("how", [None, Generate(how="sample", temperature=3.0, top_k=0), Generate(how="greedy")])
def test_one_clean_line_for_each_line_whatever_it_is(translator: Translator, how: Generate | None) -> None:
    found = translator.translate([SENTENCE, *ODD, SENTENCE], "en>fr", how=how, beam=2)
    assert len(found) == len(ODD) + 2
    assert not _breaking("".join(found))
    assert found[1] == found[2] == found[3] == ""
    assert found[0] and all(found[4:])


def _breaking(line: str) -> list[str]:
    return [one for one in line if unicodedata.category(one) in ("Cc", "Zl", "Zp")]


@given(text=st.text(max_size=60))
@settings(max_examples=25, deadline=None)
def test_any_text_becomes_one_line(translator: Translator, text: str) -> None:
    (line,) = translator.translate([text], "fr>es", beam=1)
    assert len(line.splitlines()) <= 1
    assert not _breaking(line)


def test_order_and_company_do_not_matter(translator: Translator) -> None:
    texts = [SENTENCE, "", "The old king sees the red fish never.", "The cat."]
    together = translator.translate(texts, "en>fr")
    assert together == [translator.translate([text], "en>fr")[0] for text in texts]
    assert together[::-1] == translator.translate(texts[::-1], "en>fr")
    assert translator.translate([], "en>fr") == []


def test_texts_and_pairs_may_come_one_by_one(translator: Translator, tmp_path: Path) -> None:
    texts = [SENTENCE, "The cat."]
    said = translator.translate(texts, "en>fr")
    (tmp_path / "text").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    with (tmp_path / "text").open(encoding="utf-8") as lines:
        assert translator.translate(lines, "en>fr") == said
    assert [best.text for best, *_ in translator.nbest(iter(texts), "en>fr", 1)] == said
    pairs = list(zip(texts, said, strict=True))
    assert len(pairs) == 2
    assert translator.score(zip(texts, said, strict=True), "en>fr") == translator.score(pairs, "en>fr")


def test_several_hops_are_one_after_another(translator: Translator) -> None:
    there = translator.translate([SENTENCE], "en>fr")
    assert translator.translate([SENTENCE], "en>fr>es") == translator.translate(there, "fr>es")


def test_a_trace_tells_every_hop(translator: Translator) -> None:
    texts = [SENTENCE, "", "The cat."]
    french = translator.translate(texts, "en>fr")
    home = translator.translate(french, "fr>en")
    expected = [list(round_trip) for round_trip in zip(texts, french, home, strict=True)]
    assert translator.trace(iter(texts), "en>fr>en") == expected
    assert translator.trace([], "en>fr>en") == []
    with refused(PathError, "'de'"):
        translator.trace([], "en>fr>de")


def test_a_trace_of_samples_ends_with_what_is_translated(translator: Translator) -> None:
    how, texts = Generate(how="sample", temperature=1.5, top_k=0), [SENTENCE] * 4
    traced = translator.trace(texts, "en>fr>es", how=how, seed=3)
    assert [round_trip[-1] for round_trip in traced] == translator.translate(texts, "en>fr>es", how=how, seed=3)


def test_a_long_line_is_translated_sentence_by_sentence(translator: Translator) -> None:
    (one,) = translator.translate([SENTENCE], "en>fr")
    assert translator.translate([" ".join([SENTENCE] * 40)], "en>fr") == [" ".join([one] * 40)]


def test_nbest(translator: Translator) -> None:
    texts = [SENTENCE, "", " ".join([SENTENCE] * 5)]
    found = translator.nbest(texts, "en>fr", 3)
    assert [len(candidates) for candidates in found] == [3, 1, 3]
    assert [candidates[0].text for candidates in found] == translator.translate(texts, "en>fr")
    assert all(candidate.score < 0 for candidate in found[0])
    assert found[1][0].text == "" and found[1][0].score == 0
    assert found[2][0].score == pytest.approx(5 * found[0][0].score, rel=1e-3)
    with refused(ConfigError, "5 best", "beam of 5"):
        translator.nbest(texts, "en>fr", 5)


class Spelling:
    """A model whose beam finds the same texts in several spellings: `n` hypotheses, the best first."""

    hops = (Hop("en", "fr"),)
    device = torch.device("cpu")
    texts = ("le chat", "un chat", "le chat", "un chat", "chat")

    def generate(
        self, inputs: Sequence[HopInput], how: config.Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        (one,) = inputs
        said = Sentences(None, "fr", texts=self.texts[:n] * len(one.sources))
        scores = np.tile(-np.arange(1.0, n + 1), len(one.sources))
        ones = np.ones(len(scores), dtype=np.bool_)
        return [Translations(said, scores, ones, np.full(len(one.sources), n, dtype=np.int64))]

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        return np.zeros(len(sources)), np.ones(len(sources), dtype=np.int64)


def test_nbest_lists_hold_each_text_once(tiny_run: Path) -> None:
    """A beam finds several spellings of a text in subwords, which are one translation to whoever reads it."""
    model = LongTextModel(Spelling(), Vocab.load(tiny_run / "vocab"), 40)
    translator = Translator(model, ["en", "fr"], DecodeLimits())

    def listed(n: int, how: str) -> list[tuple[str, float]]:
        settings = Generate.model_validate({"how": how, "beam": 5})
        return [(one.text, one.score) for one in translator.nbest(["A cat."], "en>fr", n, how=settings)[0]]

    once = [("le chat", -1.0), ("un chat", -2.0), ("chat", -5.0)]
    assert listed(5, "beam") == listed(4, "beam") == listed(3, "beam") == once, "a double makes room for the next"
    assert listed(2, "beam") == once[:2] and listed(1, "beam") == once[:1]
    assert [text for text, _ in listed(4, "sample")] == ["le chat", "un chat", "le chat", "un chat"], "each is a draw"


@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
def test_a_candidate_has_the_score_of_its_text(translator: Translator, tiny_run: Path, how: Any) -> None:
    texts = (tiny_run / "store" / "set1.en.txt").read_text(encoding="utf-8").splitlines()
    best = [candidates[0] for candidates in translator.nbest(texts, "en>fr", 1, how=Generate(how=how))]
    scores = translator.score([(text, one.text) for text, one in zip(texts, best, strict=True)], "en>fr")
    alike = [one.score == pytest.approx(score, abs=1e-3) for one, score in zip(best, scores, strict=True)]
    assert sum(alike) > 0.9 * len(best), "but where the search has found another spelling"


def test_sampling_depends_on_the_seed_alone(translator: Translator) -> None:
    how = Generate(how="sample", temperature=1.5, top_k=0)
    texts = [SENTENCE] * 4
    first = translator.nbest(texts, "en>fr", 3, how=how, seed=1)
    assert first == translator.nbest(texts, "en>fr", 3, how=how, seed=1)
    assert first != translator.nbest(texts, "en>fr", 3, how=how, seed=2)
    assert [len(draws) for draws in first] == [3] * 4
    assert len({draw.text for draws in first for draw in draws}) > 3


def test_length_penalty_prefers_long_translations(translator: Translator) -> None:
    words = SENTENCE.split()
    texts = [" ".join(words[:count]) for count in range(1, 8)]
    short, long = (
        translator.translate(texts, "en>fr", how=Generate(how="beam", length_penalty=penalty)) for penalty in (0.0, 4.0)
    )
    assert sum(map(len, short)) < sum(map(len, long))


def test_a_score_is_the_log_probability_of_the_target(translator: Translator, tiny_run: Path) -> None:
    folder = tiny_run / "store"
    sources, targets = ((folder / f"set1.{one}.txt").read_text().splitlines()[:9] for one in ("en", "fr"))
    pairs = list(zip(sources, targets, strict=True))
    scores = translator.score([*pairs, ("", "")], "en>fr")
    assert scores[:-1] == pytest.approx([by_hand(tiny_run, *pair) for pair in pairs], rel=1e-4)
    assert translator.score(pairs[:1], "en>fr") == pytest.approx(scores[:1], rel=1e-4)
    other = translator.score(list(zip(sources, targets[1:] + targets[:1], strict=True)), "en>fr")
    assert all(right > wrong for right, wrong in zip(scores, other, strict=False))
    assert translator.score([], "en>fr") == []


def by_hand(run: Path, source: str, target: str) -> float:
    """The chain rule, one token after another."""
    opened = Run.open(run)
    experiment = opened.experiment()
    translators = stack_of(result_of(opened, experiment, experiment.stage("dual"), torch.device("cpu")))
    row, network = translators.network(Hop("en", "fr")), translators.transformer
    weights = translators.layout.unpack(translators.live[row : row + 1])
    (read,), (said,) = translators.vocab.encode([source], "en"), translators.vocab.encode([target], "fr")
    ids = torch.tensor([[[*read, EOS]]])
    memory = network.memory(weights, network.encode(weights, ids), ids)
    total = 0.0
    for place, token in enumerate([*said, EOS]):
        states = network.decode(weights, memory, torch.tensor([[[PAD, *said[:place]]]]))
        logits = weights.project(states, "embed", "output_bias") + translators.logit_mask("fr")
        total += float(logits[0, 0, -1].log_softmax(-1)[token])
    return total


def test_translators_lie_where_they_are_wanted(tiny_run: Path) -> None:
    assert load(tiny_run, device="cpu").translate([SENTENCE], "en>fr", beam=1)
    with refused(ConfigError, "cuda:99", "cpu"):
        load(tiny_run, device="cuda:99")


# -- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("en>de", "path en>de: the run has no language 'de'. It has en, fr, es"),
        ("en", "has no hop"),
        ("X>fr", "is a pattern, not a path"),
        ("en>en", "hop en>en"),
        (None, r"path = None is of type NoneType, not a string\. The run has en>fr, en>es, "),
    ],
)
def test_invalid_paths_are_refused(translator: Translator, path: Any, message: str) -> None:
    with pytest.raises(PathError, match=message):
        translator.translate(["x"], path)


def test_a_missing_direction_is_answered_with_a_detour(tiny_run: Path) -> None:
    run = Run.open(tiny_run)
    experiment = run.experiment()
    whole = result_of(run, experiment, experiment.stage("vanilla"), torch.device("cpu"))
    hops = (Hop("en", "fr"), Hop("fr", "es"))
    star = text_translator(NetworkStack(experiment.model, whole.vocab, hops, whole.device), 40)
    with refused(PathError, "en>es", "Go through fr", "en>fr>es", "en>fr, fr>es"):
        checked_path(star, "en>es")
    with refused(PathError, "es>en", "en>fr, fr>es"):
        checked_path(star, "es>en")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (SENTENCE, r"texts is one string, .* letter by letter\. Put it into a list: \[text\]\."),
        ([SENTENCE, None], r"texts\[1\] is of type NoneType, not a string: None\."),
        ([b"The cat."], r"texts\[0\] is of type bytes, not a string: b'The cat\.'\."),
        (None, r"texts is of type NoneType: None\. Give a list, a file or a generator\."),
    ],
)
def test_what_is_no_list_of_texts(translator: Translator, texts: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        translator.translate(texts, "en>fr")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("greedy", r"how = 'greedy' is no Generate\. Write, for example, how=loopmt\.Generate"),
        (Generate(by="ema"), 'how.by = "ema": a finished stage has one set of weights'),
    ],
)
def test_ways_to_translate_that_are_none(translator: Translator, how: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate([SENTENCE], "en>fr", how=how)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"n": 0}, r"n = 0: write a whole number, 1 or more\."),
        ({"n": -1}, "n = -1: write a whole number"),
        ({"n": 1.5}, r"n = 1\.5: write a whole number"),
        ({"n": True}, "n = True: write a whole number"),
        ({"beam": 0}, "beam = 0: write a whole number"),
        ({"beam": -2}, "beam = -2: write a whole number"),
        ({"beam": "4"}, "beam = '4': write a whole number"),
    ],
)
def test_counts_that_are_none(translator: Translator, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.nbest([SENTENCE], "en>fr", **asked)


def test_counts_may_be_of_numpy(translator: Translator) -> None:
    one, two = np.array([1, 2])
    assert translator.nbest([SENTENCE], "en>fr", one, two) == translator.nbest([SENTENCE], "en>fr", 1, 2)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (SENTENCE, r"pairs\[0\] is no pair: 'T'\. Write \(source, target\) for each\."),
        ([("a", "b"), ("c",)], r"pairs\[1\] is no pair: \('c',\)"),
        ([{"a": "b"}], r"pairs\[0\] is no pair: \{'a': 'b'\}"),
        ([frozenset(("a", "b"))], r"pairs\[0\] is no pair: frozenset"),
        (7, r"pairs is of type int: 7\. Give a list"),
        ([7], r"pairs\[0\] is no pair: 7\."),
        ([("a", 1)], r"pairs\[0\]\[1\] is of type int"),
    ],
)
def test_what_is_no_pair_has_no_score(translator: Translator, pairs: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        translator.score(pairs, "en>fr")
    with refused(PathError, "en>fr>es", "one direction", "en>fr"):
        translator.score([], "en>fr>es")


def test_what_is_not_there_cannot_be_loaded(tiny_run: Path, tmp_path: Path) -> None:
    with refused(RunError, "run folder", "experiment.json"):
        load(tmp_path)
    with refused(ConfigError, "'duel'", "vanilla, vanilla-longer, dual"):
        load(tiny_run, "duel")
    shutil.copy(tiny_run / "experiment.json", tmp_path)
    shutil.copytree(tiny_run / "vocab", tmp_path / "vocab")
    with pytest.raises(RunError, match="has no finished stage"):
        load(tmp_path)
    shutil.copytree(tiny_run / "stages" / "vanilla", tmp_path / "stages" / "vanilla")
    with refused(RunError, '"dual"', "not finished", "vanilla"):
        load(tmp_path, "dual")
    assert load(tmp_path).translate([SENTENCE], "en>fr") == load(tiny_run, "vanilla").translate([SENTENCE], "en>fr")


# -- text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One two. Three four.", ["One two.", "Three four."]),
        ("One, two three four five", ["One,", "two three four five"]),
        ("one two three", ["one two", "three"]),
        ("一二。三四。", ["一二。", "三四。"]),
        ("abcd", ["ab", "cd"]),
        ("3.14 is near pi.", ["3.14 is", "near pi."]),
    ],
)
def test_halves(text: str, parts: list[str]) -> None:
    assert split_in_two(text) == parts


@given(st.text(min_size=2))
def test_halves_lose_nothing_but_spaces(text: str) -> None:
    parts = split_in_two(text)
    assert len(parts) == 2 and all(0 < len(part) < len(text) for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_wide_scripts_are_joined_without_spaces() -> None:
    assert join_pieces(["One.", "", "Two."]) == "One. Two."
    assert join_pieces(["一二。", "三四。"]) == "一二。三四。"


def test_lines_of_a_stream() -> None:
    stream = io.BytesIO(b"\xef\xbb\xbfone\r\n\n\x00two\xe2\x80\xa8\x0c\nthree")
    assert list(read_stream(stream)) == ["one", "", "\x00two\u2028\x0c", "three"]
    assert list(read_stream(io.BytesIO(b""))) == []
    unread = io.BytesIO(b"one\n")
    read_stream(unread)  # a person is told how to type before the first line is waited for
    assert unread.tell() == 0
    with refused(DataError, "standard input, line 2", "UTF-8", "0xff"):
        list(read_stream(io.BytesIO(b"one\n\xff\n")))


def test_lines_of_files(tmp_path: Path) -> None:
    text = "één\r\ntwo".encode()
    compressed: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".zst": zstandard.ZstdCompressor().compress,
    }
    for ending, compress in compressed.items():
        (tmp_path / f"text{ending}").write_bytes(compress(text))
    files = [tmp_path / f"text{ending}" for ending in compressed]
    assert list(read_files(files)) == ["één", "two"] * 4
    (tmp_path / "bad").write_bytes(b"ok\n\xc3\n")
    with refused(DataError, "bad, line 2", "UTF-8", "0xc3"):
        list(read_files([tmp_path / "bad"]))
    with refused(LoopmtError, "No such file"):
        list(read_files([tmp_path / "missing"]))


def test_chunks_grow_up_to_a_bound() -> None:
    assert [len(chunk) for chunk in growing_chunks(map(str, range(20)), 2, 6)] == [2, 4, 6, 6, 2]
