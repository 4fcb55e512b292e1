"""The verbs show, doctor and generate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from loopmt.cli.options import JsonOption, RunFolder, StageOption, quoted
from loopmt.cli.tables import console, number_table, plain, print_table
from loopmt.cli.text import TEMPERATURE, TOP_K, LengthPenalty, Temperature, TopK, TopP
from loopmt.errors import ConfigError, listed
from loopmt.progress import visible_message

if TYPE_CHECKING:
    from loopmt.workflow.generate import GenerationResult


class How(StrEnum):
    sample = "sample"
    greedy = "greedy"
    beam = "beam"


def show(run: RunFolder, as_json: JsonOption = False) -> None:
    """Show the stages of a run, their scores, and the next command.

    Example: loopmt show loopmt-demo
    """
    from loopmt.cli.score_tables import print_setbacks
    from loopmt.evaluation.choice import first_metric
    from loopmt.workflow.show import overview

    found = overview(run)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    out, first = console(), first_metric(found)
    print_table(out, _overview_table(found))
    for line in _directions_of_means(found["stages"]):
        out.print(plain(line), highlight=False)
    for one in found["comparisons"]:
        score = one[first.name]
        number = f"{first.difference(score)}, p = {score['p_value']:.3f}"
        line = f"{one['of']} less {one['against']}: {number}, mean of {one['directions']} directions"
        out.print(plain(line), highlight=False)
    print_setbacks(found["setbacks"], first.label)
    for finding in found["findings"]:
        typer.echo(visible_message(f"warning: {finding}"))
    typer.echo(visible_message(_now(found) if found["process"] else f"next: {found['next']}"))


def _now(found: dict[str, Any]) -> str:
    return f"{'training' if found['prepared'] else 'preparing'} now (pid {found['process']})"


def _overview_table(found: dict[str, Any]) -> Table:
    from loopmt.evaluation.choice import facts_of
    from loopmt.evaluation.means import differ

    stages = found["stages"]
    valid, test = (differ(stage[f"{kind}_hops"] for stage in stages) for kind in ("valid", "test"))
    metrics = [metric for number, metric in enumerate(facts_of(found)) if metric.by_direction or number == 0]
    columns = ["stage", "from", "state", _headed("best valid BLEU", valid)]
    columns += [_headed(f"test {metric.heading}", test) for metric in metrics]
    table = number_table(f"{found['experiment']}: {', '.join(found['languages'])}", *columns)
    for stage in stages:
        state = stage["state"] if stage["state"] != "begun" else _place(stage)
        scores, heard = stage["scores"] or {}, test and stage["test_directions"]
        cells = [_counted(_shown(stage["best_valid_bleu"]), valid and stage["valid_directions"])]
        cells += [_counted(_shown(scores.get(metric.name), metric.digits), heard) for metric in metrics]
        table.add_row(stage["name"], stage["from"] or "", state, *cells)
    return table


def _directions_of_means(stages: list[dict[str, Any]]) -> Iterator[str]:
    """The directions of each stage's mean, if they differ."""
    from loopmt.evaluation.means import differ

    kinds = [key for key in ("valid_hops", "test_hops") if differ(stage[key] for stage in stages)]
    for number, key in enumerate(kinds):
        stages_of: dict[str, list[str]] = {}
        for stage in stages:
            if stage[key]:
                stages_of.setdefault(listed(stage[key]), []).append(stage["name"])
        means = "; ".join(f"{', '.join(names)}: {hops}" for hops, names in stages_of.items())
        if number and all(stage[key] == stage[kinds[0]] for stage in stages):
            continue  # the same was said of validation
        yield f"Means of different directions cannot be compared ({key.removesuffix('_hops')}: {means})."


def _headed(column: str, counted: bool) -> str:
    return f"{column} (directions)" if counted else column


def _place(stage: dict[str, Any]) -> str:
    total = f" of {stage['updates']:,}" if stage["updates"] else ""
    return f"at update {stage['update']:,}{total}"


def _counted(shown: str, directions: int | None) -> str:
    """The mean with its number of directions, because means of different directions cannot be compared."""
    return f"{shown} ({directions})" if shown and directions else shown


def _shown(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:z.{digits}f}"


