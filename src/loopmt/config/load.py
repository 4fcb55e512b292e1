"""Reads a TOML file and checks it. Errors say how to fix the file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from loopmt.config.check import check
from loopmt.config.comparison import check_comparisons
from loopmt.config.experiment import Experiment
from loopmt.config.pretrained import check_document
from loopmt.config.schema import Train
from loopmt.errors import ConfigError, LoopmtError, listed
from loopmt.files.documents import NESTING, parse_toml
from loopmt.files.regular import read_given_text

_LARGEST = 2**20  # bytes of an experiment file
Kind = TypeVar("Kind", bound=BaseModel)

_RATE = "The learning rate is train.learning_rate."
_BUDGET = "Training is counted in updates: set `updates` of the stage."
_BATCH = "A batch is counted in tokens: set train.tokens."
_OTHER_TOOLKITS = {  # names of their settings, and what ours are
    **dict.fromkeys(("lr", "learning-rate", "peak_lr"), _RATE),
    **dict.fromkeys(("epochs", "epoch", "max_epochs", "num_epochs", "num_train_epochs", "max_epoch"), _BUDGET),
    **dict.fromkeys(("steps", "max_steps", "train_steps", "num_steps", "max_update"), _BUDGET),
    **dict.fromkeys(("batch_size", "batch", "max_tokens", "minibatch", "mini_batch"), _BATCH),
    **dict.fromkeys(("dim", "d_model", "hidden_size", "embed_dim", "emb_size"), "The size of states is model.width."),
    **dict.fromkeys(("fp16", "bf16", "amp"), "Number formats are chosen by train.precision."),
    **dict.fromkeys(("early_stopping", "early_stop"), 'Set until = "patience" in the stage, and train.patience.'),
    **dict.fromkeys(("beam_size", "num_beams"), "Validation decodes with train.validate_beam, a path with its `beam`."),
    "vocab_size": "The number of subwords is vocab.size.",
    "max_len": "The longest sentence, in subwords, is train.max_length.",
}


def load(file: Path | str, overrides: Sequence[str] = ()) -> Experiment:
    """Read an experiment file; `overrides` are `section.key=value` with TOML values."""
    file = Path(file)
    if file.is_dir():
        example = file / "experiment.toml"
        raise ConfigError(f"{file} is a folder. Name an experiment file, such as {example}.")
    try:
        text = read_given_text(file, _LARGEST)
    except FileNotFoundError:
        raise ConfigError(f"{file}: there is no such experiment file.{_beside(file)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read as an experiment file: {error}.") from None
    name = re.sub(r"[^A-Za-z0-9._-]", "-", file.stem).lstrip("._-") or "experiment"
    return loads(text, overrides, where=str(file), name=name)


def _beside(file: Path) -> str:
    """Experiment files that the user may have meant."""
    there = sorted(one.name for one in file.parent.glob("*.toml"))
    if near := difflib.get_close_matches(file.name, there, n=3):
        return f" Did you mean {' or '.join(str(file.parent / name) for name in near)}?"
    return f" In {file.parent} there is: {listed(there)}." if there else ""


def loads(text: str, overrides: Sequence[str] = (), where: str = "experiment", name: str = "experiment") -> Experiment:
    """The same from the file's text."""
    try:
        document = parse_toml(text)
    except ValueError as error:
        twice = " A list of tables has double brackets: [[stage]]." if "twice" in str(error) else ""
        raise ConfigError(f"{where} is not valid TOML: {error}.{twice}") from None
    for override in overrides:
        _override(document, override)
    document.setdefault("name", name)
    if overrides:  # either may be what is wrong
        where += f" --set {overrides[0]}" if len(overrides) == 1 else " with --set"
    check_document(document, where)
    experiment = validated(Experiment, document, where)
    for stage in experiment.stages:
        validated(Train, stage.train, f'{where}: stage "{stage.name}", train')
    try:
        check(experiment)
        check_comparisons(experiment)
    except LoopmtError as error:
        raise ConfigError(f"{where}: {error}") from None
    return experiment


def _override(document: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text}: write section.key=value, such as --set train.tokens=2048.")
    *sections, last = key.strip().split(".", NESTING)
    here: Any = document
    for section in sections:
        here = _step(here, section, text)
    if not isinstance(here, dict):
        raise ConfigError(f"--set {text}: '{key.strip()}' does not lead to a key.")
    here[last] = _value(value)


