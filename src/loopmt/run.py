"""The run folder of an experiment. Only this module writes experiment files, stages and checkpoints in it.

    RUN/experiment.json, experiment.toml, origin.json, manifest.json, vocab/, store/, imported/
    RUN/stages/NAME/{stage.json, metrics.jsonl, scores.json, checkpoints/NNNNNNNN/, result/}

A checkpoint is a folder of tensors (safetensors) and JSON. It is written under another name, synced and renamed, so it
is complete or absent. Its files have checksums; if one is damaged, the previous checkpoint is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from loopmt.config import Experiment
from loopmt.config.check import check
from loopmt.config.recorded import ChangedStage, changes, refuse
from loopmt.errors import DamagedError, LoopmtError, RunError, listed
from loopmt.files.documents import file_digest, json_text, read_checked, read_json_object, with_checksum
from loopmt.files.lock import lock_owner, locked
from loopmt.files.log import log_line, parse_record
from loopmt.files.regular import (
    LOG_LIMIT,
    appending,
    cut,
    file_size,
    has_file,
    has_folder,
    make_subfolder,
    read_text,
    reading,
    refuse_unsafe,
    replacing,
    share_subfolder,
    subfolder,
)
from loopmt.files.unknown import suggest_run, unknown_files

Json = dict[str, Any]
_INPUTS = ("vocab", "store", "imported", "pretrained")  # of stages; the last two are optional
_FILES = (  # names that loopmt reads or writes at the top level of a run
    *(".lock", "experiment.json", "experiment.toml", "origin.json", "manifest.json", "analysis.json", "plan.json"),
    *("predicted.json", "scorecard.json", "report.json", "report.html"),
)
_FOLDERS = (*_INPUTS, "stages", "analysis", "corpora", "prepare.tmp", "tensorboard", ".pretrained.draft")
_LONGEST_RECORD = 2**24  # bytes, at most, of a line of the log
_RESUME = "Its previous content is unchanged. Free space or make it writable, then run the same command again."


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by file and name, and the training state."""

    update: int
    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Json


class Run:
    """The folder of one experiment."""

    def __init__(self, folder: Path, experiment_folder: Path | None = None) -> None:
        """`experiment_folder` contains the experiment file; by default it is the recorded folder."""
        self.folder = folder
        self._experiment_folder = experiment_folder

    @classmethod
    def open(cls, folder: Path) -> Run:
        if not has_file(folder / "experiment.json"):
            raise RunError(f"{folder} is not a run folder: it has no experiment.json. {suggest_run(folder)}")
        run = cls(folder)
        run.refuse_unsafe()
        return run

    def refuse_unknown_files(self) -> None:
        """Raise an error if the folder holds unknown files; call it before anything is written."""
        if unknown := unknown_files(self.folder):
            raise RunError(
                f"{self.folder} is not a run folder, and it is not empty: it holds {listed(unknown)}. "
                f"Nothing was changed. Choose another folder with --run, such as {self.folder / 'run'}."
            )
        self.refuse_unsafe()

    def refuse_unsafe(self) -> None:
        """Raise an error if the run holds links, pipes or devices; call it before any file is opened."""
        refuse_unsafe(self.folder, _FILES, _FOLDERS)

    def experiment(self) -> Experiment:
        file = self.folder / "experiment.json"
        fix = f"`loopmt prepare EXPERIMENT --run {self.folder}` restores it."
        values = read_checked(file, fix)
        try:
            experiment = Experiment.model_validate(values)
            check(experiment)
            return experiment
        except ValidationError as error:
            what = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3])
            raise DamagedError(f"{file} is damaged: {what}. {fix}") from None
        except LoopmtError as error:
            raise DamagedError(f"{file} is damaged: {error} {fix}") from None

    def set_up(self, experiment: Experiment, text: str | None = None, origin: Json | None = None) -> None:
        """Record the experiment and its origin: the file's text, its name, its folder and the `--set` options.

        Each stage checks by itself that its settings have not changed since it was begun.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / "experiment.json", with_checksum(experiment.model_dump(mode="json", by_alias=True)))
        if text is not None:
            write_text(self.folder / "experiment.toml", text)
        if origin is not None:
            write_json(self.folder / "origin.json", with_checksum(origin))

    def origin(self) -> Json:
        """The recorded `file`, `folder` and `set`; empty if unknown."""
        try:
            return read_checked(self.folder / "origin.json", "")
        except DamagedError:
            return {}

    @property
    def experiment_folder(self) -> Path:
        """The folder to which relative paths of the experiment file refer."""
        if self._experiment_folder is None:
            origin = self.origin()
            return Path(origin.get("folder", Path(origin.get("file", "")).parent))
        return self._experiment_folder

    def owner(self) -> str | None:
        """The id of the process that is preparing or training the run, if any."""
        return lock_owner(self.folder)

    def shadow(self, folder: Path, stages: Iterable[str]) -> Run:
        """A run in another folder that shares this run's text, imports and named stages, but not new stages."""
        here = self.folder.absolute()
        make_subfolder(folder, "stages")
        for part in (*_INPUTS, *(f"stages/{stage}" for stage in stages)):
            if has_folder(here / part) and not has_folder(folder / part):
                share_subfolder(here / part, folder / part)
        if has_file(here / "manifest.json"):
            write_text(folder / "manifest.json", read_text(here / "manifest.json"))
        return Run(folder, self.experiment_folder)

    def check_writable(self, fix: str = "Copy the run to a writable folder, and name the copy.") -> None:
        """Raise an error if results could not be saved in the run; call it before expensive work."""
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise RunError(f"{self.folder} is not writable, and the results are saved there. {fix}")

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Lock the run for this process; an error if another process holds the lock."""
        return locked(self.folder)

    def stage(self, name: str) -> StageFolder:
        return StageFolder(subfolder(self.folder, "stages", name))

    def finished(self) -> list[str]:
        """Names of the finished stages, in the experiment's order."""
        return [stage.name for stage in self.experiment().all_stages if self.stage(stage.name).finished]


