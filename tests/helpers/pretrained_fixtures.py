"""Small pretrained checkpoints, made once per session, and experiments that train them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopmt.workflow.train import TrainOptions


@pytest.fixture(scope="session")
def text(tiny_experiment_file: Path) -> Path:
    return tiny_experiment_file.parent / "text"


@pytest.fixture(scope="session")
def opus(text: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from helpers.pretrained import make_opus

    folder = tmp_path_factory.mktemp("opus")
    ways = {"en>fr": ("en", "fr"), "fr>en": ("fr", "en")}
    return {way: make_opus(text, folder / way.replace(">", "-"), *sides, steps=120) for way, sides in ways.items()}


@pytest.fixture(scope="session")
def m2m(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from helpers.pretrained import make_m2m

    return make_m2m(text, tmp_path_factory.mktemp("m2m") / "m2m", steps=40)


@pytest.fixture
def dual(opus: dict[str, Path], text: Path, tmp_path: Path) -> Callable[..., TrainOptions]:
    """Two OPUS-like checkpoints in dual loops."""
    from helpers.pretrained import experiment

    def make(*overrides: str, name: str = "run", **settings: Any) -> TrainOptions:
        file = tmp_path / f"{name}.toml"
        file.write_text(experiment(text, ["en", "fr"], {way: str(one) for way, one in opus.items()}, **settings))
        return TrainOptions(file, tmp_path / name, overrides)

    return make


@pytest.fixture
def triangle(m2m: Path, text: Path, tmp_path: Path) -> Callable[..., TrainOptions]:
    """One checkpoint for three languages."""
    from helpers.pretrained import experiment

    def make(*overrides: str, name: str = "run", **settings: Any) -> TrainOptions:
        file = tmp_path / f"{name}.toml"
        file.write_text(experiment(text, ["en", "fr", "es"], str(m2m), **settings))
        return TrainOptions(file, tmp_path / name, overrides)

    return make
