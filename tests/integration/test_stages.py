"""What holds in a stage."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from helpers.experiments import BASE, ONE, TREE, stage
from loopmt.config import check, loads

# -- what holds in a stage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "own", "expected"),
    [
        ("", "", ((1e-3, 2000, "inverse_sqrt"), (1e-3, 100, "linear"))),
        ("learning_rate = 0.1", "", ((0.1, 2000, "inverse_sqrt"), (0.1, 100, "linear"))),
        ("continued = { learning_rate = 0.2 }", "", ((1e-3, 2000, "inverse_sqrt"), (0.2, 100, "linear"))),
        (
            "continued = { learning_rate = 0.2 }",
            "learning_rate = 0.3",
            ((1e-3, 2000, "inverse_sqrt"), (0.3, 100, "linear")),
        ),
        ("warmup = 7", "warmup = 5", ((1e-3, 7, "inverse_sqrt"), (1e-3, 5, "linear"))),
        ("", "continued = { warmup = 9 }", ((1e-3, 2000, "inverse_sqrt"), (1e-3, 9, "linear"))),
    ],
)
def test_schedule_of_a_first_and_of_a_continued_stage(
    section: str, own: str, expected: tuple[tuple[float, int, str], ...]
) -> None:
    text = BASE + f"[train]\n{section}" + stage("a") + stage("b", more=f'from = "a"\nupdates = 1\ntrain = {{ {own} }}')
    experiment = loads(text)
    trains = [experiment.training(each) for each in experiment.stages]
    assert tuple((train.learning_rate, train.warmup, train.schedule) for train in trains) == expected


@pytest.mark.parametrize(
    ("section", "own", "expected"),
    [
        ("", "", (None, None)),
        ("dropout = 0.2", "", (0.2, 0.2)),
        ("continued = { dropout = 0.1 }", "", (None, 0.1)),
        ("dropout = 0.2\ncontinued = { dropout = 0.1 }", "dropout = 0.3", (0.2, 0.3)),
    ],
)
def test_dropout_of_a_first_and_of_a_continued_stage(
    section: str, own: str, expected: tuple[float | None, float | None]
) -> None:
    text = BASE + f"[train]\n{section}" + stage("a") + stage("b", more=f'from = "a"\nupdates = 1\ntrain = {{ {own} }}')
    experiment = loads(text)
    assert tuple(experiment.training(each).dropout for each in experiment.stages) == expected


@pytest.mark.parametrize(
    ("model", "section", "expected"),
    [
        ("", "", (None, None, 0.1, 0.1, 0.1)),
        ('preset = "tiny"', "", (None, None, 0.2, 0.2, 0.2)),
        ("dropout = 0.1", "", (None,) * 5),
        ("dropout = 0.05", "", (None,) * 5),
        ('preset = "base"', "", (None,) * 5),
        ('preset = "big"', "", (None,) * 5),
        ("", "dropout = 0.4", (0.4,) * 5),
        ("", "continued = { dropout = 0.4 }", (None, 0.4, 0.4, 0.4, 0.4)),
    ],
)
def test_loops_have_less_dropout_than_bitext(model: str, section: str, expected: tuple[float | None, ...]) -> None:
    """Where nothing is written; it is what was best for each on real text."""
    head = f"[model]\n{model}\n[train]\n{section}\n"
    tree = TREE + stage("auto", '"auto"', 'from = "vanilla"\nupdates = 10')
    experiment = loads(tree.replace("\n[[stage]]", f"\n{head}\n[[stage]]", 1))
    assert tuple(experiment.training(each).dropout for each in experiment.stages) == expected


def test_fresh_weights_have_the_dropout_of_the_model_with_loops_too() -> None:
    experiment = loads(BASE + stage("a", '["X>Y", "X>Y>X"]'))
    assert experiment.training(experiment.stage("a")).dropout is None


def test_a_long_chain_of_stages_is_read_at_once() -> None:
    chain = "".join(stage(f"s{n + 1}", '["X>Y", "X>Y>X"]', f'from = "s{n}"\nupdates = 1') for n in range(40))
    assert len(loads(BASE + stage("s0") + chain).stages) == 41


def test_pairs_of_many_languages_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each of them would be seconds with a hundred languages."""
    listing = Mock(wraps=check._pairs)
    monkeypatch.setattr(check, "_pairs", listing)
    loads(ONE)
    listing.assert_called_once()