def result_bleu(state: Json) -> float | None:
    """Validation BLEU of a stage's result: of its best checkpoint, or of the average if that was chosen.

    None if nothing was validated: the stage is an unchanged pretrained checkpoint.
    """
    if state["best_bleu"] < 0:
        return None
    return float(state["average_bleu"] if state.get("chosen") == "average" else state["best_bleu"])


class StageFolder:
    """The folder of one stage."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metrics = folder / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        return subfolder(self.folder, "checkpoints")

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def begun(self) -> bool:
        return has_file(self.folder / "stage.json")

    @property
    def finished(self) -> bool:
        return has_folder(self.folder / "result")

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Lock the stage for this process: stages of one run may be trained in parallel."""
        return locked(self.folder)

    def begin(self, settings: Json) -> None:
        """Record the settings of the stage; an error if it was begun with other ones."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.begun:
            self.refuse_changes(settings)
        else:
            write_json(self.folder / "stage.json", with_checksum(settings))
        if self.finished:
            self._delete_checkpoints()  # left by a process that was killed while finishing

    def refuse_changes(self, settings: Json) -> None:
        """Raise an error if the stage was begun with other settings; nothing is written."""
        refuse([self.compare(settings)])

    def compare(self, settings: Json) -> ChangedStage:
        """The settings that changed since the stage was begun."""
        before, now = self.begun_with(), json.loads(json.dumps(settings))
        self._refuse_newer(before.get("version", 1), now.get("version", 1))
        return ChangedStage(self.name, self.folder, self.finished, changes(before, now))

    def _refuse_newer(self, before: Any, now: int) -> None:
        if isinstance(before, int) and before > now and not self.finished:
            raise RunError(
                f'stage "{self.name}" was begun by a newer version of loopmt: its settings have version {before}, '
                f"this one has {now}. Update loopmt, give the stage another name, or delete {self.folder}."
            )

    def begun_with(self) -> Json:
        """The settings that the stage was begun with."""
        fix = "If no setting of the stage has changed since it was begun, delete the file; it will be rewritten."
        return read_checked(self.folder / "stage.json", fix)

    # -- checkpoints -----------------------------------------------------------------------------------------

    def stamped(self, checkpoint: Checkpoint) -> Checkpoint:
        """Add the current length of the log, to which a resumed stage truncates it."""
        return replace(checkpoint, state={**checkpoint.state, "metrics_bytes": self._log_size()})

    def save(self, checkpoint: Checkpoint, keep: Collection[int | None], whole: int | None = None) -> None:
        """Write a checkpoint. Delete older ones not in `keep`, and the older optimizer states except `whole`'s."""
        make_subfolder(self.folder, "checkpoints")
        write_checkpoint(self.place(checkpoint.update), checkpoint)
        for update in self.updates():
            if update > checkpoint.update:  # damaged, or rolled back
                shutil.rmtree(self.place(update))
        for update in self.updates()[:-2]:  # training can resume from the newest and the one before it
            if update == whole:
                continue
            if update not in keep:
                shutil.rmtree(self.place(update))
            else:
                (self.place(update) / "optimizer.safetensors").unlink(missing_ok=True)

    def place(self, update: int) -> Path:
        return subfolder(self.checkpoints, f"{update:08d}")

    def updates(self) -> list[int]:
        if not has_folder(self.checkpoints):
            return []
        return sorted(int(entry.name) for entry in self.checkpoints.iterdir() if entry.name.isdecimal())

    def newest(self) -> Checkpoint | None:
        """The newest intact checkpoint; warn about damaged ones."""
        for update in reversed(self.updates()[-2:]):
            try:
                return self.at(update)
            except DamagedError as error:
                warnings.warn(f"{error} The previous checkpoint is used.", stacklevel=2)
        if self.updates():
            raise DamagedError(
                f"no checkpoint in {self.checkpoints} can be read. Delete {self.folder} to train the stage again."
            )
        return None

    def at(self, update: int) -> Checkpoint:
        return read_checkpoint(self.place(update), ("weights", "optimizer"))

    def weights(self, update: int) -> Mapping[str, Tensor]:
        return read_checkpoint(self.place(update), ("weights",)).tensors["weights"]

    def finish(self, checkpoint: Checkpoint) -> None:
        """Write the stage's result and delete its checkpoints."""
        write_checkpoint(self.folder / "result", checkpoint)
        self._delete_checkpoints()

    def _delete_checkpoints(self) -> None:
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def result(self) -> Checkpoint:
        if not self.finished:
            raise RunError(f'stage "{self.name}" is not finished: {self.folder} has no result. Train it first.')
        return read_checkpoint(self.folder / "result", ("weights",), self._fix)

    def result_state(self) -> Json:
        """The training state at the end of the stage."""
        return dict(read_state(self.folder / "result", self._fix)["state"])

    def result_digest(self) -> str:
        """The checksum of the result's weights, which stages that start from them record."""
        return str(read_state(self.folder / "result", self._fix)["sha256"]["weights.safetensors"])

    @property
    def _fix(self) -> str:
        return f"Restore it from a copy, or delete {self.folder / 'result'} to train the stage again."

    # -- records ---------------------------------------------------------------------------------------------

    def log(self, record: Json) -> None:
        _append(self.metrics, log_line(record))

    def _log_size(self) -> int:
        return file_size(self.metrics) if has_file(self.metrics) else 0

    def cut_log(self, size: int) -> None:
        """Remove the records that were logged after the checkpoint from which training resumes."""
        found = self._log_size()
        if found < size:
            warnings.warn(f"{self.metrics} is damaged: records before the checkpoint are missing.", stacklevel=2)
            _append(self.metrics, "\n")  # the next record must start a new line
        elif found:
            cut(self.metrics, size)

    def records(self) -> list[Json]:
        if not has_file(self.metrics):
            return []
        with reading(self.metrics, LOG_LIMIT) as log:
            lines = iter(lambda: log.readline(_LONGEST_RECORD), b"")
            return [record for line in lines if (record := parse_record(line)) is not None]


