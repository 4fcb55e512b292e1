"""Verbs that translate: translate and evaluate."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopmt.cli.options import (
    BackendOption,
    CometOption,
    JsonOption,
    MetricOption,
    Numbers,
    NumbersOption,
    RouteChoice,
    RouteOption,
    RunFolder,
    StageOption,
    complete_stage,
    each_quoted,
    quoted,
)
from loopmt.errors import ConfigError
from loopmt.progress import visible_message

if TYPE_CHECKING:
    from loopmt.progress import Progress
    from loopmt.workflow.translate import Candidate, Translator

Beam = Annotated[int | None, typer.Option("--beam", min=1, help="Beam width; 1: greedy; default: 4.")]
Sample = Annotated[bool, typer.Option("--sample", help="Sample instead of beam search.")]
Temperature = Annotated[float, typer.Option("--temperature", min=0.01, help="Temperature of sampling.")]
TopK = Annotated[int, typer.Option("--top-k", min=0, help="Sample among the k likeliest subwords; 0: all.")]
TopP = Annotated[
    float,
    typer.Option("--top-p", min=0.01, max=1, help="Sample among the likeliest subwords with this total probability."),
]
LengthPenalty = Annotated[
    float, typer.Option("--length-penalty", min=0, help="Beam scores are divided by length to this power.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of sampling.")]
TEMPERATURE, TOP_K = 0.7, 10  # as loops sample, and `loopmt.Generate` by default


def translate(
    context: typer.Context,
    run: RunFolder,
    path: Annotated[str, typer.Argument(help='A direction "en>fr", or several hops "en>fr>es".', callback=quoted)],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files, plain, .gz, .xz or .zst; default: standard input.")
    ] = None,
    stage: StageOption = None,
    beam: Beam = None,
    nbest: Annotated[int, typer.Option("--nbest", min=1, help="Up to this many translations of each line.")] = 1,
    ensemble: Annotated[
        str | None,
        typer.Option("--ensemble", metavar="STAGE,STAGE", help="Stages that choose every token together."),
    ] = None,
    mbr: Annotated[
        int | None,
        typer.Option("--mbr", min=2, help="Draw this many samples; print the one closest to the others (chrF)."),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(
            "--rerank",
            metavar="UTILITY",
            help="Print the translation of the beam that is best by dual, round-trip, consensus or module:function.",
        ),
    ] = None,
    sample: Sample = False,
    temperature: Temperature = TEMPERATURE,
    top_k: TopK = TOP_K,
    top_p: TopP = 1.0,
    length_penalty: LengthPenalty = 1.0,
    seed: Seed = 1,
    backend: Annotated[
        BackendOption,
        typer.Option("--backend", help="Decoder; ctranslate2 is faster on a CPU, after some seconds of export."),
    ] = BackendOption.loopmt,
    kind: NumbersOption = Numbers.int8,
    route: RouteOption = RouteChoice.given,
    split: Annotated[
        bool, typer.Option("--split", help="Translate each sentence of a line by itself, and join them again.")
    ] = False,
) -> None:
    """Translate text: exactly one line out for each line in.

    Quote the path: to a shell, > means something else. With --nbest N every line becomes up to N lines
    of number, log-probability and text, separated by tabs. With --route auto a direction is translated directly or
    through another language, whichever the last evaluation of the stage found better. --mbr N and --rerank UTILITY
    choose among several translations, which costs several times the time. --split translates lines that hold several
    sentences one sentence at a time; the first line that is longer than the training text is named.

    Example: echo "The cat sleeps." | loopmt translate loopmt-demo "en>fr"
    """
    from loopmt.config import Generate
    from loopmt.rng import keyed_seed
    from loopmt.text.files import count_lines, read_files, read_stream
    from loopmt.workflow.long_lines import long_lines
    from loopmt.workflow.route_choice import choose_route
    from loopmt.workflow.stage_choice import stage_line
    from loopmt.workflow.translate import by_sentence, checked_path, growing_chunks, largest_chunk

    _check_choice(nbest, mbr, rerank, sample)
    sample = sample or mbr is not None
    _check_decoding(context, sample, beam)
    if route is RouteChoice.auto:
        path = str(choose_route(run, stage, path))
        typer.echo(visible_message(f"loopmt: route {path}"), err=True)
    beam = beam or 4
    how = Generate(
        how="sample" if sample else "beam" if beam > 1 else "greedy",
        beam=beam,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        length_penalty=length_penalty,
    )
    stdin, stdout = typer.get_binary_stream("stdin"), typer.get_binary_stream("stdout")
    texts = read_files(files) if files else read_stream(stdin)
    typed = not files and stdin.isatty()
    first, most = (1, 1) if typed else (32, largest_chunk())
    total, done = count_lines(files or ()), 0
    stages = _ensemble(ensemble, stage, backend)
    with (
        _translator(run, stage, stages, backend, kind) as translator,
        _watched().track("translating", total) as advance,
    ):
        checked_path(translator, path)
        line = f"the ensemble of {' and '.join(stages)}" if stages else stage_line(run, stage)
        typer.echo(visible_message(f"loopmt: {line}"), err=True)
        if typed:
            typer.echo("type sentences, one a line; Ctrl-D ends", err=True)
        translator = by_sentence(translator) if split else translator
        watch = None if split else long_lines(run, stages[0] if stages else stage, path)
        for chunk in growing_chunks(texts, first, most):
            if watch and (warning := watch.warning(chunk, done + 1)):
                typer.echo(visible_message(f"loopmt: warning: {warning}"), err=True)
                watch = None
            lines: Iterable[str]
            if mbr is not None:
                lines = [f"{text}\n" for text in translator.mbr(chunk, path, mbr, how, keyed_seed(seed, done))]
            elif rerank is not None:
                lines = [f"{text}\n" for text in translator.rerank(chunk, path, rerank, beam, how)]
            else:
                lines = _lines(translator.nbest(chunk, path, nbest, beam, how, keyed_seed(seed, done)), done, nbest > 1)
            stdout.writelines(line.encode() for line in lines)
            stdout.flush()
            done += len(chunk)
            advance(len(chunk))


def _ensemble(names: str | None, stage: str | None, backend: BackendOption) -> list[str]:
    """The stages of an ensemble; empty without one."""
    stages = [name.strip() for name in names.split(",")] if names is not None else []
    if stages and len(set(stages)) < 2:
        raise ConfigError(f"--ensemble {names}: name two different stages or more, separated by commas.")
    if stages and (stage is not None or backend is not BackendOption.loopmt):
        raise ConfigError("--ensemble goes with neither --stage nor --backend ctranslate2. Leave those out.")
    return stages


def _check_choice(nbest: int, mbr: int | None, rerank: str | None, sample: bool) -> None:
    given = {"--nbest": nbest > 1, "--mbr": mbr is not None, "--rerank": rerank is not None}
    if sum(given.values()) > 1:
        raise ConfigError(f"{' and '.join(name for name in given if given[name])}: give one of them.")
    if rerank is not None and sample:
        raise ConfigError("--sample and --rerank: give one of them. Reranking chooses among the results of a beam.")


def _check_decoding(context: typer.Context, sample: bool, beam: int | None) -> None:
    if sample and beam is not None:
        raise ConfigError(f"--sample and --beam {beam}: give one of them. A sample is drawn, and a beam searches.")
    if not sample and (idle := _given(context, "temperature", "top_k", "top_p", "seed")):
        raise ConfigError(f"{idle}: only sampling uses that, and this is beam search. Add --sample, or leave it out.")


def _given(context: typer.Context, *names: str) -> str:
    """The options that the user typed."""
    typed = [name for name in names if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    return ", ".join(f"--{name.replace('_', '-')}" for name in typed)


@contextmanager
def _translator(
    run: Path, stage: str | None, ensemble: list[str], backend: BackendOption, kind: Numbers
) -> Iterator[Translator]:
    from tempfile import TemporaryDirectory

    from loopmt.workflow.serve import ServeOptions, load_engine
    from loopmt.workflow.translate import load, load_ensemble

    if ensemble:
        yield load_ensemble(run, ensemble)
        return
    order = ServeOptions(run, stage, backend=backend.value, kind=kind.value)
    if order.backend == "loopmt":
        yield load(run, stage)
        return
    with TemporaryDirectory(prefix="loopmt-translate-") as place:
        yield load_engine(order, Path(place), _watched()).translator


def _watched() -> Progress:
    """Progress, unless the translations themselves are printed to the terminal."""
    from loopmt.progress import Silent, standard

    return Silent() if sys.stdout.isatty() else standard()


def _lines(found: list[list[Candidate]], start: int, numbered: bool) -> Iterable[str]:
    for number, candidates in enumerate(found, start + 1):
        if numbered:
            yield from (f"{number}\t{one.score:z.4f}\t{one.text}\n" for one in candidates)
        else:
            yield candidates[0].text + "\n"


def evaluate(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs: one, or one per seed.", metavar="RUN...")],
    stage: Annotated[
        list[str] | None,
        typer.Option(
            "--stage", help="Only this stage; may be repeated. Default: all finished.", autocompletion=complete_stage
        ),
    ] = None,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam width; 1: greedy.")] = 4,
    samples: Annotated[int, typer.Option("--samples", min=10, help="Number of bootstrap samples.")] = 1000,
    comet: CometOption = None,
    metric: MetricOption = None,
    path: Annotated[
        list[str] | None,
        typer.Option(
            "--path", help='Also a way through other languages, "fr>en>es"; may be repeated.', callback=each_quoted
        ),
    ] = None,
    direct_only: Annotated[
        bool, typer.Option("--direct-only", help="Translate through another language only where --path asks for it.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print all metrics, sacreBLEU too, and all intervals.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score every direction and stage of a run on all its test sets.

    Prints the scores of every direction, then the comparisons of the experiment with their intervals (paired bootstrap,
    joint over directions). Several runs that differ only in their seed are compared together.

    Where no bitext teaches a direction, it is also translated through every language that has bitext with both, and
    the better way is named; `translate --route auto` uses it. --path adds other ways. They count in no mean.

    Writes RUN/scorecard.json and the translations, which the next call does not make again. With --stage only these
    stages are translated and printed; the file keeps the others.

    Example: loopmt evaluate loopmt-demo --path "fr>en>es"
    """
    from loopmt.cli.score_tables import print_scorecard
    from loopmt.path import LanguagePath
    from loopmt.progress import standard
    from loopmt.workflow.evaluate import EvaluateOptions
    from loopmt.workflow.evaluate import evaluate as run_evaluate
    from loopmt.workflow.show import after_evaluation as next_command

    pivots = [LanguagePath.parse(text) for text in dict.fromkeys(path or ())]
    options = EvaluateOptions(stage or (), beam, samples, comet, pivots, metric or (), direct_only)
    scorecard = run_evaluate(runs, options, standard())
    if as_json:
        typer.echo(json.dumps(scorecard, indent=1))
    else:
        print_scorecard(scorecard, verbose, metric or ())
        typer.echo(visible_message(f"next: {next_command(runs)}"))
