"""Which comparisons are fair, and on which directions a stage and its control are compared."""

from __future__ import annotations

import json
import re

import pytest

from helpers.experiments import BASE, ONE, TREE, compare, stage
from loopmt.config import Experiment, compared_directions, is_fair, loads, supervised_shares, tuned
from loopmt.errors import ConfigError

ALL = ["en>fr", "en>es", "fr>en", "fr>es", "es>en", "es>fr"]
LATER = 'from = "vanilla"\nupdates = 10'
PAIR = ["en>fr", "fr>en"]
OTHERS = [hop for hop in ALL if hop not in PAIR]


def two(of: str, against: str, compared: str = "") -> str:
    """A stage and its control after vanilla."""
    return ONE + stage("of", of, LATER) + stage("control", against, LATER) + compare("of", "control") + compared


def refused(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loads(text, overrides)
    return str(caught.value)


def listed(hops: list[str]) -> str:
    return f"directions = {json.dumps(hops)}\n"


def directions(experiment: Experiment) -> tuple[list[str], dict[str, str]]:
    """What the first comparison compares, and what it leaves out."""
    found = compared_directions(experiment, experiment.compare[0])
    return list(map(str, found.compared)), {str(hop): why for hop, why in found.excluded.items()}


def test_fair_comparisons() -> None:
    experiment = loads(TREE + compare("multi", "dual") + compare("dual", "longer"))
    assert directions(experiment) == (ALL, {})


# -- directions that one stage trains --------------------------------------------------------------------------

SHARING = pytest.mark.parametrize("sharing", ['model.sharing="none"', 'model.sharing="all"'])


@SHARING
@pytest.mark.parametrize("of", ['["X>Y", "X>Y>X"]', '["X>Y"]', '"auto"'])
def test_a_control_that_trains_one_direction_of_six(of: str, sharing: str) -> None:
    message = refused(two(of, '["en>fr"]'), sharing)
    assert '"of" against "control"' in message and "only of trains" in message
    assert all(hop in message for hop in ALL) and 'directions = ["en>fr"]' in message, "the way out"


@SHARING
def test_a_control_with_loops_on_two_directions_of_six(sharing: str) -> None:
    message = refused(two('["X>Y", "X>Y>X"]', '["en>fr", "fr>en", "en>fr>en", "fr>en>fr"]'), sharing)
    assert f"only of trains {', '.join(OTHERS)}" in message and 'directions = ["en>fr", "fr>en"]' in message


def test_a_stage_that_trains_less_than_its_control() -> None:
    assert f"only control trains {', '.join(OTHERS)}" in refused(two('["en>fr", "fr>en>fr", "fr>en"]', '["X>Y"]'))


@SHARING
def test_the_directions_that_are_named_alone_are_compared(sharing: str) -> None:
    fair = ["en>fr>en", "fr>en>fr", "en>fr", "fr>en"]
    text = two('["X>Y", "X>Y>X"]', json.dumps(fair), listed(PAIR))
    compared, excluded = directions(loads(text, [sharing]))
    assert compared == PAIR and list(excluded) == OTHERS
    assert all("`directions`" in why for why in excluded.values())


@pytest.mark.parametrize(
    ("direction", "facts"),
    [
        ("es>en", ("es>en", "only of trains it", "en>fr, fr>en")),
        ("en>de", ("en>de", "neither stage translates it", "en>fr, fr>en")),
        ("en>fr>es", ("en>fr>es", "no direction", '"en>fr"')),
        ("english", ("english", "no direction")),
    ],
)
def test_a_direction_that_cannot_be_compared_is_not_named(direction: str, facts: tuple[str, ...]) -> None:
    message = refused(two('["X>Y", "X>Y>X"]', '["en>fr", "fr>en"]', listed([*PAIR, direction])))
    assert all(fact in message for fact in facts)


def test_stages_that_train_different_directions_share_nothing_to_compare() -> None:
    message = refused(two('["en>fr"]', '["fr>en"]'))
    assert "only of trains en>fr" in message and "only control trains fr>en" in message
    assert "directions =" not in message, "no list would help"


# -- directions that are left out ------------------------------------------------------------------------------


def test_what_both_leave_as_it_was_is_not_compared() -> None:
    """Separate networks keep their weights; one shared network changes in every direction."""
    text = two('["en>fr", "fr>en", "en>fr>en", "fr>en>fr"]', '["en>fr", "fr>en"]')
    compared, excluded = directions(loads(text))
    assert (compared, excluded) == (PAIR, dict.fromkeys(OTHERS, "neither stage trains it"))
    assert directions(loads(text, ['model.sharing="all"'])) == (ALL, {})


def test_what_both_train_on_bitext_alone_is_not_compared() -> None:
    text = two('["X>Y", "en>fr>en", "fr>en>fr"]', '["X>Y"]')
    compared, excluded = directions(loads(text))
    assert (compared, excluded) == (PAIR, dict.fromkeys(OTHERS, "both stages train it on bitext alone"))
    assert directions(loads(text, ['model.sharing="all"'])) == (ALL, {})
    settings = two('["X>Y"]', '["X>Y"]', 'tuned = ["dropout"]\n')
    assert directions(loads(settings, ["stage.of.train.dropout=0.2"])) == (ALL, {}), (
        "here the settings are the question"
    )


def test_what_one_stage_cannot_translate_is_not_compared() -> None:
    """Loops through English teach French and Spanish, of which there is no bitext."""
    star = two('["X>Y", "X>Y>X", "X>en>Y>X"]', '["X>Y"]').replace(', "fr-es" = "b"', "")
    compared, excluded = directions(loads(star))
    assert compared == ["en>fr", "en>es", "fr>en", "es>en"]
    assert excluded == dict.fromkeys(["fr>es", "es>fr"], "control does not translate it")
    message = refused(star, 'model.sharing="all"')
    assert "only of trains fr>es, es>fr" in message, "a shared network translates it untrained"


def test_old_runs_leave_out_what_is_refused_now() -> None:
    experiment = loads(two('["X>Y", "X>Y>X"]', '["en>fr"]', listed(["en>fr"])))
    old = experiment.model_copy(update={"compare": [experiment.compare[0].model_copy(update={"directions": []})]})
    compared, excluded = directions(old)
    assert compared == ["en>fr"] and set(excluded.values()) == {"only of trains it"}
    assert not is_fair(old, "of", "control") and is_fair(loads(TREE), "dual", "longer")


# -- shares of bitext ------------------------------------------------------------------------------------------


def late(path: str, update: int) -> str:
    return f'["X>Y", {{ path = "{path}", from_update = {update} }}]'


def test_a_path_that_joins_later_is_fair_to_one_that_joins_as_late() -> None:
    tree = ONE + "".join(
        stage(name, late(path, update), LATER)
        for name, path, update in (("dual", "X>Y>X", 9), ("multi", "X>Y>Z>X", 9), ("early", "X>Y>Z>X", 0))
    )
    loads(tree + compare("multi", "dual") + stage("longer", more=LATER))
    message = refused(tree + compare("dual", "early"))
    assert "supervised share of en>fr at update 0 (1.00 and 0.50)" in message


def test_a_direction_that_one_trains_later_than_the_other() -> None:
    of = '["en>fr", { path = "fr>en", from_update = 5 }]'
    assert "fr>en at update 0 (only control trains it)" in refused(two(of, '["en>fr", "fr>en"]'))


def test_a_path_that_never_joins_trains_nothing() -> None:
    of = '["X>Y", { path = "X>Y>X", from_update = 9 }]'
    loads(two(of, '["X>Y"]'))
    never = '["en>fr", { path = "fr>en", from_update = 10 }]'
    assert "only control trains fr>en" in refused(two(never, '["en>fr", "fr>en"]')), "its budget is 10 updates"


def test_other_shares() -> None:
    message = refused(TREE.replace("weight = 1", "weight = 2") + compare("multi", "dual"))
    assert "supervised share of en>fr (0.33 and 0.50)" in message


def test_loops_on_some_directions_of_one_side() -> None:
    message = refused(two('["X>Y", "X>Y>X"]', '["X>Y", "en>fr>en", "fr>en>fr"]'))
    assert "supervised share of en>es (0.50 and 1.00)" in message


# -- settings --------------------------------------------------------------------------------------------------


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
    message = refused(TREE + compare("multi", "dual"), override)
    assert all(fact in message for fact in ('"multi" against "dual"', clause, "`tuned`"))


def test_stages_from_different_parents() -> None:
    late = stage("late", more='from = "longer"\nupdates = 10')
    assert "from (longer and vanilla)" in refused(TREE + late + compare("late", "dual"))


OWN = ["stage.longer.train.dropout=0.3", "stage.longer.train.learning_rate=1e-4"]
NAMED = TREE + compare("dual", "longer") + 'tuned = ["dropout", "learning_rate"]\n'


def test_a_control_with_its_own_settings() -> None:
    """Each of the two may have what is best for it, if the comparison says in what."""
    loads(NAMED, OWN)
    assert "train.tokens (4096 and 99)" in refused(NAMED, *OWN, "stage.longer.train.tokens=99")
    message = refused(NAMED.replace('"dropout"', '"dropped"'))
    assert "'dropped'" in message and "learning_rate" in message, "the keys that there are"


@pytest.mark.parametrize(
    ("key", "value", "clause"),
    [
        ("tokens", 99, "train.tokens (4096 and 99)"),
        ("validate_every", 50, "train.validate_every (500 and 50)"),
        ("validate_beam", 4, "train.validate_beam (1 and 4)"),
        ("validate_sentences", 5, "train.validate_sentences (500 and 5)"),
        ("patience", 3, "train.patience (8 and 3)"),
    ],
)
def test_budget_and_validation_are_the_same_for_both(key: str, value: int, clause: str) -> None:
    named = NAMED.replace('"dropout"', f'"dropout", "{key}"')
    message = refused(named, *OWN, f"stage.longer.train.{key}={value}")
    assert clause in message and re.search(rf"cannot be tuned: .*{key}", message)


def test_the_usual_dropout_of_each_is_fair_and_told() -> None:
    text = TREE + compare("dual", "longer") + compare("multi", "dual")
    experiment = loads(text)
    assert [tuned(experiment, one) for one in experiment.compare] == [["dropout"], []]
    alike = loads(text, ["train.continued.dropout=0.2"])
    assert [tuned(alike, one) for one in alike.compare] == [[], []]
    assert "train.dropout (0.1 and 0.2)" in refused(text, "stage.longer.train.dropout=0.2")


def test_chosen_loops_have_the_share_of_their_control() -> None:
    auto = stage("auto", '"auto"', 'from = "vanilla"\nupdates = 10')
    loads(TREE + auto + compare("auto", "dual"), ["stage.auto.auto.supervised=0.5"])
    assert "supervised share of en>fr (0.33 and 0.50)" in refused(TREE + auto + compare("auto", "dual"))


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
