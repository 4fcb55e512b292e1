"""Vocabularies: fixed ids, exact round trips, balance, determinism, and the sentences for impossible sizes."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.facts import refused
from loopmt.config import VocabConfig
from loopmt.errors import DamagedError, DataError
from loopmt.files.documents import read_checked, with_checksum
from loopmt.text.clean import Form
from loopmt.text.vocab import Vocab

LANGUAGES = ["en", "fr"]
ANY_LINE = st.text(st.characters(exclude_characters="\n\U0010fffd", exclude_categories=["Cs"]))


def sentences(language: str, count: int = 400) -> list[str]:
    draw = random.Random(language)
    words = {"en": "the cat dog sees a small house , and runs home .", "fr": "le chat un chien voit la , où il court ."}
    return [" ".join(draw.choices(words[language].split(), k=8)) for _ in range(count)]


TEXTS = {language: sentences(language) for language in LANGUAGES}


def learn(folder: Path, form: Form = Form(), **settings: object) -> Vocab:  # noqa: B008
    return Vocab.learn(folder, TEXTS, VocabConfig.model_validate({"size": 400, **settings}), LANGUAGES, 1, form)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def vocab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Vocab:
    """Text is taken as it is: no normal form, so that every line must come back unchanged."""
    return learn(tmp_path_factory.mktemp("vocab"), Form(nfc=False, control=False), kind=request.param, size=300)


def test_ids_are_fixed(vocab: Vocab) -> None:
    assert (vocab.pad, vocab.eos, vocab.unk) == (0, 1, 2)
    assert [vocab.tag("en"), vocab.tag("fr"), vocab.synthetic] == [3, 4, 5]
    assert vocab.joint and vocab.size("en") == vocab.size("fr") == 300
    assert {path.name for path in vocab.models.values()} == {"joint.model"}


@given(text=ANY_LINE)
@example("  two  spaces  ")
@example("▁ U+2581 ▁▁")
@example("<2en> <synthetic> <pad> </s> <unk> <0x41>")
@example("a\x00b\tc\r\x0b\x85\u2028d")
@example("日本語 👩‍🚀 ﷽ \u202e z̸̢")
@example("the cat" * 100)
def test_any_line_comes_back(vocab: Vocab, text: str) -> None:
    ids = vocab.encode([text], "fr")
    assert vocab.decode(ids, "fr") == [text]
    assert all(one > vocab.synthetic for one in ids[0])


@given(texts=st.lists(st.one_of(st.sampled_from(TEXTS["en"]), st.text(" abc▁é", max_size=12))))
def test_words_one_by_one_are_the_line(vocab: Vocab, texts: list[str]) -> None:
    whole = vocab._processors["en"].encode([text.replace("▁", "\U0010fffd") for text in texts], num_threads=1)
    assert vocab.encode(texts, "en") == whole


def test_decode_drops_what_is_not_text_and_stops_at_the_end(vocab: Vocab) -> None:
    [ids] = vocab.encode(["the cat runs"], "en")
    row = np.array([0, 3, 5, *ids, 1, *ids, 0], dtype=np.uint16)
    assert vocab.decode([row, [], [1, *ids]], "en") == ["the cat runs", "", ""]


def test_a_translation_is_one_line_of_valid_text(vocab: Vocab) -> None:
    newline, lone = (vocab._processors["en"].piece_to_id(piece) for piece in ("<0x0A>", "<0xE2>"))
    assert vocab.decode([[newline], [lone]], "en") == [" ", "\ufffd"]


@given(ids=st.lists(st.lists(st.integers(0, 299))))
def test_any_ids_decode_to_lines(vocab: Vocab, ids: list[list[int]]) -> None:
    lines = vocab.decode(ids, "en")
    assert len(lines) == len(ids) and not any("\n" in line for line in lines)


def test_unpaired_surrogates_are_replaced(vocab: Vocab) -> None:
    assert vocab.decode(vocab.encode(["a\ud800b", "\ud83d\ude00"], "en"), "en") == ["a\ufffdb", "😀"]


def test_text_is_brought_to_its_form(tmp_path: Path) -> None:
    vocab = learn(tmp_path, Form(lowercase=True))
    assert vocab.encode(["  The\u00a0CAFE\u0301 "], "en") == vocab.encode(["the café"], "en")
    assert vocab.normalise(["  The\u00a0CAFE\u0301 "], "en") == ["the café"]


def test_moses_tokenisation_there_and_back(tmp_path: Path) -> None:
    vocab = learn(tmp_path, Form(lowercase=True, pretokenize=True))
    text = ['Hello, "world": it\'s (very) small.', "C'est l'été, n'est-ce pas ?", ""]
    assert vocab.normalise(text[:1], "en") == ['hello , " world " : it \'s ( very ) small .']
    assert vocab.decode(vocab.encode(text[:1], "en"), "en") == ['hello, "world": it\'s (very) small.']
    assert vocab.decode(vocab.encode(text[1:], "fr"), "fr") == ["c'est l'été, n'est-ce pas ?", ""]


def test_one_vocabulary_for_each_language(tmp_path: Path) -> None:
    vocab = learn(tmp_path, sharing="language", size=320)
    assert not vocab.joint and {path.name for path in vocab.models.values()} == {"en.model", "fr.model"}
    assert vocab.encode(["le chat"], "fr") != vocab.encode(["le chat"], "en")
    assert (vocab.tag("fr"), vocab.synthetic) == (4, 5)
    for language in LANGUAGES:
        assert vocab.decode(vocab.encode(["où 日本"], language), language) == ["où 日本"]


def test_without_bytes_an_unknown_character_is_lost(tmp_path: Path) -> None:
    vocab = learn(tmp_path, byte_fallback=False, size=64)
    assert vocab.unk in vocab.encode(["日"], "en")[0]
    assert vocab.size("en") == 64


def test_learning_depends_on_text_and_seed_alone(tmp_path: Path) -> None:
    for kind in ("bpe", "unigram"):
        hashes = [learn(tmp_path / f"{kind}{number}", kind=kind, sample=100).sha256 for number in range(2)]
        assert hashes[0] == hashes[1]


def test_languages_weigh_the_same(tmp_path: Path) -> None:
    """A language with a hundredth of the text gets the same share of the pieces as one with a hundredfold."""
    lengths = []
    for counts in ((4000, 40), (40, 4000)):
        texts = {language: sentences(language, count) for language, count in zip(LANGUAGES, counts, strict=True)}
        vocab = Vocab.learn(tmp_path / str(counts[0]), texts, VocabConfig(size=310), LANGUAGES, 1, Form())
        lengths.append([sum(map(len, vocab.encode(TEXTS[language], language))) for language in LANGUAGES])
    assert np.allclose(lengths[0], lengths[1], rtol=0.1)


class Counted:
    """Text that can be gone through again, and says how often it was."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.given = 0

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.given += 1
            yield line


