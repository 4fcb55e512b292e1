"""Experiment tracking: curves of a stage in TensorBoard, Weights & Biases or what another module offers.

`train.track` names trackers. A tracker is a function that takes a `TrackedStage` and is a context manager of a function
`log(values, update)`. One that fails is left out with a warning: training goes on.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

from loopmt.errors import DamagedError, MissingExtraError
from loopmt.external import cause
from loopmt.files.documents import read_json_object
from loopmt.registry import Registry
from loopmt.run import Json, StageFolder, write_json

Log = Callable[[Mapping[str, float], int], None]
_RECORD = "tracked.json"


@dataclass(frozen=True)
class TrackedStage:
    """A stage in training."""

    experiment: str
    run: Path
    folder: StageFolder
    settings: Json
    resumed_at: int | None  # the update of the checkpoint that it goes on from

    @property
    def name(self) -> str:
        return self.folder.folder.name

    def identity(self) -> str:
        """The same whenever the stage is resumed, and different for every other stage."""
        file = self.folder.folder / _RECORD
        with suppress(DamagedError):
            if isinstance(known := read_json_object(file, "").get("id"), str):
                return known
        identity = uuid4().hex[:16]
        write_json(file, {"id": identity})
        return identity


@dataclass(frozen=True)
class Tracker:
    """A tracker's function, and the package that it needs."""

    name: str
    function: Callable[[TrackedStage], AbstractContextManager[Log]]
    needs: str | None = None

    def check(self) -> None:
        """Refuse to begin without the package."""
        if self.needs and find_spec(self.needs) is None:
            raise MissingExtraError(
                f'tracker "{self.name}" needs the package {self.needs}: pip install "loopmt[track]". '
                "To train without it, leave it out of train.track."
            )


TRACKERS: Registry[Tracker] = Registry("tracker", Tracker)
tracker = TRACKERS.register


@tracker("tensorboard", needs="tensorboard")
@contextmanager
def tensorboard(stage: TrackedStage) -> Iterator[Log]:
    """Curves in RUN/tensorboard. Points that a killed process wrote after its last checkpoint are purged."""
    from torch.utils.tensorboard import SummaryWriter

    purged = 0 if stage.resumed_at is None else stage.resumed_at + 1
    writer = SummaryWriter(str(stage.run / "tensorboard" / stage.name), purge_step=purged)

    def log(values: Mapping[str, float], update: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, update)

    try:
        yield log
    finally:
        writer.close()


@tracker("wandb", needs="wandb")
@contextmanager
def weights_and_biases(stage: TrackedStage) -> Iterator[Log]:
    """A Weights & Biases run in the project with the experiment's name; offline in ./wandb without credentials."""
    import wandb

    offline = not os.environ.get("WANDB_MODE") and not wandb.login(prompt=False)
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT") or stage.experiment,
        group=stage.run.name,
        name=f"{stage.run.name}/{stage.name}",
        id=stage.identity(),
        resume="allow",
        mode="offline" if offline else None,
        config=stage.settings,
        settings=wandb.Settings(silent=True, console="off"),
    )
    run.define_metric("update")
    run.define_metric("*", step_metric="update")  # a resumed stage repeats updates, and steps may not
    try:
        yield lambda values, update: run.log({**values, "update": update})
    finally:
        run.finish()


# -- what is tracked -----------------------------------------------------------------------------------------


@contextmanager
def tracking(names: Sequence[str], stage: TrackedStage) -> Iterator[Callable[[Json], None]]:
    """A function to call with every record of the stage."""
    with ExitStack() as stack:
        logs = [stack.enter_context(_Guarded(name, stage)) for name in names]

        def show(record: Json) -> None:
            if values := scalars(record):
                for one in logs:
                    one.log(values, record["update"])

        yield show


class _Guarded:
    """A tracker that starts with its first values, and is dropped when it fails."""

    def __init__(self, name: str, stage: TrackedStage) -> None:
        self._name = name
        self._stage = stage
        self._stack = ExitStack()
        self._log: Log | None = None
        self._failed = False

    def __enter__(self) -> _Guarded:
        return self

    def log(self, values: Mapping[str, float], update: int) -> None:
        if not self._failed:
            with self._guarded():
                self._log = self._log or self._started()
                self._log(values, update)

    def _started(self) -> Log:
        return self._stack.enter_context(TRACKERS.find(self._name).function(self._stage))

    def __exit__(self, *error: object) -> None:
        with self._guarded():
            self._stack.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._failed = True
            warnings.warn(
                f'tracker "{self._name}" failed and is left out from here on: {cause(error)}. Training goes on.',
                stacklevel=2,
            )


def scalars(record: Json) -> dict[str, float]:
    """The points of a record by curve; empty for most kinds of record."""
    if record["kind"] == "train":
        speeds = ("learning_rate", "tokens_per_second", "generate_share", "padding", "source_padding")
        losses = {f"loss/{path}": loss for path, loss in record["loss"].items()}
        measured = {
            f"{name}/{path}": value for name, own in record.get("measured", {}).items() for path, value in own.items()
        }
        return losses | measured | {f"speed/{name}": record[name] for name in speeds}
    if record["kind"] == "valid":
        kinds = ("bleu", "loss", "accuracy")
        by_hop = {f"valid_{kind}/{hop}": value for kind in kinds for hop, value in record[kind].items()}
        return {"valid/mean_bleu": record["mean_bleu"], **by_hop}
    return {}
