"""The sections of an experiment file: each key is declared here and nowhere else, with its default and its meaning.

Lower layers receive single sections, never the whole experiment.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from loopmt.errors import ConfigError, PathError
from loopmt.path import Hop, LanguagePath, Supply

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

Count = Annotated[int, Field(ge=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


# -- data ----------------------------------------------------------------------------------------------------


class Clean(Section):
    """Cleaning rules. Each can be switched off; the manifest counts the rows that each one dropped."""

    nfc: bool = Field(True, description="bring text to Unicode NFC")
    control: bool = Field(True, description="replace control and format characters by spaces, squeeze white space")
    empty: bool = Field(True, description="drop rows with an empty side")
    identical: bool = Field(True, description="drop pairs whose two sides are identical")
    duplicates: bool = Field(True, description="drop exact duplicates of a row within its corpus")
    overlap: bool = Field(True, description="drop training rows that share a side with a valid or test set")
    max_words: int | None = Field(200, ge=1, description="drop rows with a longer side, in white-space words")
    max_characters: int | None = Field(2000, ge=1, description="drop rows with a longer side, in characters")
    ratio: float | None = Field(
        4.0, gt=1, description="drop pairs whose lengths differ by a larger factor (rows under 10 words are spared)"
    )


class WorldData(Section):
    """Text drawn from the built-in languages instead of files."""

    size: Literal["tiny", "small", "full"] = Field("tiny", description="how much lexicon and grammar")
    pairs: dict[str, Count] = Field({}, description='sentence pairs by language pair, as in {"en-fr" = 500}')
    mono: dict[str, Count] = Field({}, description="monolingual sentences by language")
    valid: int = Field(300, ge=1, description="validation sentences, the same in all languages")
    test: int = Field(500, ge=1, description="test sentences, the same in all languages")
    seed: int | None = Field(None, description="seed of the draw; default: the experiment's seed")


def is_function(name: str) -> bool:
    """Whether it is written as `module:function`."""
    return re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*", name) is not None and not name.startswith("command:")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Files = Annotated[list[str], BeforeValidator(_listed)]


class Data(Section):
    """The text. A file is PREFIX (a plain text file PREFIX.LANG for each language) or a .tsv, .tmx, .jsonl or .parquet
    file with all languages. `[from:to]` after it selects these rows.
    """

    root: str | None = Field(None, description="folder of the files; default: the experiment's folder")
    bitext: dict[str, Files] = Field({}, description='parallel text by language pair: {"en-fr" = "bi.en-fr"}')
    mono: dict[str, Files] = Field({}, description='monolingual text by language: {en = "mono"}')
    valid: str | dict[str, str] | None = Field(
        None, description="validation set: one prefix for all languages, or one per pair"
    )
    test: str | dict[str, str | dict[str, str]] = Field({}, description="test sets by name: a prefix, or one per pair")
    world: WorldData | None = Field(None, description="draw the text from the built-in languages instead")
    keys: dict[str, str] = Field(
        {},
        description='keys of .jsonl and .parquet files by language, as in {en = "source"}; otherwise a key is the '
        "language's code, also within `translation`, or `text` where there is one language",
    )
    formats: dict[str, str] = Field(
        {},
        description='formats of files by ending, as in {".csv" = "my_formats:csv"}: '
        'text, tsv, tmx, jsonl, parquet or "module:function"',
    )
    clean: Clean = Field(Clean(), description="cleaning rules")
    strict: bool = Field(
        False, description="refuse text that looks wrong (language, swapped sides, alignment) instead of warning"
    )
    pretokenize: bool = Field(False, description="Moses tokenisation before subwords; output is detokenised")
    lowercase: bool = Field(False, description="lower-case all text")

    @field_validator("formats")
    @classmethod
    def _endings(cls, formats: dict[str, str]) -> dict[str, str]:
        for ending in formats:
            if not re.fullmatch(r"\.[^/\[\]]+", ending) or ending.endswith((".gz", ".xz", ".zst")):
                raise ValueError(f"{ending!r} is no ending: write a dot and letters without .gz, .xz or .zst")
        return formats

    def tests(self) -> dict[str, str | dict[str, str]]:
        return {"test": self.test} if isinstance(self.test, str) else dict(self.test)

    def pairs(self) -> list[tuple[str, str]]:
        names = self.world.pairs if self.world else self.bitext
        return [(one, other) for one, _, other in (name.partition("-") for name in names)]

    def monolingual(self) -> list[str]:
        return list(self.world.mono if self.world else self.mono)

    def supply(self) -> Supply:
        return Supply.of(self.pairs(), self.monolingual())


class VocabConfig(Section):
    """Subwords, learnt on training text only, balanced by language."""

    size: int = Field(8000, ge=64, le=65536, description="pieces, tags and bytes included")
    kind: Literal["bpe", "unigram"] = Field("bpe", description="subword model")
    sharing: Literal["joint", "language"] = Field("joint", description="one vocabulary for all, or one per language")
    sample: int = Field(1_000_000, ge=1, description="lines per language that the vocabulary is learnt from, at most")
    byte_fallback: bool = Field(True, description="spell unknown characters in bytes, so that none is lost")


# -- model ---------------------------------------------------------------------------------------------------

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"layers": 4, "width": 128, "feed_forward": 256, "heads": 4, "dropout": 0.3},
    "small": {"layers": 3, "width": 256, "feed_forward": 1024, "heads": 4, "dropout": 0.3},
    "base": {"layers": 6, "width": 512, "feed_forward": 2048, "heads": 8, "dropout": 0.1},
    "big": {"layers": 6, "width": 1024, "feed_forward": 4096, "heads": 16, "dropout": 0.3},
}
PEAKS: dict[str, tuple[float, int]] = {
    "tiny": (1e-3, 2000),
    "small": (1e-3, 2000),
    "base": (5e-4, 4000),
    "big": (5e-4, 4000),
}
LOOPS_DROPOUT = {"tiny": 0.2, "small": 0.1}  # what was best on Multi30k and on Europarl; not tried with base and big


class Lora(Section):
    """LoRA: low-rank matrices beside the frozen weights of a checkpoint, trained in their place."""

    rank: int = Field(16, ge=1, description="rank of the matrices")
    alpha: float = Field(32.0, gt=0, description="the matrices are scaled by alpha / rank")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the input of the matrices")
    targets: Literal["attention"] | list[str] = Field(
        "attention", description="layers that get matrices: those of attention, or the names of linear layers"
    )


Adapt = Literal["full", "lora"]


class Model(Section):
    """The network: a preset, and any key that differs from it."""

    preset: Literal["tiny", "small", "base", "big"] = Field("small", description="where the other fields start from")
    sharing: Literal["none", "all"] = Field(
        "none",
        description="one network per direction, or one with language tags, which also translates pairs without bitext",
    )
    norm: Literal["post", "pre"] = Field("post", description="layer norm after (Marian) or before (Pegasus) each block")
    activation: Literal["relu", "gelu", "swish"] = Field("relu", description="of the feed-forward blocks")
    layers: int = Field(3, ge=1, le=1000, description="encoder layers, and decoder layers unless set")
    decoder_layers: int | None = Field(None, ge=1, le=1000, description="decoder layers, if other than the encoder's")
    width: int = Field(256, ge=2, le=65536, description="size of embeddings and states")
    feed_forward: int = Field(1024, ge=1, le=2**20, description="inner size of the feed-forward blocks")
    heads: int = Field(4, ge=1, le=1024, description="attention heads; must divide the width")
    dropout: float = Field(0.3, ge=0, lt=1, description="on embeddings, attention output and feed-forward output")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on attention weights")
    activation_dropout: float = Field(0.0, ge=0, lt=1, description="inside the feed-forward blocks")
    pretrained: str | dict[str, str] | None = Field(
        None,
        description="instead of all keys above: a Hugging Face checkpoint that learns as it is, with its own "
        'tokenizer; a folder for all directions, or one for each: {"en>fr" = "FOLDER"}',
    )
    translator: str | None = Field(
        None,
        description="instead of the network: a trainable translator of another module, "
        '`"module:function"`; the function reads what it needs of the keys above',
    )
    codes: dict[str, str] | None = Field(
        None,
        description='language names of its tokenizer, as in {en = "eng_Latn"}; default: the codes of `languages`; '
        '"new" adds a language, and "new:CODE" one that begins as another',
    )
    prompt: str | None = Field(
        None, description='the form of its input, as in "translate {source_language} to {target_language}: {text}"'
    )
    backend: Literal["auto", "native", "module"] = Field(
        "auto",
        description="what computes it: loopmt's own transformer, the Hugging Face module, or the first that is right",
    )
    chat: bool | None = Field(
        None,
        description="of a decoder-only model: put the prompt into its chat template; default: if it has one",
    )
    stop: list[str] | None = Field(
        None, description='of a decoder-only model: texts that end a translation, as in ["\\n"]'
    )
    adapt: Adapt = Field("full", description="train all its weights, or matrices beside them (needs peft)")
    lora: Lora | None = Field(None, description='settings of `adapt = "lora"`')

    @model_validator(mode="before")
    @classmethod
    def _start_from_preset(cls, values: Any) -> Any:
        preset = PRESETS.get(str(values.get("preset", "small")), {}) if isinstance(values, dict) else {}
        return {**preset, **values} if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"heads = {self.heads} must divide width = {self.width}, which must be even")
        return self

    @property
    def num_decoder_layers(self) -> int:
        return self.decoder_layers or self.layers


# -- training ------------------------------------------------------------------------------------------------


Curve = Literal["inverse_sqrt", "constant", "linear"]
_CURVES = "after the warmup; linear: down to 0 at the end of the stage (`updates`, or else `max_updates`)"


class Schedule(Section):
    """The course of the learning rate."""

    learning_rate: float | None = Field(None, gt=0, description="peak; default: the preset's")
    warmup: int | None = Field(None, ge=0, description="updates of linear warmup; default: the preset's")
    schedule: Curve = Field("inverse_sqrt", description=_CURVES)


class Continued(Section):
    """Values for stages that start from another one. Such stages start with new Adam moments."""

    learning_rate: float | None = Field(None, gt=0, description="peak; default: that of [train], else the preset's")
    warmup: int = Field(100, ge=0, description="updates of linear warmup")
    schedule: Curve = Field("linear", description=_CURVES)
    dropout: float | None = Field(
        None, ge=0, lt=1, description="default: that of [train], else the model's, or less where the stage has loops"
    )


Fuse = Literal["no", "kernels", "compile"]


class Train(Schedule):
    """Training; any key may be overridden in a stage (`train = { ... }`)."""

    tokens: int = Field(4096, ge=8, description="target tokens per direction per update, padding and all processes in")
    accumulate: int = Field(
        1, ge=1, description="parts an update's batch is computed in: the same rows, but other draws of dropout"
    )
    max_length: int = Field(128, ge=4, description="rows with a longer side, in subwords, are not trained on")
    shapes: int = Field(6, ge=1, le=16, description="number of fixed batch shapes")
    round: int = Field(
        16,
        ge=1,
        description="updates between two generations; batches are packed within it, so that few updates pad more",
    )
    adam: tuple[Decay, Decay, Positive] = Field((0.9, 0.98, 1e-9), description="beta1, beta2, epsilon")
    weight_decay: float = Field(0.0, ge=0, description="decoupled (AdamW)")
    subword_dropout: float = Field(
        0.0, ge=0, lt=1, description="share of the merges in real text that are undone at random"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of the target mass spread over the vocabulary")
    dropout: float | None = Field(None, ge=0, lt=1, description="replaces the dropout of [model]")
    rdrop: float | None = Field(
        None,
        gt=0,
        description="R-Drop: weight of the divergence between two passes with different dropout; an update takes about "
        "twice the compute",
    )
    objectives: list[str] = Field(
        [], description='more objectives, each a "module:function" that makes it (docs/extending.md)'
    )
    clip: float = Field(1.0, ge=0, description="largest gradient norm of each network; 0: no limit")
    balance: float = Field(
        0.0, ge=0, le=1, description="a direction's share of a shared network goes by pairs ** balance; 0: equal shares"
    )
    ema: float = Field(0.999, gt=0, lt=1, description='decay of the averaged weights behind `by = "ema"`')
    precision: Literal["auto", "float32", "bfloat16"] = Field("auto", description="auto: bfloat16 on CUDA only")
    compile: bool = Field(True, description="updates as captured graphs on CUDA; the CPU is always eager")
    fuse: Fuse = Field(
        "kernels",
        description="on CUDA, fewer passes over memory: by hand-written kernels, or layers compiled, which takes a "
        "minute or two at the start; no: neither, which is also what happens where triton or a C compiler is missing",
    )
    shard: bool = Field(False, description="FSDP2 under torchrun: one large shared network spread over the processes")
    continued: Continued = Field(Continued(), description="values for stages with `from`")
    validate_every: int = Field(500, ge=1, description="updates between validations, each with a checkpoint")
    validate_sentences: int = Field(500, ge=1, description="validation rows translated for BLEU")
    validate_beam: int = Field(1, ge=1, description="beam of validation BLEU; 1: greedy")
    select_by: str = Field(
        "sacrebleu",
        description='what chooses checkpoints and ends `until = "patience"`: the mean over directions of a metric, by '
        'its name or its `name` in [evaluate], or of the validation "loss"',
    )
    patience: int = Field(8, ge=1, description='validations without a better score before `until = "patience"` ends')
    max_updates: int = Field(200_000, ge=1, description='end of `until = "patience"` at the latest')
    average: int = Field(5, ge=1, description="checkpoints averaged at the end; kept if validation says so")
    on_collapse: Literal["warn", "stop", "rollback"] = Field(
        "warn", description="what happens if an alarm finds a collapsed generator"
    )
    log_every: int = Field(50, ge=1, description="updates between lines of the log")
    track: list[str] = Field(
        [],
        description='where curves are also written: "tensorboard", "wandb" (extra `track`) or "module:function"; may '
        "change at any time",
    )

    @field_validator("objectives")
    @classmethod
    def _functions(cls, names: list[str]) -> list[str]:
        for name in names:
            if not is_function(name):
                raise ValueError(f'{name!r} is no function: write "module:function"; R-Drop is turned on by `rdrop`')
        return names


GENERATORS = r"live|frozen|ema|stage:[^:]+|run:.+"  # whose weights may generate


def is_translator(name: str) -> bool:
    """Whether a name of `by` refers to a function of another module."""
    return is_function(name) and not name.startswith(("stage:", "run:"))


class Generate(Section):
    """What generates on a hop, and how."""

    by: str | list[str] = Field(
        "live",
        description="weights: `live` (now), `frozen` (at the start), `ema` (averaged), `stage:NAME` (the result of an "
        "earlier stage), `run:FOLDER` or `run:FOLDER#STAGE` (of another run; FOLDER is relative to the "
        'experiment file); or a function that translates texts, "module:function"; or a list of several',
    )
    ensemble: Literal["rows", "mean", "max"] = Field(
        "rows",
        description="with several in `by`: each generates its share of the rows, or all choose every token by the mean "
        "or the maximum of their probabilities",
    )
    how: Literal["sample", "greedy", "beam"] = Field("sample", description="decoding")
    temperature: float = Field(0.7, gt=0, description="temperature of sampling; below 1 prefers likely subwords")
    top_k: int = Field(10, ge=0, description="sample among the k likeliest; 0: all")
    top_p: float = Field(1.0, gt=0, le=1, description="sample among the likeliest that have this probability together")
    beam: int = Field(4, ge=1, description="beam width")
    length_penalty: float = Field(1.0, ge=0, description="beam scores are divided by length to this power")

    @property
    def generators(self) -> list[str]:
        return self.by if isinstance(self.by, list) else [self.by]

    @field_validator("by")
    @classmethod
    def _known(cls, by: str | list[str]) -> str | list[str]:
        names = by if isinstance(by, list) else [by]
        for name in names:
            if not re.fullmatch(GENERATORS, name) and not is_translator(name):
                raise ValueError(f'"{name}" is none of live, frozen, ema, stage:NAME, run:FOLDER and module:function')
        if not names or len(set(names)) < len(names):
            raise ValueError("name one generator or several different ones")
        return by

    def draw_key(self) -> str:
        """Names the random draws by the settings that are not defaults, so a new key keeps the draws of old files."""
        return " ".join(f"{name}={value}" for name, value in sorted(self.model_dump(exclude_defaults=True).items()))


class Noise(Section):
    """Noise on generated sources, word by word."""

    drop: float = Field(0.1, ge=0, lt=1, description="share of the words that are dropped")
    blank: float = Field(0.1, ge=0, le=1, description="share of the words that are replaced by the unknown word")
    shuffle: int = Field(3, ge=0, description="how many places a word may move")


Credit = Literal["last", "all"]
Baseline = Literal["none", "leave-one-out", "group"]


class MixEntry(Section):
    """One path or pattern of a mix."""

    path: str = Field(description="a path or a pattern")
    weight: float = Field(
        1.0, gt=0, description="share of the target tokens of the direction it teaches, without rows that are dropped"
    )
    generate: Generate | list[Generate] = Field(Generate(), description="for all generating hops, or one per hop")
    samples: int = Field(1, ge=1, description="generated sources per real sentence")
    combine: Literal["mean", "logmeanexp"] = Field("mean", description="how the samples' likelihoods combine")
    candidates: int = Field(1, ge=1, description="generated for each sample, of which the best one is kept")
    choose: str = Field(
        "consensus",
        description="the utility of candidates: `consensus` (chrF of each with the others), `round-trip` (chrF of the "
        "real sentence and what comes back), `dual` (likelihood in both directions), `module:function` or "
        "`command:PROGRAM ARGS...`",
    )
    noise: Noise | None = Field(None, description="noise on generated sources; `{}` takes its defaults")
    tag: bool = Field(False, description="mark rows with a generated side by a tag before their source")
    keep: float = Field(1.0, gt=0, le=1, description="share of the generated rows to train on: the best by `keep_by`")
    keep_by: str = Field("dual", description="the utility that `keep` ranks rows by; the names are those of `choose`")
    reward: str | dict[str, float] | None = Field(
        None,
        description="the reward of what is generated: a utility, or utilities with their weights, as in "
        '`{ likelihood = 1.0, "round-trip" = 0.01 }`. `likelihood` is the log-probability per token of the real '
        "sentence on the way home; the other names are those of `choose`",
    )
    credit: Credit = Field(
        "last",
        description="`last`: only the last hop learns, and the reward is logged; `all`: the hops that sample with "
        "live weights learn from it, too",
    )
    baseline: Baseline = Field(
        "leave-one-out",
        description="what is subtracted from a reward: `none`, the mean of the sentence's other samples, or the mean "
        "of its samples, divided by their standard deviation (`group`)",
    )
    ratio_clip: float = Field(
        0.2, ge=0, lt=1, description="importance ratios are clipped to 1 - ratio_clip and 1 + ratio_clip; 0: not at all"
    )
    kl: float | None = Field(
        None, gt=0, description="weight of the divergence of a rewarded hop from the start of the stage"
    )
    likelihood: float = Field(
        1.0, ge=0, description='with `credit = "all"`: factor on the loss of the last hop; 0: only rewards are learnt'
    )
    same_rows: bool = Field(
        False, description="share real sentences with such entries of the direction: several sources for each"
    )
    consistency: float | None = Field(
        None,
        gt=0,
        description="weight of the divergence between the predictions from the sources that the entry's routes, and "
        "those of other such entries, give to one real sentence; needs `same_rows`",
    )
    from_update: int = Field(0, ge=0, description="the entry joins the mix at this update")
    per_round: int | None = Field(
        None, ge=1, description="how many of the pattern's paths to a direction a round draws; default: all"
    )

    def hop_settings(self, hops: int) -> list[Generate]:
        settings = self.generate if isinstance(self.generate, list) else [self.generate] * hops
        if len(settings) != hops:
            raise ConfigError(
                f"path {self.path} has {hops} generating hop{'s' * (hops != 1)}, but its `generate` lists "
                f"{len(settings)}. Give one table for all hops or one for each."
            )
        return settings

    @property
    def generates(self) -> bool:
        return self.path.count(">") + self.path.count("<") > 1

    @property
    def rewards(self) -> dict[str, float]:
        """The utilities of the reward, with their weights."""
        return {self.reward: 1.0} if isinstance(self.reward, str) else dict(self.reward or {})

    def rewarded_hops(self, hops: int) -> list[int]:
        """The numbers of the generating hops that learn from the reward: those that sample with live weights."""
        settings = self.hop_settings(hops) if self.credit == "all" else []
        return [number for number, how in enumerate(settings) if how.how == "sample" and how.generators == ["live"]]


class Auto(Section):
    """`mix = "auto"`: chooses loops and teacher paths by the measured quality of each on held-out text."""

    supervised: float = Field(
        1 / 3,
        ge=0,
        le=1,
        description="share of bitext in directions that get loops; the others train on bitext alone",
    )
    candidates: list[str] = Field(["X>Y>X", "X>Y>Z>X"], description="patterns of loops to choose from")
    teachers: list[str] = Field(
        ["X>Z>Y<X"],
        description="patterns of teacher paths to choose from, for directions without bitext: the direction learns the "
        "translation through other languages of a real sentence, where that is better than its own; []: none",
    )
    generate: Generate = Field(Generate(), description="decoding of every hop of a loop")
    teach: Generate | None = Field(None, description="decoding of every hop of a teacher path; default: greedy")
    keep: float = Field(
        0.7, gt=0, le=1, description="share of the generated rows to train on, as in a mix entry; 1: all"
    )
    measure_every: int = Field(
        20,
        ge=1,
        description="rounds between two measurements; from five languages on more, where they would take too long",
    )
    sentences: int = Field(200, ge=10, description="validation rows measured")


def _entry(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class Stage(Section):
    """A mix of paths and a budget, from fresh weights or from another stage."""

    name: str = Field(pattern=NAME, description="names the stage's folder")
    from_: str | None = Field(None, alias="from", description="the stage whose result this one starts from")
    mix: Literal["auto"] | list[Annotated[MixEntry, BeforeValidator(_entry)]] = Field(
        description='paths to train on, or "auto": chosen by measuring'
    )
    updates: int | None = Field(None, ge=1, description="number of updates")
    until: Literal["patience"] | None = Field(None, description="train until the validation score stops rising")
    train: dict[str, Any] = Field({}, description="keys of [train] that differ here")
    auto: Auto = Field(Auto(), description='settings of `mix = "auto"`')
    adapt: Adapt | None = Field(None, description="replaces that of [model]")
    lora: Lora | None = Field(None, description="replaces that of [model]")

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if (self.updates is None) == (self.until is None):
            raise ValueError('give either `updates = N` or `until = "patience"`')
        if isinstance(self.mix, list) and not self.mix:
            raise ValueError('`mix` is empty: name at least one path, such as "X>Y"')
        return self

    def entries(self) -> list[MixEntry]:
        return [] if self.mix == "auto" else list(self.mix)

    @property
    def generates(self) -> bool:
        """Whether it learns from generated text, not from bitext alone."""
        return self.mix == "auto" or any(entry.generates for entry in self.entries())


class Guards(Section):
    """Checks of generated text: filters drop rows, alarms detect that a generator collapses. Entries of `filters` and
    `alarms` are registered names or `"module:function"`; a filter may also be `"command:PROGRAM ARGS..."`. Settings of
    alarms may change at any time.
    """

    filters: list[str] = Field(
        ["empty", "runaway", "copy", "length", "language"],
        description="filters that may drop a row, in their order; there is also `repetition`",
    )
    ratio: float = Field(3.0, gt=0, description="`length` drops a row whose sides differ by this factor ...")
    slack: int = Field(10, ge=0, description="... and by this many subwords")
    margin: float = Field(
        0.5, ge=0, description="`language` drops an output if another language is likelier by this many nats a subword"
    )
    fewest_subwords: int = Field(4, ge=1, description="`language` skips shorter outputs")
    repetition: float = Field(
        0.2,
        ge=0,
        le=1,
        description="`repetition`: an output repeats itself whose share of repeated 4-grams is larger by this than "
        "that of all but 1% of the real sentences of its language",
    )
    alarms: list[str] = Field(
        ["copies", "dropped", "distinct", "repetition"], description="signs of a collapse; the first found is reported"
    )
    most_copies: float = Field(0.2, ge=0, le=1, description="`copies`: share of outputs that equal their input")
    most_dropped: float = Field(0.5, ge=0, le=1, description="`dropped`: share of outputs that filters drop")
    fewest_distinct: float = Field(0.3, ge=0, description="`distinct`: distinct outputs for each distinct input")
    most_repetitive: float = Field(
        0.1, ge=0, le=1, description="`repetition`: share of outputs that repeat themselves, also on validation text"
    )
    fewest_rows: int = Field(64, ge=1, description="outputs of a hop before an alarm can be raised")
    timeout: float = Field(600.0, gt=0, description="seconds that a program may take for one hop of a round")


class MetricEntry(Section):
    """One metric, with the facts that differ from its registration."""

    use: str = Field(description='a registered name, "module:function" or "command:PROGRAM ARGS..."')
    name: str | None = Field(None, pattern=NAME, description="its name in scorecards; default: the registered name")
    label: str | None = Field(None, description="its name in tables; default: the registered label")
    better: Literal["higher", "lower"] | None = Field(
        None, description="which scores are better; default: as registered"
    )
    digits: int | None = Field(None, ge=0, le=6, description="digits after the point; default: as registered")


DEFAULT_METRICS: list[str | MetricEntry] = ["multi_bleu", "sacrebleu", "chrf", "accuracy"]


class Evaluate(Section):
    """What `loopmt evaluate` computes. It does not affect training, and may change at any time."""

    metrics: list[str | MetricEntry] = Field(
        DEFAULT_METRICS,
        min_length=1,
        description="in the order of the tables; the first is shown first, and says whether a stage is better than "
        "its control; `accuracy` is left out where there is no exact judge",
    )
    comet: str | None = Field(None, description="checkpoint file of the metric `comet`")
    timeout: float = Field(3600.0, gt=0, description="seconds that a program may take for one direction of a test set")

    def entries(self) -> list[MetricEntry]:
        return [MetricEntry(use=one) if isinstance(one, str) else one for one in self.metrics]

    def entry(self, name: str) -> MetricEntry:
        """The entry with this name or `use`; else an entry for a metric that is not in the list."""
        return next((one for one in self.entries() if name in (one.name, one.use)), MetricEntry(use=name))


class Compare(Section):
    """A stage and its control, which differ only in the route of the synthetic text, and train the same directions."""

    of: str = Field(description="the stage")
    against: str = Field(description="its control")
    tuned: list[str] = Field(
        [],
        description='keys of [train] that may differ because each stage has its own best value; "adapt": full and LoRA '
        "are compared, each at its own rate",
    )
    budget: Literal["updates", "seconds"] = Field(
        "updates",
        description="what both have as much of; seconds: updates may differ, and `evaluate` warns if the seconds do",
    )
    directions: list[str] = Field(
        [], description='compare these directions only, as in ["en>fr"]; default: all that both stages train'
    )

    @field_validator("directions")
    @classmethod
    def _one_hop_each(cls, directions: list[str]) -> list[str]:
        for direction in directions:
            if not _is_direction(direction):
                raise ValueError(f'{direction!r} is no direction: write one source and one target, as in "en>fr"')
        return directions

    @field_validator("tuned")
    @classmethod
    def _keys_of_train(cls, keys: list[str]) -> list[str]:
        for key in keys:
            if key not in (known := ["adapt", *Train.model_fields]):
                raise ValueError(f"{key!r} cannot be tuned; there are {', '.join(known)}")
        return keys


def _is_direction(text: str) -> bool:
    try:
        return len(LanguagePath.parse(text).hops) == 1
    except PathError:
        return False


class Imported(Section):
    """A pretrained translator: one that `loopmt import` has put into the run, or a model behind an endpoint (`url`)."""

    direction: str = Field(description='such as "en>fr"')
    use: Literal["start", "generator"] = Field(
        description='the direction\'s weights start from it, or it generates where a hop says `by = "frozen"`'
    )
    url: str | None = Field(
        None, description='address of an OpenAI-compatible endpoint, as in "http://localhost:8000/v1"'
    )
    model: str | None = Field(None, description="of an endpoint: the name of the model")
    prompt: str | None = Field(
        None,
        description='of an endpoint: what it is sent, as in "Translate {source_language} to {target_language}: {text}"',
    )
    names: dict[str, str] = Field(
        {}, description='of an endpoint: languages in the prompt, as in {fr = "French"}; default: their codes'
    )
    options: dict[str, Any] = Field(
        {}, description="of an endpoint: more fields of each request, as in {top_k = 10}; they replace ours"
    )
    parallel: int = Field(8, ge=1, le=256, description="of an endpoint: requests at the same time")
    timeout: float = Field(120.0, gt=0, description="of an endpoint: seconds for an answer")
    retries: int = Field(6, ge=0, le=20, description="of an endpoint: attempts after the first, with growing waits")

    @property
    def hop(self) -> Hop:
        return LanguagePath.parse(self.direction).hops[0]
