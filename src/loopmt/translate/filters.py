"""What a generator must not feed to a learner: outputs that are empty, copied, endless or of another language.

Each reason to drop an output is a function with a name; an experiment chooses among them, and may have others. The
language of a generated sentence is judged by a classifier that costs nothing: how likely its subwords are under
each language's own frequencies.
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
from loopmt.text.ragged import Ragged
from loopmt.translate.repetition import RepetitionLimits
from loopmt.translate.sentences import Sentences

Mask = npt.NDArray[np.bool_]

FEWEST_KEPT = 0.25
"""Of a generator that keeps less, no more is generated to make up for it, and `mix = "auto"` gives it no share."""


@dataclass(frozen=True)
class LanguageFrequencies:
    """Log-frequencies of subwords by language."""

    languages: Sequence[str]
    logprobs_KV: npt.NDArray[np.float64]

    @classmethod
    def learn(cls, samples: Mapping[str, Ragged], size: int) -> LanguageFrequencies:
        counts = np.stack([np.bincount(sample.flat, minlength=size).astype(float) for sample in samples.values()])
        counts += 0.5
        return cls(list(samples), np.log(counts / counts.sum(1, keepdims=True)))

    def foreign(self, rows: Ragged, language: str, margin: float = 0.5, fewest: int = 4) -> Mask:
        """Rows of `fewest` subwords or more that another language makes likelier, by `margin` nats a subword."""
        if language not in self.languages or len(self.languages) < 2 or not len(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        lengths = rows.lengths
        owner = np.repeat(np.arange(len(rows)), lengths)
        scores = np.stack([np.bincount(owner, own[rows.flat], minlength=len(rows)) for own in self.logprobs_KV])
        mine = scores[list(self.languages).index(language)]
        return np.asarray((scores.max(0) - mine > margin * lengths) & (lengths >= fewest))


@dataclass(frozen=True)
class FilterContext:
    """What filters know beyond the sentences themselves.

    `spelling` is what the ids of each language spell, needed where two languages' ids are not of one vocabulary.
    """

    longest: int
    frequencies: LanguageFrequencies | None = None
    spelling: Mapping[str, Sequence[bytes]] | None = None
    repetition: RepetitionLimits | None = None
    guards: Guards = field(default_factory=Guards)


@dataclass(frozen=True)
class Filter:
    """Marks the outputs to drop: sources, outputs, which of them ended, the hop, and the context."""

    name: str
    function: Callable[[Sentences, Sentences, Mask, Hop, FilterContext], Mask]

    def mask(self, sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
        found: npt.NDArray[Any] = np.asarray(self.function(sources, outputs, ended, hop, context))
        if found.shape != (len(outputs),) or found.dtype.kind not in "bui":
            what = f"an array of shape {found.shape} and type {found.dtype}"
            raise ExternalError(
                f'filter "{self.name}" returned {what} for {len(outputs)} outputs. Return True for each one to drop.'
            )
        mask: Mask = found.astype(np.bool_)
        return mask


def _from_command(command: Command) -> Callable[[Sentences, Sentences, Mask, Hop, FilterContext], Mask]:
    """A program reads source and output; it drops those for which it prints another number than 0."""

    def function(sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
        rows = list(zip(sources.texts, outputs.texts, strict=True))
        numbers = command.numbers(rows, context.guards.timeout, (hop.source, hop.target))
        return np.array(numbers, dtype=np.bool_)

    return function


FILTERS: Registry[Filter] = Registry("filter", Filter, _from_command)
text_filter = FILTERS.register


# -- reasons to drop an output ---------------------------------------------------------------------------------


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
    """Outputs that are clearly of another language."""
    if context.frequencies is None:
        return np.zeros(len(outputs), dtype=np.bool_)
    guards = context.guards
    return context.frequencies.foreign(outputs.ids, hop.target, guards.margin, guards.fewest_subwords)


@text_filter("repetition")
def _repetition(sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop, context: FilterContext) -> Mask:
    """Outputs that repeat themselves more than real text of their language does."""
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


# -- all of them -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Findings:
    """What was found about the outputs of a hop."""

    reasons: Mapping[str, Mask]
    """The outputs to drop by filter, in the order of the filters: the first one that marks an output counts."""
    signs: Mapping[str, Mask]
    """Signs of a collapse, counted for alarms whether or not they are reasons to drop an output."""


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
