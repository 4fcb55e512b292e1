"""Translation of sentences along paths, hop by hop.

A `Walker` returns the next hops and takes their translations; the caller decides how models are called
(`generate_along`: directly; the server: through its queue). All rollouts advance together, so that a model translates
the rows of all paths in one call. Rollouts with the same start and the same first hops share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from loopmt.config import Generate
from loopmt.path import Hop, LanguagePath
from loopmt.text.ragged import Ragged
from loopmt.translate.ensemble import EnsembleModel, by_turns, token_model
from loopmt.translate.filters import NOTHING_FOUND, SyntheticTextFilter
from loopmt.translate.protocol import (
    DecodeLimits,
    Floats,
    HopInput,
    Key,
    Mask,
    Sentences,
    TranslationModel,
    Translations,
    own_weights,
)


@dataclass
class HopRecord:
    """Counts of what one hop of one rollout generated."""

    hop: Hop
    offered: int
    dropped: dict[str, int]
    offered_tokens: int
    kept_tokens: int
    distinct_inputs: int
    distinct: int
    copies: int
    repetitive: int = 0


@dataclass
class Rollout:
    """Sentences that are translated along a path, with the translations after each hop."""

    path: LanguagePath
    settings: Sequence[Generate]  # one for each hop that generates
    start: Sentences
    n: int = 1  # hypotheses of the last hop; earlier hops pass on the best
    keep: Mask = field(init=False)
    scores: Floats = field(init=False)  # log-probability of the best hypotheses, summed over hops
    trace: list[Translations] = field(init=False, default_factory=list)  # after each hop
    records: list[HopRecord] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.keep = np.ones(len(self.start), dtype=np.bool_)
        self.scores = np.zeros(len(self.start))

    @classmethod
    def to_the_end(cls, path: LanguagePath, how: Generate, start: Sentences, n: int = 1) -> Rollout:
        """A rollout that generates on every hop; in training the last hop learns instead."""
        return cls(path, [how] * len(path.hops), start, n)

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops that generate."""
        return self.path.hops[: len(self.settings)]

    @property
    def text(self) -> Sentences:
        """The best hypotheses of the last hop so far."""
        return self.trace[-1].best().sentences if self.trace else self.start

    def prefix(self, hops: int) -> Key:
        """A key that is equal for rollouts that share their first hops."""
        return id(self.start), *(f"{hop} {how!r}" for hop, how in zip(self.hops[:hops], self.settings, strict=False))

    def append(self, found: Translations) -> None:
        """Add the translations of the next hop."""
        self.trace.append(found)
        self.scores = self.scores + found.best().scores


@dataclass(frozen=True)
class HopRequest:
    """A request to translate one hop, for one rollout or for several that share it."""

    input: HopInput
    how: Generate
    n: int


class Walker:
    """Advances rollouts to their last hop: `next` returns requests, `receive` takes the translations."""

    def __init__(self, rollouts: Sequence[Rollout]) -> None:
        self._rollouts = rollouts
        self._hop = 0
        self._sharing: list[list[Rollout]] = []

    def next(self) -> list[HopRequest]:
        """The next requests; none when all rollouts are complete."""
        shared: dict[Key, list[Rollout]] = {}
        for rollout in self._rollouts:
            if self._hop < len(rollout.hops):
                shared.setdefault(rollout.prefix(self._hop + 1), []).append(rollout)
        self._sharing = list(shared.values())
        return [self._request(rollouts) for rollouts in self._sharing]

    def receive(self, found: Sequence[Translations]) -> Iterator[tuple[Rollout, Hop]]:
        """Take the translations of the requests of `next`, in order. Yield each rollout with its hop."""
        number, self._hop = self._hop, self._hop + 1
        for rollouts, translations in zip(self._sharing, found, strict=True):
            for rollout in rollouts:
                rollout.append(translations)
                yield rollout, rollout.hops[number]

    def _request(self, rollouts: Sequence[Rollout]) -> HopRequest:
        """One request for rollouts that share the hop, with as many hypotheses as the rollout ending here needs."""
        first, last = rollouts[0], self._hop + 1
        n = max(rollout.n if last == len(rollout.hops) else 1 for rollout in rollouts)
        return HopRequest(HopInput(first.hops[self._hop], first.text), first.settings[self._hop], n)


