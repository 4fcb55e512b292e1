"""Walk paths, generating on every hop but the last.

All paths that are walked together take their hops together, so that a network decodes the rows of every path that
needs it in one go: those of one direction, or of all directions where they share one network. A walk ends with the
generated sources of the last hop, which rows to keep, and the reasons for those that were dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from loopmt.config import Generate
from loopmt.path import Hop, LanguagePath
from loopmt.rng import keyed_seed, torch_generator
from loopmt.text.ragged import Ragged
from loopmt.translate.decoder import generate
from loopmt.translate.filters import Mask, SyntheticTextFilter
from loopmt.translate.limits import DecodeLimits
from loopmt.translate.networks import NetworkStack
from loopmt.translate.text_translator import generate_through_text


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
class Rollout:
    """Rows under way on a path."""

    path: LanguagePath
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


def generate_along(
    translators: NetworkStack,
    walks: Sequence[Rollout],
    limits: DecodeLimits,
    precision: torch.dtype,
    key: tuple[str | int, ...],
    text_filter: SyntheticTextFilter | None = None,
) -> int:
    """Take every walk to its last hop; the number of tokens generated."""
    tokens = 0
    for number in range(max((len(walk.path.generating) for walk in walks), default=0)):
        together: dict[tuple[str, str], list[Rollout]] = {}
        for walk in walks:
            if number < len(walk.path.generating):
                setting = walk.settings[number]
                who = _network_name(translators, walk.path.hops[number], setting)
                together.setdefault((who, setting.model_dump_json()), []).append(walk)
        for (who, _), company in together.items():
            tokens += _take_hop(translators, number, company, limits, precision, (*key, number, who), text_filter)
    return tokens


def _network_name(translators: NetworkStack, hop: Hop, setting: Generate) -> str:
    """Who speaks on a hop: the network that all directions share, or the direction's own, or an imported one."""
    own = not translators.shared or _is_imported(translators, hop, setting)
    return str(hop) if own else "all"


def _is_imported(translators: NetworkStack, hop: Hop, setting: Generate) -> bool:
    return setting.by == "frozen" and hop in translators.imported


def _take_hop(
    translators: NetworkStack,
    number: int,
    walks: Sequence[Rollout],
    limits: DecodeLimits,
    precision: torch.dtype,
    key: tuple[str | int, ...],
    text_filter: SyntheticTextFilter | None,
) -> int:
    setting, hop = walks[0].settings[number], walks[0].path.hops[number]
    # Dropped rows are decoded on: a row that is out keeps its place, so no walk's fate moves another's draws.
    drawn = (*key, setting.model_dump_json())
    if _is_imported(translators, hop, setting):
        sources = Ragged.join([walk.trace[-1] for walk in walks])
        generated = generate_through_text(
            translators.imported[hop], translators.vocab, hop, sources, setting, limits, keyed_seed(*drawn)
        )
    else:
        decoder = translators.decoder(hop, setting.by, precision)
        generator = torch_generator(translators.device, *drawn)
        sources = Ragged.join([translators.with_tags(walk.trace[-1], walk.path.hops[number]) for walk in walks])
        generated = generate(decoder, sources, setting, limits, generator)
    start = 0
    for walk in walks:
        own = generated.take(np.arange(start, start + len(walk.texts)))
        walk.scores += own.scores
        _record_hop(walk, walk.path.hops[number], own.ids, own.ended, text_filter)
        start += len(walk.texts)
    return len(generated.ids.flat) + len(generated.ids)


def _record_hop(
    walk: Rollout, hop: Hop, generated: Ragged, ended: Mask, text_filter: SyntheticTextFilter | None
) -> None:
    before = walk.trace[-1]
    reasons = text_filter(before, generated, ended, hop) if text_filter else {}
    offered = walk.keep.copy()
    dropped: Counter[str] = Counter()
    for reason, bad in reasons.items():
        dropped[reason] = int((walk.keep & bad).sum())
        walk.keep = walk.keep & ~bad
    lengths = generated.lengths
    walk.records.append(
        HopRecord(
            hop,
            int(offered.sum()),
            dict(dropped),
            int(lengths[offered].sum()),
            int(lengths[walk.keep].sum()),
            _distinct(before, offered),
            _distinct(generated, offered),
            dropped["copy"],
        )
    )
    walk.trace.append(generated)


def _distinct(rows: Ragged, offered: Mask) -> int:
    content = rows.flat.tobytes()
    ends = rows.offsets * rows.flat.itemsize
    return len({content[start:end] for start, end in zip(ends[:-1][offered], ends[1:][offered], strict=True)})
