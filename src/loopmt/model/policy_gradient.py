"""Policy gradients: a network learns from the rewards of the sentences that it drew.

Log-probabilities are those of the distribution that sampling draws from: divided by the temperature, restricted to
top-k and the nucleus, and renormalized. The laboratory and the learners use the same functions.

Shapes: V vocabulary, T target length; other dimensions are arbitrary.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loopmt.config import Baseline, Generate

Floats = npt.NDArray[np.float64]
_MOST = 30.0  # of a log-ratio: a token outside of the current top-k has probability 0


# -- the sampling distribution -----------------------------------------------------------------------------------


def restricted(logits_V: Tensor, how: Generate) -> Tensor:
    """Logits of the distribution that `how` draws from; -inf outside of top-k and the nucleus."""
    if how.top_k and how.top_k < logits_V.shape[-1]:
        least = logits_V.detach().topk(how.top_k, dim=-1).values[..., -1:]
        logits_V = logits_V.masked_fill(logits_V < least, -math.inf)
    return nucleus(logits_V / how.temperature, how.top_p)


def nucleus(logits_V: Tensor, mass: float) -> Tensor:
    """The logits, with -inf outside of the nucleus: the likeliest tokens that together have this probability."""
    if mass >= 1:
        return logits_V
    ordered, order = logits_V.sort(dim=-1, descending=True)
    probabilities = ordered.softmax(-1)
    outside = probabilities.cumsum(-1) - probabilities >= mass  # the most likely token is always kept
    return logits_V.scatter(-1, order, ordered.masked_fill(outside, -math.inf))


def drawn_log_probs(logits_TV: Tensor, labels_T: Tensor, how: Generate) -> Tensor:
    """Log-probability of drawing the sequence of labels; negative labels are skipped."""
    scaled = restricted(logits_TV, how)
    chosen = scaled.gather(-1, labels_T.clamp_min(0)[..., None])[..., 0]
    return (chosen - scaled.logsumexp(-1)).masked_fill(labels_T < 0, 0).sum(-1)


# -- the estimate of the gradient --------------------------------------------------------------------------------


def advantages(rewards: Floats, sentences: npt.NDArray[np.int64], baseline: Baseline) -> Floats:
    """Rewards relative to those of the other samples of the same sentence; 0 for a sample without others.

    `leave-one-out` subtracts the mean of the others, which leaves the gradient's expectation unchanged. `group`
    subtracts the mean of all and divides by their standard deviation, which changes it.
    """
    if baseline == "none":
        return rewards
    _, owners, counts = np.unique(sentences, return_inverse=True, return_counts=True)
    count = counts[owners]
    centred = rewards - (np.bincount(owners, rewards) / counts)[owners]
    if baseline == "leave-one-out":
        return np.asarray(centred * count / np.maximum(count - 1, 1))
    spread = np.sqrt(np.bincount(owners, centred**2) / counts)[owners]
    return np.divide(centred, spread, where=spread > 1e-9, out=np.zeros_like(centred))


class PolicyTerms(NamedTuple):
    """The loss of each sentence, and its importance ratio."""

    losses: Tensor
    ratios: Tensor


def policy_terms(
    log_probs: Tensor, drawn_at: Tensor, advantage: Tensor, clip: Tensor | float, kl: Tensor | float
) -> PolicyTerms:
    """Minus the advantage times the ratio of the sentence's probability now to that when it was drawn (`drawn_at`).

    Its gradient estimates that of the expected reward, for sentences drawn with earlier weights. `clip` bounds the
    ratio to 1 - clip and 1 + clip where the advantage would move it further (Schulman et al. 2017); infinity turns this
    off. The advantage includes the penalty for the divergence from the start at `drawn_at`; the penalty grows by `kl`
    times the log-ratio.
    """
    log_ratio = (log_probs - drawn_at).clamp(-_MOST, _MOST)
    ratio = log_ratio.exp()
    advantage = advantage - kl * log_ratio.detach()
    low, high = torch.as_tensor(1 - clip).to(ratio), torch.as_tensor(1 + clip).to(ratio)
    bounded = torch.minimum(torch.maximum(ratio, low), high)
    return PolicyTerms(-torch.minimum(ratio * advantage, bounded * advantage), ratio.detach())
