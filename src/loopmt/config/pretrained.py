"""What an experiment file may say about a pretrained translator that learns (`[model] pretrained`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loopmt.config.schema import Stage, is_function
from loopmt.errors import ConfigError, PathError
from loopmt.path import Hop, LanguagePath

if TYPE_CHECKING:
    from loopmt.config.experiment import Experiment

PRETRAINED = "pretrained"
"""The stage that is the checkpoint as it came: finished from the beginning, and written in no file."""

RATES = {"full": (5e-5, 100), "lora": (3e-4, 100)}
"""Peak and warmup of a stage, by how it adapts the checkpoint."""

_OWN = "the checkpoint has its own architecture"
_REASONS = {
    "translator": "each is the model that is trained",
    "sharing": "a folder serves all directions, and a table of folders has one for each",
    "dropout": "set train.dropout",
}


def unmodified_stage() -> Stage:
    return Stage.model_construct(name=PRETRAINED, mix=[])


def with_default_parent(document: Any) -> Any:
    """The experiment's values; stages without `from` start from the checkpoint."""
    model = document.get("model") if isinstance(document, dict) else None
    pretrained = model.get("pretrained") if isinstance(model, dict) else getattr(model, "pretrained", None)
    if pretrained is None:
        return document
    key = "stage" if "stage" in document else "stages"
    stages = document.get(key)
    if not isinstance(stages, list):
        return document
    return {**document, key: [_with_parent(stage) for stage in stages]}


def _with_parent(stage: Any) -> Any:
    if isinstance(stage, dict) and stage.get("from") is None and stage.get("from_") is None:
        return {**stage, "from": PRETRAINED}
    return stage


def check_document(document: Mapping[str, Any], where: str) -> None:
    """Refuse keys of the file that have no effect beside `pretrained`. Recorded defaults are allowed."""
    model = document.get("model")
    if not isinstance(model, dict) or model.get("pretrained") is None:
        return
    for key in ("translator", "preset", "sharing", "norm", "activation", "layers", "decoder_layers", "width",
                "feed_forward", "heads", "dropout", "attention_dropout", "activation_dropout"):  # fmt: skip
        if key in model:
            why = _REASONS.get(key, _OWN)
            raise ConfigError(f"{where}: model.{key} cannot be set beside model.pretrained: {why}. Remove it.")
    if "vocab" in document:
        raise ConfigError(
            f"{where}: [vocab] cannot be set beside model.pretrained: the checkpoint has its own tokenizer. Remove it."
        )


def pretrained_hops(experiment: Experiment) -> frozenset[Hop]:
    """The directions that the checkpoint serves."""
    pretrained, languages = experiment.model.pretrained, experiment.languages
    if pretrained is None:
        return frozenset()
    if isinstance(pretrained, str):
        return frozenset(Hop(one, other) for one in languages for other in languages if one != other)
    return frozenset(_hop(direction, languages) for direction in pretrained)


def _hop(direction: str, languages: list[str]) -> Hop:
    example = f'as in {{ "{languages[0]}>{languages[1]}" = "FOLDER" }}'
    try:
        places = LanguagePath.parse(direction).languages
    except PathError as error:
        raise ConfigError(f"model.pretrained: {error} Write one direction for each folder, {example}.") from None
    if len(places) != 2 or not set(places) <= set(languages):
        raise ConfigError(
            f'model.pretrained "{direction}": write one direction of the languages {", ".join(languages)}, {example}.'
        )
    return Hop(*places)


def check_pretrained(experiment: Experiment) -> None:
    """Checks across keys for a checkpoint, or a translator of another module, that is trained."""
    model = experiment.model
    if model.translator is not None:
        _check_translator(experiment)
    if model.pretrained is None:
        _check_none(experiment)
        return
    pretrained_hops(experiment)
    for code in model.codes or ():
        if code not in experiment.languages:
            raise ConfigError(f"model.codes.{code}: the experiment's languages are {', '.join(experiment.languages)}.")
    if model.prompt is not None and "{text}" not in model.prompt:
        raise ConfigError(
            f'model.prompt = "{model.prompt}" has no {{text}}, where the sentence goes. Write, for example, '
            '"translate {source_language} to {target_language}: {text}".'
        )
    if not all(model.stop or ["-"]):
        raise ConfigError("model.stop has an empty text, which would end every translation. Remove it.")
    if experiment.imports("start"):
        raise ConfigError('imported: use = "start" gives weights to networks of our own, and model.pretrained has its '
                          'own. Remove one of them, or set use = "generator".')  # fmt: skip
    for stage in experiment.stages:
        _check_stage(experiment, stage)


def _check_translator(experiment: Experiment) -> None:
    model = experiment.model
    name = f'model.translator = "{model.translator}"'
    if not is_function(model.translator or ""):
        raise ConfigError(f'{name}: write "module:function", a function that makes a trainable translator.')
    if experiment.imports("start"):
        raise ConfigError(f'{name} has its own weights: remove `use = "start"` from [[import]], or model.translator.')
    if any(experiment.training(stage).shard for stage in experiment.stages):
        raise ConfigError(f"{name}: train.shard spreads networks of loopmt only. Set train.shard = false.")


def _check_none(experiment: Experiment) -> None:
    if experiment.model.adapt != "full" or any(one.adapt or one.lora for one in experiment.stages):
        raise ConfigError("adapt and lora say how a checkpoint is trained: set model.pretrained, too.")
    for key in ("codes", "prompt", "lora", "chat", "stop", "backend"):
        if getattr(experiment.model, key) not in (None, "auto"):
            raise ConfigError(f"model.{key} is of a checkpoint: set model.pretrained, too.")


def _check_stage(experiment: Experiment, stage: Stage) -> None:
    if stage.name == PRETRAINED:
        raise ConfigError(
            f'a stage cannot be called "{PRETRAINED}" beside model.pretrained: this is the checkpoint as it came. '
            "Choose another name."
        )
    train = experiment.training(stage)
    if train.subword_dropout:
        raise ConfigError(
            f'stage "{stage.name}": train.subword_dropout cuts subwords anew, which the tokenizer of a checkpoint '
            "cannot do. Set it to 0."
        )
    whole = experiment.shared and experiment.lora(stage) is None and experiment.model.backend != "module"
    if train.shard and not whole:
        raise ConfigError(
            f'stage "{stage.name}": train.shard spreads one checkpoint of all directions, with adapt = "full" and '
            "computed by loopmt's own transformer. Set train.shard = false: every process then has a copy, and learns "
            "on its own rows."
        )


def check_taught(experiment: Experiment, stage: Stage, taught: frozenset[Hop]) -> None:
    """Every direction that a stage teaches must have a checkpoint."""
    known = pretrained_hops(experiment)
    if experiment.model.pretrained is not None and (lacking := sorted(taught - known)):
        has = ", ".join(map(str, sorted(known)))
        raise ConfigError(
            f'stage "{stage.name}" teaches {", ".join(map(str, lacking))}, for which model.pretrained has no folder: '
            f"it has {has}. Add one, or name the directions in `mix`."
        )
