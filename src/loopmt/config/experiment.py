"""The model of a whole experiment file, and the settings of each of its stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from loopmt.config.pretrained import PRETRAINED, RATES, unmodified_stage, with_default_parent
from loopmt.config.schema import (
    LOOPS_DROPOUT,
    NAME,
    PEAKS,
    Compare,
    Data,
    Evaluate,
    Guards,
    Imported,
    Lora,
    Model,
    Section,
    Stage,
    Train,
    VocabConfig,
)
from loopmt.errors import ConfigError
from loopmt.path import Hop


class Experiment(Section):
    """An experiment: a tree of stages over the same data."""

    name: str = Field("experiment", pattern=NAME, description="default: the file's name")
    languages: list[str] = Field(min_length=2, description="codes such as en, fr, zh_Hans")
    seed: int = Field(1, ge=0, description="every random number depends on it")
    data: Data = Field(description="text")
    vocab: VocabConfig = Field(VocabConfig(), description="subwords")
    model: Model = Field(default_factory=lambda: Model.model_validate({}), description="network")
    train: Train = Field(Train(), description="training")
    stages: list[Stage] = Field(alias="stage", min_length=1, description="the tree")
    compare: list[Compare] = Field([], description="which stage is measured against which control")
    guards: Guards = Field(Guards(), description="checks of generated text")
    evaluate: Evaluate = Field(Evaluate(), description="metrics")
    imported: list[Imported] = Field([], description="pretrained translators, by direction")

    @model_validator(mode="before")
    @classmethod
    def _start_from_pretrained(cls, values: Any) -> Any:
        return with_default_parent(values)

    @property
    def all_stages(self) -> list[Stage]:
        """The stages of the file, after the unmodified checkpoint where there is one."""
        return [*([] if self.model.pretrained is None else [unmodified_stage()]), *self.stages]

    @property
    def shared(self) -> bool:
        """Whether one network serves all directions."""
        return self.model.sharing == "all" or isinstance(self.model.pretrained, str)

    def stage(self, name: str) -> Stage:
        for stage in self.all_stages:
            if stage.name == name:
                return stage
        raise ConfigError(f"there is no stage '{name}'; there are {', '.join(s.name for s in self.all_stages)}.")

    def asked_for(self, until: str | None, only: Sequence[str]) -> list[Stage]:
        """The stages up to `until`; or those of `only`, with the stages that they start from."""
        if until and only:
            raise ConfigError("--until and --only: give one of them; --only trains a stage and those it comes from.")
        if until:
            last = self.all_stages.index(self.stage(until))
            return [stage for stage in self.all_stages[: last + 1] if stage in self.stages]
        needed = {name for stage in only for name in (stage, *self.ancestors(stage))}
        return [stage for stage in self.stages if stage.name in needed or not only]

    def ancestors(self, name: str) -> list[str]:
        """The stages that a stage descends from, nearest first."""
        parent = self.stage(name).from_
        return [] if parent is None else [parent, *self.ancestors(parent)]

    def alike(self, other: Experiment) -> bool:
        """Whether runs of both may be compared as seeds: seeds, names, comparisons, metrics and stages may differ."""
        shared = {stage.name for stage in self.stages} & {stage.name for stage in other.stages}

        def essence(one: Experiment) -> str:
            stages = [stage for stage in one.stages if stage.name in shared]
            free = {"seed": 0, "name": "-", "compare": [], "evaluate": Evaluate()}
            return one.model_copy(update={**free, "stages": stages}).model_dump_json()

        return essence(self) == essence(other)

    def imports(self, use: Literal["start", "generator"]) -> frozenset[Hop]:
        """Directions that have a pretrained translator for this use."""
        return frozenset(imported.hop for imported in self.imported if imported.use == use)

    def training(self, stage: Stage) -> Train:
        """[train] as it applies to a stage: its own keys, the keys of `continued`, the preset's values."""
        base = self.train.model_dump()
        continued = {**base["continued"], **stage.train.get("continued", {})} if stage.from_ else {}
        continued = {key: value for key, value in continued.items() if value is not None}
        peak, warmup = (
            PEAKS[self.model.preset] if self.model.pretrained is None else RATES["lora" if self.lora(stage) else "full"]
        )
        defaults = {"learning_rate": peak, "warmup": warmup, "dropout": self.usual_dropout(stage), **continued}
        set_here = {key: value for key, value in base.items() if value is not None and key not in continued}
        return Train.model_validate({**defaults, **set_here, **stage.train})

    def lora(self, stage: Stage) -> Lora | None:
        """The settings of LoRA in a stage; None where it trains all weights."""
        if self.model.pretrained is None or stage.name == PRETRAINED or (stage.adapt or self.model.adapt) == "full":
            return None
        return stage.lora or self.model.lora or Lora()

    def adapter_base(self, stage: Stage) -> Stage:
        """The stage whose weights a stage's adapter extends: the nearest ancestor that was trained differently."""
        while stage.from_ is not None and self.lora(parent := self.stage(stage.from_)) == self.lora(stage):
            stage = parent
        return self.stage(stage.from_ or PRETRAINED)

    def usual_dropout(self, stage: Stage) -> float | None:
        """The default dropout of a stage; None: the model's. Stages with loops have more text, so they need less."""
        if self.model.pretrained is not None:
            return None
        less = LOOPS_DROPOUT.get(self.model.preset, self.model.dropout)
        return less if stage.from_ and stage.generates and less < self.model.dropout else None
