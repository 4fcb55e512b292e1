"""What holds in a stage, and which comparisons are fair."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from experiments import BASE, ONE, TREE, compare, stage
from loopmt.config import check, loads, supervised_shares, tuned
from loopmt.errors import ConfigError

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


# -- fair comparisons ------------------------------------------------------------------------------------------


def test_fair_comparisons() -> None:
    loads(TREE + compare("multi", "dual") + compare("dual", "longer"))


def late(path: str, update: int) -> str:
    return f'["X>Y", {{ path = "{path}", from_update = {update} }}]'


def test_a_path_that_joins_later_is_fair_to_one_that_joins_as_late() -> None:
    tree = ONE + "".join(
        stage(name, late(path, update), 'from = "vanilla"\nupdates = 10')
        for name, path, update in (("dual", "X>Y>X", 9), ("multi", "X>Y>Z>X", 9), ("early", "X>Y>Z>X", 0))
    )
    loads(tree + compare("multi", "dual") + stage("longer", more='from = "vanilla"\nupdates = 10'))
    with pytest.raises(ConfigError) as caught:
        loads(tree + compare("dual", "early"))
    assert "they differ in supervised share of en>es at update 0 (1.00 and 0.50). " in str(caught.value)


@pytest.mark.parametrize(
    ("override", "clause"),
    [
        ("stage.multi.updates=30", "budget (30 and 10)"),
        ("stage.multi.train.tokens=99", "train.tokens (99 and 4096)"),
        ("stage.multi.train.average=1", "train.average (1 and 5)"),
        ("stage.dual.train.validate_every=7", "train.validate_every (500 and 7)"),
    ],
)
def test_unfair_comparisons(override: str, clause: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(TREE + compare("multi", "dual"), [override])
    assert f'compare "multi" against "dual" is not fair: they differ in {clause}. Give both' in str(caught.value)


def test_a_control_with_its_own_settings() -> None:
    """Each of the two may have what is best for it, if the comparison says in what."""
    own = ["stage.longer.train.dropout=0.3", "stage.longer.train.learning_rate=1e-4"]
    named = compare("dual", "longer") + 'tuned = ["dropout", "learning_rate"]\n'
    loads(TREE + named, own)
    with pytest.raises(ConfigError, match=r"they differ in train.tokens \(4096 and 99\)"):
        loads(TREE + named, [*own, "stage.longer.train.tokens=99"])
    with pytest.raises(ConfigError, match="'dropped' is no key of"):
        loads(TREE + compare("dual", "longer") + 'tuned = ["dropped"]\n')


def test_the_usual_dropout_of_each_is_fair_and_told() -> None:
    text = TREE + compare("dual", "longer") + compare("multi", "dual")
    experiment = loads(text)
    assert [tuned(experiment, one) for one in experiment.compare] == [["dropout"], []]
    alike = loads(text, ["train.continued.dropout=0.2"])
    assert [tuned(alike, one) for one in alike.compare] == [[], []]
    with pytest.raises(ConfigError, match=r"they differ in train.dropout \(0.1 and 0.2\)"):
        loads(text, ["stage.longer.train.dropout=0.2"])


def test_chosen_loops_have_the_share_of_their_control() -> None:
    auto = stage("auto", '"auto"', 'from = "vanilla"\nupdates = 10')
    loads(TREE + auto + compare("auto", "dual"), ["stage.auto.auto.supervised=0.5"])
    with pytest.raises(ConfigError, match=r"supervised share of en>es \(0.33 and 0.50\)"):
        loads(TREE + auto + compare("auto", "dual"))


def test_chosen_loops_leave_a_direction_without_loops_to_its_pairs() -> None:
    """There is no French text: no loop teaches fr, with or without a choice, so the two stages are alike in it."""
    auto = stage("auto", '"auto"\nauto = { supervised = 0.5 }', 'from = "vanilla"\nupdates = 10')
    experiment = loads((TREE + auto + compare("auto", "dual")).replace('fr = "m", ', ""))
    shares = supervised_shares(experiment, experiment.stage("auto"))
    assert {hop.target: share for hop, share in shares.items()} == {"en": 0.5, "fr": 1.0, "es": 0.5}


def test_supervised_share_counts_what_a_round_draws() -> None:
    """Of four languages, two loops X>Y>Z>X teach a direction; with `per_round = 1` only one at a time does."""
    four = BASE.replace('"es"]', '"es", "de"]').replace('"fr-es" = "b"', '"fr-es" = "b", "en-de" = "b"')
    four = four.replace('m" }', 'm", de = "m" }') + stage("a")
    mixes = ['["X>Y", { path = "X>Y>Z>X" }]', '["X>Y", { path = "X>Y>Z>X", per_round = 1 }]']
    experiments = [loads(four + stage("b", mix, 'from = "a"\nupdates = 1')) for mix in mixes]
    shares = [supervised_shares(experiment, experiment.stages[1]) for experiment in experiments]
    hop = next(hop for hop in shares[0] if str(hop) == "en>fr")
    assert (shares[0][hop], shares[1][hop]) == (1 / 3, 1 / 2)
