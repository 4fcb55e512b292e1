"""Scores on held-out pairs while training goes on: loss, BLEU, and exact accuracy where a judge exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from loopmt.config import Generate
from loopmt.evaluation.metrics import sacre_bleu
from loopmt.path import Hop
from loopmt.text.ragged import Ragged
from loopmt.text.store import Store
from loopmt.translate.decoder import generate
from loopmt.translate.limits import DecodeLimits
from loopmt.translate.networks import NetworkStack
from loopmt.translate.scoring import negative_log_likelihood

Agree = Callable[[str, str, str, str], bool]  # source, its language, translation, its language


@dataclass(frozen=True)
class HeldOut:
    """Pairs of one direction, as text and as ids."""

    hop: Hop
    sources: list[str]
    references: list[str]
    source_ids: Ragged
    reference_ids: Ragged


def held_out(store: Store, translators: NetworkStack, name: str, most: int | None = None) -> list[HeldOut]:
    """The pairs of a set for every direction that has some."""
    found = []
    for hop in translators.hops:
        pair = store.pair_texts(name, hop.source, hop.target)
        if pair is not None:
            sources, references = pair[0][:most], pair[1][:most]
            if translators.vocab.form.lowercase:  # what is said has no capitals, so its reference must not either
                references = [reference.lower() for reference in references]
            ids = translators.vocab.encode(sources, hop.source), translators.vocab.encode(references, hop.target)
            found.append(HeldOut(hop, sources, references, Ragged.of(ids[0]), Ragged.of(ids[1])))
    return found


def translate_ids(
    translators: NetworkStack, hop: Hop, sources: Ragged, how: Generate, precision: torch.dtype
) -> list[str]:
    """Text of one hop from ids."""
    decoder = translators.decoder(hop, "live", precision)
    generated = generate(decoder, translators.with_tags(sources, hop), how, DecodeLimits.on(translators.device))
    return translators.vocab.decode(generated.ids.rows(), hop.target)


def bleu_by_hop(
    translators: NetworkStack,
    sets: Sequence[HeldOut],
    how: Generate,
    precision: torch.dtype,
    agree: Agree | None = None,
) -> tuple[dict[str, float], dict[str, float]]:
    """BLEU and exact accuracy of every direction."""
    bleu: dict[str, float] = {}
    accuracy: dict[str, float] = {}
    for pairs in sets:
        generated = translate_ids(translators, pairs.hop, pairs.source_ids, how, precision)
        bleu[str(pairs.hop)] = sacre_bleu(generated, pairs.references).score
        if agree:
            accuracy[str(pairs.hop)] = exact_accuracy(agree, pairs, generated)
    return bleu, accuracy


def exact_accuracy(agree: Agree, pairs: HeldOut, generated: Sequence[str]) -> float:
    right = [
        agree(source, pairs.hop.source, translation, pairs.hop.target)
        for source, translation in zip(pairs.sources, generated, strict=True)
    ]
    return sum(right) / max(len(right), 1)


def loss_by_hop(translators: NetworkStack, sets: Sequence[HeldOut], precision: torch.dtype) -> dict[str, float]:
    """Mean loss per target token, without label smoothing and dropout."""
    return {str(pairs.hop): _loss(translators, pairs, precision) for pairs in sets}


def _loss(translators: NetworkStack, pairs: HeldOut, precision: torch.dtype) -> float:
    losses, tokens = negative_log_likelihood(translators, pairs.hop, pairs.source_ids, pairs.reference_ids, precision)
    return float(losses.sum() / max(tokens.sum(), 1))
