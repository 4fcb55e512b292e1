"""Filters of generated text: they drop outputs that are empty, copied, too long or in the wrong language.

Each filter is a function with a name; an experiment chooses among them, and may add its own. The language of a
generated sentence is classified by the unigram frequencies of its subwords in each language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq
from typing import Any

import numpy as np
import numpy.typing as npt

from loopmt.config import Guards
from loopmt.errors import ExternalError
from loopmt.external import Command
from loopmt.path import Hop
from loopmt.registry import Registry
from loopmt.text.ragged import Ints, Ragged
from loopmt.translate.protocol import Sentences

ORDER = 4  # subwords of an n-gram
_FEWEST = 8  # fewest n-grams of a sentence that is checked
_QUANTILE = 0.99  # of the repeated shares in real sentences; the limit is this quantile plus a margin
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], dtype=np.uint64)
_BITS = np.uint64(40)  # of a hash

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def repeated_share(rows: Ragged) -> Floats:
    """The share of each row's n-grams that occur earlier in the row; 0 for short rows."""
    total = np.maximum(rows.lengths - ORDER + 1, 0)
    keys = np.sort(_keys(rows, total))  # the first of equal keys is not a repetition
    new = np.flatnonzero(np.diff(keys, prepend=keys[:1] ^ np.uint64(1)))
    distinct = np.bincount((keys[new] >> _BITS).astype(np.int64), minlength=len(rows))
    return np.where(total >= _FEWEST, 1 - distinct / np.maximum(total, 1), 0.0)


def _keys(rows: Ragged, total: Ints) -> npt.NDArray[np.uint64]:
    """A key for each n-gram: row number and hash. Hashes collide within about one of 10^9 rows."""
    owners = np.repeat(np.arange(len(rows), dtype=np.uint64), total)
    starts = np.repeat(rows.offsets[:-1] - np.concatenate([[0], np.cumsum(total)[:-1]]), total) + np.arange(total.sum())
    ids = rows.flat.astype(np.uint64)
    mixed = np.zeros(len(starts), dtype=np.uint64)
    for place, factor in enumerate(_FACTORS):
        mixed += ids[starts + place] * factor
    return np.asarray((owners << _BITS) | (mixed >> (np.uint64(64) - _BITS)))


class RepetitionLimits:
    """The limit of repeated n-grams for each language, measured on real text at first use."""

    def __init__(self, real_text: Callable[[str], Ragged | None], margin: float) -> None:
        """`real_text` returns sentences of a language, or None if there are none."""
        self._real_text = real_text
        self._margin = margin
        self._limits: dict[str, float] = {}

    def limit(self, language: str) -> float:
        if language not in self._limits:
            real = self._real_text(language)
            usual = float(np.quantile(repeated_share(real), _QUANTILE)) if real is not None and len(real) else 0.0
            self._limits[language] = usual + self._margin
        return self._limits[language]

    def repetitive(self, rows: Ragged, language: str) -> Mask:
        """The rows with more repeated n-grams than the limit."""
        return np.asarray(repeated_share(rows) > self.limit(language))


FEWEST_KEPT = 0.25
"""If filters keep less than this share, no more text is generated to compensate, and `mix = "auto"` gives no share."""


