"""`[model] pretrained`: copies the checkpoint into the run, as its first finished stage.

RUN/pretrained/{pretrained.json, NAME/}     the files of the checkpoint, or of one for each direction
RUN/stages/pretrained/result/               the stage: its weights are the digest of the checkpoint
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor

from loopmt.config import Experiment, Stage, available_hops
from loopmt.config.pretrained import PRETRAINED, pretrained_hops
from loopmt.errors import DamagedError, DataError, MissingExtraError, RunError, listed
from loopmt.files.documents import file_digest
from loopmt.files.regular import file_size, has_file, member, subfolder
from loopmt.learn.resume import TrainingState
from loopmt.path import Hop
from loopmt.pretrained.causal import CausalNetwork, CausalTokens
from loopmt.pretrained.checkpoint import is_decoder_only, load_pretrained, load_tokenizer
from loopmt.pretrained.importing import TAKEN, copy_safely
from loopmt.pretrained.lora import add_adapter
from loopmt.pretrained.module_stack import UNMODIFIED, ModuleStack, drawing
from loopmt.pretrained.native import NativeForm, UnfitError, native_form
from loopmt.pretrained.native_stack import NativeStack
from loopmt.pretrained.network import PretrainedNetwork
from loopmt.pretrained.new_language import add_languages
from loopmt.pretrained.tokens import ModelTokens
from loopmt.pretrained.verify import SENTENCES, disagreement, verify
from loopmt.progress import Progress
from loopmt.run import Checkpoint, Json, Run, StageFolder, read_json, write_json
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import all_hops
from loopmt.workflow.memory import check_memory

_NOTES = "pretrained.json"
_BACKENDS = {"native": "loopmt's own transformer", "module": "Hugging Face's module"}
_HUB_NAME = 2  # parts of a name at the hub: who, and what


def install(experiment: Experiment, run: Run, beside: Path, progress: Progress) -> None:
    """Copy the checkpoints into the run, unless they are there. Paths are relative to the experiment file."""
    if experiment.model.pretrained is None:
        return
    if _read_notes(run).get("asked") != _asked(experiment):
        _replace(experiment, run, beside, progress)
    for name in set(_folders(run, experiment).values()):
        _check_kept(run, name)
    _finish_stage(run)


def open_stack(
    run: Run, experiment: Experiment, stage: Stage, vocab: Vocab, device: torch.device, dtype: torch.dtype
) -> ModuleStack | NativeStack:
    """The checkpoints of a run as a stage trains them: the original weights, or an adapter on those of its base."""
    if experiment.lora(stage) is None and _read_notes(run).get("backend") == "native":
        return _native(run, experiment, stage, vocab, device, dtype)
    return open_modules(run, experiment, stage, vocab, device, dtype)


def open_modules(
    run: Run, experiment: Experiment, stage: Stage, vocab: Vocab, device: torch.device, dtype: torch.dtype
) -> ModuleStack:
    """The same, computed by Hugging Face."""
    hops = all_hops(experiment.languages, available_hops(experiment, stage.name))
    stack = _unmodified(run, experiment, stage, hops, vocab, device, dtype)
    if (lora := experiment.lora(stage)) is None:
        return stack
    stack.load(whole_weights(run, experiment, experiment.adapter_base(stage)), strict=False)
    for name, network in stack.networks.items():
        with drawing(torch.device("cpu"), experiment.seed, "lora", name):
            add_adapter(network.model, lora, Path(_named(experiment)[name]))
        network.model.to(device)
    return replace(stack, networks={name: replace(network) for name, network in stack.networks.items()})


def whole_weights(run: Run, experiment: Experiment, stage: Stage) -> Mapping[str, Tensor]:
    """The result of a stage by the checkpoint's own tensor names; an adapter is merged into its base."""
    if experiment.lora(stage) is None:
        return run.stage(stage.name).result().tensors["weights"]
    return modules_of(run, experiment, stage).whole_weights()


