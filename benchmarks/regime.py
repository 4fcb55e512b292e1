"""Regimes: amounts of text by pair, and the experiment that measures the effect of loops.

Every regime has the same tree of stages with the same budgets, each stage with a control. Only the text differs, and
the loops that a person who knows the text would choose by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

HOW = "{ top_k = 10, temperature = 0.7 }"  # what `mix = "auto"` uses by default


@dataclass(frozen=True)
class Sizes:
    """Budgets of the first stage and of later ones, and numbers of decoded sentences."""

    vanilla: int = 1200
    later: int = 400
    tokens: int = 512
    valid: int = 300
    test: int = 500
    pilot: int | None = 48  # updates of a plan's pilot; None: no pilot
    text: float = 1.0  # the share of the regime's text that is used


FULL = Sizes()
FOUR = Sizes(vanilla=560, later=120, tokens=256, valid=150, test=250, pilot=None)  # twelve networks
LETTER = Sizes(vanilla=560, later=170, tokens=384, test=400, pilot=None)
QUICK = Sizes(vanilla=16, later=8, tokens=64, valid=20, test=20, pilot=4, text=0.1)


@dataclass(frozen=True)
class Regime:
    """Text by pair and language; `letter` is the pair for which Algorithm 2 is run exactly as published."""

    what: str
    pairs: Mapping[str, int]
    mono: int = 4000
    languages: Sequence[str] = ("en", "fr", "es")
    hand: Sequence[str] = ()
    letter: tuple[str, str] | None = None
    sizes: Sizes = field(default=FULL)


def _among(languages: Sequence[str], hub: int, rest: int) -> dict[str, int]:
    """Sizes of the pairs with the first language, and of the other pairs."""
    pairs = combinations(languages, 2)
    return {f"{one}-{other}": hub if one == languages[0] else rest for one, other in pairs if one == "en" or rest}


THREE, ALL_FOUR = ("en", "fr", "es"), ("en", "fr", "es", "de")
THROUGH_THE_HUB = ("en>X>en", "X>en>X", "X>en>Y>X")  # pairs with English by dual loops, the others through English
NO_LOOPS = ("X>Y",)
REGIMES = {
    "letter-four": Regime(
        "Algorithm 2 to the letter on four languages, all pairs alike but en-fr poorer",
        {**_among(ALL_FOUR, 1500, 1500), "en-fr": 700},
        languages=ALL_FOUR,
        letter=("en", "fr"),
        sizes=FOUR,
    ),
    "letter-star": Regime(
        "Algorithm 2 to the letter on the poor pair of the star",
        _among(THREE, 1200, 60),
        letter=("fr", "es"),
        sizes=LETTER,
    ),
    "four-star": Regime(
        "four languages, pairs with English and hardly any others",
        _among(ALL_FOUR, 1200, 60),
        languages=ALL_FOUR,
        hand=THROUGH_THE_HUB,
        sizes=FOUR,
    ),
    "star": Regime(
        "pairs with English, hardly any between French and Spanish", _among(THREE, 1200, 60), hand=THROUGH_THE_HUB
    ),
    "star-none": Regime("pairs with English only", _among(THREE, 1200, 0), hand=THROUGH_THE_HUB),
    "star-strong": Regime(
        "many pairs with English, hardly any between French and Spanish", _among(THREE, 4000, 60), hand=THROUGH_THE_HUB
    ),
    "symmetric-poor": Regime("hardly any pairs of any kind", _among(THREE, 100, 100), hand=NO_LOOPS),
    "symmetric-weak": Regime("few pairs of every kind", _among(THREE, 250, 250), hand=NO_LOOPS),
    "symmetric-middle": Regime("pairs of every kind", _among(THREE, 900, 900)),
    "symmetric-strong": Regime("many pairs of every kind", _among(THREE, 4000, 4000)),
    "little-text": Regime("pairs of every kind, little monolingual text", _among(THREE, 900, 900), mono=300),
}
"""The longest first."""


def experiment(regime: Regime, seed: int, sizes: Sizes) -> str:
    """The experiment file; regimes for Algorithm 2 do not measure the gain of dual learning."""
    stages = [_stage("vanilla", None, ['"X>Y"'], sizes.vanilla)]
    if not regime.letter:
        stages.append(_stage("vanilla-longer", "vanilla", ['"X>Y"'], sizes.later))
    stages += [
        _stage("dual", "vanilla", _dual(), sizes.later),
        _stage("dual-longer", "dual", _dual(), sizes.later),
        _stage("uniform", "dual", _uniform(len(regime.languages) - 2), sizes.later),
        _stage("auto", "dual", None, sizes.later),
    ]
    if regime.hand:
        stages.append(_stage("hand", "dual", _hand(regime.hand), sizes.later))
    if regime.letter:
        stages += _letter(*regime.letter, sizes.later)
    compared = [_compare(regime, stages) for stages in comparisons(regime)]
    return "\n".join([_head(regime, seed, sizes), *stages, *compared])


def comparisons(regime: Regime) -> list[tuple[str, str]]:
    """Stages with their controls; plans are compared with the first control of a stage."""
    found = [] if regime.letter else [("dual", "vanilla-longer")]
    found += [("uniform", "dual-longer"), ("auto", "dual-longer"), ("auto", "uniform")]
    if regime.hand:
        found += [("hand", "dual-longer"), ("auto", "hand")]
    if regime.letter:
        found += [("letter", "letter-control"), ("letter-half", "dual-longer")]
        found += [("uniform", "letter-half"), ("auto", "letter-half")]
    return found


def _head(regime: Regime, seed: int, sizes: Sizes) -> str:
    def share(count: int) -> int:
        return max(20, round(count * sizes.text))

    pairs = ", ".join(f'"{pair}" = {share(count)}' for pair, count in regime.pairs.items())
    mono = ", ".join(f"{language} = {share(regime.mono)}" for language in regime.languages)
    return f"""# {regime.what}
