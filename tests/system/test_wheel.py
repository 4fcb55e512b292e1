"""The wheel and the source archive, and the wheel in an empty environment, away from the checkout.

Tests have no network. So the environment gets links to the installed packages that the wheel declares, transitive ones
included, and to no others: a dependency that is not declared, or a module that needs an extra, fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import pytest

from helpers.paths import ROOT
from helpers.requirements import PROJECT, closure
from helpers.toy import EXPERIMENT, write_corpora

PACKAGE = ROOT / "src" / "loopmt"
VERSION = PROJECT["version"]
SHORT = ["--set", "stage.vanilla.updates=4", "--set", "train.validate_every=4", "--set", "train.warmup=2"]


def run(*words: object, folder: Path) -> str:
    """The output of a command that has nothing of this environment but the name of its program's folder."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env={**kept, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a source archive and of the wheel that is built from it; the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("dist")
    copy = folder / "checkout"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, folder=copy)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    assert found.name == f"loopmt-{VERSION}-py3-none-any.whl"
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that holds the wheel and its declared dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, folder=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    link_packages(closure(), packages)
    return python.parent


def link_packages(names: Iterable[str], folder: Path) -> None:
    """Links to modules and metadata; .pth files would add other folders."""
    for name in names:
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # what another platform needs
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not top.endswith(".pth") and not (folder / top).exists():
                (folder / top).symlink_to(str(package.locate_file(top)))


def package_data() -> set[str]:
    found = [file for file in PACKAGE.rglob("*") if file.is_file() and file.suffix not in (".pyc", ".pyo")]
    return {file.relative_to(PACKAGE.parent).as_posix() for file in found}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    own = {name for name in names if name.startswith("loopmt/")}
    assert own == package_data()
    assert {f"loopmt/{name}" for name in ("py.typed", "demo.toml", "serve/page.html", "report/report.css")} <= own
    assert all(name.startswith(f"loopmt-{VERSION}.dist-info/") for name in names - own)
    assert f"loopmt-{VERSION}.dist-info/licenses/LICENSE" in names


def test_the_wheel_says_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        about = message_from_bytes(archive.read(f"loopmt-{VERSION}.dist-info/METADATA"))
        programs = archive.read(f"loopmt-{VERSION}.dist-info/entry_points.txt").decode()
    assert (about["Version"], about["Requires-Python"]) == (VERSION, PROJECT["requires-python"])
    assert about["License-Expression"] == "MIT"
    assert set(about.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert "loopmt = loopmt.__main__:main" in programs


def test_the_source_archive_can_be_built_and_read(dist: Path) -> None:
    with tarfile.open(dist / f"loopmt-{VERSION}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in package_data()} | {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_the_wheel_works_without_extras_and_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    """One process for each verb; a tiny experiment on files of the user."""
    loopmt = installed / "loopmt"
    place = run(installed / "python", "-c", "import loopmt; print(loopmt.__file__)", folder=tmp_path)
    assert Path(place.strip()).is_relative_to(installed.parent)
    assert run(loopmt, "--version", folder=tmp_path).split() == ["loopmt", VERSION]
    assert "translate" in run(loopmt, "--help", folder=tmp_path)
    assert "torch" in run(loopmt, "doctor", folder=tmp_path)
    write_corpora(tmp_path / "text")
    (tmp_path / "tiny.toml").write_text(EXPERIMENT, encoding="utf-8")
    run(loopmt, "train", "tiny.toml", "--run", "run", "--only", "vanilla", *SHORT, folder=tmp_path)
    (tmp_path / "in.txt").write_text("the cat sees the dog .\n", encoding="utf-8")
    translated = run(loopmt, "translate", "run", "en>fr", "in.txt", folder=tmp_path)
    assert len(translated.splitlines()) == 1
