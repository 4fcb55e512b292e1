"""Train translators among several languages with loops. The public names are those of `loopmt.api`.

    >>> import loopmt
    >>> run = loopmt.train("demo.toml")
    >>> loopmt.evaluate(run)["stages"]
    >>> translator = loopmt.load(run)
    >>> translator.translate(["The cat sleeps."], "en>fr")
    >>> translator.score([("The cat sleeps.", "Le chat dort.")], "en>fr")

The import is fast: torch is loaded when a name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopmt.errors import LoopmtError

if TYPE_CHECKING:
    from loopmt.api import Candidate, Generate, Translator, evaluate, load, plan, train

    __version__: str

__all__ = [
    "Candidate",
    "Generate",
    "LoopmtError",
    "Translator",
    "__version__",
    "evaluate",
    "load",
    "plan",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("loopmt")
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("loopmt.api"), name)
    raise AttributeError(f"module 'loopmt' has no attribute '{name}'. Its names are: {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
