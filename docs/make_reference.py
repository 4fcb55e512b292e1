"""Writes docs/reference.md from the code: every key of an experiment file, its default and its meaning.

python docs/make_reference.py
"""

from __future__ import annotations

import textwrap
import types
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from loopmt.config import Experiment, schema

SECTIONS: list[tuple[str, type[BaseModel]]] = [
    ("Top level", Experiment),
    ("[data]", schema.Data),
    ("[data.clean]", schema.Clean),
    ("[data.world]", schema.WorldData),
    ("[vocab]", schema.VocabConfig),
    ("[model]", schema.Model),
    ("`lora`", schema.Lora),
    ("[train]", schema.Train),
    ("[train.continued]", schema.Continued),
    ("[[stage]]", schema.Stage),
    ("an entry of `mix`", schema.MixEntry),
    ("`generate`", schema.Generate),
    ("[stage.auto]", schema.Auto),
    ("[[compare]]", schema.Compare),
    ("[guards]", schema.Guards),
    ("[evaluate]", schema.Evaluate),
    ("an entry of `metrics`", schema.MetricEntry),
    ("[[imported]]", schema.Imported),
]
# What has no default and is asked for only where no other key stands in for it.
_NEEDED = {schema.Data: {"valid": "required, unless there is `world`"}}


def reference() -> str:
    lines = [
        "# The experiment file",
        "",
        "This page lists every key of an experiment file, for users who write or read one.",
        "`python docs/make_reference.py` writes it from the code; do not edit it.",
        "",
        "A key that is not listed here is an error. On the command line, `--set section.key=value` overrides",
        "a key, and `--set stage.NAME.key=value` overrides a key of one stage.",
    ]
    for title, kind in SECTIONS:
        lines += [
            "",
            f"## {title}",
            "",
            textwrap.fill(" ".join((kind.__doc__ or "").split()), 100),
            "",
            "| key | value | default | meaning |",
        ]
        lines += ["|---|---|---|---|"]
        lines += [_row(kind, name, field) for name, field in kind.model_fields.items()]
    lines += [
        "",
        "## presets",
        "",
        "| preset | " + " | ".join(schema.PRESETS["tiny"]) + " | dropout with loops | peak rate, warmup |",
    ]
    lines += ["|---|" + "---|" * (len(schema.PRESETS["tiny"]) + 2)]
    for name, values in schema.PRESETS.items():
        rate, warmup = schema.PEAKS[name]
        cells = [name, *values.values(), schema.LOOPS_DROPOUT.get(name, values["dropout"]), f"{rate:g}, {warmup:,}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _row(kind: type[BaseModel], name: str, field: FieldInfo) -> str:
    default = _NEEDED.get(kind, {}).get(name) or _default(field)
    return f"| `{field.alias or name}` | {_kind(field.annotation)} | {default} | {field.description or ''} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined or isinstance(field.default, BaseModel):
        return "its own defaults"
    return "none" if field.default in (None, [], {}) else f"`{_toml(field.default)}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return f"{value:.4g}" if len(str(value)) > 10 else str(value)


def _kind(annotation: Any) -> str:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(f'"{part}"' for part in parts)
    if origin is typing.Annotated:
        return _kind(parts[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(part) for part in parts if part is not type(None))
    if origin is list:
        return f"list of {_kind(parts[0])}"
    if origin is dict:
        return f"table of {_kind(parts[1])}"
    if origin is tuple:
        return f"{len(parts)} numbers"
    names = {int: "whole number", float: "number", str: "string", bool: "true or false"}
    return names.get(annotation, "table")


if __name__ == "__main__":
    Path(__file__).with_name("reference.md").write_text(reference(), encoding="utf-8")
