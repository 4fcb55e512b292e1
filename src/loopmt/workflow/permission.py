"""Code that a run's own experiment.json names is run only if the user agrees: a run may come from somebody else."""

from __future__ import annotations

import os
from collections.abc import Iterable

from loopmt.errors import RunError
from loopmt.external import is_external
from loopmt.run import Run

ALLOW = "LOOPMT_ALLOW_CODE"


def require_permission(run: Run, names: Iterable[str]) -> None:
    """Refuse to run code that the run's own experiment.json names. `train` gets its file from the user, so it may."""
    external = [name for name in dict.fromkeys(names) if is_external(name)]
    if external and os.environ.get(ALLOW) != "1":
        quoted = " and ".join(f'"{name}"' for name in external)
        raise RunError(
            f"{run.folder / 'experiment.json'} names code outside of loopmt: {quoted}. It is not run unasked, because "
            f"a run may come from somebody else. If you trust it, set {ALLOW}=1 in the environment."
        )