languages = [{", ".join(f'"{language}"' for language in regime.languages)}]
seed = {seed}

[data.world]
size = "tiny"
pairs = {{ {pairs} }}
mono = {{ {mono} }}
valid = {sizes.valid}
test = {sizes.test}

[vocab]
size = {700 if len(regime.languages) == 3 else 900}

[model]
preset = "tiny"
layers = 2
width = 64
feed_forward = 128
dropout = 0.1

[train]
tokens = {sizes.tokens}
learning_rate = 3e-3
warmup = 200
continued = {{ learning_rate = 1.5e-3, warmup = 50, schedule = "constant" }}
validate_every = 120
validate_sentences = 100
average = 3
log_every = 100
"""


def _stage(name: str, start: str | None, mix: Sequence[str] | None, updates: int, extra: str = "") -> str:
    head = f'[[stage]]\nname = "{name}"\n' + (f'from = "{start}"\n' if start else "")
    listed = (
        '"auto"\nauto = { measure_every = 5, supervised = 0.5, keep = 1.0 }' if mix is None else f"[{', '.join(mix)}]"
    )
    return f"{head}mix = {listed}\nupdates = {updates}\n{extra}"


def _loop(path: str, weight: float = 1, by: str = "live", per_round: str = "") -> str:
    how = HOW.replace("{ ", f'{{ by = "{by}", ')
    return f'{{ path = "{path}", weight = {weight}{per_round}, generate = {how} }}'


def _dual() -> list[str]:
    return ['"X>Y"', _loop("X>Y>X")]


def _uniform(pivots: int) -> list[str]:
    return ['{ path = "X>Y", weight = 2 }', _loop("X>Y>X"), _loop("X>Y>Z>X", 1 / pivots)]


def _hand(paths: Sequence[str]) -> list[str]:
    return ['"X>Y"', *(_loop(path) for path in paths if path != "X>Y")]


def _letter(one: str, other: str, updates: int) -> list[str]:
    """Algorithm 2: frozen helpers, one pair of translators, a third language drawn each round, no real pairs.

    It has a control with direct loops, and a variant with half real pairs, as in the other stages.
    """
    loops = [
        _loop(f"{start}>X>{end}>{start}", by="frozen", per_round=", per_round = 1")
        for start, end in ((one, other), (other, one))
    ]
    direct = [_loop(f"{start}>{end}>{start}", by="live") for start, end in ((one, other), (other, one))]
    return [
        _stage("letter", "dual", loops, updates, "train = { round = 1 }\n"),
        _stage("letter-control", "dual", direct, updates, "train = { round = 1 }\n"),
        _stage("letter-half", "dual", [f'"{one}>{other}"', f'"{other}>{one}"', *loops], updates),
    ]


def _compare(regime: Regime, stages: tuple[str, str]) -> str:
    """Stages of Algorithm 2 train one pair of directions and are compared only on it."""
    listed = ""
    if regime.letter and "letter-half" in stages:
        one, other = regime.letter
        listed = f'directions = ["{one}>{other}", "{other}>{one}"]\n'
    return f'[[compare]]\nof = "{stages[0]}"\nagainst = "{stages[1]}"\n{listed}'