def _value(text: str) -> Any:
    """A TOML value. Anything else is a string, so that quotes may be omitted in a shell."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except (ValueError, KeyError):
        return text.strip()


def _step(here: Any, section: str, text: str) -> Any:
    """Descend into a table by key, or into the list of stages by a stage's name."""
    if isinstance(here, list) and (named := {item.get("name"): item for item in here if isinstance(item, dict)}):
        if section not in named:
            raise ConfigError(f"--set {text}: there is no stage '{section}'; there are {', '.join(map(str, named))}.")
        return named[section]
    if not isinstance(here, dict):
        raise ConfigError(f"--set {text}: '{section}' is not inside a section.")
    return here.setdefault(section, {})


def validated(kind: type[Kind], values: dict[str, Any], where: str) -> Kind:
    """A section from its keys. Invalid values raise `ConfigError`."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        sentences = dict.fromkeys(_sentence(detail, kind, values) for detail in _deepest(error.errors())[:5])
        raise ConfigError(f"{where}: " + " ".join(sentences)) from None


def _deepest(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Drop the errors of other branches of a union if one branch has looked into the value."""
    places = [_keys(detail["loc"]) for detail in details]
    return [
        detail
        for detail, place in zip(details, places, strict=True)
        if not any(len(other) > len(place) and other[: len(place)] == place for other in places)
    ]


def _keys(location: Sequence[int | str]) -> list[int | str]:
    return [part for part in location if not _is_branch(part)]


def _sentence(detail: ErrorDetails, kind: type[BaseModel], values: Any) -> str:
    keys = _keys(detail["loc"])
    place = _place(keys, values)
    if detail["type"] == "extra_forbidden":
        section = _keys(detail["loc"][:-1])
        return _unknown(str(detail["loc"][-1]), _known(kind, section), _place(section, values))
    if detail["type"] == "missing":
        return f"{place} is missing."
    shown = repr(detail["input"])
    given = "" if isinstance(detail["input"], dict | list) else f" = {shown[:60]}"
    return f"{place}{given}: {_reason(detail, keys)}."


def _reason(detail: ErrorDetails, keys: Sequence[int | str]) -> str:
    """Our own message where pydantic mentions regular expressions or one message per branch of a union."""
    if detail["type"] == "string_pattern_mismatch":
        return "write letters from a to z, digits, dots, underscores and hyphens, and begin with a letter or a digit"
    if detail["type"] in ("literal_error", "list_type") and keys[-1] == "mix":
        given = detail["input"]
        path = given if isinstance(given, str) and ">" in given else "X>Y"
        return f'write a list of paths, mix = ["{path}"], or mix = "auto"'
    return detail["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")


def _is_branch(part: object) -> bool:
    """Whether a part of the location is the branch of a union, which pydantic adds and the file does not have."""
    return isinstance(part, str) and (
        "[" in part or "(" in part or part in {"str", "list", "Generate", "MixEntry", "MetricEntry", "Lora"}
    )


def _place(keys: Sequence[int | str], values: Any) -> str:
    shown: list[str] = []
    here = values
    for key in keys:
        here = here[key] if isinstance(here, dict) and key in here else _item(here, key)
        name = here.get("name") or here.get("path") if isinstance(here, dict) and isinstance(key, int) else None
        shown.append(f'"{name}"' if name else str(key))
    return ".".join(shown)


def _item(here: Any, key: int | str) -> Any:
    return here[key] if isinstance(here, list) and isinstance(key, int) and key < len(here) else None


def _unknown(key: str, known: list[str], place: str) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f" {_OTHER_TOOLKITS.get(key) or (f'Did you mean {near[0]!r}?' if near else '')}".rstrip()
    where = f" in {place}" if place else ""
    return f"unknown key '{key}'{where}.{hint} Valid keys: {', '.join(known)}."


def _known(kind: type[BaseModel], keys: Sequence[int | str]) -> list[str]:
    """The valid keys of the section that the location leads to."""
    here: Any = kind
    for key in keys:
        if isinstance(key, str):
            fields = {field.alias or name: field for name, field in here.model_fields.items()}
            found = _model_within(fields[key].annotation) if key in fields else None
            here = found or here
    return [field.alias or name for name, field in here.model_fields.items()]


def _model_within(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in get_args(annotation):
        if found := _model_within(inner):
            return found
    return None
