"""How unlikely the real target is: the loss of every row.

Shapes: N networks, B rows, L length, P weights.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.model.transformer import NO_DROPOUT, Dropout, Transformer
from loopmt.model.weights import Weights
from loopmt.path import Hop
from loopmt.text.ragged import PAD, Ints, Ragged
from loopmt.translate.decoder import batches
from loopmt.translate.limits import DecodeLimits
from loopmt.translate.networks import NetworkStack


def row_losses(
    translators: NetworkStack,
    flat_NP: Tensor,
    source_NBL: Tensor,
    target_NBL: Tensor,
    label_smoothing: float,
    dropout: Dropout,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Label-smoothed loss of every row, summed over its tokens, and its number of target tokens."""
    weights = translators.layout.unpack(flat_NP.to(dtype))
    return losses_with(weights, translators.transformer, source_NBL, target_NBL, label_smoothing, dropout)


def losses_with(
    weights: Weights,
    transformer: Transformer,
    source_NBL: Tensor,
    target_NBL: Tensor,
    label_smoothing: float,
    dropout: Dropout,
) -> tuple[Tensor, Tensor]:
    states = transformer.encode(weights, source_NBL, dropout)
    memory = transformer.memory(weights, states, source_NBL)
    states = transformer.decode(weights, memory, shifted(target_NBL), dropout)
    losses = transformer.losses(weights, states, target_NBL, label_smoothing)
    return losses.sum(-1), (target_NBL != PAD).sum(-1)


def shifted(target_NBL: Tensor) -> Tensor:
    """What the decoder is given when it must say `target_NBL`; it starts from padding."""
    return F.pad(target_NBL[..., :-1], (1, 0), value=PAD)


Floats = npt.NDArray[np.float64]
_MOST_LOGITS = {"cpu": 2**25, "cuda": 2**30}  # of a batch: launching many small ones takes longer than computing them


@torch.no_grad()
def negative_log_likelihood(
    translators: NetworkStack, hop: Hop, sources: Ragged, targets: Ragged, precision: torch.dtype
) -> tuple[Floats, Ints]:
    """Negative log-likelihood of each target given its source, and its number of tokens, the end included."""
    row = translators.network(hop)
    flat = translators.live[row : row + 1]
    sources = translators.with_tags(sources, hop)
    places = np.maximum(sources.lengths, targets.lengths)
    most = _MOST_LOGITS["cuda" if translators.device.type == "cuda" else "cpu"] // translators.layout.target_size
    found = np.zeros(len(sources))
    for numbers in batches(places, DecodeLimits(batch_tokens=most, batch_rows=most)):
        source, target = (_table(side, numbers, translators.device) for side in (sources, targets))
        losses, _ = row_losses(translators, flat, source, target, 0.0, NO_DROPOUT, precision)
        found[numbers] = losses[0].double().cpu().numpy()
    return found, targets.lengths + 1


def dual_cross_entropy(
    translators: NetworkStack, hop: Hop, sources: Ragged, targets: Ragged, precision: torch.dtype
) -> Floats:
    """How much two translators doubt a pair, and how far they differ in that (Junczys-Dowmunt 2018); less is better."""
    there, back = (
        np.divide(*negative_log_likelihood(translators, *one, precision))
        for one in ((hop, sources, targets), (hop.reverse, targets, sources))
    )
    return np.asarray(np.abs(there - back) + (there + back) / 2)


def _table(ragged: Ragged, numbers: Ints, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(ragged.padded(numbers, int(ragged.lengths[numbers].max()) + 1)).to(device)[None]
