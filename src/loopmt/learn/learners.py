"""Selects the learner of a model by the name that the model gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from loopmt.errors import ConfigError
from loopmt.learn.captured import CapturedLearner
from loopmt.learn.learner import Learner, StageLearner
from loopmt.learn.module import ModuleLearner
from loopmt.learn.routes import StageSetup
from loopmt.registry import Registry
from loopmt.translate.networks import stack_of
from loopmt.translate.torch_stack import TorchStack

LearnerMaker = Callable[[StageSetup], StageLearner]


def _entry(name: str, make: LearnerMaker) -> LearnerMaker:
    return make


LEARNERS: Registry[LearnerMaker] = Registry("learner", _entry)


def learner_of(setup: StageSetup) -> StageLearner:
    """The learner of a stage's networks."""
    return LEARNERS.find(setup.networks.learner)(setup)


@LEARNERS.register("networks")
def train_networks(setup: StageSetup) -> Learner:
    """The learner of loopmt's own networks, which are computed together: sharded, by CUDA graphs, or eagerly."""
    networks, train, paths = stack_of(setup.networks), setup.train, len(setup.routes)
    return _network_learner(setup)(networks, train, paths, setup.processes, setup.largest_group, setup.objectives)


def _network_learner(setup: StageSetup) -> type[Learner]:
    if setup.train.shard:
        from loopmt.learn.sharded import ShardedLearner

        return ShardedLearner
    return CapturedLearner if setup.networks.device.type == "cuda" and setup.train.compile else Learner


@LEARNERS.register("modules")
def train_modules(setup: StageSetup) -> ModuleLearner:
    """The learner of torch modules, which are computed one after another."""
    networks, train, paths = cast(TorchStack, setup.networks), setup.train, len(setup.routes)
    if train.shard:
        raise ConfigError(
            "train.shard works only with loopmt's own transformer, but the Hugging Face module computes this "
            "checkpoint (`loopmt doctor --model FOLDER` says why). Set train.shard = false."
        )
    return ModuleLearner(networks, train, paths, setup.processes, setup.largest_group, setup.objectives)