@dataclass(frozen=True)
class Translators:
    """The models of each direction: that of the stage, and others for hops that name them."""

    own: TranslationModel
    imported: Mapping[Hop, TranslationModel] = field(default_factory=dict)  # generate with frozen weights
    others: Mapping[str, TranslationModel] = field(default_factory=dict)  # by the name in `by`

    def members(self, hop: Hop, how: Generate) -> list[tuple[TranslationModel, Generate]]:
        """The models that generate on a hop, each with its settings."""
        return [self._member(hop, how, name) for name in how.generators]

    def _member(self, hop: Hop, how: Generate, name: str) -> tuple[TranslationModel, Generate]:
        own = name in ("live", "frozen", "ema")
        alone = how.model_copy(update={"by": name if own else "live"}) if len(how.generators) > 1 or not own else how
        model = self.imported.get(hop, self.own) if name == "frozen" else self.own
        return (model, alone) if own else (self.others[name], alone)

    def answer(self, requests: Sequence[HopRequest], limits: DecodeLimits, key: Key) -> list[Translations]:
        """Translate the requests; those of one model with the same settings are batched."""
        found: dict[int, Translations] = {}
        together: dict[tuple[int, str, int], list[int]] = {}
        members = [self.members(request.input.hop, request.how) for request in requests]
        for number, (request, own) in enumerate(zip(requests, members, strict=True)):
            if len(own) > 1:
                found[number] = _by_several(own, request, limits, key)
            else:
                together.setdefault((id(own[0][0]), request.how.model_dump_json(), request.n), []).append(number)
        for numbers in together.values():
            (model, how), inputs = members[numbers[0]][0], [requests[number].input for number in numbers]
            answers = model.generate(inputs, how, limits, key, requests[numbers[0]].n)
            found |= zip(numbers, answers, strict=True)
        return [found[number] for number in range(len(requests))]


def _by_several(
    members: Sequence[tuple[TranslationModel, Generate]], request: HopRequest, limits: DecodeLimits, key: Key
) -> Translations:
    how = request.how
    if how.ensemble == "rows":
        return by_turns(members, request.input, limits, key, request.n)
    stacks = [(token_model(model), own_weights(one)) for model, one in members]
    return EnsembleModel(stacks, how.ensemble).generate([request.input], how, limits, key, request.n)[0]


def generate_along(
    translators: Translators,
    rollouts: Sequence[Rollout],
    limits: DecodeLimits,
    key: Key,
    observe: Callable[[Rollout, Hop], None] = lambda rollout, hop: None,
) -> None:
    """Advance every rollout to its last generating hop; `observe` is called for each rollout after each hop."""
    walker = Walker(rollouts)
    number = 0
    while requests := walker.next():
        for rollout, hop in walker.receive(translators.answer(requests, limits, (*key, number))):
            observe(rollout, hop)
        number += 1


def recorder(text_filter: SyntheticTextFilter | None = None) -> Callable[[Rollout, Hop], None]:
    """An observer that counts what each hop generates, and marks the rows that a filter drops.

    Dropped rows are still translated by later hops, so that the random draws of other rows do not change.
    """
    return lambda rollout, hop: _record(rollout, hop, text_filter)


def generated_tokens(rollouts: Sequence[Rollout]) -> int:
    """Tokens generated on all hops, including EOS."""
    outputs = [translations.sentences.ids for rollout in rollouts for translations in rollout.trace]
    return sum(len(ids.flat) + len(ids) for ids in outputs)


def _record(rollout: Rollout, hop: Hop, text_filter: SyntheticTextFilter | None) -> None:
    sources = rollout.start if len(rollout.trace) == 1 else rollout.trace[-2].best().sentences
    found, offered = rollout.trace[-1].best(), rollout.keep.copy()
    outputs = found.sentences
    findings = text_filter(sources, outputs, found.ended, hop) if text_filter else NOTHING_FOUND
    dropped: dict[str, int] = {}
    for reason, bad in findings.reasons.items():
        dropped[reason] = int((rollout.keep & bad).sum())
        rollout.keep = rollout.keep & ~bad
    signs = {name: int((offered & mask).sum()) for name, mask in findings.signs.items()}
    lengths = outputs.ids.lengths
    rollout.records.append(
        HopRecord(
            hop,
            int(offered.sum()),
            dropped,
            int(lengths[offered].sum()),
            int(lengths[rollout.keep].sum()),
            _distinct(sources.ids, offered),
            _distinct(outputs.ids, offered),
            dropped.get("copy", signs.get("copy", 0)),
            signs.get("repetition", 0),
        )
    )


def _distinct(rows: Ragged, offered: Mask) -> int:
    content = rows.flat.tobytes()
    ends = rows.offsets * rows.flat.itemsize
    return len({content[start:end] for start, end in zip(ends[:-1][offered], ends[1:][offered], strict=True)})