def modules_of(run: Run, experiment: Experiment, stage: Stage) -> ModuleStack:
    """The result of a stage as modules on the CPU, whatever trained it."""
    vocab, weights = Vocab.load(run.folder / "vocab"), run.stage(stage.name).result().tensors["weights"]
    stack = open_modules(run, experiment, stage, vocab, torch.device("cpu"), torch.float32)
    stack.load(weights)
    return stack


def inherited_weights(run: Run, experiment: Experiment, stage: Stage) -> Mapping[str, Tensor]:
    """The weights that a stage takes over from its parent. A new adapter is initialised on the weights of its base."""
    parent = experiment.stage(stage.from_ or PRETRAINED)
    if experiment.lora(stage) == experiment.lora(parent):
        return run.stage(parent.name).result().tensors["weights"]
    return whole_weights(run, experiment, parent) if experiment.lora(stage) is None else {}


def _unmodified(
    run: Run,
    experiment: Experiment,
    stage: Stage,
    hops: tuple[Hop, ...],
    vocab: Vocab,
    device: torch.device,
    dtype: torch.dtype,
) -> ModuleStack:
    places, dropout = _places(run, experiment, hops), experiment.training(stage).dropout
    networks = {name: _network(experiment, place, device, dtype, dropout) for name, place in places.items()}
    stack = ModuleStack(vocab, hops, device, networks, _digest(run))
    for hop in hops:
        stack.of(hop).tokens.check(hop)
    return stack


def _places(run: Run, experiment: Experiment, hops: tuple[Hop, ...]) -> dict[str, Path]:
    """The folder of each network."""
    folders = _folders(run, experiment)
    names = ["all"] if experiment.shared else [str(hop) for hop in hops]
    for folder in {folders[name] for name in names}:
        _check_kept(run, folder)
    return {name: subfolder(run.folder, PRETRAINED, folders[name]) for name in names}


def _native(
    run: Run, experiment: Experiment, stage: Stage, vocab: Vocab, device: torch.device, dtype: torch.dtype
) -> NativeStack:
    hops = all_hops(experiment.languages, available_hops(experiment, stage.name))
    places = _places(run, experiment, hops)
    forms = {name: native_form(place, _tokens_of(experiment, place, place)) for name, place in places.items()}
    fuse = experiment.training(stage).fuse
    return NativeStack.of(forms, places, hops, vocab, device, dtype, fuse, _digest(run))


def origin_of(run: Run, network: str) -> Path:
    """The original files of a network's checkpoint."""
    return subfolder(run.folder, PRETRAINED, _read_notes(run)["folders"][network])