def doctor(
    model: Annotated[
        Path | None, typer.Option("--model", help="Check this Hugging Face checkpoint instead of the machine.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check this machine: what works, and what is missing.

    With --model, say what would train a checkpoint: loopmt's own transformer or Hugging Face's module, and why; and
    how much memory that takes.

    Example: loopmt doctor
    """
    if model is None:
        _machine(as_json)
    else:
        _checkpoint(model, as_json)


def _machine(as_json: bool) -> None:
    from loopmt.workflow.doctor import advice, examine

    found = examine(Path.cwd())
    if as_json:
        typer.echo(json.dumps({**found, "advice": advice(found)}, indent=1))
        return
    cpu, gib = found["cpu"], 2**30
    lines = {
        "python": f"{found['python']} on {found['platform']}",
        "packages": ", ".join(f"{name} {version or 'missing'}" for name, version in found["packages"].items()),
        "cpu": f"{cpu['usable_cores']} of {cpu['cores']} cores ({_busy(cpu['busy_cores'])}), "
        f"threads: {cpu['threads']}; "
        f"{found['memory_bytes'] / gib:.1f} GiB of memory",
        "devices": ", ".join(f"{one['name']} ({one['memory_bytes'] / gib:.0f} GiB)" for one in found["devices"])
        or "no CUDA device",
        "precision": "; ".join(f"{device}: {', '.join(names)}" for device, names in found["precision"].items()),
        "compiled": "yes" if found["compile"] else "no: training is eager",
        "disk": f"{found['disk_free_bytes'] / gib:.1f} GiB free here",
        "extras": ", ".join(name for name, extra in found["extras"].items() if not extra["missing"]) or "none",
    }
    table = Table.grid(padding=(0, 1))
    for name, line in (*lines.items(), *(("", line) for line in advice(found))):
        table.add_row(plain(name), plain(line))
    console().print(table, highlight=False)


def _checkpoint(folder: Path, as_json: bool) -> None:
    from loopmt.workflow.checkpoint_check import examine_checkpoint

    found = examine_checkpoint(folder)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    memory = {name: f"{size / 2**30:.2f} GiB" for name, size in found["memory_bytes"].items()}
    lines = {
        "model": f"{found['architecture']}, {found['parameters']:,} parameters, vocabulary {found['vocabulary']:,}, "
        f"{found['languages']} language codes",
        "backend": f"{found['backend']}: {found['why']}",
        "memory": f"{memory['translate']} to translate, {memory['full']} to train, {memory['lora']} with LoRA; and "
        f"{found['memory_bytes']['per_token'] / 2**20:.2f} MiB for each token of a batch",
    }
    for name, line in lines.items():
        typer.echo(f"{name:<10} {line}")


def _busy(cores: int | None) -> str:
    return "busy cores unknown" if cores is None else f"{cores} busy with other programs"


def generate(
    run: RunFolder,
    path: Annotated[str, typer.Argument(help='A path that generates, such as "en>fr>en".', callback=quoted)],
    out: Annotated[Path, typer.Option("--out", help="Folder for the rows; the same folder resumes.")],
    stage: StageOption = None,
    how: Annotated[How, typer.Option("--how", help="Decoding of every generating hop.")] = How.sample,
    temperature: Temperature = TEMPERATURE,
    top_k: TopK = TOP_K,
    top_p: TopP = 1.0,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam width.")] = 4,
    length_penalty: LengthPenalty = 1.0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Number of real rows; default: all.")] = None,
    shard: Annotated[str, typer.Option("--shard", metavar="I/N", help="This process's share of the work.")] = "1/1",
    chunk: Annotated[int, typer.Option("--chunk", min=1, help="Number of real rows in a chunk.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of sampling.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Write the synthetic pairs of a path: generated sources, real targets.

    A path that returns (en>fr>en) starts from the monolingual text of the run, any other path from its bitext. Writes
    OUT/synthetic.LANG for both sides, and OUT/synthetic.scores.tsv with path and log-probability. Rows that are
    empty, copied, far too long or in the wrong language are dropped and counted. The same command resumes; with
    --shard, or under torchrun, several processes share the work.

    Example: loopmt generate loopmt-demo "en>fr>en" --out synthetic --how beam --limit 10000
    """
    from loopmt.config import Generate
    from loopmt.progress import standard
    from loopmt.workflow.generate import GenerateOptions
    from loopmt.workflow.generate import generate as run_generate
    from loopmt.workflow.stage_choice import stage_line

    settings = Generate(
        how=how.value, temperature=temperature, top_k=top_k, top_p=top_p, beam=beam, length_penalty=length_penalty
    )
    order = GenerateOptions(run, path, out, stage, settings, limit, _shard(shard), chunk, seed)
    typer.echo(visible_message(f"loopmt: {stage_line(run, stage)}"), err=True)
    found = run_generate(order, standard())
    if found:
        typer.echo(json.dumps(_as_json(found)) if as_json else _sentence(found, out))


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ConfigError(f"--shard {text}: write I/N with I from 1 to N, such as 1/4.")
    return int(number) - 1, int(count)


def _as_json(found: GenerationResult) -> dict[str, Any]:
    return {**vars(found), "files": list(map(str, found.files))}


def _sentence(found: GenerationResult, out: Path) -> str:
    dropped = ", ".join(f"{reason} {count:,}" for reason, count in found.dropped.items() if count) or "none"
    kept = f"{found.kept:,} of {found.rows:,} rows kept (dropped: {dropped})"
    if not found.files:
        return f"{kept}; {found.chunks_done} of {found.chunks} chunks are in {out}: the other shards are missing."
    return f"{kept} in {', '.join(map(str, found.files))}"
