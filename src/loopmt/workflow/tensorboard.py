"""`loopmt train --tensorboard`: the records of a stage as TensorBoard curves, under RUN/tensorboard/STAGE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loopmt.errors import MissingExtraError
from loopmt.run import Json, StageFolder


@contextmanager
def curves(folder: StageFolder, run: Path) -> Iterator[Callable[[Json], None]]:
    """Writes each record it is given; what a killed process wrote beyond its checkpoint is purged."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtraError("--tensorboard needs tensorboard: pip install loopmt[tensorboard].") from None
    updates = folder.updates()
    writer = SummaryWriter(str(run / "tensorboard" / folder.name), purge_step=updates[-1] + 1 if updates else 0)
    try:
        yield lambda record: _write(writer.add_scalar, record)
    finally:
        writer.close()


def _write(add: Callable[[str, float, int], None], record: Json) -> None:
    update = record.get("update", 0)
    if record["kind"] == "train":
        for path, loss in record["loss"].items():
            add(f"loss/{path}", loss, update)
        for name in ("learning_rate", "tokens_per_second", "generate_share", "padding", "source_padding"):
            add(f"speed/{name}", record[name], update)
    elif record["kind"] == "valid":
        add("valid/mean_bleu", record["mean_bleu"], update)
        for kind in ("bleu", "loss", "accuracy"):
            for hop, value in record[kind].items():
                add(f"valid_{kind}/{hop}", value, update)
