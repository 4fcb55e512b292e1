"""Generators of a path besides the networks in training: earlier stages, other runs, functions of other modules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from loopmt.config import Experiment, Generate, Stage, is_translator
from loopmt.errors import ConfigError
from loopmt.path import Hop, LanguagePath
from loopmt.run import Json, Run
from loopmt.text.ragged import Ints
from loopmt.text.vocab import Vocab
from loopmt.translate.ensemble import TokenModel
from loopmt.translate.function import FunctionTranslator
from loopmt.translate.protocol import (
    DecodeLimits,
    Floats,
    HopInput,
    Key,
    Sentences,
    TrainableModel,
    TranslationModel,
    Translations,
)
from loopmt.translate.walker import Translators
from loopmt.workflow.models import result_of
from loopmt.workflow.stage_choice import choose_stage


@dataclass(frozen=True)
class OtherStage:
    """A stage of this run or of another one."""

    run: Run
    stage: str | None  # None: the stage that other verbs use by default

    @classmethod
    def parse(cls, name: str, run: Run) -> OtherStage:
        kind, _, rest = name.partition(":")
        if kind == "stage":
            return cls(run, rest)
        folder, _, stage = rest.partition("#")
        return cls(Run.open(run.experiment_folder / folder), stage or None)

    def chosen(self) -> tuple[Experiment, Stage]:
        experiment = self.run.experiment()
        return experiment, choose_stage(self.run, experiment, self.stage)

    def digest(self) -> str:
        _, stage = self.chosen()
        return self.run.stage(stage.name).result_digest()

    def model(self, device: torch.device) -> TrainableModel:
        experiment, stage = self.chosen()
        return result_of(self.run, experiment, stage, device)


def other_generators(run: Run, device: torch.device, vocab: Vocab, names: Iterable[str]) -> dict[str, TranslationModel]:
    """The models behind `stage:NAME` and `run:FOLDER`, each with the subwords of this run."""
    return {name: _other(name, run, device, vocab) for name in sorted(_others(names))}


def _other(name: str, run: Run, device: torch.device, vocab: Vocab) -> TranslationModel:
    if is_translator(name):
        return FunctionTranslator.of(name, vocab, device)
    return _with_vocab(OtherStage.parse(name, run).model(device), vocab)


def generator_digests(run: Run, stage: Stage) -> Json:
    """The digests of generators, which a stage records: it may not continue with others."""
    names = _others(name for entry in stage.entries() for how in _settings(entry.generate) for name in how.generators)
    stages = sorted(name for name in names if not is_translator(name))
    return {"generators": {name: OtherStage.parse(name, run).digest() for name in stages}} if stages else {}


def check_generators(path: LanguagePath, settings: Sequence[Generate], translators: Translators) -> None:
    """Refuse a hop that a named model does not translate, and members that cannot choose tokens together."""
    for hop, how in zip(path.generating, settings, strict=True):
        for name, (model, _) in zip(how.generators, translators.members(hop, how), strict=True):
            if name in translators.others and hop not in model.hops:
                known = ", ".join(map(str, model.hops))
                raise ConfigError(f'path {path}: by = "{name}" does not translate {hop}. It translates {known}.')
            if how.ensemble != "rows" and not isinstance(model, TokenModel):
                raise ConfigError(
                    f'path {path}: ensemble = "{how.ensemble}" needs networks trained by loopmt that have one '
                    f'vocabulary, and "{name}" is none. Set ensemble = "rows".'
                )


def _settings(generate: Generate | list[Generate]) -> list[Generate]:
    return generate if isinstance(generate, list) else [generate]


def _others(names: Iterable[str]) -> set[str]:
    return {name for name in names if ":" in name}


def _with_vocab(model: TrainableModel, vocab: Vocab) -> TranslationModel:
    if not model.own_tokens and model.vocab.sha256 == vocab.sha256:
        model.vocab = vocab
        return model
    return ThroughText(model, vocab)


@dataclass(frozen=True)
class ThroughText:
    """A model with another vocabulary, which exchanges text instead of ids."""

    model: TrainableModel
    codec: Vocab

    @property
    def hops(self) -> Sequence[Hop]:
        return self.model.hops

    @property
    def device(self) -> torch.device:
        return self.model.device

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        read = [HopInput(one.hop, self._read(one.sources)) for one in inputs]
        return [self._written(found) for found in self.model.generate(read, how, limits, key, n)]

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        return self.model.score(hop, self._read(sources), self._read(targets), as_generated)

    def _read(self, sentences: Sentences) -> Sentences:
        return Sentences(self.model.vocab, sentences.language, texts=sentences.texts)

    def _written(self, found: Translations) -> Translations:
        sentences = Sentences(self.codec, found.sentences.language, texts=found.sentences.texts)
        return Translations(sentences, found.scores, found.ended, found.counts)
