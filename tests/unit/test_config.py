"""Experiment files: what is read, and what is refused, in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.experiments import BASE, ONE, TREE, compare, stage
from helpers.facts import lacks, missing, refused
from loopmt.config import Experiment, load, loads
from loopmt.config.schema import Generate, Train
from loopmt.errors import ConfigError

WORLD = 'languages = ["en", "fr"]\n'
TRAIN_KEYS = ", ".join(Train.model_fields)
HELP = "Write languages joined by '>', such as en>fr or en>fr>es>en; capitals stand for any language, as in X>Y>X."


def mixed(mix: str) -> str:
    return BASE + stage("vanilla", mix)


REFUSED = {
    "not toml": ("x = = 3", " is not valid TOML: Invalid value (at line 1, column 5)."),
    "a stage in single brackets": (
        "[stage]\nname = 'a'\n[stage]\nname = 'b'",
        " is not valid TOML: Cannot declare ('stage',) twice (at line 3, column 7). "
        "A list of tables has double brackets: [[stage]].",
    ),
    "nothing": ("", ": languages is missing. data is missing. stage is missing."),
    "no stage": (BASE, ": stage is missing."),
    "unknown key": (
        "colour = 3\n" + ONE,
        ": unknown key 'colour'. Valid keys: name, languages, seed, data, vocab, model, train, stage, compare, "
        "guards, evaluate, imported.",
    ),
    "unknown key of a stage": (
        BASE + stage("vanilla", more="update = 3"),
        ": unknown key 'update' in stage.\"vanilla\". Did you mean 'updates'? "
        "Valid keys: name, from, mix, updates, until, train, auto, adapt, lora.",
    ),
    "unknown key of a rule": (
        BASE + "[data.clean]\nemtpy = true" + stage("vanilla"),
        ": unknown key 'emtpy' in data.clean. Did you mean 'empty'? Valid keys: nfc, control, empty, identical, "
        "duplicates, overlap, max_words, max_characters, ratio.",
    ),
    "unknown key of an entry": (
        mixed('["X>Y", { path = "X>Y>X", wieght = 2 }]'),
        ": unknown key 'wieght' in stage.\"vanilla\".mix.\"X>Y>X\". Did you mean 'weight'? "
        "Valid keys: path, weight, generate, samples, combine, candidates, choose, noise, tag, keep, "
        "keep_by, same_rows, from_update, per_round.",
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
    "bad path": (mixed('["X>>Y"]'), f": stage \"vanilla\": path 'X>>Y': a language is missing. {HELP}"),
    "foreign path": (
        mixed('["en>it"]'),
        ": stage \"vanilla\": path en>it: language 'it' is not in the experiment, which has en, fr, es.",
    ),
    "generators for other hops": (
        mixed('[{ path = "X>Y>Z>X", generate = [{ how = "greedy" }] }, "X>Y"]'),
        ": path X>Y>Z>X has 2 generating hops, but its `generate` lists 1. "
        "Give one table for all hops or one for each.",
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
        ': data.bitext "en-it": it is not in `languages`, which has en, fr, es. Correct it, or add it there.',
    ),
    "pair of other languages": (
        ONE.replace('["en", "fr", "es"]', '["es", "fr"]'),
        ': data.bitext "en-fr": en is not in `languages`, which has es, fr. Correct it, or add it there.',
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
        ': data.test.news "en-xx": xx is not in `languages`, which has en, fr, es. Correct it, or add it there.',
    ),
    "unknown mono": (
        ONE.replace("{ en =", "{ it ="),
        ": data.mono.it: it is not in `languages`, which has en, fr, es. Correct it, or add it there.",
    ),
    "a longer code": (
        ONE.replace("{ en =", "{ fra ="),
        ": data.mono.fra: fra is not in `languages`, which has en, fr, es. Did you mean fr? If not, add it there.",
    ),
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
    "mix of a word": (
        mixed('"Auto"'),
        ': stage."vanilla".mix = \'Auto\': write a list of paths, mix = ["X>Y"], or mix = "auto".',
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
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    text, sentence = REFUSED[case]
    with pytest.raises(ConfigError) as caught:
        loads(text, where="exp.toml")
    assert not lacks(str(caught.value), "exp.toml" + sentence)


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
    assert not lacks(str(caught.value), OVERRIDES[override])


@pytest.mark.parametrize(
    ("override", "ours"),
    [
        ("train.lr=0.1", "train.learning_rate"),
        ("stage.vanilla.lr=0.1", "train.learning_rate"),
        ("stage.vanilla.train.lr=0.1", "train.learning_rate"),
        ("train.epochs=3", "`updates`"),
        ("stage.vanilla.max_steps=3", "`updates`"),
        ("train.batch_size=32", "train.tokens"),
    ],
)
def test_names_that_other_toolkits_use(override: str, ours: str) -> None:
    key = override.partition("=")[0].rpartition(".")[2]
    with pytest.raises(ConfigError) as caught:
        loads(ONE, [override])
    head, _, _ = str(caught.value).partition("Valid keys")
    assert f"unknown key '{key}'" in head and ours in head and "Did you mean" not in head


@pytest.mark.parametrize("key", ["layers", "decoder_layers", "width", "feed_forward", "heads"])
def test_sizes_of_the_network_have_limits(key: str) -> None:
    with refused(ConfigError, f"model.{key} = 10000000", "less than or equal to"):
        loads(ONE, [f"model.{key}=10000000"])


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
    with refused(ConfigError, "none.toml", "no such experiment file"):
        load(tmp_path / "none.toml")
    (tmp_path / "experiment.toml").write_text(ONE, encoding="utf-8")
    for wrong, hint in (
        ("experiment.tml", f"Did you mean {tmp_path}/experiment.toml?"),
        ("zzz.toml", f"In {tmp_path} there is: experiment.toml."),
    ):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path / wrong)
        assert not missing(caught.value, str(tmp_path / wrong), "no such experiment file", hint)
    (tmp_path / "latin.toml").write_bytes("# caf\xe9".encode("latin-1"))
    with refused(ConfigError, "experiment file"):
        load(tmp_path / "latin.toml")
    with refused(ConfigError, "is a folder", "experiment.toml"):
        load(tmp_path)


def test_an_experiment_survives_json() -> None:
    experiment = loads(TREE + compare("dual", "longer"))
    assert Experiment.model_validate(experiment.model_dump(mode="json", by_alias=True)) == experiment


def test_presets_are_a_start() -> None:
    model = loads(BASE + '[model]\npreset = "base"\nlayers = 2' + stage("a")).model
    assert (model.layers, model.num_decoder_layers, model.width, model.heads) == (2, 2, 512, 8)


def test_draws_are_keyed_by_the_settings_that_differ_from_their_defaults() -> None:
    assert Generate().draw_key() == Generate(temperature=0.7).draw_key() == ""
    assert Generate(top_k=0, by="ema").draw_key() == "by=ema top_k=0"

    class Later(Generate):
        """With a setting that did not exist before."""

        penalty: float = 1.0

    assert Later(top_k=0).draw_key() == Generate(top_k=0).draw_key() != Later(top_k=0, penalty=2).draw_key()
