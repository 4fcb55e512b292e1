"""Objectives: what a stage minimises beside the label-smoothed loss of its rows.

The loss of an update is the sum over rows of `factor * loss + term`, divided by the number of target tokens. Without an
objective every factor is 1 and there is no term. An objective gives factors and terms in two places, both optional:

- `round_factors`, once per round, sees the rows of every path, what was generated for them and how likely it was:
  the place for rewards;
- `update_terms`, in every update, sees the forward pass, a second pass with other dropout if it asks for one, and
  log-probabilities of the vocabulary: the place for consistency terms and for weights that need the current loss.

An objective keeps no state from one round to the next, so that a resumed run builds it anew and goes on exactly.
Budgets, packing, logged losses and the division by tokens do not depend on factors.

To add one, write a module with a function that makes it from a `StageSettings` (None where the stage does not turn it
on), declare the key that turns it on in `config.schema`, with the default None (off), and name both in `OBJECTIVES`.

Shapes: N networks, B rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from torch import Tensor

from loopmt.config import MixEntry, Train
from loopmt.learn.forward import BatchTensors, Computation, ForwardPass
from loopmt.path import LanguagePath
from loopmt.text.batch import Factors
from loopmt.text.ragged import Ints, Ragged
from loopmt.translate.protocol import Floats, TrainableModel


@dataclass(frozen=True)
class PathRows:
    """The rows that a path brings to a round: row i of each field belongs together."""

    path: LanguagePath
    entry: MixEntry
    sources: Ragged  # without tags
    targets: Ragged
    groups: Ints  # samples of the same real sentence share a number, if an objective groups them; else -1
    generated: Ragged | None  # the generated side, as it was generated; None where both sides are real
    scores: Floats  # log-probability of all that was generated for the row; 0 where nothing was

    def take(self, numbers: Ints) -> PathRows:
        generated = None if self.generated is None else self.generated.take(numbers)
        sides = (self.sources.take(numbers), self.targets.take(numbers))
        return PathRows(self.path, self.entry, *sides, self.groups[numbers], generated, self.scores[numbers])


@dataclass(frozen=True)
class UpdateTerms:
    """What an objective adds to an update; None changes nothing."""

    factors_NB: Tensor | None = None  # multiply the losses of the rows; gradients do not flow through them
    terms_NB: Tensor | None = (
        None  # added to the losses, with gradient, whatever the factors; ignored where there is no row
    )


class Objective:
    """One that does nothing: a subclass overrides what it needs."""

    def groups(self, entry: MixEntry) -> bool:
        """Whether the samples of a real sentence must meet in one batch."""
        return False

    def round_factors(self, rows: Sequence[PathRows]) -> Sequence[Factors] | None:
        """Factors for the rows of each path of a round. All processes call it with all rows."""
        return None

    def update_terms(self, forward: ForwardPass) -> UpdateTerms | None:
        """Factors and terms for the rows of a batch. On CUDA it is captured in a graph: tensor operations only."""
        return None


def total_loss(
    computation: Computation, batch: BatchTensors, objectives: Sequence[Objective]
) -> tuple[Tensor, Tensor, Tensor]:
    """What an update minimises, summed over rows; and the rows' own losses and tokens, for the log."""
    forward = ForwardPass.over(computation, batch)
    factors, terms = batch.factors_NB, list[Tensor]()
    for objective in objectives:
        found = objective.update_terms(forward) or UpdateTerms()
        if found.factors_NB is not None:
            factors = factors * found.factors_NB.detach()
        if found.terms_NB is not None:
            terms.append(found.terms_NB)
    total = (forward.losses_NB * factors).sum()
    for term in terms:
        total = total + term.masked_fill(forward.tokens_NB == 0, 0).sum()
    return total, forward.losses_NB.detach(), forward.tokens_NB


# -- which there are -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StageSettings:
    """What an objective is made from."""

    train: Train
    entries: Sequence[MixEntry]  # of every path of the stage, by the number that rows name it by
    model: TrainableModel


@dataclass(frozen=True)
class Registered:
    """The key of an experiment file that turns an objective on, and the function that makes it."""

    key: str  # "train.KEY" or "mix.KEY"
    place: str  # "module:function"; imported when a stage is assembled

    def make(self, settings: StageSettings) -> Objective | None:
        module, _, name = self.place.partition(":")
        factory = cast(Callable[[StageSettings], Objective | None], getattr(import_module(module), name))
        return factory(settings)


OBJECTIVES: Mapping[str, Registered] = {
    "logmeanexp": Registered("mix.combine", "loopmt.learn.logmeanexp:from_settings"),
}


def objectives_of(settings: StageSettings) -> list[Objective]:
    """The objectives that a stage turns on."""
    made = (registered.make(settings) for registered in OBJECTIVES.values())
    return [objective for objective in made if objective is not None]
