"""The command line that trains or resumes a run with its settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from loopmt.config import Experiment, loads
from loopmt.errors import LoopmtError
from loopmt.files.regular import has_file, read_text
from loopmt.run import Run


def resume_command(run: Run, experiment: Experiment, file: str | None = None) -> str:
    """The command for the user. `file` defaults to the recorded experiment file, which older runs lack."""
    given = file or str(run.origin().get("file", "EXPERIMENT"))
    changes = [word for one in overrides(run, experiment) for word in ("--set", one)]
    return shlex.join(["loopmt", "train", given, "--run", str(run.folder), *changes])


def overrides(run: Run, experiment: Experiment) -> list[str]:
    """The recorded `--set` options, if they still turn the file into the experiment."""
    file = run.folder / "experiment.toml"
    if not has_file(file):
        return []
    text, given = read_text(file), [str(one) for one in run.origin().get("set", [])]
    if _written(text, given, experiment) == experiment:
        return given
    written = _written(text, (), experiment)
    return _changes(_plain(written), _plain(experiment)) if written else []


def _written(text: str, given: Sequence[str], experiment: Experiment) -> Experiment | None:
    try:
        return loads(text, given, name=experiment.name)
    except LoopmtError:
        return None


def _plain(experiment: Experiment) -> dict[str, Any]:
    return experiment.model_dump(mode="json", by_alias=True)


def _changes(written: Any, run: Any, where: str = "") -> list[str]:
    if written == run:
        return []
    if isinstance(written, dict) and isinstance(run, dict):
        keys = {**written, **run}
        return [one for key in keys for one in _changes(written.get(key), run.get(key), f"{where}.{key}".lstrip("."))]
    if where == "stage":
        before, now = ({stage["name"]: stage for stage in stages} for stages in (written, run))
        return _changes(before, now, where)
    return [f"{where}={json.dumps(run, ensure_ascii=False)}"]
