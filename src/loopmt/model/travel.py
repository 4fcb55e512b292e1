"""Walk paths, generating on every hop but the last.

All paths that are walked together take their hops together, so that a direction decodes the rows of every path that
needs it in one go. A walk ends with the generated sources of the last hop, which rows to keep, and the reasons for
those that were dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from loopmt.config import Generate
from loopmt.model.decoding import Limits, decode
from loopmt.model.foreign import speak
from loopmt.model.translators import Translators
from loopmt.path import Hop, Path
from loopmt.rng import keyed_seed, torch_generator
from loopmt.text.ragged import Ragged

Mask = npt.NDArray[np.bool_]
Reasons = Mapping[str, Mask]


@dataclass
class HopRecord:
    """What one hop of one walk said, in counts."""

    hop: Hop
    offered: int
    dropped: dict[str, int]
    offered_tokens: int
    kept_tokens: int
    distinct_inputs: int
    distinct: int
    copies: int


@dataclass
class Walk:
    """Rows under way on a path."""

    path: Path
    settings: Sequence[Generate]
    texts: Ragged
    keep: Mask = field(init=False)
    scores: npt.NDArray[np.float64] = field(init=False)  # log-probability of all that was generated
    trace: list[Ragged] = field(init=False)  # the text after each hop, beginning with the start
    records: list[HopRecord] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.keep = np.ones(len(self.texts), dtype=np.bool_)
        self.scores = np.zeros(len(self.texts))
        self.trace = [self.texts]


Sieve = Callable[[Ragged, Ragged, npt.NDArray[np.bool_], Hop], Reasons]


def travel(
    translators: Translators,
    walks: Sequence[Walk],
    limits: Limits,
    precision: torch.dtype,
    key: tuple[str | int, ...],
    sieve: Sieve | None = None,
) -> int:
    """Take every walk to its last hop; the number of tokens generated."""
    tokens = 0
    for number in range(max((len(walk.path.generating) for walk in walks), default=0)):
        together: dict[tuple[Hop, str], list[Walk]] = {}
        for walk in walks:
            if number < len(walk.path.generating):
                setting = walk.settings[number]
                together.setdefault((walk.path.hops[number], setting.model_dump_json()), []).append(walk)
        for (hop, _), company in together.items():
            tokens += _take_hop(translators, hop, number, company, limits, precision, (*key, number, str(hop)), sieve)
    return tokens


def _take_hop(
    translators: Translators,
    hop: Hop,
    number: int,
    walks: Sequence[Walk],
    limits: Limits,
    precision: torch.dtype,
    key: tuple[str | int, ...],
    sieve: Sieve | None,
) -> int:
    setting = walks[0].settings[number]
    sources = Ragged.join([walk.trace[-1] for walk in walks])
    # Dropped rows are decoded on: a row that is out keeps its place, so no walk's fate moves another's draws.
    drawn = (*key, setting.model_dump_json())
    if setting.by == "frozen" and hop in translators.foreign:
        outputs = speak(translators.foreign[hop], translators.vocab, hop, sources, setting, limits, keyed_seed(*drawn))
    else:
        speaker = translators.speaker(hop, setting.by, precision)
        generator = torch_generator(translators.device, *drawn)
        outputs = decode(speaker, translators.addressed(sources, hop).rows(), setting, limits, generator)
    said = Ragged.of([output.ids for output in outputs])
    ended = np.array([output.ended for output in outputs], dtype=np.bool_)
    start = 0
    for walk in walks:
        rows = np.arange(start, start + len(walk.texts))
        walk.scores += np.array([outputs[row].score for row in rows])
        _arrive(walk, hop, said.take(rows), ended[rows], sieve)
        start += len(walk.texts)
    return int(said.lengths.sum()) + len(said)


def _arrive(walk: Walk, hop: Hop, said: Ragged, ended: Mask, sieve: Sieve | None) -> None:
    before = walk.trace[-1]
    reasons = sieve(before, said, ended, hop) if sieve else {}
    offered = walk.keep.copy()
    dropped: Counter[str] = Counter()
    for reason, bad in reasons.items():
        dropped[reason] = int((walk.keep & bad).sum())
        walk.keep = walk.keep & ~bad
    lengths = said.lengths
    walk.records.append(
        HopRecord(
            hop,
            int(offered.sum()),
            dict(dropped),
            int(lengths[offered].sum()),
            int(lengths[walk.keep].sum()),
            _distinct(before, offered),
            _distinct(said, offered),
            dropped["copy"],
        )
    )
    walk.trace.append(said)


def _distinct(rows: Ragged, offered: Mask) -> int:
    content = rows.flat.tobytes()
    ends = rows.offsets * rows.flat.itemsize
    return len({content[start:end] for start, end in zip(ends[:-1][offered], ends[1:][offered], strict=True)})
