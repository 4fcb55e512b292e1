"""Translators among K languages, trained by closing loops. The public face, and nothing else.

    >>> import loopmt
    >>> translator = loopmt.load("runs/demo")
    >>> translator.translate(["The cat sleeps."], "en>fr")
    >>> translator.score([("The cat sleeps.", "Le chat dort.")], "en>fr")

Importing this module is quick: torch comes with the first `load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopmt.errors import LoopmtError

if TYPE_CHECKING:
    from loopmt.workflow.translate import Candidate, Generate, Translator

    __version__: str

__all__ = ["Candidate", "Generate", "LoopmtError", "Translator", "__version__", "load"]

_LAZY = {"Candidate", "Generate", "Translator"}


def load(run: Path | str, stage: str | None = None, device: str | None = None) -> Translator:
    """The translators of a run's stage; by default of the last finished one, on a GPU if there is one.

    `device` is "cpu", "cuda" or "cuda:N".
    """
    from loopmt.workflow.translate import load as load_translator

    return load_translator(Path(run), stage, device)


def __getattr__(name: str) -> Any:
    from importlib import import_module, metadata

    if name == "__version__":
        return metadata.version("loopmt")
    if name in _LAZY:
        return getattr(import_module("loopmt.workflow.translate"), name)
    raise AttributeError(f"module 'loopmt' has no attribute '{name}'; it has {', '.join(__all__)}.")
