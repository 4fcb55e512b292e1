"""`train.rdrop`: R-Drop (Wu et al. 2021), two passes with different dropout that should give the same distributions.

The loss of a row is the mean loss of both passes, and alpha times the mean of both KL divergences between them, summed
over its tokens. It takes a second pass and the distributions of both: about twice the compute of an update.
"""

from __future__ import annotations

from loopmt.learn.divergence import symmetric_divergence
from loopmt.learn.forward import ForwardPass
from loopmt.learn.objectives import Objective, StageSettings, UpdateTerms


def from_settings(settings: StageSettings) -> RDrop | None:
    return RDrop(settings.train.rdrop) if settings.train.rdrop else None


class RDrop(Objective):
    """Factors of rows multiply the mean loss, not the divergence."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def update_terms(self, forward: ForwardPass) -> UpdateTerms:
        other = forward.again()
        divergence_NBT = symmetric_divergence(forward.log_probs(), other.log_probs())
        term_NB = self.alpha * divergence_NBT.masked_fill(~forward.real_NBT, 0).sum(-1)
        return UpdateTerms(losses_NB=(other.losses_NB - forward.losses_NB) / 2, terms_NB=term_NB)
