"""`consistency`: all sources that the routes generate for one real sentence should lead to the same predictions.

A row is compared with the next row of its sentence: the symmetric divergence between the distributions at every target
position, times the weight of its entry, is added to its loss. No second pass is needed, as both rows are in the batch.
R-Drop compares two passes over the same row instead, and is the control.

Shapes: N networks, B rows, T target length, V vocabulary, J paths.
"""

from __future__ import annotations

import torch
from torch import Tensor

from loopmt.config import MixEntry
from loopmt.errors import ConfigError
from loopmt.learn.divergence import symmetric_divergence
from loopmt.learn.forward import ForwardPass
from loopmt.learn.objectives import Objective, StageSettings, UpdateTerms


def from_settings(settings: StageSettings) -> RouteConsistency | None:
    weights = [entry.consistency or 0.0 for entry in settings.entries]
    if not any(weights):
        return None
    if settings.train.subword_dropout:
        raise ConfigError(
            "consistency compares predictions of the same subwords, but train.subword_dropout segments each sample of "
            "a sentence differently. Set it to 0 in this stage, or remove consistency."
        )
    return RouteConsistency(torch.tensor(weights, device=settings.model.device))


class RouteConsistency(Objective):
    """The objective that adds the divergence between rows of the same real sentence."""

    measures = ("route_divergence",)

    def __init__(self, weights_J: Tensor) -> None:
        self.weights_J = weights_J

    def groups(self, entry: MixEntry) -> bool:
        return entry.consistency is not None

    def joins(self, entry: MixEntry) -> bool:
        return entry.consistency is not None

    def update_terms(self, forward: ForwardPass) -> UpdateTerms:
        weights_NB = self.weights_J[forward.batch.paths_NB.clamp_min(0)]
        next_NB = next_of_group(forward.batch.groups_NB.masked_fill(weights_NB == 0, -1))
        alone_NB = next_NB == torch.arange(next_NB.shape[1], device=next_NB.device)
        log_probs_NBTV = forward.log_probs()
        places = next_NB[:, :, None, None].expand(-1, -1, *log_probs_NBTV.shape[2:])
        divergence_NBT = symmetric_divergence(log_probs_NBTV, log_probs_NBTV.gather(1, places))
        divergence_NB = divergence_NBT.masked_fill(~forward.real_NBT | alone_NB[..., None], 0).sum(-1)
        measured_NB = (divergence_NB.detach() / forward.tokens_NB.clamp_min(1)).masked_fill(alone_NB, torch.nan)
        return UpdateTerms(terms_NB=weights_NB * divergence_NB, measured=[measured_NB])


def next_of_group(groups_NB: Tensor) -> Tensor:
    """The next row of the same group, cyclically; a row that is alone or has no group is paired with itself."""
    rows = torch.arange(groups_NB.shape[1], device=groups_NB.device)
    steps_BB = (rows[None, :] - rows[:, None] - 1) % len(rows)  # the largest distance: the row itself
    same_NBB = (groups_NB[:, :, None] == groups_NB[:, None, :]) & (groups_NB >= 0)[:, :, None]
    steps_NBB = steps_BB.where(same_NBB, steps_BB.diagonal().max())
    return (rows + 1 + steps_NBB.amin(-1)) % len(rows)
