"""Scoring of given translations: losses of rows, and the negative log-likelihood of pairs.

Shapes: N networks, B rows, L length, P weights.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.model.loss import token_losses
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


@torch.no_grad()
def negative_log_likelihood(
    decoder: Decoder, sources: Ragged, targets: Ragged, as_generated: bool = False
) -> tuple[Floats, Ints]:
    """The value for each target given its tagged source, and its number of tokens including EOS.

    The distribution covers all ids; with `as_generated` only those that the decoder may generate.
    """
    weights = decoder.layout.unpack(decoder.flat.to(decoder.precision))
    if as_generated:
        weights["output_bias"] = weights["output_bias"] + decoder.logit_mask.to(decoder.precision)
    places = np.maximum(sources.lengths, targets.lengths)
    device = decoder.flat.device
    most = _MOST_LOGITS["cuda" if device.type == "cuda" else "cpu"] // decoder.layout.target_size
    found = np.zeros(len(sources))
    for numbers in batches(places, DecodeLimits(batch_tokens=most, batch_rows=most)):
        source, target = (_table(side, numbers, device) for side in (sources, targets))
        states = decoder_states(weights, decoder.transformer, source, target, NO_DROPOUT)
        if as_generated:  # masked logits are infinite; the kernels would average over them
            losses = token_losses(decoder.transformer.logits(weights, states), target, 0.0)
            if decoder.opening is not None:  # it is not chosen
                losses[..., 0] = 0.0
        else:
            losses = decoder.transformer.losses(weights, states, target, 0.0)
        found[numbers] = losses[0].sum(-1).double().cpu().numpy()
    return found, targets.lengths + 1


def dual_cross_entropy(model: TranslationModel, hop: Hop, sources: Sentences, targets: Sentences) -> Floats:
    """Cross-entropy of both directions plus their difference (Junczys-Dowmunt 2018); lower is better."""
    there, back = (np.divide(*model.score(*one)) for one in ((hop, sources, targets), (hop.reverse, targets, sources)))
    return np.asarray(np.abs(there - back) + (there + back) / 2)


def _table(ragged: Ragged, numbers: Ints, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(ragged.padded(numbers, int(ragged.lengths[numbers].max()) + 1)).to(device)[None]
