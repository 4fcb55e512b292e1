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
        typer.Option("--stage", help="Only what became of this stage; may be repeated.", autocompletion=complete_stage),
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option("--threshold", help="Correct is a sentence BLEU above this; may be repeated. Default: 10 to 90."),
    ] = None,
    beam: Beam = 4,
    sentences: Annotated[
        int | None, typer.Option("--sentences", min=2, help="How many rows of each test set; default: all.")
    ] = None,
    longest: Annotated[int, typer.Option("--longest", min=2, help="Number of hops of the longest loops.")] = 3,
    against_plan: Annotated[
        bool, typer.Option("--against-plan", help="Set RUN/plan.json against the gains that happened.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Print every pair of stages, the paper's tables and all parameters.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the theory's parameters on a run: what did training do to its loops?

    Every stage is set beside those it came from, on every loop and test set; what a control without loops did is the
    placebo. Writes RUN/analysis.json; prints what became of each loop where a stage has a control, and with --all
    the paper's two tables and all parameters with their intervals.

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
        print_analysis(analysis, threshold[0] if threshold else 20.0, everything)
        typer.echo(visible_message(f"next: loopmt report {run}"))


def plan(
    run: RunFolder,
    stage: Annotated[
        str | None,
        typer.Option(
            "--stage",
            help="The translators to plan for; default: the first finished stage.",
            autocompletion=complete_stage,
        ),
    ] = None,
    held_out: Annotated[str, typer.Option("--set", help="The held-out set: valid, or a test set.")] = "valid",
    sentences: Annotated[int, typer.Option("--sentences", min=2, help="How many rows of the set, at most.")] = 2000,
    beam: Beam = 4,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", help="Correct is a sentence BLEU above this; default: what passes nearest to half."
        ),
    ] = None,
    worth: Annotated[
        float, typer.Option("--worth", min=0, max=1, help="The smallest gain worth having, as a share of sentences.")
    ] = 0.01,
    pilot: Annotated[
        int | None,
        typer.Option(
            "--pilot",
            min=1,
            metavar="UPDATES",
            help="Also train so long with loops and without, and predict from that.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Print intervals, bounds and what longer loops tell beyond dual ones.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Will loops help these translators, and which? Decoding only; minutes.

    Says for each direction and loop whether it tells right from wrong, what there is to mend and to lose, what is
    predicted, and a verdict with its reason; of a direction not taught yet, what could teach it; then a mix to
    paste. Writes RUN/plan.json. Correct is a sentence BLEU above a threshold, by default the one of 10 to 90 that
    finds most nearly half of the translations right; on the built-in languages the judge is exact.

    Example: loopmt plan loopmt-demo --pilot 200
    """
    from loopmt.cli.plan_tables import print_plan
    from loopmt.progress import standard
    from loopmt.workflow.plan import PlanOptions
    from loopmt.workflow.plan import plan as run_plan

    found = run_plan(run, PlanOptions(stage, held_out, sentences, beam, threshold, worth, pilot), standard())
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        print_plan(found, everything)
