"""Scoring of given translations: losses of rows, and the negative log-likelihood of pairs.

Shapes: N networks, B rows, L length, P weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.config import Generate
from loopmt.model.conventions import Conventions
from loopmt.model.loss import token_losses
from loopmt.model.policy_gradient import drawn_log_probs
from loopmt.model.transformer import NO_DROPOUT, Dropout, Transformer
from loopmt.model.weights import Weights
from loopmt.path import Hop
from loopmt.text.ragged import PAD, Ints, Ragged
from loopmt.translate.decoder import Decoder, batches
from loopmt.translate.protocol import DecodeLimits, Floats, Sentences, TranslationModel


def decoder_states(
    weights: Weights, transformer: Transformer, source_NBL: Tensor, target_NBL: Tensor, dropout: Dropout
) -> Tensor:
    """Decoder states with teacher forcing, (N, B, T, D)."""
    states = transformer.encode(weights, source_NBL, dropout)
    memory = transformer.memory(weights, states, source_NBL)
    return transformer.decode(weights, memory, shifted(target_NBL, transformer.conventions.start), dropout)


def shifted(target_NBL: Tensor, start: int = PAD) -> Tensor:
    """Decoder inputs for the targets."""
    return F.pad(target_NBL[..., :-1], (1, 0), value=start)


_MOST_LOGITS = {"cpu": 2**25, "cuda": 2**28}  # per batch; smaller batches are bound by launch overhead


def most_logits(device: torch.device) -> int:
    """The largest number of logits in a batch that is scored."""
    return _MOST_LOGITS["cuda" if device.type == "cuda" else "cpu"]


@torch.no_grad()
def negative_log_likelihood(
    decoder: Decoder, sources: Ragged, targets: Ragged, as_generated: bool = False
) -> tuple[Floats, Ints]:
    """The negative log-likelihood of each target given its tagged source, and its number of tokens including EOS.

    The distribution covers all ids; with `as_generated` only those that the decoder may generate.
    """
    weights = _weights(decoder, as_generated)
    found = np.zeros(len(sources))
    for numbers, states, target in _teacher_forced(decoder, weights, sources, targets):
        if as_generated:  # masked logits are infinite; the kernels would average over them
            losses = token_losses(decoder.transformer.logits(weights, states), target, 0.0)
            if decoder.transformer.conventions.opens:  # the first token is given, not chosen
                losses[..., 0] = 0.0
        else:
            losses = decoder.transformer.losses(weights, states, target, 0.0)
        found[numbers] = losses[0].sum(-1).double().cpu().numpy()
    return found, targets.lengths + 1


@torch.no_grad()
def drawn_scores(decoder: Decoder, sources: Ragged, targets: Ragged, how: Generate) -> Floats:
    """The log-probability with which `how` draws each target, and EOS after it, given its tagged source."""
    weights = _weights(decoder, as_generated=True)
    found = np.zeros(len(sources))
    for numbers, states, target in _teacher_forced(decoder, weights, sources, targets):
        logits = decoder.transformer.logits(weights, states).float()
        found[numbers] = (
            drawn_log_probs(logits, drawn_labels(target, decoder.transformer.conventions), how)[0]
            .double()
            .cpu()
            .numpy()
        )
    return found


def drawn_labels(target_NBL: Tensor, conventions: Conventions) -> Tensor:
    """The index of each target in the logits; negative at padding and at a first token that is given."""
    labels = target_NBL.masked_fill(target_NBL == PAD, -1)
    if conventions.opens:
        labels[..., 0] = -1
    return labels


def _weights(decoder: Decoder, as_generated: bool) -> Weights:
    weights = decoder.layout.unpack(decoder.flat.to(decoder.precision))
    if as_generated:
        weights["output_bias"] = weights["output_bias"] + decoder.logit_mask.to(decoder.precision)
    return weights


def _teacher_forced(
    decoder: Decoder, weights: Weights, sources: Ragged, targets: Ragged
) -> Iterator[tuple[Ints, Tensor, Tensor]]:
    """Row numbers, decoder states and targets of each batch."""
    places = np.maximum(sources.lengths, targets.lengths)
    device = decoder.flat.device
    most = most_logits(device) // decoder.layout.target_size
    for numbers in batches(places, DecodeLimits(batch_tokens=most, batch_rows=most)):
        source, target = (_table(side, numbers, device) for side in (sources, targets))
        yield numbers, decoder_states(weights, decoder.transformer, source, target, NO_DROPOUT), target


def dual_cross_entropy(model: TranslationModel, hop: Hop, sources: Sentences, targets: Sentences) -> Floats:
    """Cross-entropy of both directions plus their difference (Junczys-Dowmunt 2018); lower is better."""
    there, back = (np.divide(*model.score(*one)) for one in ((hop, sources, targets), (hop.reverse, targets, sources)))
    return np.asarray(np.abs(there - back) + (there + back) / 2)


def _table(ragged: Ragged, numbers: Ints, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(ragged.padded(numbers, int(ragged.lengths[numbers].max()) + 1)).to(device)[None]
