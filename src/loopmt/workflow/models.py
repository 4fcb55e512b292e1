"""Where translators are built: fresh for training, or with the weights of a stage's result or of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from loopmt.config import Experiment, Stage, spoken_hops
from loopmt.errors import RunError
from loopmt.model.backend import precision
from loopmt.run import Run
from loopmt.text.vocab import Vocab
from loopmt.translate.long_text import LongTextModel
from loopmt.translate.networks import NetworkStack, all_hops, stored_size
from loopmt.translate.protocol import DecodeLimits, TrainableModel, TranslationModel
from loopmt.workflow.pretrained import open_stack

_SPARE = 3  # places of a row that text does not get: the end and two tags


def build_networks(
    run: Run,
    experiment: Experiment,
    stage: Stage,
    vocab: Vocab,
    device: torch.device,
    size: int | None = None,
    dtype: torch.dtype | None = None,
) -> TrainableModel:
    """The networks of a stage, all weights 0. `size` is how many places tables have, `dtype` what they compute in.

    Pretrained checkpoints have the weights that they came with.
    """
    train = experiment.training(stage)
    dtype = precision(train, device) if dtype is None else dtype
    if experiment.model.pretrained is not None:
        return open_stack(run, experiment, stage, vocab, device, dtype)
    hops = all_hops(experiment.languages, spoken_hops(experiment, stage.name))
    return NetworkStack(experiment.model, vocab, hops, device, train.fuse, size, dtype)


def networks_with(
    run: Run,
    experiment: Experiment,
    stage: Stage,
    weights: Mapping[str, Tensor],
    device: torch.device,
    dtype: torch.dtype | None = None,
) -> TrainableModel:
    """The networks of a stage with these weights."""
    vocab = Vocab.load(run.folder / "vocab")
    size = stored_size(weights) if experiment.model.pretrained is None else None
    networks = build_networks(run, experiment, stage, vocab, device, size, dtype)
    networks.load(weights)
    return networks


def result_of(
    run: Run, experiment: Experiment, stage: Stage, device: torch.device, dtype: torch.dtype | None = None
) -> TrainableModel:
    """The networks of a finished stage."""
    weights = run.stage(stage.name).result().tensors["weights"]
    return networks_with(run, experiment, stage, weights, device, dtype)


def check_unchanged(run: Run, stage: str, digest: str) -> None:
    """A stage may be trained again meanwhile: nothing may be kept or scored under the name of other weights."""
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
