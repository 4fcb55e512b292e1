"""Objectives: changes of the training loss beyond label-smoothed cross-entropy.

The loss of an update is the sum over rows of `factor * loss + term`, divided by the number of target tokens. Without an
objective every factor is 1 and there is no term. An objective returns them from two methods, both optional:

- `round_factors`, called once per round, gets the rows of every path, the generated text, its log-probability and its
  reward. Weights of whole rows belong here.
- `update_terms`, called in every update, gets the forward pass, which offers a second pass with other dropout and the
  log-probabilities of the vocabulary. Consistency terms and weights that need the current loss belong here.

An objective keeps no state between rounds, so that a resumed run continues exactly. Budgets, packing, logged losses and
the division by tokens do not depend on factors.

A function makes an objective from a `StageSettings`. `train.objectives` names functions of other modules. For an
objective of loopmt, write a module with a function that returns None where the stage does not turn it on, declare the
key that turns it on in `config.schema`, with the default None (off), and name both in `OBJECTIVES`.

Shapes: N networks, B rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple, cast

import numpy as np
from torch import Tensor

from loopmt.config import Generate, MixEntry, Train
from loopmt.errors import ExternalError, LoopmtError
from loopmt.external import cause, explained, imported
from loopmt.learn.forward import BatchTensors, ForwardPass
from loopmt.model.out_of_memory import is_out_of_memory
from loopmt.path import Hop, LanguagePath
from loopmt.text.batch import Factors
from loopmt.text.ragged import Ints, Ragged
from loopmt.translate.protocol import Computation, Floats, TrainableModel


@dataclass(frozen=True)
class DrawnColumns:
    """Columns of rewarded rows, whose `scores` are the log-probabilities with which the targets were drawn."""

    rewards: Floats
    sentences: Ints  # samples of one real sentence share a number

    def take(self, numbers: Ints) -> DrawnColumns:
        return DrawnColumns(self.rewards[numbers], self.sentences[numbers])


@dataclass(frozen=True)
class PathRows:
    """The rows of a path in a round, as parallel columns."""

    path: LanguagePath
    entry: MixEntry
    sources: Ragged  # without tags
    targets: Ragged
    groups: Ints  # samples of one real sentence share a number if an objective groups them; else -1
    generated: Ragged | None  # the generated side without subword dropout; None if both sides are real
    scores: Floats  # log-probability of all text generated for the row; 0 if none was
    drawn: DrawnColumns | None = None  # of rewarded rows

    def take(self, numbers: Ints) -> PathRows:
        generated = None if self.generated is None else self.generated.take(numbers)
        sides = (self.sources.take(numbers), self.targets.take(numbers))
        drawn = None if self.drawn is None else self.drawn.take(numbers)
        return PathRows(self.path, self.entry, *sides, self.groups[numbers], generated, self.scores[numbers], drawn)


@dataclass(frozen=True)
class UpdateTerms:
    """Factors and terms of an objective in an update; None changes nothing."""

    factors_NB: Tensor | None = None  # multiply the losses of the rows; gradients do not flow through them
    losses_NB: Tensor | None = None  # added to the losses, with gradient, before factors multiply them
    terms_NB: Tensor | None = (
        None  # added to the losses, with gradient, independently of the factors; ignored for padding rows
    )
    measured: Sequence[Tensor] = ()  # (N, B) each, by the names of `Objective.measures`; NaN where not measured


class Objective:
    """The base class; its methods change nothing. Subclasses override what they need."""

    measures: Sequence[str] = ()
    """The names of the values that `update_terms` measures; the log has their means over rows, by path."""

    def groups(self, entry: MixEntry) -> bool:
        """Whether the samples of a real sentence must be in one batch."""
        return False

    def joins(self, entry: MixEntry) -> bool:
        """Whether the rows of all such entries that share real sentences (`same_rows`) must be in one batch."""
        return False

    def round_factors(self, rows: Sequence[PathRows]) -> Sequence[Factors] | None:
        """Factors for the rows of each path in a round. All processes call it with all rows."""
        return None

    def update_terms(self, forward: ForwardPass) -> UpdateTerms | None:
        """Factors and terms for the rows of a batch. Use only tensor operations: on CUDA a graph captures them."""
        return None


class BatchLoss(NamedTuple):
    """The loss of a batch, and the values of its rows for the log."""

    total: Tensor  # summed over rows
    losses_NB: Tensor  # without factors and terms
    tokens_NB: Tensor
    measured: Sequence[Tensor]  # (N, B) each


def total_loss(computation: Computation, batch: BatchTensors, objectives: Sequence[Objective]) -> BatchLoss:
    """The loss of an update with the factors and terms of all objectives."""
    forward = ForwardPass.over(computation, batch)
    losses, factors, terms, measured = forward.losses_NB, batch.factors_NB, list[Tensor](), list[Tensor]()
    for objective in objectives:
        found = objective.update_terms(forward) or UpdateTerms()
        if found.factors_NB is not None:
            factors = factors * found.factors_NB.detach()
        if found.losses_NB is not None:
            losses = losses + found.losses_NB
        if found.terms_NB is not None:
            terms.append(found.terms_NB)
        measured += found.measured
    total = (losses * factors).sum()
    for term in terms:
        total = total + term.masked_fill(forward.tokens_NB == 0, 0).sum()
    return BatchLoss(total, forward.losses_NB.detach(), forward.tokens_NB, measured)


def measures_of(objectives: Sequence[Objective]) -> list[str]:
    return [name for objective in objectives for name in objective.measures]


# -- registered objectives -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StageSettings:
    """The input of the functions that make objectives."""

    train: Train
    entries: Sequence[MixEntry]  # of every path of the stage, by route number
    model: TrainableModel
    drawn: Sequence[tuple[Hop, Generate] | None] = ()  # by route number: what draws the targets of a rewarded hop


@dataclass(frozen=True)
class Registered:
    """The experiment key that turns an objective on, and the function that makes it."""

    key: str  # "train.KEY" or "mix.KEY"
    place: str  # "module:function"; imported when a stage is assembled

    def make(self, settings: StageSettings) -> Objective | None:
        module, _, name = self.place.partition(":")
        factory = cast(Callable[[StageSettings], Objective | None], getattr(import_module(module), name))
        return factory(settings)


OBJECTIVES: Mapping[str, Registered] = {
    "logmeanexp": Registered("mix.combine", "loopmt.learn.logmeanexp:from_settings"),
    "rdrop": Registered("train.rdrop", "loopmt.learn.rdrop:from_settings"),
    "consistency": Registered("mix.consistency", "loopmt.learn.consistency:from_settings"),
    "reward": Registered("mix.reward", "loopmt.learn.reward:from_settings"),
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
        self.measures = own.measures

    def groups(self, entry: MixEntry) -> bool:
        return bool(explained(self.own.groups, self.what)(entry))

    def joins(self, entry: MixEntry) -> bool:
        return bool(explained(self.own.joins, self.what)(entry))

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

    def _fits(self, found: object, losses_NB: Tensor) -> bool:
        if not isinstance(found, UpdateTerms) or len(found.measured) != len(self.measures):
            return False
        given = (found.factors_NB, found.losses_NB, found.terms_NB, *found.measured)
        return all(one is None or (isinstance(one, Tensor) and one.shape == losses_NB.shape) for one in given)
