"""What pyproject.toml requires, and the pinned versions.

constraints.txt is for `make install`, requirements-hashed.txt for installing with checksums.
"""

from __future__ import annotations

import ast
import re
import sys
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers.paths import ROOT
from helpers.requirements import PROJECT, closure
from loopmt.workflow.doctor import EXTRAS

CONSTRAINTS = ROOT / "constraints.txt"
HASHED = ROOT / "requirements-hashed.txt"
BUILD_SPECIFIC = re.compile(r"(nvidia|cuda|triton)\b")
NOT_REQUIRED = {"_typeshed", "comet", "triton"}  # for types only; in its own environment; comes with torch for CUDA
PYTHONS = ["3.11.7", "3.12.1", "3.13.0", "3.14.0"]


def entries(file: Path) -> list[str]:
    """One entry for each requirement, with its checksums if it has some."""
    text = re.sub(r"^#.*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return re.split(r"\n(?=\S)", text.strip())


def pins(file: Path) -> list[Requirement]:
    return [Requirement(re.sub(r"\s*\\?\n.*", "", entry, flags=re.DOTALL)) for entry in entries(file)]


def names(file: Path) -> set[str]:
    return {canonicalize_name(pin.name) for pin in pins(file)}


def installed_extras() -> list[str]:
    """Those of `make install`, and those that single targets add."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.findall(r"^EXTRAS \?= (.*)$|-e \"\.\[([\w,]+)\]\"", makefile, re.MULTILINE)
    return [extra for groups in found for extra in "".join(groups).split(",")]


def imported() -> set[str]:
    """Names of the packages of others that the source imports, anywhere in a file."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in (ROOT / "src").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in found} - sys.stdlib_module_names - {"loopmt"}


def test_all_that_the_source_imports_is_required() -> None:
    required = closure(PROJECT["optional-dependencies"])
    owners = metadata.packages_distributions()
    missing = {name for name in imported() if not required & set(map(canonicalize_name, owners.get(name, [name])))}
    assert missing <= NOT_REQUIRED


def test_all_that_is_installed_is_pinned() -> None:
    extras = installed_extras()
    assert set(extras) == {"dev", "export", "lora", "docs"}
    needed = closure(extras)
    assert {"torch", "pytest", "peft", "sympy"} <= needed, "the closure reaches packages that pyproject does not name"
    missing = {name for name in needed - names(CONSTRAINTS) if not BUILD_SPECIFIC.match(name)}
    assert not missing, f"run `make constraints`: {sorted(missing)} have no version"


def test_the_extra_all_holds_every_feature() -> None:
    """It is what the page on installation and `loopmt doctor` list, too."""
    features = PROJECT["optional-dependencies"].keys() - {"dev", "docs", "all"}
    assert closure(["all"]) == closure(features)
    table = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {*features, "all"}
    assert EXTRAS.keys() == features


def test_all_that_a_deployment_needs_has_a_checksum() -> None:
    needed = closure(["all"])
    missing = {name for name in needed - names(HASHED) if not BUILD_SPECIFIC.match(name)}
    assert missing == {"torch"}, "run `make constraints`"
    assert not names(HASHED) & {"torch", "pytest", "mypy", "ruff"}


@pytest.mark.parametrize("file", [CONSTRAINTS, HASHED], ids=lambda file: file.name)
def test_files_of_pins_name_no_place(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"://|^-|\s--(?!hash=)|@", text, re.MULTILINE), "no address, no option but checksums"
    assert not [name for name in names(file) if BUILD_SPECIFIC.match(name)]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("file", [CONSTRAINTS, HASHED], ids=lambda file: file.name)
def test_every_python_gets_one_version_of_a_package(file: Path, python: str) -> None:
    here = {"python_full_version": python, "python_version": python.rpartition(".")[0], "sys_platform": "linux"}
    chosen = [canonicalize_name(pin.name) for pin in pins(file) if pin.marker is None or pin.marker.evaluate(here)]
    assert len(chosen) == len(set(chosen)) > 50
    assert {"numpy", "matplotlib", "pydantic", "transformers"} <= set(chosen)
    assert all(re.fullmatch(r"==[\w.!+]+", str(pin.specifier)) for pin in pins(file))


def test_the_two_files_pin_the_same_versions() -> None:
    assert {str(pin) for pin in pins(HASHED)} <= {str(pin) for pin in pins(CONSTRAINTS)}


def test_checksums_are_whole() -> None:
    for entry in entries(HASHED):
        first, *hashes = re.split(r" \\\n    ", entry)
        assert hashes, f"{first} has no checksum"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), entry
        assert len(set(hashes)) == len(hashes)


def test_versions_fit_pyproject() -> None:
    wanted = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]
    allowed = {canonicalize_name(one.name): one.specifier for one in map(Requirement, wanted)}
    for pin in pins(CONSTRAINTS):
        version = str(pin.specifier).removeprefix("==")
        assert version in allowed.get(canonicalize_name(pin.name), pin.specifier), str(pin)
