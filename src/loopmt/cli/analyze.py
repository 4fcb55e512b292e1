"""Verbs that look at loops: analyze and plan."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from loopmt.cli.options import JsonOption, RunFolder, complete_stage
from loopmt.progress import visible_message

Beam = Annotated[int, typer.Option("--beam", min=1, help="Beam width on every hop; 1: greedy.")]


def analyze(
    run: RunFolder,
    stage: Annotated[
        list[str] | None,
        typer.Option("--stage", help="Analyze only this stage; may be repeated.", autocompletion=complete_stage),
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(
            "--threshold",
            help="Right is a sentence BLEU above this; may be repeated. Default: measure 10 to 90, print the plan's.",
        ),
    ] = None,
    beam: Beam = 4,
    sentences: Annotated[
        int | None, typer.Option("--sentences", min=2, help="Sentences of each test set; default: all.")
    ] = None,
    longest: Annotated[int, typer.Option("--longest", min=2, help="Number of hops of the longest loops.")] = 3,
    against_plan: Annotated[
        bool, typer.Option("--against-plan", help="Compare RUN/plan.json with the gains that were measured.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Print every pair of stages, all parameters and the paper's tables.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure after training what loops did: which share of translations is right before and after.

    Compares every finished stage with the stages it started from, on every loop and test set, less the change in a
    control that trained without loops. It needs two finished stages. Writes RUN/analysis.json and prints the gain on
    each loop; --all prints the parameters of the theory (docs/theory.md) and the paper's tables.

    Example: loopmt analyze loopmt-demo
    """
    from loopmt.cli.plan_tables import print_analysis
    from loopmt.progress import standard
    from loopmt.workflow.analyze import GRID, AnalyzeOptions
    from loopmt.workflow.analyze import analyze as run_analyze

    single = everything or as_json or against_plan
    options = AnalyzeOptions(stage or (), threshold or GRID, beam, sentences, longest, against_plan, single)
    analysis = run_analyze(run, options, standard())
    if as_json:
        typer.echo(json.dumps(analysis, indent=1))
    else:
        print_analysis(analysis, everything)
        typer.echo(visible_message(f"next: loopmt report {run}"))


def plan(
    run: RunFolder,
    stage: Annotated[
        str | None,
        typer.Option(
            "--stage",
            help="Plan for the translators of this stage; default: the first, as far as bitext alone trained it on.",
            autocompletion=complete_stage,
        ),
    ] = None,
    held_out: Annotated[
        str,
        typer.Option(
            "--held-out", "--set", help="The held-out text: valid, or the name of a test set (not a setting)."
        ),
    ] = "valid",
    sentences: Annotated[int, typer.Option("--sentences", min=2, help="Sentences of it, at most.")] = 2000,
    beam: Beam = 4,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", help="Right is a sentence BLEU above this; default: the one that about half of them pass."
        ),
    ] = None,
    worth: Annotated[
        float, typer.Option("--worth", min=0, max=1, help="Smallest gain that counts, as a share of sentences.")
    ] = 0.01,
    pilot: Annotated[
        int | None,
        typer.Option(
            "--pilot",
            min=1,
            metavar="UPDATES",
            help="Also train for so many updates with and without loops, and judge by the difference.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Print the reason for each loop, intervals and bounds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say before training whether loops will help, which ones, and which stages to train next.

    Translates held-out text along every loop and measures whether the loop tells right translations from wrong ones;
    takes minutes. Each kind of loops gets a verdict (will help, will not help, unclear) with its reason. If the stage
    needs more training first, the plan says so. Ends with stages to paste into the experiment. Writes RUN/plan.json.

    A translation is right if its sentence BLEU is above a threshold (`analyze` uses the same); on the built-in
    languages an exact judge decides.

    Example: loopmt plan loopmt-demo --pilot 200
    """
    from loopmt.cli.plan_tables import print_plan
    from loopmt.progress import standard
    from loopmt.workflow.plan import PlanOptions
    from loopmt.workflow.plan import plan as run_plan
    from loopmt.workflow.show import after_plan

    found = run_plan(run, PlanOptions(stage, held_out, sentences, beam, threshold, worth, pilot), standard())
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        print_plan(found, everything)
        typer.echo(visible_message(f"next: {after_plan(run, found)}"))
