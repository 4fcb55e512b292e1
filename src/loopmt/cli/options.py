"""Arguments and options that several verbs share."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loopmt.errors import ConfigError, LoopmtError, PathError


class BackendOption(StrEnum):
    auto = "auto"
    ctranslate2 = "ctranslate2"
    loopmt = "loopmt"


class RouteChoice(StrEnum):
    given = "given"
    auto = "auto"


class Numbers(StrEnum):
    int8 = "int8"
    float32 = "float32"


def complete_stage(context: typer.Context, incomplete: str) -> list[str]:
    """Shell completion: the stages of the runs on the line. An unfinished line is not parsed."""
    words = [*context.args, context.params.get("run"), *(context.params.get("runs") or ())]
    folders = [Path(word) / "stages" for word in words if word]
    return sorted({stage.name for folder in folders for stage in folder.glob(f"{incomplete}*")})


def complete_planned_stage(context: typer.Context, incomplete: str) -> list[str]:
    """Shell completion: the stages of the experiment files on the line."""
    words = [*context.args, context.params.get("file")]
    names = [name for word in words if word for name in _planned_stages(Path(word))]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def _planned_stages(file: Path) -> list[str]:
    """Read the file without checks: completion must be fast and print no errors."""
    from loopmt.files.documents import parse_toml
    from loopmt.files.regular import read_given_text

    try:
        stages = parse_toml(read_given_text(file)).get("stage", [])
        return [str(stage["name"]) for stage in stages if "name" in stage]
    except (OSError, ValueError, TypeError, LoopmtError):
        return []


def quoted(text: str) -> str:
    """Refuse a path that the shell has cut: of en>fr without quotes only en arrives."""
    if re.fullmatch(r"[A-Za-z]\w*", text):
        raise PathError(
            f"path {text!r} has no hop. Are the quotes missing? A shell reads > as a redirection: "
            'write "en>fr", with the quotes.'
        )
    return text


def each_quoted(texts: list[str] | None) -> list[str] | None:
    return texts and list(map(quoted, texts))


ExperimentFile = Annotated[Path, typer.Argument(help="The experiment file (TOML).", metavar="EXPERIMENT")]
RunFolder = Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")]
RunOption = Annotated[Path | None, typer.Option("--run", help="The run's folder; default: runs/<experiment's name>.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a key of the experiment file: section.key=value; may be repeated."),
]
StageOption = Annotated[
    str | None,
    typer.Option(
        "--stage",
        help="The stage; default: the last finished one that is not a control.",
        autocompletion=complete_stage,
    ),
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="METRIC",
        help='Another metric: a built-in name, "module:function" or "command:PROGRAM ARGS..."; may be repeated.',
    ),
]
CometOption = Annotated[
    Path | None, typer.Option("--comet", metavar="CHECKPOINT", help="Also COMET, from a checkpoint file.")
]
RouteOption = Annotated[
    RouteChoice,
    typer.Option("--route", help="auto: direct or through another language, as `loopmt evaluate` found better."),
]
NumbersOption = Annotated[Numbers, typer.Option("--type", help="How CTranslate2 stores numbers.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str | None) -> float | None:
    """`90`, `90s`, `9m`, `1.5h` as seconds."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if not match:
        raise ConfigError(f"--stop-after {text}: write a time such as 90s, 9m or 1.5h.")
    return float(match[1]) * _UNITS[match[2]]
