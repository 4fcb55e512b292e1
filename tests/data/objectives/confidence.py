"""A penalty on confident distributions (Pereyra 2017), measured in a pass of its own (`train.confidence`)."""

from __future__ import annotations

from loopmt.learn.forward import ForwardPass
from loopmt.learn.objectives import Objective, StageSettings, UpdateTerms


def from_settings(settings: StageSettings) -> Confidence | None:
    penalty: float | None = settings.train.model_dump()["confidence"]
    return Confidence(penalty) if penalty else None


class Confidence(Objective):
    """The negative entropy of every target position."""

    def __init__(self, penalty: float) -> None:
        self.penalty = penalty

    def update_terms(self, forward: ForwardPass) -> UpdateTerms:
        logprobs_NBTV = forward.again().log_probs()
        negative_NBT = (logprobs_NBTV.exp() * logprobs_NBTV).sum(-1)
        return UpdateTerms(terms_NB=self.penalty * negative_NBT.masked_fill(~forward.real_NBT, 0).sum(-1))
