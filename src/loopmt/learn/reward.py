"""Rewards (`reward`, `credit = "all"`): generating hops learn from their own samples, weighted by the advantage.

A rewarded row has the input of a hop as its source and the sample as its target. Its factor is the advantage, its
score the log-probability with which the target was drawn. The objective replaces the loss of such rows by the
policy-gradient loss (`model.policy_gradient`); all other rows keep theirs. Log-probabilities are computed without
dropout, as in generation, and truncation (top-k, nucleus) under the current weights.

Shapes: N networks, B rows, T target length, V vocabulary, J paths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from loopmt.config import Generate
from loopmt.errors import ConfigError
from loopmt.learn.forward import ForwardPass
from loopmt.learn.objectives import Objective, PathRows, StageSettings, UpdateTerms
from loopmt.model.policy_gradient import advantages, drawn_log_probs, policy_terms
from loopmt.path import Hop
from loopmt.text.batch import Factors
from loopmt.translate.protocol import RewardedModel


def from_settings(settings: StageSettings) -> RewardObjective | None:
    if not any(settings.drawn):
        return None
    if not isinstance(settings.model, RewardedModel):
        raise ConfigError(
            f'credit = "all": {type(settings.model).__name__} does not expose its sampling distribution '
            '(`drawable` and `drawn_scores` of `RewardedModel`). Set credit = "last".'
        )
    return RewardObjective(settings, settings.model)


class RewardObjective(Objective):
    """The policy gradient of the routes of rewarded hops."""

    measures = ("ratio", "clipped")

    def __init__(self, settings: StageSettings, model: RewardedModel) -> None:
        def column(values: Sequence[float]) -> Tensor:
            return torch.tensor(values, device=model.device)

        self.draws = list(dict.fromkeys(how for how in map(_how, settings.drawn) if how is not None))
        self.rewarded_J = column([one is not None for one in settings.drawn])
        self.draw_J = column([self.draws.index(how) if (how := _how(one)) else -1 for one in settings.drawn])
        self.clip_J = column([entry.ratio_clip or math.inf for entry in settings.entries])
        self.kl_J = column([entry.kl or 0.0 for entry in settings.entries])
        hops = list(dict.fromkeys(one[0] for one in settings.drawn if one is not None))
        self.mask_HV = pad_sequence([model.drawable(hop) for hop in hops], True, -math.inf)
        self.hop_J = column([hops.index(one[0]) if one is not None else 0 for one in settings.drawn])

    def round_factors(self, rows: Sequence[PathRows]) -> list[Factors]:
        return [_factors(one) for one in rows]

    def update_terms(self, forward: ForwardPass) -> UpdateTerms:
        paths_NB = forward.batch.paths_NB.clamp_min(0)
        mine_NB, batch = self.rewarded_J[paths_NB], forward.batch
        clip_NB = self.clip_J[paths_NB]
        log_probs_NB = self._log_probs(forward.steady(), paths_NB)
        drawn_at_NB = torch.where(mine_NB, batch.scores_NB, log_probs_NB.detach())
        found = policy_terms(log_probs_NB, drawn_at_NB, batch.factors_NB, clip_NB, self.kl_J[paths_NB])
        clipped_NB = ((found.ratios - 1).abs() > clip_NB).float()
        measured = [one.masked_fill(~mine_NB, math.nan) for one in (found.ratios, clipped_NB)]
        return UpdateTerms((~mine_NB).float(), terms_NB=found.losses.masked_fill(~mine_NB, 0), measured=measured)

    def _log_probs(self, forward: ForwardPass, paths_NB: Tensor) -> Tensor:
        """The log-probability (N, B) of drawing each target now; 0 for other rows."""
        logits_NBTV, labels_NBT = forward.logits(), forward.drawn_labels()
        mask_NBV = self.mask_HV[self.hop_J[paths_NB], : logits_NBTV.shape[-1]]
        log_probs_NB = torch.zeros_like(forward.losses_NB, dtype=torch.float32)
        for number, how in enumerate(self.draws):
            mine_NB = self.draw_J[paths_NB] == number
            labels = labels_NBT.masked_fill(~mine_NB[..., None], -1)
            own_NBV = mask_NBV.masked_fill(~mine_NB[..., None], 0)
            log_probs_NB = log_probs_NB + drawn_log_probs(logits_NBTV + own_NBV[:, :, None], labels, how)
        return log_probs_NB


def _how(drawn: tuple[Hop, Generate] | None) -> Generate | None:
    return None if drawn is None else drawn[1]


def _factors(rows: PathRows) -> Factors:
    """The advantages of rewarded rows; for other rows of their path, the weight of the last hop's loss."""
    if rows.drawn is not None:
        found = advantages(rows.drawn.rewards, rows.drawn.sentences, rows.entry.baseline)
        return found.astype(np.float32)
    factor = rows.entry.likelihood if rows.entry.credit == "all" else 1.0
    return np.full(len(rows.scores), factor, np.float32)
