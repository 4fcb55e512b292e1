"""R-Drop (Wu 2021): two passes with different dropout should give the same distributions (`train.r_drop`)."""

from __future__ import annotations

from torch import Tensor

from loopmt.learn.forward import ForwardPass
from loopmt.learn.objectives import Objective, StageSettings, UpdateTerms


def from_settings(settings: StageSettings) -> RDrop | None:
    alpha: float | None = settings.train.model_dump()["r_drop"]
    return RDrop(alpha) if alpha else None


class RDrop(Objective):
    """The mean loss of both passes, and alpha times the mean of both KL divergences between them."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def update_terms(self, forward: ForwardPass) -> UpdateTerms:
        other = forward.again()
        one_NBTV, other_NBTV = forward.log_probs(), other.log_probs()
        both_NBT = divergence(one_NBTV, other_NBTV) + divergence(other_NBTV, one_NBTV)
        term_NB = both_NBT.masked_fill(~forward.real_NBT, 0).sum(-1) / 2
        losses_NB = (other.losses_NB - forward.losses_NB) / 2
        return UpdateTerms(terms_NB=losses_NB + self.alpha * term_NB)


def divergence(one_NBTV: Tensor, other_NBTV: Tensor) -> Tensor:
    """KL(one || other) at every position."""
    return (one_NBTV.exp() * (one_NBTV - other_NBTV)).sum(-1)
