"""Builds trainable models: for a stage, or with the weights of its result or of one of its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from loopmt.config import Experiment, Stage, Train, available_hops
from loopmt.errors import ExternalError, RunError
from loopmt.external import explained, imported
from loopmt.model.backend import precision
from loopmt.path import Hop
from loopmt.pretrained.module_stack import ModuleStack
from loopmt.pretrained.native_stack import NativeStack
from loopmt.run import Run
from loopmt.text.vocab import Vocab
from loopmt.translate.long_text import LongTextModel
from loopmt.translate.networks import NetworkStack, all_hops, stored_size
from loopmt.translate.protocol import DecodeLimits, TrainableModel, TranslationModel
from loopmt.workflow.permission import require_permission
from loopmt.workflow.pretrained import inherited_weights, open_stack

_SPARE = 3  # places of a row that text does not get: the end and two tags


@dataclass(frozen=True)
class ModelRequest:
    """What the trainable model of a stage is built from."""

    run: Run
    experiment: Experiment
    stage: Stage
    hops: tuple[Hop, ...]
    vocab: Vocab
    device: torch.device
    precision: torch.dtype  # of generating and scoring
    stored: Mapping[str, Tensor] | None = None  # weights that are loaded next

    @property
    def train(self) -> Train:
        return self.experiment.training(self.stage)


def build_model(
    run: Run,
    experiment: Experiment,
    stage: Stage,
    vocab: Vocab,
    device: torch.device,
    stored: Mapping[str, Tensor] | None = None,
    dtype: torch.dtype | None = None,
) -> TrainableModel:
    """The trainable model of a stage, without the weights of any stage."""
    hops = all_hops(experiment.languages, available_hops(experiment, stage.name))
    dtype = precision(experiment.training(stage), device) if dtype is None else dtype
    return _builder(experiment)(ModelRequest(run, experiment, stage, hops, vocab, device, dtype, stored))


def _builder(experiment: Experiment) -> Callable[[ModelRequest], TrainableModel]:
    if experiment.model.translator is not None:
        return find_trainable(experiment.model.translator)
    return _networks if experiment.model.pretrained is None else _checkpoints


def _networks(request: ModelRequest) -> NetworkStack:
    size = stored_size(request.stored) if request.stored else None
    model, fuse = request.experiment.model, request.train.fuse
    return NetworkStack(model, request.vocab, request.hops, request.device, fuse, size, request.precision)


def _checkpoints(request: ModelRequest) -> ModuleStack | NativeStack:
    run, experiment, stage = request.run, request.experiment, request.stage
    return open_stack(run, experiment, stage, request.vocab, request.device, request.precision)


def find_trainable(reference: str) -> Callable[[ModelRequest], TrainableModel]:
    """The function of `[model] translator`; its errors name it."""
    what = f'model.translator = "{reference}"'
    make = explained(imported(reference, "translator"), what)

    def checked(request: ModelRequest) -> TrainableModel:
        made = make(request)
        if not isinstance(made, TrainableModel):
            raise ExternalError(
                f"{what}: the function returned {f'{made!r}'[:80]}. Return a model that can be trained, such as a "
                "loopmt.translate.torch_stack.TorchStack."
            )
        return made

    return checked


def parent_weights(run: Run, experiment: Experiment, stage: Stage, parent: str) -> Mapping[str, Tensor]:
    """What a stage loads from the result of the stage that it starts from."""
    if experiment.model.pretrained is not None:
        return inherited_weights(run, experiment, stage)
    return run.stage(parent).result().tensors["weights"]


def model_with(
    run: Run,
    experiment: Experiment,
    stage: Stage,
    weights: Mapping[str, Tensor],
    device: torch.device,
    dtype: torch.dtype | None = None,
) -> TrainableModel:
    """The model of a stage with these weights."""
    require_permission(run, [experiment.model.translator or ""])
    vocab = Vocab.load(run.folder / "vocab")
    model = build_model(run, experiment, stage, vocab, device, weights, dtype)
    model.load(weights)
    return model


def result_of(
    run: Run, experiment: Experiment, stage: Stage, device: torch.device, dtype: torch.dtype | None = None
) -> TrainableModel:
    """The model of a finished stage."""
    weights = run.stage(stage.name).result().tensors["weights"]
    return model_with(run, experiment, stage, weights, device, dtype)


def check_unchanged(run: Run, stage: str, digest: str) -> None:
    """Refuse to store or score under a stage whose weights have changed, because it was trained again meanwhile."""
    if run.stage(stage).result_digest() != digest:
        raise RunError(
            f'{run.folder}: the result of stage "{stage}" was replaced while it was read. Give the command again.'
        )


def for_text(model: TranslationModel, vocab: Vocab, longest: int) -> LongTextModel:
    """A model that was trained on rows of at most `longest` subwords, for text of any length."""
    return LongTextModel(model, vocab, max(1, longest - _SPARE))


def text_limits(device: torch.device, longest: int) -> DecodeLimits:
    """How long a piece of text may get, for networks that were trained on rows of at most `longest` subwords."""
    return DecodeLimits.on(device, min(max(512, 2 * longest), 4096))
