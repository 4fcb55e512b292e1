"""Subwords: sentencepiece vocabularies with fixed ids for padding, end of sentence, unknown and tags.

Ids 0, 1, 2 are padding, end and unknown in every vocabulary; then comes one tag `<2en>` for each language and one
that marks generated text; then bytes, then pieces. Text cannot spell a tag. There is no begin: a decoder starts
from padding.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, repeat, takewhile
from pathlib import Path
from typing import Any, Protocol, SupportsInt

import numpy as np
import sentencepiece

from loopmt.config import VocabConfig
from loopmt.errors import DamagedError, DataError
from loopmt.files.documents import read_checked, with_checksum
from loopmt.files.regular import has_folder, member, read_bytes
from loopmt.rng import permute
from loopmt.text import moses
from loopmt.text.clean import Form
from loopmt.text.ragged import EOS, PAD, UNK

_VERSION = 1
_NEVER = -1e6
_AGAIN = "Run `loopmt prepare` again: it is made anew from the text."
_FIRST_TAG = 3
SPACE = "\u2581"
UNKNOWN_WORD = "\u2047"  # how `decode` writes the unknown word, between spaces
STAND_IN = "\U0010fffd"  # sentencepiece spells a space as U+2581, so a real U+2581 travels as this private character
_LONGEST = 4096
_REMEMBERED = 2**21  # characters of words, some 60 MB
_THREADS = 8  # the result may depend on the number, so it is not the machine's


class TokenizerInput(Protocol):
    """Lines of text whose number is known."""

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


class Vocab:
    """One vocabulary for all languages (`joint`) or one for each; text in, ids out, and back.

    `decode(encode(text))` is `text` for any line in the experiment's normal form, leading and trailing spaces included
    (but for the private character U+10FFFD, which is reserved); with `pretokenize` as far as Moses can go back.
    """

    pad, eos, unk = PAD, EOS, UNK

    def __init__(self, folder: Path, described: dict[str, Any]) -> None:
        self.folder = folder
        self.languages: list[str] = described["languages"]
        self.joint: bool = described["joint"]
        self.form = Form(**described["form"])
        self.sha256: dict[str, str] = {name: model["sha256"] for name, model in described["models"].items()}
        files = {name: member(folder, model["file"]) for name, model in described["models"].items()}
        self.models = {language: files["joint" if self.joint else language] for language in self.languages}
        loaded = {file: _load(file, self.sha256[name]) for name, file in files.items()}
        self._processors = {language: loaded[path] for language, path in self.models.items()}
        words = {path: _WordIds(processor) for path, processor in loaded.items()}
        self._words = {language: words[path] for language, path in self.models.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocab.load, (self.folder,)

    @classmethod
    def learn(
        cls,
        folder: Path,
        texts: Mapping[str, TokenizerInput],
        config: VocabConfig,
        languages: Sequence[str],
        seed: int,
        form: Form,
    ) -> Vocab:
        """Learn from normalised training text by language; iterates over it more than once."""
        counts = {language: len(texts[language]) for language in languages}
        for language, count in counts.items():
            if not count:
                raise DataError(f"language {language} has no text to learn a vocabulary from.")
        groups = {"joint": list(languages)} if config.sharing == "joint" else {one: [one] for one in languages}
        models = {}
        folder.mkdir(parents=True, exist_ok=True)
        for name, group in groups.items():
            lines = _sample(texts, counts, group, config.sample, seed)
            content = _train(lines, config, languages, name)
            (folder / f"{name}.model").write_bytes(content)
            size = sentencepiece.SentencePieceProcessor(model_proto=content).get_piece_size()
            models[name] = {"file": f"{name}.model", "size": size, "sha256": hashlib.sha256(content).hexdigest()}
        described = {
            "version": _VERSION,
            "languages": list(languages),
            "joint": config.sharing == "joint",
            "form": asdict(form),
            "models": models,
        }
        (folder / "vocab.json").write_text(json.dumps(with_checksum(described), indent=1) + "\n", encoding="utf-8")
        return cls(folder, described)

    @classmethod
    def load(cls, folder: Path) -> Vocab:
        has_folder(folder)
        try:
            described = read_checked(folder / "vocab.json", _AGAIN)
            if described["version"] != _VERSION:
                raise DamagedError(f"{folder} has format {described['version']}; this loopmt reads {_VERSION}.")
            return cls(folder, described)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise DamagedError(f"{folder} is not a vocabulary: {error}. {_AGAIN}") from None

    def size(self, language: str) -> int:
        return int(self._processors[language].get_piece_size())

    def pieces(self, language: str) -> dict[str, tuple[int, float]]:
        """Every text piece (without bytes) with its id and its score."""
        processor = self._processors[language]
        ids = [one for one in range(self.synthetic + 1, self.size(language)) if not processor.is_byte(one)]
        return {processor.id_to_piece(one): (one, float(processor.get_score(one))) for one in ids}

    def spelling(self, language: str) -> list[bytes]:
        """The text that each id adds to a line. With it, text of two vocabularies can be compared without decoding."""
        processor = self._processors[language]
        pieces = ((one, processor.id_to_piece(one)) for one in range(self.size(language)))
        return [bytes([int(piece[1:-1], 16)]) if processor.is_byte(one) else piece.encode() for one, piece in pieces]

    def tag(self, language: str) -> int:
        return _FIRST_TAG + self.languages.index(language)

    @property
    def synthetic(self) -> int:
        return _FIRST_TAG + len(self.languages)

    def normalise(self, texts: Iterable[str], language: str) -> list[str]:
        """Text as subwords see it: in the normal form, case and tokenisation of the experiment."""
        whole = (replace_surrogates(text) for text in texts)
        return [self.form.tokenise(self.form.normalise(text), language) for text in whole]

    def encode(self, texts: Sequence[str], language: str) -> list[list[int]]:
        """Ids of lines of text, without an end."""
        rows = self.encode_normal(self.normalise(texts, language), language)
        return [np.frombuffer(row, dtype="<u2").tolist() for row in rows]

    def encode_normal(self, texts: Iterable[str], language: str) -> list[bytes]:
        """The same for normalised text, each line as the store keeps it: two bytes an id."""
        lines = [text.replace(SPACE, STAND_IN).split(" ") if text else [] for text in texts]
        ids = self._words[language].all_of(lines)
        return [b"".join(map(ids.__getitem__, line)) for line in lines]

    def decode(self, ids: Iterable[Iterable[SupportsInt]], language: str) -> list[str]:
        """Lines of text: each stops at its first end; ids that are not text are dropped."""
        kept = [[one for one in takewhile(EOS.__ne__, map(int, row)) if self._is_text(one)] for row in ids]
        lines: list[str] = self._processors[language].decode(kept, num_threads=1)
        return [self._readable(line, language) for line in lines]

    def _is_text(self, one: int) -> bool:
        return one == UNK or one > self.synthetic

    def _readable(self, line: str, language: str) -> str:
        """A network may spell a line break in bytes, but a translation must be one line."""
        line = line.replace(STAND_IN, SPACE).replace("\n", " ")
        return moses.detokenize(line, language) if self.form.pretokenize else line


def _load(file: Path, sha256: str) -> Any:
    content = read_bytes(file)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedError(f"{file} is not the file that was written. {_AGAIN}")
    return sentencepiece.SentencePieceProcessor(model_proto=content)


class _WordIds:
    """A cache of ids by word. No piece crosses a space, so a line is a sequence of words, most of them cached."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self._forget()

    def all_of(self, lines: Iterable[Iterable[str]]) -> Mapping[str, bytes]:
        """The ids of at least these words; new ones are encoded in one call."""
        if self._characters > _REMEMBERED:
            self._forget()
        new = list(set().union(*lines) - self._ids.keys())
        self._ids.update(zip(new, map(_packed, self._processor.encode(new, num_threads=1)), strict=True))
        self._characters += sum(map(len, new))
        return self._ids

    def _forget(self) -> None:
        """Sentencepiece puts a space before a line; nothing between two spaces is that space alone."""
        ids: list[int] = self._processor.encode(" ")
        self._ids = {"": _packed(ids[: len(ids) // 2])}
        self._characters = 0


def _packed(ids: list[int]) -> bytes:
    return struct.pack(f"<{len(ids)}H", *ids)


def replace_surrogates(text: str) -> str:
    """Surrogates, which JSON can spell and UTF-8 cannot: pairs are joined, single ones replaced."""
    return text if text.isprintable() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# -- learning ------------------------------------------------------------------------------------------------


def _sample(
    texts: Mapping[str, TokenizerInput],
    counts: Mapping[str, int],
    group: Sequence[str],
    most: int,
    seed: int,
) -> Iterator[str]:
    """Equally many lines of each language: a sample of long text, repetitions of short text."""
    wanted = min(most, max(counts[language] for language in group))
    for language in group:
        copies, rest = divmod(wanted, counts[language])
        again = chain.from_iterable(repeat(texts[language], copies))
        for line in chain(again, _draw(texts[language], counts[language], rest, seed, language)):
            yield line[:_LONGEST].replace(SPACE, STAND_IN)


def _draw(lines: Iterable[str], count: int, wanted: int, seed: int, language: str) -> Iterator[str]:
    chosen = np.sort(permute(np.arange(wanted), count, seed, "vocabulary", language))
    places = iter(chosen.tolist())
    place = next(places, None)
    for number, line in enumerate(lines):
        if place is None:
            return
        if number == place:
            yield line
            place = next(places, None)


def _train(lines: Iterator[str], config: VocabConfig, languages: Sequence[str], name: str) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=model,
            model_type=config.kind,
            vocab_size=config.size,
            hard_vocab_limit=False,
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            control_symbols=[*(f"<2{language}>" for language in languages), "<synthetic>"],
            byte_fallback=config.byte_fallback,
            character_coverage=0.9995 if config.byte_fallback else 1.0,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=4 * _LONGEST,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise DataError(_explained(str(error), config.size, name)) from None
    return model.getvalue()


def _explained(message: str, size: int, name: str) -> str:
    if needed := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"vocab.size = {size} is too small for the {name} vocabulary: tags, bytes and the text's characters "
            f"alone are {needed[1]}. Set vocab.size to more than {needed[1]}, or vocab.byte_fallback = false."
        )
    return f"no {name} vocabulary of {size} pieces can be learnt from this text: {message}"


@dataclass(frozen=True)
class Subwords:
    """The pieces of a sentencepiece model, in the order of their ids."""

    file: Path

    @cached_property
    def _processor(self) -> Any:
        return sentencepiece.SentencePieceProcessor(model_proto=read_bytes(self.file))

    @cached_property
    def pieces(self) -> list[str]:
        return [self._processor.id_to_piece(one) for one in range(self._processor.get_piece_size())]

    @cached_property
    def ids(self) -> dict[str, int]:
        return {piece: one for one, piece in enumerate(self.pieces)}

    def score(self, one: int) -> float:
        """The score of special tokens, so low that no text is segmented into them."""
        return float(self._processor.get_score(one)) if self._is_text(one) else _NEVER

    @property
    def spells_bytes(self) -> bool:
        return "<0x00>" in self.ids

    def merges(self) -> Iterator[tuple[str, str]]:
        """Every way to build a piece from two others, the best piece first."""
        text = {piece for one, piece in enumerate(self.pieces) if self._is_text(one)}
        for piece in sorted(text, key=lambda piece: (-self.score(self.ids[piece]), self.ids[piece])):
            halves = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
            yield from ((left, right) for left, right in halves if left in text and right in text)

    def _is_text(self, one: int) -> bool:
        processor = self._processor
        return not (processor.is_control(one) or processor.is_byte(one) or processor.is_unknown(one))
