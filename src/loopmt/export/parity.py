"""Parity check: compares an exported network, loaded from its folder, with the original on real sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.path import Hop
from loopmt.text.ragged import EOS, PAD
from loopmt.text.vocab import Vocab
from loopmt.translate.decoder import Decoder, padded
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences, TranslationModel

TOLERANCE = 1e-4  # of logits
_LONGEST = 96  # subwords of an output; longer outputs of an undertrained network only repeat
_ROWS = 8  # sentences per batch of logits
Bleu = Callable[[list[str], list[str]], float]


class ExportedModel(TranslationModel, Protocol):
    """An exported network, loaded as a user would."""

    def read(self, texts: Sequence[str], hop: Hop) -> list[list[int]]:
        """Ids of texts by its own tokenizer, with EOS."""

    def logits(self, source_BS: Tensor, inputs_BT: Tensor) -> Tensor | None:
        """Logits at each decoder input; None if it does not return them."""


@dataclass(frozen=True)
class ParityText:
    """Real sentences of a direction, with references if there are any."""

    hop: Hop
    sources: list[str]
    references: list[str] | None = None


@dataclass(frozen=True)
class Parity:
    """The result for one direction."""

    direction: str
    sentences: int
    misread: int  # sentences whose ids differ
    same: int  # identical greedy translations
    ties: int  # greedy translations that first differ at a tie of two subwords
    logits: float | None  # the largest difference of logits
    bleu: float | None  # of the original
    bleu_difference: float | None  # exported minus original

    @property
    def agreement(self) -> float:
        return self.same / max(self.sentences, 1)

    def failures(self) -> list[str]:
        """The problems of a network that was exported without quantization."""
        found = []
        if self.misread:
            found.append(f"{self.misread} of {self.sentences} sentences have different ids")
        if self.logits is not None and not self.logits <= TOLERANCE:
            found.append(f"logits differ by {self.logits:.2g} (at most {TOLERANCE:.0e})")
        if self.same + self.ties < self.sentences:
            found.append(f"{self.sentences - self.same - self.ties} of {self.sentences} greedy translations differ")
        return [f"{self.direction}: {one}" for one in found]


def compare(networks: NetworkStack, text: ParityText, exported: ExportedModel, bleu: Bleu) -> Parity:
    hop, vocab = text.hop, networks.vocab
    decoder = networks.decoder(hop)
    rows = networks.source_rows(Sentences(vocab, hop.source, texts=text.sources), hop).rows()
    read = exported.read(text.sources, hop)
    misread = sum([*row.tolist(), EOS] != theirs for row, theirs in zip(rows, read, strict=True))
    ours, theirs = (_greedy(model, vocab, text) for model in (networks, exported))
    source_BS = padded(rows, networks.device)
    apart = [row for row in range(len(rows)) if ours[row] != theirs[row]]
    ties = sum(_tied(decoder, source_BS[row : row + 1], ours[row], theirs[row]) for row in apart)
    scores = _scores(networks, text, (ours, theirs), bleu)
    distance = _distance(decoder, exported, source_BS, ours)
    return Parity(str(hop), len(rows), misread, len(rows) - len(apart), ties, distance, *scores)


def _greedy(model: TranslationModel, vocab: Vocab, text: ParityText) -> list[list[int]]:
    sources = HopInput(text.hop, Sentences(vocab, text.hop.source, texts=text.sources))
    (found,) = model.generate([sources], Generate(how="greedy"), DecodeLimits(growth=0, extra=_LONGEST), ("parity",))
    return [ids.tolist() for ids in found.best().sentences.ids.rows()]


def _scores(
    translators: NetworkStack, text: ParityText, outputs: tuple[list[list[int]], list[list[int]]], bleu: Bleu
) -> tuple[float | None, float | None]:
    if text.references is None:
        return None, None
    ours, theirs = (translators.vocab.decode(ids, text.hop.target) for ids in outputs)
    mine = bleu(ours, text.references)
    return mine, bleu(theirs, text.references) - mine


def logits(decoder: Decoder, source_BS: Tensor, inputs_BT: Tensor) -> Tensor:
    """Logits of the original with teacher forcing."""
    network, weights = decoder.transformer, decoder.layout.unpack(decoder.flat)
    memory = network.memory(weights, network.encode(weights, source_BS[None]), source_BS[None])
    return network.logits(weights, network.decode(weights, memory, inputs_BT[None]))[0]


def _distance(
    decoder: Decoder, exported: ExportedModel, source_BS: Tensor, outputs: Sequence[list[int]]
) -> float | None:
    """The largest difference of logits when both are forced to generate the original's outputs."""
    largest = 0.0
    for start in range(0, len(outputs), _ROWS):
        part = outputs[start : start + _ROWS]
        inputs_BT = padded([[PAD, *ids] for ids in part], source_BS.device)[:, :-1]
        theirs = exported.logits(source_BS[start : start + _ROWS], inputs_BT)
        if theirs is None:
            return None
        ours = logits(decoder, source_BS[start : start + _ROWS], inputs_BT)[..., : theirs.shape[-1]]
        real = torch.arange(inputs_BT.shape[1]) <= torch.tensor([len(ids) for ids in part])[:, None]
        largest = max(largest, float((ours - theirs)[real].abs().nan_to_num(torch.inf).max()))
    return largest


def _tied(decoder: Decoder, source_1S: Tensor, ours: list[int], theirs: list[int]) -> bool:
    """Whether two outputs first differ where the original finds both subwords equally likely, up to rounding."""
    one, other = [*ours, EOS], [*theirs, EOS]
    place = next(place for place in range(min(len(one), len(other))) if one[place] != other[place])
    last = logits(decoder, source_1S, torch.tensor([[PAD, *one[:place]]], device=source_1S.device))[0, -1]
    return bool((last[one[place]] - last[other[place]]).abs() <= TOLERANCE)
