"""`loopmt import`: makes a Hugging Face checkpoint the generator or the start of a direction."""

from __future__ import annotations

from pathlib import Path

import torch

from loopmt.config import Experiment
from loopmt.errors import ConfigError, PathError
from loopmt.files.regular import has_folder, subfolder
from loopmt.path import Hop, LanguagePath
from loopmt.pretrained.checkpoint import ImportedCheckpoint, ImportOptions
from loopmt.pretrained.generator import HuggingFaceGenerator
from loopmt.pretrained.importing import import_hugging_face
from loopmt.pretrained.start import check_fits, starting_weights
from loopmt.run import Json, Run
from loopmt.translate.networks import stack_of
from loopmt.translate.protocol import Codec, TrainableModel, TranslationModel


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
    hops = sorted(experiment.imports("generator"))
    return {hop: HuggingFaceGenerator(_open(run, hop), device, codec) for hop in hops}


def check_imported(experiment: Experiment, run: Run) -> None:
    """Refuse imports that are missing or do not fit, before the text is prepared."""
    for one in experiment.imported:
        found = _open(run, one.hop)
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
        model.load(starting_weights(_open(run, hop), stack_of(model), hop), strict=False)


def import_digests(experiment: Experiment, run: Run) -> Json:
    """The digests of the imports that a stage's weights depend on; empty if there are none."""
    if not experiment.imported:
        return {}
    return {"imported": {str(one.hop): [one.use, _open(run, one.hop).digest] for one in experiment.imported}}


def _place(run: Run, hop: Hop) -> Path:
    return subfolder(run.folder, "imported", f"{hop.source}-{hop.target}")


def _open(run: Run, hop: Hop) -> ImportedCheckpoint:
    if not has_folder(_place(run, hop)):
        raise ConfigError(
            f'imported "{hop}": there is nothing in {_place(run, hop)}. Bring it: '
            f'loopmt import --from hf DIR --direction "{hop}" --run {run.folder}'
        )
    return ImportedCheckpoint.open(_place(run, hop))
