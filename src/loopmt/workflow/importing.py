"""`loopmt import`: makes a Hugging Face checkpoint the generator or the start of a direction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from loopmt.config import Experiment, Generate
from loopmt.config.schema import Imported
from loopmt.errors import ConfigError, PathError
from loopmt.files.regular import has_folder, subfolder
from loopmt.learn.routes import Route
from loopmt.path import Hop, LanguagePath
from loopmt.pretrained.checkpoint import ImportedCheckpoint, ImportOptions
from loopmt.pretrained.generator import HuggingFaceGenerator
from loopmt.pretrained.importing import import_hugging_face
from loopmt.pretrained.start import check_fits, starting_weights
from loopmt.run import Json, Run
from loopmt.translate.answers import AnswerFile
from loopmt.translate.endpoint import EndpointTranslator
from loopmt.translate.networks import stack_of
from loopmt.translate.protocol import (
    Codec,
    DecodeLimits,
    HopInput,
    Sentences,
    TrainableModel,
    TranslationModel,
)

_TRIAL_RETRIES = 2


def direction(text: str) -> Hop:
    hops = LanguagePath.parse(text).hops
    if len(hops) != 1:
        raise PathError(f"{text} is no direction: write two languages, as in en>fr.")
    return hops[0]


def import_translator(source: Path, run: Path, options: ImportOptions) -> ImportedCheckpoint:
    """Copy the checkpoint into RUN/imported."""
    into = Run(run)
    into.refuse_unknown_files()
    return import_hugging_face(source, _place(into, options.hop), options)


def generators(experiment: Experiment, run: Run, device: torch.device, codec: Codec) -> dict[Hop, TranslationModel]:
    """The models that translate imported directions where a hop says `by = "frozen"`."""
    found = [one for one in experiment.imported if one.use == "generator"]
    return {one.hop: _generator(one, run, device, codec) for one in sorted(found, key=lambda one: one.hop)}


def _generator(one: Imported, run: Run, device: torch.device, codec: Codec | None) -> TranslationModel:
    if one.url is None:
        return HuggingFaceGenerator(opened(run, one.hop), device, codec)
    return EndpointTranslator.of(one, AnswerFile(_place(run, one.hop, ".endpoint") / "answers.jsonl"), codec, device)


def endpoint_hops(experiment: Experiment, routes: Sequence[Route]) -> list[Hop]:
    """The hops of a stage that endpoints generate."""
    endpoints = {one.hop for one in experiment.imported if one.url is not None}
    pairs = [pair for route in routes for pair in zip(route.path.generating, route.settings, strict=True)]
    return sorted({hop for hop, how in pairs if hop in endpoints and "frozen" in how.generators})


def try_endpoints(experiment: Experiment, run: Run) -> None:
    """Ask each endpoint for a translation, before hours of other work. A resumed run need not ask again."""
    for one in experiment.imported:
        if one.url is not None:
            trial = one.model_copy(update={"retries": min(one.retries, _TRIAL_RETRIES)})
            model = _generator(trial, run, torch.device("cpu"), None)
            text = Sentences(None, one.hop.source, texts=["1, 2, 3."])
            model.generate([HopInput(one.hop, text)], Generate(how="greedy"), DecodeLimits(), ("trial",))


def check_imported(experiment: Experiment, run: Run) -> None:
    """Refuse imports that are missing or do not fit, before the text is prepared."""
    for one in experiment.imported:
        if one.url is not None:
            continue
        found = opened(run, one.hop)
        if one.use == "start":
            check_fits(found, experiment.model)
            _check_no_prefix(found)


def _check_no_prefix(found: ImportedCheckpoint) -> None:
    """A network that starts from it reads sources without a prefix."""
    if found.options.prefix:
        raise ConfigError(
            f'imported "{found.options.hop}" was imported with --prefix "{found.options.prefix}", which a start never '
            'reads. Set use = "generator", or train the checkpoint as it is: [model] pretrained (docs/pretrained.md).'
        )


def start_imported(experiment: Experiment, run: Run, model: TrainableModel) -> None:
    """Copy imported weights into the directions that start from them."""
    for hop in sorted(experiment.imports("start")):
        model.load(starting_weights(opened(run, hop), stack_of(model), hop), strict=False)


def import_digests(experiment: Experiment, run: Run) -> Json:
    """The digests of the imports that a stage's weights depend on; empty if there are none."""
    if not experiment.imported:
        return {}
    entries: dict[str, list[str]] = {}
    for one in sorted(experiment.imported, key=lambda one: one.use, reverse=True):
        entries.setdefault(str(one.hop), []).extend([one.use, _digest(one, run)])
    return {"imported": {str(one.hop): entries[str(one.hop)] for one in experiment.imported}}


def _digest(one: Imported, run: Run) -> str:
    """Of an endpoint: what it is asked. Its address, and how it is reached, may change."""
    if one.url is None:
        return opened(run, one.hop).digest
    asked = one.model_dump(mode="json", include={"model", "prompt", "names", "options"})
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _place(run: Run, hop: Hop, kind: str = "") -> Path:
    return subfolder(run.folder, "imported", f"{hop.source}-{hop.target}{kind}")


def opened(run: Run, hop: Hop) -> ImportedCheckpoint:
    """The checkpoint of a direction."""
    if not has_folder(_place(run, hop)):
        raise ConfigError(
            f'imported "{hop}": there is nothing in {_place(run, hop)}. Bring it: '
            f'loopmt import --from hf DIR --direction "{hop}" --run {run.folder}'
        )
    return ImportedCheckpoint.open(_place(run, hop))
