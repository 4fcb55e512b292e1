"""A folder that is there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loopmt.errors import RunError


@contextmanager
def appearing(out: Path) -> Iterator[Path]:
    """A folder to write in, which becomes `out` if all goes well and disappears if not.

    An empty folder that is there is filled, not replaced: someone may be standing in it.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} is there already. Choose another place, or delete it.")
    filled = out.exists()
    draft = out / f".{os.getpid()}" if filled else out.with_name(f".{out.name}.{os.getpid()}")
    try:
        draft.mkdir(parents=True)
        yield draft
        if filled:
            _move_up(draft)
        else:
            draft.rename(out)
    except OSError as error:
        raise RunError(f"{out} could not be written: {error}.") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move_up(folder: Path) -> None:
    for entry in list(folder.iterdir()):
        entry.rename(folder.parent / entry.name)
