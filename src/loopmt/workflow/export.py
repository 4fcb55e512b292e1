"""`loopmt export`: every network of a stage to Hugging Face or CTranslate2, checked before the folder appears."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch

from loopmt.config.pretrained import PRETRAINED
from loopmt.errors import ConfigError, DataError, RunError
from loopmt.evaluation.metrics import sacre_bleu
from loopmt.export.ct2 import CTranslate2Model, Type, check_installed, write_ct2
from loopmt.export.huggingface import HuggingFaceModel, check_exportable, write_hugging_face
from loopmt.export.network import ExportedNetwork, networks
from loopmt.export.parity import ExportedModel, Parity, ParityText, compare
from loopmt.export.pretrained import compare_pretrained, loaded, write_adapter, write_pretrained
from loopmt.export.readme import Format
from loopmt.files.folder import appearing
from loopmt.path import Hop
from loopmt.pretrained.module_stack import ModuleStack
from loopmt.pretrained.native_stack import NativeStack
from loopmt.progress import Progress
from loopmt.run import Run, write_json
from loopmt.text.store import Store
from loopmt.translate.networks import NetworkStack, stack_of
from loopmt.translate.protocol import TrainableModel
from loopmt.workflow.models import result_of
from loopmt.workflow.pretrained import modules_of, named_checkpoints, origin_of
from loopmt.workflow.stage_choice import choose_stage

_MOST_LOSS, _LEAST_AGREEMENT = 2.0, 0.8  # rounding to int8 that costs more BLEU and agrees less has failed


@dataclass(frozen=True)
class ExportOptions:
    """What the user asked for."""

    to: Format
    out: Path
    stage: str | None = None
    kind: Type = "float32"
    sentences: int = 100
    merge: bool = False
    """Write a trained adapter as a whole checkpoint."""


def export(folder: Path, options: ExportOptions, progress: Progress) -> list[Parity]:
    """Write the folder. It appears only if the exported networks translate like the originals."""
    run = Run.open(folder)
    experiment = run.experiment()
    stage = choose_stage(run, experiment, options.stage)
    if experiment.model.translator is not None:
        raise ConfigError(
            f'{run.folder}: stage "{stage.name}" trains model.translator = "{experiment.model.translator}", which '
            "loopmt cannot export. Its weights are in RUN/stages/STAGE/result/weights.safetensors."
        )
    model = result_of(run, experiment, stage, torch.device("cpu"), torch.float32)
    if experiment.model.pretrained is not None:
        ours = cast(ModuleStack | NativeStack, model)
        return _export_pretrained(run, stage.name, ours, modules_of(run, experiment, stage), options, progress)
    translators = stack_of(model)
    found = networks(translators, experiment.vocab.kind, experiment.training(stage).max_length)
    _check_possible(found, options)
    store = Store.open(run.folder / "store")
    parities = []
    with appearing(options.out) as draft:
        for network in found:
            trials = [_trial(store, translators, hop, options.sentences) for hop in network.hops]
            parities += _write_checked(network, draft / network.name, options, translators, trials)
            progress.say(f"{network.name}: written and checked")
        write_json(draft / "parity.json", {"to": options.to, "stage": stage.name, "found": list(map(asdict, parities))})
    return parities


def _export_pretrained(
    run: Run,
    stage: str,
    ours: ModuleStack | NativeStack,
    model: ModuleStack,
    options: ExportOptions,
    progress: Progress,
) -> list[Parity]:
    """Each checkpoint of the stage in its original form, with the trained weights; it must translate like `ours`."""
    if options.to != "hf":
        raise ConfigError(
            f'{run.folder}: stage "{stage}" is a pretrained checkpoint, which has its own architecture: export it with '
            "--to hf, and convert that folder with ct2-transformers-converter."
        )
    if not options.merge and any(network.adapted for network in model.networks.values()):
        _check_base(run, stage)
    store = Store.open(run.folder / "store")
    with appearing(options.out) as draft:
        places = {name: draft / name.replace(">", "-") for name in model.networks}
        for name, network in model.networks.items():
            hops = [hop for hop in model.hops if model.shared or str(hop) == name]
            if network.adapted and not options.merge:
                write_adapter(network, hops, named_checkpoints(run)[name], places[name])
            else:
                write_pretrained(network, hops, origin_of(run, name), places[name])
        theirs = loaded(model, places.__getitem__, lambda name: origin_of(run, name))
        trials = [_trial(store, model, hop, options.sentences) for hop in model.hops]
        parities = [compare_pretrained(ours, theirs, trial, _bleu) for trial in trials]
        _check_exact(parities)
        progress.say(f"{', '.join(place.name for place in places.values())}: written and checked")
        write_json(draft / "parity.json", {"to": "hf", "stage": stage, "found": list(map(asdict, parities))})
    return parities


def _check_base(run: Run, stage: str) -> None:
    """Refuse to write an adapter alone if its base is not the checkpoint that a user can load."""
    experiment = run.experiment()
    base = experiment.adapter_base(experiment.stage(stage))
    if base.name != PRETRAINED:
        raise ConfigError(
            f'{run.folder}: the adapter of stage "{stage}" lies on the weights of stage "{base.name}", not on those of '
            "the checkpoint. Add --merge to write the whole checkpoint."
        )


def _check_possible(found: Sequence[ExportedNetwork], options: ExportOptions) -> None:
    if options.to == "hf":
        check_exportable(found[0])
    else:
        check_installed()


# -- parity ------------------------------------------------------------------------------------------------------


def _trial(store: Store, translators: TrainableModel, hop: Hop, most: int) -> ParityText:
    """Sentences of the validation set or a test set; if a language has none, of its monolingual text."""
    for name in ("valid", *store.tests):
        if pair := store.pair_texts(name, hop.source, hop.target):
            return ParityText(hop, pair[0][:most], pair[1][:most])
    sources = [text for name in ("valid", *store.tests) for text in store.texts(name, hop.source)][:most]
    if not sources and store.has_mono(hop.source):
        side = store.mono(hop.source)
        sources = translators.vocab.decode(side.take(np.arange(min(most, len(side)))).rows(), hop.source)
    if not sources:
        raise DataError(f"{store.folder} has no {hop.source} text to check {hop} on.")
    return ParityText(hop, sources)


def _write_checked(
    network: ExportedNetwork,
    folder: Path,
    options: ExportOptions,
    translators: NetworkStack,
    trials: Sequence[ParityText],
) -> list[Parity]:
    if options.to == "hf":
        write_hugging_face(network, folder)
        return _exact(HuggingFaceModel(network, folder), translators, trials)
    with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
        lossless = folder if options.kind == "float32" else Path(aside) / network.name
        write_ct2(network, lossless, "float32")
        parities = _exact(_ctranslate2(network, lossless, "float32"), translators, trials)
    if options.kind == "float32":
        return parities
    write_ct2(network, folder, options.kind)
    return _rounded(_ctranslate2(network, folder, options.kind), translators, trials)


def _ctranslate2(network: ExportedNetwork, folder: Path, kind: Type) -> CTranslate2Model:
    return CTranslate2Model(dict.fromkeys(network.hops, folder), network.vocab, network.shared, kind)


def _exact(exported: ExportedModel, translators: NetworkStack, trials: Sequence[ParityText]) -> list[Parity]:
    parities = [compare(translators, trial, exported, _bleu) for trial in trials]
    _check_exact(parities)
    return parities


def _check_exact(parities: Sequence[Parity]) -> None:
    if failures := [failure for parity in parities for failure in parity.failures()]:
        raise RunError(f"the exported network is not ours: {'; '.join(failures)}. Nothing was written.")


def _rounded(exported: ExportedModel, translators: NetworkStack, trials: Sequence[ParityText]) -> list[Parity]:
    """Check int8: rounding changes some translations, and BLEU of few sentences varies, so both must be bad to fail."""
    parities = [compare(translators, trial, exported, _bleu) for trial in trials]
    for parity in parities:
        loss = -(parity.bleu_difference or 0.0)
        if loss > _MOST_LOSS and parity.agreement < _LEAST_AGREEMENT:
            raise RunError(
                f"{parity.direction}: rounding costs {loss:.1f} BLEU, and only {parity.agreement:.0%} of the "
                "translations are the same. Nothing was written; use --type float32."
            )
    return [replace(parity, ties=0) for parity in parities]


def _bleu(hypotheses: list[str], references: list[str]) -> float:
    return sacre_bleu(hypotheses, references).score