def test_a_sample_is_drawn_from_the_whole_text(tmp_path: Path) -> None:
    texts = {"en": Counted(["aaaa"] * 500 + ["bbbb"] * 500), "fr": Counted(["cccc"] * 1000)}
    vocab = Vocab.learn(tmp_path, texts, VocabConfig(size=280, sample=100), LANGUAGES, 1, Form())
    assert [len(ids) for ids in vocab.encode(["aaaa", "bbbb", "cccc"], "en")] == [1, 1, 1]
    assert texts["en"].given <= 1000


def test_what_is_forgotten_is_said_again_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vocab = learn(tmp_path)
    lines = ["the cat sees the dog", "the  dog", "", "\u2581 x", "the cat sees the dog"]
    said = vocab.encode(lines, "en")
    monkeypatch.setattr("loopmt.text.vocab._REMEMBERED", 0)
    assert [vocab.encode([line], "en")[0] for line in lines] == said


def test_more_pieces_than_the_text_offers(tmp_path: Path) -> None:
    for kind in ("bpe", "unigram"):
        vocab = learn(tmp_path / kind, kind=kind, size=5000)
        assert 262 < vocab.size("en") < 400
        assert vocab.decode(vocab.encode(["the cat"], "en"), "en") == ["the cat"]


def test_fewer_pieces_than_characters(tmp_path: Path) -> None:
    with refused(DataError, "vocab.size = 264", "Set vocab.size"):
        learn(tmp_path, size=264)


def test_no_text_to_learn_from(tmp_path: Path) -> None:
    with refused(DataError, "fr", "no text"):
        Vocab.learn(tmp_path, {"en": ["a"], "fr": []}, VocabConfig(size=300), LANGUAGES, 1, Form())
    with refused(DataError, "300 pieces"):
        Vocab.learn(tmp_path, {"en": [""], "fr": [""]}, VocabConfig(size=300), LANGUAGES, 1, Form())


def test_megabyte_lines_and_reserved_characters_do_not_stop_learning(tmp_path: Path) -> None:
    odd = ["x" * 2**20, "a\tb\x00c", "▅▁", "日本" * 3000]
    texts = {"en": TEXTS["en"] + odd, "fr": odd}
    vocab = Vocab.learn(tmp_path, texts, VocabConfig(size=400), LANGUAGES, 1, Form(control=False))
    assert vocab.decode(vocab.encode(odd, "en"), "en") == odd


def test_loads_again_and_travels_to_processes(tmp_path: Path) -> None:
    vocab = learn(tmp_path)
    for other in (Vocab.load(tmp_path), pickle.loads(pickle.dumps(vocab))):
        assert other.encode(TEXTS["fr"], "fr") == vocab.encode(TEXTS["fr"], "fr")
        assert (other.languages, other.form, other.sha256) == (vocab.languages, vocab.form, vocab.sha256)


def test_damage_is_noticed(tmp_path: Path) -> None:
    learn(tmp_path)
    described = read_checked(tmp_path / "vocab.json", "")
    (tmp_path / "vocab.json").write_text(json.dumps(with_checksum({**described, "version": 99})))
    with pytest.raises(DamagedError, match="has format 99"):
        Vocab.load(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps(described))
    with (tmp_path / "joint.model").open("ab") as file:
        file.write(b"x")
    with refused(DamagedError, "joint.model"):
        Vocab.load(tmp_path)
    for content in ("", "{}", "[]", "\x00"):
        (tmp_path / "vocab.json").write_text(content)
        with pytest.raises(DamagedError, match="vocab"):
            Vocab.load(tmp_path)
