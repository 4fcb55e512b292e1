"""Scores on held-out pairs while training goes on: loss, BLEU, and exact accuracy where a judge exists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from loopmt.config import Generate
from loopmt.evaluation.metrics import sacre_bleu
from loopmt.path import Hop
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.limits import DecodeLimits
from loopmt.translate.protocol import HopInput, TranslationModel
from loopmt.translate.sentences import Sentences

Agree = Callable[[str, str, str, str], bool]  # source, its language, translation, its language


@dataclass(frozen=True)
class HeldOut:
    """Pairs of one direction."""

    hop: Hop
    sources: Sentences
    references: Sentences


def held_out(store: Store, hops: Iterable[Hop], vocab: Vocab, name: str, most: int | None = None) -> list[HeldOut]:
    """The pairs of a set for every direction that has some."""
    found = []
    for hop in hops:
        pair = store.pair_texts(name, hop.source, hop.target)
        if pair is not None:
            sources, references = pair[0][:most], pair[1][:most]
            if vocab.form.lowercase:  # outputs have no capitals, so their references must not either
                references = [reference.lower() for reference in references]
            sides = Sentences(vocab, hop.source, texts=sources), Sentences(vocab, hop.target, texts=references)
            found.append(HeldOut(hop, *sides))
    return found


def translate_hop(model: TranslationModel, hop: Hop, sources: Sentences, how: Generate) -> list[str]:
    """Text of one hop; for searching, which draws nothing."""
    (found,) = model.generate([HopInput(hop, sources)], how, DecodeLimits.on(model.device), ("translate",))
    return found.best().sentences.texts


def bleu_by_hop(
    model: TranslationModel, sets: Sequence[HeldOut], how: Generate, agree: Agree | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """BLEU and exact accuracy of every direction."""
    bleu: dict[str, float] = {}
    accuracy: dict[str, float] = {}
    for pairs in sets:
        outputs = translate_hop(model, pairs.hop, pairs.sources, how)
        bleu[str(pairs.hop)] = sacre_bleu(outputs, pairs.references.texts).score
        if agree:
            accuracy[str(pairs.hop)] = exact_accuracy(agree, pairs, outputs)
    return bleu, accuracy


def exact_accuracy(agree: Agree, pairs: HeldOut, outputs: Sequence[str]) -> float:
    right = [
        agree(source, pairs.hop.source, translation, pairs.hop.target)
        for source, translation in zip(pairs.sources.texts, outputs, strict=True)
    ]
    return sum(right) / max(len(right), 1)


def loss_by_hop(model: TranslationModel, sets: Sequence[HeldOut]) -> dict[str, float]:
    """Mean loss per target token, without label smoothing and dropout."""
    return {str(pairs.hop): _loss(model, pairs) for pairs in sets}


def _loss(model: TranslationModel, pairs: HeldOut) -> float:
    losses, tokens = model.score(pairs.hop, pairs.sources, pairs.references)
    return float(losses.sum() / max(tokens.sum(), 1))
