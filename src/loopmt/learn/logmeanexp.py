"""`combine = "logmeanexp"`: weights the samples of a real sentence by likelihood (the importance-weighted bound).

The loss of a group of samples is -log of their mean likelihood, times their number. Its gradient is the sum of the
rows' gradients, each weighted by its share of the group's likelihood. So the objective only sets a factor per row.

Shapes: N networks, B rows, J paths.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from loopmt.config import MixEntry
from loopmt.learn.forward import ForwardPass
from loopmt.learn.objectives import Objective, StageSettings, UpdateTerms


def from_settings(settings: StageSettings) -> LogMeanExp | None:
    combined = [_combines(entry) for entry in settings.entries]
    return LogMeanExp(torch.tensor(combined, device=settings.model.device)) if any(combined) else None


def _combines(entry: MixEntry) -> bool:
    return entry.combine == "logmeanexp"


class LogMeanExp(Objective):
    """Combines the samples of paths with this setting."""

    def __init__(self, combined_J: Tensor) -> None:
        self.combined_J = combined_J

    def groups(self, entry: MixEntry) -> bool:
        return _combines(entry)

    def update_terms(self, forward: ForwardPass) -> UpdateTerms:
        mine = self.combined_J[forward.batch.paths_NB.clamp_min(0)]
        groups_NB = forward.batch.groups_NB.masked_fill(~mine, -1)
        return UpdateTerms(factors_NB=logmeanexp_factors(forward.losses_NB.detach(), groups_NB))


def logmeanexp_factors(losses_NB: Tensor, groups_NB: Tensor) -> Tensor:
    """Factors that turn a sum of losses into -log of the mean likelihood of each group, times the group's size.

    d(-log mean exp(-loss_i)) = sum of softmax(-loss)_i d(loss_i): the factors are that softmax times the size.
    """
    alone = groups_NB < 0
    rows = torch.arange(groups_NB.shape[1], device=groups_NB.device)
    same = (groups_NB[:, :, None] == groups_NB[:, None, :]) & ~alone[:, :, None] | torch.eye(
        len(rows), dtype=torch.bool, device=groups_NB.device
    )
    likelihoods = (-losses_NB.float())[:, None, :].masked_fill(~same, -math.inf)
    share = likelihoods.softmax(-1).diagonal(dim1=1, dim2=2)
    return share * same.sum(-1)
