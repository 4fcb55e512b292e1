"""Objectives: what a stage minimises beside the label-smoothed loss of its rows.

The loss of an update is the sum over rows of `factor * loss + term`, divided by the number of target tokens. Without an
objective every factor is 1 and there is no term. An objective gives them in two places, both optional:

- `round_factors`, once per round, sees the rows of every path, what was generated for them and how likely it was:
  the place for rewards;
- `update_terms`, in every update, sees the forward pass, a second pass with other dropout if it asks for one, and
  log-probabilities of the vocabulary: the place for consistency terms and for weights that need the current loss.

An objective keeps no state from one round to the next, so that a resumed run builds it anew and goes on exactly.
Budgets, packing, logged losses and the division by tokens do not depend on factors.

A function makes an objective from a `StageSettings`. `train.objectives` names functions of other modules. For an
objective of loopmt, write a module with a function that returns None where the stage does not turn it on, declare the
key that turns it on in `config.schema`, with the default None (off), and name both in `OBJECTIVES`.

Shapes: N networks, B rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

import numpy as np
from torch import Tensor

from loopmt.config import MixEntry, Train
from loopmt.errors import ExternalError, LoopmtError
from loopmt.external import cause, explained, imported
from loopmt.learn.forward import BatchTensors, Computation, ForwardPass
from loopmt.model.out_of_memory import is_out_of_memory
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
    losses_NB: Tensor | None = None  # added to the losses, with gradient, before factors multiply them
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
    losses, factors, terms = forward.losses_NB, batch.factors_NB, list[Tensor]()
    for objective in objectives:
        found = objective.update_terms(forward) or UpdateTerms()
        if found.factors_NB is not None:
            factors = factors * found.factors_NB.detach()
        if found.losses_NB is not None:
            losses = losses + found.losses_NB
        if found.terms_NB is not None:
            terms.append(found.terms_NB)
    total = (losses * factors).sum()
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
    "rdrop": Registered("train.rdrop", "loopmt.learn.rdrop:from_settings"),
}


def objectives_of(settings: StageSettings) -> list[Objective]:
    """The objectives that a stage turns on."""
    made = [registered.make(settings) for registered in OBJECTIVES.values()]
    named = [named_objective(reference, settings) for reference in settings.train.objectives]
    return [objective for objective in [*made, *named] if objective is not None]


# -- of other modules ----------------------------------------------------------------------------------------


def named_objective(reference: str, settings: StageSettings) -> Objective | None:
    """What `module:function` makes for a stage; its errors name it."""
    what = f'objective "{reference}"'
    made = explained(imported(reference, "objective"), what)(settings)
    if made is not None and not isinstance(made, Objective):
        raise ExternalError(
            f"{what}: the function returned {f'{made!r}'[:80]}. Return a loopmt.learn.objectives.Objective, or None."
        )
    return None if made is None else _NamedObjective(what, made)


class _NamedObjective(Objective):
    """An objective of another module, whose results are checked."""

    def __init__(self, what: str, own: Objective) -> None:
        self.what = what
        self.own = own

    def groups(self, entry: MixEntry) -> bool:
        return bool(explained(self.own.groups, self.what)(entry))

    def round_factors(self, rows: Sequence[PathRows]) -> Sequence[Factors] | None:
        found = explained(self.own.round_factors, self.what)(rows)
        wanted = [len(one.scores) for one in rows]
        if found is not None and [np.shape(one) for one in found] != [(count,) for count in wanted]:
            raise ExternalError(f"{self.what}: round_factors must return one factor for each row of each path.")
        return found

    def update_terms(self, forward: ForwardPass) -> UpdateTerms | None:
        try:
            found = self.own.update_terms(forward)
        except Exception as error:
            if isinstance(error, LoopmtError) or is_out_of_memory(error):
                raise
            raise ExternalError(f"{self.what} failed: {cause(error)}.") from error
        if found is not None and not self._fits(found, forward.losses_NB):
            shape = tuple(forward.losses_NB.shape)
            raise ExternalError(f"{self.what}: update_terms must return UpdateTerms of tensors of the shape {shape}.")
        return found

    @staticmethod
    def _fits(found: object, losses_NB: Tensor) -> bool:
        if not isinstance(found, UpdateTerms):
            return False
        given = (found.factors_NB, found.losses_NB, found.terms_NB)
        return all(one is None or (isinstance(one, Tensor) and one.shape == losses_NB.shape) for one in given)
