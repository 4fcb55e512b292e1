"""The four cases of a loop before training: right or wrong, reconstructed or not."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from loopmt.theory.exact import Value, ratio


@dataclass(frozen=True)
class Partition:
    """Probabilities of the four cases (the paper's Case 1.1, 1.2, and the two halves of Case 2).

    These four numbers summarize a loop of any length: predictions need nothing else.
    """

    c11: Fraction
    """Right and reconstructed: Case 1.1."""
    c12: Fraction
    """Wrong but reconstructed: Case 1.2, the alignment problem, invisible to the loop."""
    c21: Fraction
    """Right but not reconstructed: what training puts at risk."""
    c22: Fraction
    """Wrong and not reconstructed: what training can correct."""

    @classmethod
    def of(cls, accuracy: Fraction, c11: Fraction, c12: Fraction) -> Partition:
        return cls(c11, c12, accuracy - c11, 1 - accuracy - c12)

    @property
    def accuracy(self) -> Fraction:
        """p = c11 + c21."""
        return self.c11 + self.c21

    @property
    def c2(self) -> Fraction:
        """Pr(Case 2): not reconstructed."""
        return self.c21 + self.c22

    @property
    def reconstructed(self) -> Fraction:
        """D = c11 + c12, the reconstruction rate."""
        return self.c11 + self.c12

    @property
    def precision(self) -> Value:
        """s = c11 / D = Pr(right | reconstructed)."""
        return ratio(self.c11, self.reconstructed)

    @property
    def likelihood(self) -> Value:
        """M = Pr(R=1 | Y=0) / Pr(R=1 | Y=1); undefined if Y=0 or Y=1 has probability 0."""
        if not self.accuracy or not self.c12 + self.c22:
            return None
        return ratio(self.c12 * self.accuracy, self.c11 * (self.c12 + self.c22))

    @property
    def breakeven(self) -> Value:
        """c21 / c2 = Pr(Y=1 | R=0): the accuracy in Case 2 that training needs to lose nothing."""
        return ratio(self.c21, self.c2)

    @property
    def covariance(self) -> Fraction:
        """Cov(Y, R) = c11 - p D: positive exactly when the loop is informative (M < 1)."""
        return self.c11 - self.accuracy * self.reconstructed

    def printed(self, alpha: Fraction) -> Fraction:
        """c11 + alpha c2, the shape of Theorems 1 and 2: Pr(right and reconstructed) after training."""
        return self.c11 + alpha * self.c2

    def correction(self, kappa: Fraction, u11: Fraction, u12: Fraction) -> Fraction:
        """The part of the accuracy that the theorems omit: kappa c2 + c12 u12 - c11 u11."""
        return kappa * self.c2 + self.c12 * u12 - self.c11 * u11

    def proportional(self, gamma: Fraction) -> Fraction | None:
        """Accuracy under hypothesis H: s (1 - gamma c2); undefined if nothing is reconstructed."""
        return self.c11 / self.reconstructed * (1 - gamma * self.c2) if self.reconstructed else None

    @property
    def gamma_star(self) -> Fraction | None:
        """(1 - p D / c11) / c2: hypothesis H predicts a gain exactly below this gamma."""
        if not self.c11 or not self.c2:
            return None
        return (1 - self.accuracy * self.reconstructed / self.c11) / self.c2

    def cells(self) -> dict[str, Fraction]:
        """The four cases and their sum Case 2, by name."""
        return {"c11": self.c11, "c12": self.c12, "c21": self.c21, "c22": self.c22, "c2": self.c2}
