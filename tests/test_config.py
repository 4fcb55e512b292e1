"""Experiment files: what is read, what is refused and in which words, what a stage inherits."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from loopmt.config import Experiment, check, load, loads, supervised_shares
from loopmt.errors import ConfigError

BASE = """
languages = ["en", "fr", "es"]
[data]
bitext = { "en-fr" = "b", "en-es" = "b", "fr-es" = "b" }
mono = { en = "m", fr = "m", es = "m" }
valid = "v"
"""
WORLD = 'languages = ["en", "fr"]\n'


def stage(name: str, mix: str = '["X>Y"]', more: str = "updates = 10") -> str:
    return f'\n[[stage]]\nname = "{name}"\nmix = {mix}\n{more}\n'


ONE = BASE + stage("vanilla")
TREE = (
    ONE
    + stage("longer", more='from = "vanilla"\nupdates = 10')
    + stage("dual", '["X>Y", "X>Y>X"]', 'from = "vanilla"\nupdates = 10')
    + stage("multi", '["X>Y", { path = "X>Y>Z>X", weight = 1 }]', 'from = "vanilla"\nupdates = 10')
)
TRAIN_KEYS = (
    "learning_rate, warmup, schedule, tokens, accumulate, max_length, shapes, round, adam, weight_decay, "
    "subword_dropout, label_smoothing, dropout, clip, balance, ema, precision, compile, fuse, shard, continued, "
    "validate_every, validate_sentences, validate_beam, patience, max_updates, average, on_collapse, log_every"
)
HELP = "Write languages joined by '>', such as en>fr or en>fr>es>en; capitals stand for any language, as in X>Y>X."


def compare(of: str, against: str) -> str:
    return f'[[compare]]\nof = "{of}"\nagainst = "{against}"\n'


def mixed(mix: str) -> str:
    return BASE + stage("vanilla", mix)


REFUSED = {
    "not toml": ("x = = 3", " is not valid TOML: Invalid value (at line 1, column 5)."),
    "nothing": ("", ": languages is missing. data is missing. stage is missing."),
    "no stage": (BASE, ": stage is missing."),
    "unknown key": (
        "colour = 3\n" + ONE,
        ": unknown key 'colour'. Valid keys: name, languages, seed, data, vocab, model, train, stage, compare, "
        "imported.",
    ),
    "unknown key of a stage": (
        BASE + stage("vanilla", more="update = 3"),
        ": unknown key 'update' in stage.\"vanilla\". Did you mean 'updates'? "
        "Valid keys: name, from, mix, updates, until, train, auto.",
    ),
    "unknown key of a rule": (
        BASE + "[data.clean]\nemtpy = true" + stage("vanilla"),
        ": unknown key 'emtpy' in data.clean. Did you mean 'empty'? Valid keys: nfc, control, empty, identical, "
        "duplicates, overlap, max_words, max_characters, ratio.",
    ),
    "unknown key of an entry": (
        mixed('["X>Y", { path = "X>Y>X", wieght = 2 }]'),
        ": unknown key 'wieght' in stage.\"vanilla\".mix.\"X>Y>X\". Did you mean 'weight'? "
        "Valid keys: path, weight, generate, samples, combine, tag, keep, same_rows, from_update, per_round.",
    ),
    "unknown key of a generator": (
        mixed('[{ path = "X>Y>X", generate = { hwo = "greedy" } }]'),
        ": unknown key 'hwo' in stage.\"vanilla\".mix.\"X>Y>X\".generate. Did you mean 'how'? "
        "Valid keys: by, how, temperature, top_k, top_p, beam, length_penalty.",
    ),
    "unknown key of a stage's training": (
        BASE + stage("vanilla", more="updates = 1\ntrain = { tokns = 5 }"),
        f": stage \"vanilla\", train: unknown key 'tokns'. Did you mean 'tokens'? Valid keys: {TRAIN_KEYS}.",
    ),
    "value of a stage's training": (
        BASE + stage("vanilla", more="updates = 1\ntrain = { tokens = 1 }"),
        ': stage "vanilla", train: tokens = 1: it should be greater than or equal to 8.',
    ),
    "value of a generator": (
        mixed('[{ path = "X>Y>X", generate = { how = "magic" } }]'),
        ": stage.\"vanilla\".mix.\"X>Y>X\".generate.how = 'magic': it should be 'sample', 'greedy' or 'beam'.",
    ),
    "one generator of several": (
        mixed('[{ path = "X>Y>X", generate = [{ how = "magic" }] }]'),
        ": stage.\"vanilla\".mix.\"X>Y>X\".generate.0.how = 'magic': it should be 'sample', 'greedy' or 'beam'.",
    ),
    "weight": (
        mixed('[{ path = "X>Y", weight = 0 }]'),
        ': stage."vanilla".mix."X>Y".weight = 0: it should be greater than 0.',
    ),
    "not a number": (
        BASE + "[train]\nlearning_rate = nan" + stage("a"),
        ": train.learning_rate = nan: it should be a finite number.",
    ),
    "fewer than no pairs": (
        WORLD + '[data.world]\npairs = { "en-fr" = -5 }' + stage("a"),
        ": data.world.pairs.en-fr = -5: it should be greater than or equal to 1.",
    ),
    "no sentences": (
        WORLD + '[data.world]\npairs = { "en-fr" = 5 }\nmono = { en = 0 }' + stage("a"),
        ": data.world.mono.en = 0: it should be greater than or equal to 1.",
    ),
    "moments that never move": (
        BASE + "[train]\nadam = [1.0, 0.98, 1e-9]" + stage("a"),
        ": train.adam.0 = 1.0: it should be less than 1.",
    ),
    "a step divided by nothing": (
        BASE + "[train]\nadam = [0.9, 0.98, 0]" + stage("a"),
        ": train.adam.2 = 0: it should be greater than 0.",
    ),
    "empty mix": (mixed("[]"), ': stage."vanilla": `mix` is empty: name at least one path, such as "X>Y".'),
    "no budget": (
        BASE + stage("vanilla", more=""),
        ': stage."vanilla": give either `updates = N` or `until = "patience"`.',
    ),
    "two budgets": (
        BASE + stage("vanilla", more='updates = 3\nuntil = "patience"'),
        ': stage."vanilla": give either `updates = N` or `until = "patience"`.',
    ),
    "bad path": (mixed('["X>>Y"]'), f": stage \"vanilla\": path 'X>>Y': a place is empty. {HELP}"),
    "foreign path": (
        mixed('["en>it"]'),
        ": stage \"vanilla\": path en>it: language 'it' is not in the experiment, which has en, fr, es.",
    ),
    "generators for other hops": (
        mixed('[{ path = "X>Y>Z>X", generate = [{ how = "greedy" }] }, "X>Y"]'),
        ": path X>Y>Z>X generates on 2 hops, but its `generate` lists 1. Give one table for all hops or one for each.",
    ),
    "frozen from nothing": (
        mixed('["X>Y", { path = "X>Y>X", generate = { by = "frozen" } }]'),
        ': stage "vanilla": path en>fr>en asks for a frozen en>fr, but no stage before trains en>fr. '
        'Start the stage `from` one that does, or use by = "live".',
    ),
    "one sample": (
        mixed('["X>Y", { path = "X>Y>X", combine = "logmeanexp" }]'),
        ': stage "vanilla", path X>Y>X: combine = "logmeanexp" needs samples = 2 or more.',
    ),
    "two languages": (
        'languages = ["en", "fr"]\n[data]\nbitext = { "en-fr" = "b" }\nmono = { en = "m", fr = "m" }\nvalid = "v"\n'
        + stage("a", '["X>Y", "X>Y>Z>X"]'),
        ': stage "a": path X>Y>Z>X needs 3 languages; the experiment has 2: en, fr.',
    ),
    "one language": (
        ONE.replace(', "fr", "es"', ""),
        ": languages: List should have at least 2 items after validation, not 1.",
    ),
    "language twice": (ONE.replace('"es"]', '"en"]'), ": languages: en, fr, en names one twice."),
    "no code": (ONE.replace('"es"]', '"E"]'), ": language 'E': write a code such as en, fr or zh_Hans."),
    "unknown pair": (
        ONE.replace('"en-fr"', '"en-it"'),
        ': data.bitext "en-it": write two of the languages en, fr, es, as in "en-fr".',
    ),
    "pair of other languages": (
        ONE.replace('["en", "fr", "es"]', '["es", "fr"]'),
        ': data.bitext "en-fr": write two of the languages es, fr, as in "es-fr".',
    ),
    "no pair": (
        ONE.replace('"en-fr"', '"enfr"'),
        ': data.bitext "enfr": write two of the languages en, fr, es, as in "en-fr".',
    ),
    "pair both ways": (
        ONE.replace('"fr-es"', '"es-en"'),
        ': data.bitext has both "en-es" and "es-en", which are one pair: join them.',
    ),
    "unknown pair of a test": (
        ONE.replace('valid = "v"', 'valid = "v"\ntest = { news = { "en-xx" = "v" } }'),
        ': data.test.news "en-xx": write two of the languages en, fr, es, as in "en-fr".',
    ),
    "unknown mono": (ONE.replace("{ en =", "{ it ="), ": data.mono.it: the experiment's languages are en, fr, es."),
    "no valid": (ONE.replace('valid = "v"', ""), ": data.valid is missing: the best checkpoint is chosen on it."),
    "no text": (
        'languages = ["en", "fr"]\n[data]\nvalid = "v"' + stage("a"),
        ": data has no text: give data.bitext and data.mono, or data.world.",
    ),
    "files and world": (
        BASE + "[data.world]" + stage("a"),
        ": data.world draws all text itself: remove data.bitext, data.mono, data.valid and data.test.",
    ),
    "two stages": (ONE + stage("vanilla"), ': two stages are called "vanilla".'),
    "stage's name": (
        BASE + stage("a/b"),
        ": stage.\"a/b\".name = 'a/b': write letters from a to z, digits, dots, underscores and hyphens, "
        "and begin with a letter or a digit.",
    ),
    "mix without brackets": (
        BASE + '[[stage]]\nname = "a"\nmix = "X>Y>X"\nupdates = 1',
        ': stage."a".mix = \'X>Y>X\': write a list of paths, mix = ["X>Y>X"], or mix = "auto".',
    ),
    "mix of one entry without brackets": (
        BASE + '[[stage]]\nname = "a"\nmix = { path = "X>Y" }\nupdates = 1',
        ': stage."a".mix: write a list of paths, mix = ["X>Y"], or mix = "auto".',
    ),
    "from": (
        ONE + stage("b", more='from = "c"\nupdates = 1'),
        ': stage "b": from = "c" is not a stage before it; before it there are: vanilla.',
    ),
    "from, after many": (
        TREE + stage("five") + stage("six") + stage("seven", more='from = "c"\nupdates = 1'),
        ': stage "seven": from = "c" is not a stage before it; before it there are: '
        "vanilla, longer, dual, multi, five, six.",
    ),
    "from itself": (
        BASE + stage("b", more='from = "b"\nupdates = 1'),
        ': stage "b": from = "b" is not a stage before it; before it there are: none.',
    ),
    "sharing": (
        BASE + '[model]\nsharing = "all"\n[vocab]\nsharing = "language"' + stage("a"),
        ': model.sharing = "all" needs one vocabulary for all languages: set vocab.sharing = "joint".',
    ),
    "sharding": (
        BASE + "[train]\nshard = true" + stage("a"),
        ': stage "a": train.shard spreads one network over the processes, but there is one for each direction. '
        'Set model.sharing = "all", or train.shard = false: every process then learns on its own rows.',
    ),
    "heads": (
        BASE + "[model]\nheads = 3" + stage("a"),
        ": model: heads = 3 must divide width = 256, which must be even.",
    ),
    "preset": (
        BASE + '[model]\npreset = "huge"' + stage("a"),
        ": model.preset = 'huge': it should be 'tiny', 'small', 'base' or 'big'.",
    ),
    "compare with nothing": (
        TREE + compare("multi", "none"),
        ": there is no stage 'none'; there are vanilla, longer, dual, multi.",
    ),
    "other parent": (
        TREE + stage("late", more='from = "longer"\nupdates = 10') + compare("late", "dual"),
        ': compare "late" against "dual" is not fair: they differ in from (longer and vanilla). '
        "Give both the same settings, or name keys of [train] that were tuned for each in the comparison's `tuned`.",
    ),
    "other shares": (
        TREE.replace("weight = 1", "weight = 2") + compare("multi", "dual"),
        ': compare "multi" against "dual" is not fair: they differ in supervised share of en>es (0.33 and 0.50). '
        "Give both the same settings, or name keys of [train] that were tuned for each in the comparison's `tuned`.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    text, sentence = REFUSED[case]
    with pytest.raises(ConfigError) as caught:
        loads(text, where="exp.toml")
    assert str(caught.value) == "exp.toml" + sentence


OVERRIDES = {
    "train.tokens": "--set train.tokens: write section.key=value, such as --set train.tokens=2048.",
    "=4": "--set =4: write section.key=value, such as --set train.tokens=2048.",
    "stage.vanila.updates=4": "--set stage.vanila.updates=4: there is no stage 'vanila'; there are vanilla.",
    "stage.updates=4": "--set stage.updates=4: 'stage.updates' does not lead to a key.",
    "languages.en.x=4": "--set languages.en.x=4: 'en' is not inside a section.",
    "train.tokens=many": "exp.toml --set train.tokens=many: train.tokens = 'many': it should be a valid integer, "
    "unable to parse string as an integer.",
    "train.toknes=4": "exp.toml --set train.toknes=4: unknown key 'toknes' in train. Did you mean 'tokens'? "
    + f"Valid keys: {TRAIN_KEYS}.",
}


@pytest.mark.parametrize("override", OVERRIDES)
def test_overrides_that_are_refused(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(ONE, [override], where="exp.toml")
    assert str(caught.value) == OVERRIDES[override]


def test_overrides() -> None:
    overrides = [
        "train.tokens=2048",
        "model.preset=tiny",
        "stage.vanilla.updates=40",
        "stage.vanilla.train.clip=0.5",
        'data.mono={ en = "other" }',
    ]
    experiment = loads(ONE, overrides)
    assert experiment.train.tokens == 2048
    assert experiment.model.width == 128
    assert experiment.stages[0].updates == 40
    assert experiment.training(experiment.stages[0]).clip == 0.5
    assert experiment.data.mono == {"en": ["other"]}


def test_a_file_names_its_experiment(tmp_path: Path) -> None:
    file = tmp_path / "my first.toml"
    file.write_text(ONE, encoding="utf-8")
    assert load(file).name == "my-first"
    file.write_text('name = "other"\n' + ONE, encoding="utf-8")
    assert load(file).name == "other"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: there is no such experiment file\."):
        load(tmp_path / "none.toml")
    (tmp_path / "experiment.toml").write_text(ONE, encoding="utf-8")
    for wrong, hint in (
        ("experiment.tml", f"Did you mean {tmp_path}/experiment.toml?"),
        ("zzz.toml", f"In {tmp_path} there is: experiment.toml."),
    ):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path / wrong)
        assert str(caught.value) == f"{tmp_path / wrong}: there is no such experiment file. {hint}"
    (tmp_path / "latin.toml").write_bytes("# caf\xe9".encode("latin-1"))
    with pytest.raises(ConfigError, match="cannot be read as an experiment file"):
        load(tmp_path / "latin.toml")
    with pytest.raises(ConfigError, match=r"is a folder\. Name an experiment file, such as .*experiment\.toml\."):
        load(tmp_path)


def test_an_experiment_survives_json() -> None:
    experiment = loads(TREE + compare("dual", "longer"))
    assert Experiment.model_validate(experiment.model_dump(mode="json", by_alias=True)) == experiment


def test_presets_are_a_start() -> None:
    model = loads(BASE + '[model]\npreset = "base"\nlayers = 2' + stage("a")).model
    assert (model.layers, model.num_decoder_layers, model.width, model.heads) == (2, 2, 512, 8)


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
    tuned = compare("dual", "longer") + 'tuned = ["dropout", "learning_rate"]\n'
    loads(TREE + tuned, own)
    with pytest.raises(ConfigError, match=r"they differ in train.tokens \(4096 and 99\)"):
        loads(TREE + tuned, [*own, "stage.longer.train.tokens=99"])
    with pytest.raises(ConfigError, match="'dropped' is no key of"):
        loads(TREE + compare("dual", "longer") + 'tuned = ["dropped"]\n')


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