# -- files -----------------------------------------------------------------------------------------------------


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    has_folder(folder)
    draft, old = folder.with_name(f".{folder.name}.draft"), folder.with_name(f".{folder.name}.old")
    for left_behind in (draft, old):  # by a killed process
        shutil.rmtree(left_behind, ignore_errors=True)
    try:
        draft.mkdir()
        digests = {}
        for name, tensors in checkpoint.tensors.items():
            file = draft / f"{name}.safetensors"
            save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, file)
            _sync(file)
            digests[file.name] = file_digest(file)
        body = {"update": checkpoint.update, "state": checkpoint.state, "sha256": digests}
        write_json(draft / "state.json", with_checksum(body))
        if folder.exists():
            folder.rename(old)
        draft.rename(folder)
        _sync(folder.parent)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{folder} could not be written: {error}. {_RESUME}") from None
    finally:
        for left_over in (draft, old):
            shutil.rmtree(left_over, ignore_errors=True)


def read_state(folder: Path, fix: str = "") -> Json:
    body = read_checked(folder / "state.json", fix)
    if not {"update", "state", "sha256"} <= body.keys():
        raise DamagedError(f"{folder / 'state.json'} is damaged: it does not describe a checkpoint. {fix}".rstrip())
    return body


def read_checkpoint(folder: Path, names: tuple[str, ...], fix: str = "") -> Checkpoint:
    """The named tensor files of a checkpoint, verified."""
    body = read_state(folder, fix)
    tensors: dict[str, Mapping[str, Tensor]] = {}
    for name in names:
        file = folder / f"{name}.safetensors"
        try:
            tensors[name] = _load_tensors(file, body["sha256"][file.name])
        except (ValueError, SafetensorError) as error:
            raise DamagedError(f"{file} is damaged: {error}. {fix}".rstrip()) from None
        except (OSError, KeyError) as error:
            raise DamagedError(f"{file} cannot be read: {error}. {fix}".rstrip()) from None
    return Checkpoint(int(body["update"]), tensors, body["state"])


def _load_tensors(file: Path, sha256: str) -> Mapping[str, Tensor]:
    reading(file).close()  # checks that it is a regular file
    with safe_open(file, "pt"):  # checks its size against its header
        pass
    if file_digest(file) != sha256:
        raise ValueError("its checksum does not match")
    return load_file(file)


def read_json(file: Path, fix: str = "Delete it and run the command that writes it.") -> Json:
    return read_json_object(file, fix)


def write_json(file: Path, value: Any) -> None:
    write_text(file, json_text(value, 1) + "\n")


def write_text(file: Path, text: str) -> None:
    """Write atomically."""
    try:
        with replacing(file) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise RunError(f"{file} could not be written: {error}. {_RESUME}") from None


def _append(file: Path, text: str) -> None:
    try:
        with appending(file) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise RunError(f"{file} could not be written: {error}. {_RESUME}") from None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