def verify_once(experiment: Experiment, run: Run, progress: Progress) -> None:
    """On first use, compare each checkpoint with Hugging Face alone on sentences of the validation set.

    If our own transformer computes the same, it trains the checkpoints.
    """
    notes = _read_notes(run) if experiment.model.pretrained is not None else {}
    if not notes or notes.get("verified"):
        return
    store, hops = Store.open(run.folder / "store"), all_hops(experiment.languages, pretrained_hops(experiment))
    forms, why = _forms(experiment, run, hops)
    for name in notes["folders"]:
        folder = origin_of(run, name)
        network = _network(experiment, folder, torch.device("cpu"), torch.float32, None)
        own = tuple(hop for hop in hops if name in ("all", str(hop)))
        texts = {hop: store.texts("valid", hop.source)[: -(-SENTENCES // len(own))] for hop in own}
        count = sum(verify(network, hop, texts[hop]) for hop in own)
        progress.say(f"pretrained {name}: {count} sentences are translated as by Hugging Face alone")
        if why is None:
            native = NativeStack.alone(forms[name], folder, own)
            why = next(filter(None, (disagreement(native, network, *one) for one in texts.items())), None)
    backend = _chosen(experiment, why)
    progress.say(f"pretrained: computed by {_BACKENDS[backend]}{f': {why}' if why else ''}")
    write_json(run.folder / PRETRAINED / _NOTES, {**notes, "verified": True, "backend": backend, "why": why})


def _forms(experiment: Experiment, run: Run, hops: tuple[Hop, ...]) -> tuple[dict[str, NativeForm], str | None]:
    """The networks as our own transformer computes them, or the reason why it cannot."""
    if experiment.model.backend == "module":
        return {}, 'model.backend = "module"'
    places = _places(run, experiment, hops)
    try:
        forms = {name: native_form(place, _tokens_of(experiment, place, place)) for name, place in places.items()}
    except UnfitError as error:
        return {}, str(error)
    shapes = {form.shape for form in forms.values()}
    return forms, None if len(shapes) == 1 else "the checkpoints differ in size, and native ones are computed together"


def _chosen(experiment: Experiment, why: str | None) -> str:
    if why is not None and experiment.model.backend == "native":
        raise DataError(f'model.backend = "native": {why}. Remove the key, or set model.backend = "module".')
    return "native" if why is None else "module"


def named_checkpoints(run: Run) -> dict[str, str]:
    """The checkpoint of each network, as the experiment file names it."""
    return dict(_read_notes(run)["asked"]["named"])


def _network(
    experiment: Experiment, folder: Path, device: torch.device, dtype: torch.dtype, dropout: float | None
) -> PretrainedNetwork:
    tokens, model = _tokens_of(experiment, folder, folder), load_pretrained(folder, dropout).to(device)
    if isinstance(tokens, CausalTokens):
        return CausalNetwork(model, tokens, device, dtype)
    return PretrainedNetwork(model, tokens, device, dtype)


def _tokens_of(experiment: Experiment, folder: Path, named: Path) -> ModelTokens:
    """The tokenizer in a folder; errors name another one."""
    model, tokenizer = experiment.model, load_tokenizer(folder)
    if is_decoder_only(folder):
        return CausalTokens(named, tokenizer, model.codes, model.prompt, chat=model.chat, stop=tuple(model.stop or ()))
    for key in ("chat", "stop"):
        if getattr(model, key) is not None:
            raise DataError(f"{named} has an encoder: model.{key} is for decoder-only language models. Remove it.")
    return ModelTokens(named, tokenizer, model.codes, model.prompt)


# -- the copy --------------------------------------------------------------------------------------------------


def _named(experiment: Experiment) -> dict[str, str]:
    """The name in the file, by network."""
    pretrained = experiment.model.pretrained
    assert pretrained is not None
    if isinstance(pretrained, str):
        return {"all": pretrained}
    directions = {str(hop) for hop in pretrained_hops(experiment)}
    return {direction: pretrained[direction] for direction in pretrained if direction in directions}


def _replace(experiment: Experiment, run: Run, beside: Path, progress: Progress) -> None:
    """Copy each folder that the file names once, even if it serves several directions."""
    if (run.folder / PRETRAINED).exists():
        _refuse_used(run, experiment)
    draft = run.folder / f".{PRETRAINED}.draft"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        folders, revisions = _copy(experiment, _named(experiment), beside, draft, progress)
        _check_languages(experiment, draft, folders)
        write_json(draft / _NOTES, {**_notes(experiment, draft, folders), "revisions": revisions})
        shutil.rmtree(run.folder / PRETRAINED, ignore_errors=True)
        shutil.rmtree(run.stage(PRETRAINED).folder, ignore_errors=True)
        draft.rename(run.folder / PRETRAINED)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _copy(
    experiment: Experiment, named: Mapping[str, str], beside: Path, draft: Path, progress: Progress
) -> tuple[dict[str, str], dict[str, str]]:
    """The folder of each network in the run, and the revision of what came from the hub, by its name."""
    places: dict[Path, str] = {}
    folders, revisions = {}, {}
    sources = {name: _found(text, beside) for name, text in named.items()}
    check_memory(experiment, sources.values())
    for name, text in named.items():
        source = sources[name]
        if source.parent.name == "snapshots":
            revisions[text] = source.name
        if source not in places:
            places[source] = name.replace(">", "-")
            progress.say(f"copying {source}")
            copy_safely(source, draft / places[source])
            add_languages(draft / places[source], experiment.model.codes or {}, text)
        folders[name] = places[source]
    return folders, revisions


def _refuse_used(run: Run, experiment: Experiment) -> None:
    used = [stage.name for stage in experiment.stages if run.stage(stage.name).begun]
    if used:
        raise RunError(
            f"[model] names another checkpoint, other codes or another backend than {', '.join(used)} started from: "
            f"{', '.join(_read_notes(run)['asked']['named'].values())}. Name that one, or choose another --run."
        )


def _found(text: str, beside: Path) -> Path:
    """The folder that a file names: relative to the file, or in the cache of the hub."""
    folder = (beside / text).resolve()
    if folder.exists() or len(Path(text).parts) != _HUB_NAME or text.startswith((".", "/", "~")):
        return folder
    return _downloaded(text, folder)


def _downloaded(text: str, folder: Path) -> Path:
    name, _, revision = text.partition("@")
    fix = f"Download it where the hub can be reached, `hf download {name} --local-dir FOLDER`, and name the folder."
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingExtraError(
            f'model.pretrained: there is no folder {folder}, and for the hub name "{name}" the package '
            f"huggingface_hub is needed: pip install 'loopmt[export]'. {fix}"
        ) from None
    try:
        return Path(
            snapshot_download(name, revision=revision or None, allow_patterns=[f"*{kind}" for kind in sorted(TAKEN)])
        )
    except Exception as error:  # network, rights, names: the hub's library has a class for each
        what = str(error).split("\n")[0][:200]
        raise DataError(
            f'model.pretrained: there is no folder {folder}, and "{name}" cannot be had from the hub: {what}. {fix}'
        ) from None


def _check_languages(experiment: Experiment, draft: Path, places: Mapping[str, str]) -> None:
    """Refuse languages that its tokenizer cannot select, before anything is stored."""
    for name, place in places.items():
        tokens = _tokens(experiment, draft / place, _named(experiment)[name])
        if name == "all" and not tokens.multilingual:
            raise DataError(
                f'model.pretrained = "{_named(experiment)["all"]}": its tokenizer has no language codes, so it has one '
                'direction. Give a folder for each, pretrained = { "en>fr" = "FOLDER", ... }, or, for T5 and language '
                'models, a prompt: model.prompt = "translate {source_language} to {target_language}: {text}".'
            )
        for hop in sorted(pretrained_hops(experiment)):
            if name in ("all", str(hop)):
                tokens.check(hop)
                _check_marian(tokens, hop)


def _tokens(experiment: Experiment, folder: Path, named: str) -> ModelTokens:
    """The tokenizer of a copy; its errors name the checkpoint as the file does."""
    try:
        load_tokenizer(folder)
    except DataError as error:
        files = ", ".join(sorted(file.name for file in folder.iterdir()))
        why = str(error).replace(str(folder), named)
        raise DataError(f"model.pretrained: {why}. Are all files of its tokenizer there? It has {files}.") from None
    return _tokens_of(experiment, folder, Path(named))


def _check_marian(tokens: ModelTokens, hop: Hop) -> None:
    """A bilingual tokenizer states its languages."""
    has = getattr(tokens.tokenizer, "source_lang", None), getattr(tokens.tokenizer, "target_lang", None)
    for side, own, wanted in zip(("source", "target"), has, (hop.source, hop.target), strict=True):
        named = (tokens.codes or {}).get(wanted, wanted)
        known = isinstance(own, str) and own.isalpha() and own.islower() and len(own) == len(named)
        if known and not tokens.tagged and own != named:
            raise DataError(
                f"model.pretrained {hop}: the checkpoint translates {has[0]}>{has[1]}. If its {side} language "
                f'"{own}" is your "{wanted}", set model.codes = {{ {wanted} = "{own}" }}.'
            )


# -- what is kept ----------------------------------------------------------------------------------------------


def _notes(experiment: Experiment, draft: Path, folders: Mapping[str, str]) -> Json:
    files = {
        f"{folder}/{file.name}": [file.stat().st_size, file_digest(file)]
        for folder in sorted(set(folders.values()))
        for file in sorted((draft / folder).iterdir())
    }
    told = _told(experiment)
    digest = hashlib.sha256(json.dumps([folders, files, told], sort_keys=True).encode()).hexdigest()
    return {"asked": _asked(experiment), "folders": folders, "files": files, "digest": digest}


def _asked(experiment: Experiment) -> Json:
    """The keys of the file about the checkpoint: if they change, it is copied again."""
    asked, backend = {"named": _named(experiment), **_told(experiment)}, experiment.model.backend
    return asked if backend == "auto" else {**asked, "backend": backend}


def _told(experiment: Experiment) -> Json:
    """How its tokenizer is used."""
    model = experiment.model
    added = {"chat": model.chat, "stop": model.stop}
    return {"codes": model.codes, "prompt": model.prompt, **{key: one for key, one in added.items() if one is not None}}


class _Notes(BaseModel):
    """What RUN/pretrained/pretrained.json must hold; somebody else may have written it."""

    asked: dict[str, Any]
    folders: dict[str, str]
    files: dict[str, tuple[int, str]]
    digest: str = Field(pattern="^[0-9a-f]{64}$")
    verified: bool = False


def _read_notes(run: Run) -> Json:
    file = run.folder / PRETRAINED / _NOTES
    if not has_file(file):
        return {}
    fix = f"Delete {file.parent} and train again."
    notes = read_json(file, fix)
    try:
        _Notes.model_validate(notes)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise DamagedError(f"{file} does not describe a checkpoint: {what}. {fix}") from None
    return notes


def _folders(run: Run, experiment: Experiment) -> dict[str, str]:
    notes, file = _read_notes(run), run.folder / PRETRAINED / _NOTES
    if not notes:
        fix = f"`loopmt prepare EXPERIMENT --run {run.folder}` copies it"
        raise RunError(f"{run.folder / PRETRAINED} is missing: {fix}.")
    if missing := _named(experiment).keys() - notes["folders"].keys():
        fix = f"Delete {file.parent} and train again."
        raise DamagedError(f"{file} has no checkpoint of {listed(sorted(missing))}. {fix}")
    return dict(notes["folders"])


def _digest(run: Run) -> str:
    return str(_read_notes(run)["digest"])


def _check_kept(run: Run, folder: str) -> None:
    place = subfolder(run.folder, PRETRAINED, folder)
    for name, (size, digest) in _read_notes(run)["files"].items():
        if name.startswith(f"{folder}/"):
            file = member(place, name.removeprefix(f"{folder}/"))
            if not has_file(file) or file_size(file) != size or file_digest(file) != digest:
                raise RunError(
                    f"{file} is not the file that was copied. Delete {run.folder / PRETRAINED}: it is copied again."
                )


def _finish_stage(run: Run) -> None:
    stage: StageFolder = run.stage(PRETRAINED)
    if stage.finished:
        return
    digest = torch.tensor(list(bytes.fromhex(_digest(run))), dtype=torch.uint8)
    stage.begin({**_read_notes(run)["asked"], "digest": _digest(run)})
    state = {**asdict(TrainingState()), "chosen": "best", "average_bleu": None}
    stage.finish(Checkpoint(0, {"weights": {UNMODIFIED: digest}}, state))