@dataclass(frozen=True)
class LanguageFrequencies:
    """Log-frequencies of subwords in each language."""

    languages: Sequence[str]
    logprobs_KV: npt.NDArray[np.float64]

    @classmethod
    def learn(cls, samples: Mapping[str, Ragged], size: int) -> LanguageFrequencies:
        counts = np.stack([np.bincount(sample.flat, minlength=size).astype(float) for sample in samples.values()])
        counts += 0.5
        return cls(list(samples), np.log(counts / counts.sum(1, keepdims=True)))

    def other_language(self, rows: Ragged, language: str, margin: float = 0.5, fewest: int = 4) -> Mask:
        """Rows of at least `fewest` subwords that are more likely in another language, by `margin` nats per subword."""
        if language not in self.languages or len(self.languages) < 2 or not len(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        lengths = rows.lengths
        owner = np.repeat(np.arange(len(rows)), lengths)
        scores = np.stack([np.bincount(owner, own[rows.flat], minlength=len(rows)) for own in self.logprobs_KV])
        mine = scores[list(self.languages).index(language)]
        return np.asarray((scores.max(0) - mine > margin * lengths) & (lengths >= fewest))


@dataclass(frozen=True)
class FilterContext:
    """Information for filters beside the sentences.

    `spelling` maps ids to bytes for each language; it is needed if languages have separate vocabularies.
    """

    longest: int
    frequencies: LanguageFrequencies | None = None
    spelling: Mapping[str, Sequence[bytes]] | None = None
    repetition: RepetitionLimits | None = None
    guards: Guards = field(default_factory=Guards)


@dataclass(frozen=True)
class Filter:
    """A named function that marks outputs to drop, given sources, outputs, which of them ended, hop and context."""

    name: str
    function: Callable[[Sentences, Sentences, Mask, Hop, FilterContext], Mask]

    def mask(self, sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
        found: npt.NDArray[Any] = np.asarray(self.function(sources, outputs, ended, hop, context))
        if found.shape != (len(outputs),) or found.dtype.kind not in "bui":
            what = f"an array of shape {found.shape} and type {found.dtype}"
            raise ExternalError(
                f'filter "{self.name}" returned {what} for {len(outputs)} outputs. '
                f"Return an array of {len(outputs)} booleans, True for each output to drop."
            )
        mask: Mask = found.astype(np.bool_)
        return mask


def _from_command(command: Command) -> Callable[[Sentences, Sentences, Mask, Hop, FilterContext], Mask]:
    """A filter that runs a program on (source, output) rows; it drops those with a number other than 0."""

    def function(sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
        rows = list(zip(sources.texts, outputs.texts, strict=True))
        numbers = command.numbers(rows, context.guards.timeout, (hop.source, hop.target))
        return np.array(numbers, dtype=np.bool_)

    return function


FILTERS: Registry[Filter] = Registry("filter", Filter, _from_command)
text_filter = FILTERS.register


# -- filters ---------------------------------------------------------------------------------------------------


@text_filter("empty")
def _empty(sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
    return np.asarray(outputs.ids.lengths == 0)


@text_filter("runaway")
def _runaway(sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
    return np.asarray(~ended | (outputs.ids.lengths >= context.longest))


@text_filter("copy")
def _copy(sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
    if context.spelling is None:
        return _same_ids(sources.ids, outputs.ids)
    texts = (
        _spelled(sources.ids, context.spelling[hop.source]),
        _spelled(outputs.ids, context.spelling[hop.target]),
    )
    return np.fromiter(map(eq, *texts), dtype=np.bool_, count=len(outputs))


@text_filter("length")
def _length(sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
    was, now = sources.ids.lengths, outputs.ids.lengths
    ratio, slack = context.guards.ratio, context.guards.slack
    return np.asarray((now > ratio * was + slack) | (was > ratio * now + slack))


@text_filter("language")
def _language(sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
    """Outputs that are clearly in another language."""
    if context.frequencies is None:
        return np.zeros(len(outputs), dtype=np.bool_)
    guards = context.guards
    return context.frequencies.other_language(outputs.ids, hop.target, guards.margin, guards.fewest_subwords)


@text_filter("repetition")
def _repetition(sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
    """Outputs with more repetitions than real text of their language."""
    if context.repetition is None:
        return np.zeros(len(outputs), dtype=np.bool_)
    return context.repetition.repetitive(outputs.ids, hop.target)


def _spelled(rows: Ragged, spelling: Sequence[bytes]) -> Iterator[bytes]:
    return (b"".join(map(spelling.__getitem__, row.tolist())) for row in rows.rows())


def _same_ids(before: Ragged, generated: Ragged) -> Mask:
    same: Mask = before.lengths == generated.lengths
    rows = np.flatnonzero(same)
    one, other = before.take(rows), generated.take(rows)
    owner = np.repeat(np.arange(len(rows)), one.lengths)
    same[rows] = np.bincount(owner, one.flat != other.flat, minlength=len(rows)) == 0
    return same


# -- the chosen filters ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Findings:
    """Results of the filters for the outputs of a hop."""

    reasons: Mapping[str, Mask]
    """The outputs that each filter drops, in order; an output counts for the first filter that marks it."""
    signs: Mapping[str, Mask]
    """Outputs with signs of a collapse, counted for alarms even if the experiment does not filter them."""


NOTHING_FOUND = Findings({}, {})


class SyntheticTextFilter:
    """Applies the filters that an experiment has chosen."""

    SIGNS = ("copy", "repetition")

    def __init__(self, context: FilterContext) -> None:
        self.context = context
        self.filters = [FILTERS.find(name) for name in context.guards.filters]

    def __call__(self, sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop) -> Findings:
        reasons = {one.name: one.mask(sources, outputs, ended, hop, self.context) for one in self.filters}
        signs = {
            name: reasons[name]
            if name in reasons
            else FILTERS.find(name).mask(sources, outputs, ended, hop, self.context)
            for name in self.SIGNS
        }
        return Findings(reasons, signs)
