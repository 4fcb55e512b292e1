"""Exact enumeration of the policy gradient: is the estimate that a stage learns from unbiased?

A translator is a table of logits, so the expectation of the estimate is a sum over all groups of samples. It is
compared with the gradient of the expected reward, in the first update of a round and in later ones, whose weights
differ from those that drew the samples. Advantages and losses are those of training (`model.policy_gradient`).

The true gradient uses the truncation under the weights of the update. Outputs that become possible only after the
samples were drawn are missing from the samples, so the estimate is then biased. Without truncation it is unbiased.

Shapes: S sources, V outputs, G groups of samples, K samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopmt.config import Baseline, Generate
from loopmt.lab.languages import LabSettings, LabStart, vanilla
from loopmt.model.policy_gradient import advantages, policy_terms, restricted

ROUND = 16  # updates
RATES = {
    "slow": 0.002,
    "fast": 2.0,
}  # of the updates: hardly any truncation changes with the first, most with the second
SIZES = {"meanings": 4, "sentences": 2}  # of the languages
DRAWS = {
    "T 0.7": Generate(top_k=0),
    "T 0.7, top-k 3": Generate(top_k=3),
    "T 0.7, top-p 0.9": Generate(top_k=0, top_p=0.9),
}


@dataclass(frozen=True)
class RewardWorld:
    """A translator that learns from rewards: its first logits, and the reward of each output."""

    start_SV: Tensor
    rewards_SV: Tensor  # the log-probability of the source on the way home

    @classmethod
    def draw(cls, settings: LabSettings, world: int) -> RewardWorld:
        translators = vanilla(settings, LabStart(languages=2), world)
        there, back = (torch.from_numpy(translators[hop]) for hop in ((1, 2), (2, 1)))
        return cls(there, back.log_softmax(1).T.contiguous())


@dataclass(frozen=True)
class Estimate:
    """How the gradient is estimated."""

    how: Generate
    samples: int = 2
    baseline: Baseline = "leave-one-out"
    kl: float = 0.0
    clip: float = math.inf

    def truth(self, world: RewardWorld, logits_SV: Tensor) -> Tensor:
        """The gradient of the expected reward, without the divergence from the start."""
        logits = logits_SV.clone().requires_grad_()
        log_q = restricted(logits, self.how).log_softmax(1)
        inside = log_q.detach() > -math.inf
        log_q = log_q.where(inside, 0)
        worth = world.rewards_SV - self.kl * (log_q - self._log_start(world))
        (gradient,) = torch.autograd.grad((log_q.exp() * worth * inside).sum(), logits)
        return gradient

    def expected(self, world: RewardWorld, logits_SV: Tensor, drew_SV: Tensor) -> Tensor:
        """The expectation of the estimate at `logits_SV`, with samples drawn at `drew_SV`."""
        logits, groups = logits_SV.clone().requires_grad_(), self._groups(logits_SV.shape[1])
        now, then = (restricted(one, self.how).log_softmax(1)[:, groups] for one in (logits, drew_SV))
        rewards = world.rewards_SV[:, groups] - self.kl * (then - self._log_start(world)[:, groups])
        chance_SG = then.sum(-1).exp()
        possible = chance_SG > 0
        advantage = _advantages(rewards.where(possible[..., None], 0), self.baseline)
        then = then.where(possible[..., None], 0)
        loss_SGK = policy_terms(now, then, advantage, self.clip, self.kl).losses
        (gradient,) = torch.autograd.grad((chance_SG * loss_SGK.mean(-1)).sum(), logits)
        return -gradient

    def bias(self, world: RewardWorld, logits_SV: Tensor, drew_SV: Tensor) -> float:
        """The largest error of the expectation, relative to the largest gradient."""
        truth = self.truth(world, logits_SV)
        return float((self.expected(world, logits_SV, drew_SV) - truth).abs().max() / truth.abs().max())

    def _log_start(self, world: RewardWorld) -> Tensor:
        """Log-probabilities of the outputs under the start, at the same temperature and without truncation."""
        return (world.start_SV / self.how.temperature).log_softmax(1)

    def _groups(self, outputs: int) -> Tensor:
        return torch.tensor(list(product(range(outputs), repeat=self.samples)))


def _advantages(rewards_SGK: Tensor, baseline: Baseline) -> Tensor:
    flat = rewards_SGK.flatten().numpy()
    sentences = np.arange(len(flat)) // rewards_SGK.shape[-1]
    return torch.from_numpy(advantages(flat, sentences, baseline)).view_as(rewards_SGK)


@dataclass(frozen=True)
class RewardRound:
    """The weights of a round whose updates follow the true gradient; samples are drawn at the first."""

    world: RewardWorld
    how: Generate
    rate: float

    @cached_property
    def logits(self) -> list[Tensor]:
        """Before each update."""
        found = [self.world.start_SV]
        for _ in range(ROUND - 1):
            found.append(found[-1] + self.rate * Estimate(self.how).truth(self.world, found[-1]))
        return found

    @property
    def moved(self) -> float:
        """The share of sources whose truncation changes in the round."""
        inside = [restricted(logits, self.how) > -math.inf for logits in (self.logits[0], self.logits[-1])]
        return float((inside[0] != inside[1]).any(1).double().mean())


def estimates(how: Generate) -> dict[str, Estimate]:
    """The estimates that an entry of a mix can configure."""
    return {
        "no baseline": Estimate(how, 1, "none"),
        "leave-one-out": Estimate(how),
        "leave-one-out, KL": Estimate(how, kl=0.5),
        "leave-one-out, clipped": Estimate(how, clip=0.2),
        "group": Estimate(how, baseline="group"),
    }


def reward_records(settings: LabSettings, world: int) -> Iterator[dict[str, Any]]:
    """The bias of every estimate in the first and in the last update of a round."""
    drawn = RewardWorld.draw(replace(settings, **SIZES), world)
    for (draws, how), (speed, rate) in product(DRAWS.items(), RATES.items()):
        updates = RewardRound(drawn, how, rate)
        for name, estimate in estimates(how).items():
            first, last = (estimate.bias(drawn, updates.logits[place], drawn.start_SV) for place in (0, -1))
            where = {"draws": draws, "updates": speed, "estimate": name, "world": world}
            yield where | {"first": first, "last": last, "moved": updates.moved}
