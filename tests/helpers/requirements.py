"""What loopmt and its extras need: pyproject.toml, and the metadata of the packages that are installed here."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers.paths import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def closure(extras: Iterable[str] = ()) -> set[str]:
    """Names of all packages that loopmt needs with these extras, transitive ones included."""
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(f"loopmt[{','.join(extras)}]")]
    while waiting:
        requirement = waiting.pop()
        for extra in ["", *requirement.extras]:
            name = canonicalize_name(requirement.name)
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [found for found in _requirements(name, extra) if _applies(found, extra)]
    return {name for name, _ in seen} - {"loopmt"}


def _requirements(name: str, extra: str) -> Iterator[Requirement]:
    if name == "loopmt":
        own = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
        yield from map(Requirement, own)
        return
    try:
        yield from map(Requirement, metadata.requires(name) or ())
    except metadata.PackageNotFoundError:
        return  # an extra that is not installed here: what it needs is unknown


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})
