"""`loopmt demo`: three built-in languages learn from each other, from nothing to a table, on two CPU cores."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from loopmt.path import Hop, LanguagePath
from loopmt.planning.round_trips import ExactRule, Verdicts, count_verdicts, held_out_text
from loopmt.progress import Progress
from loopmt.run import Json, Run, write_json
from loopmt.text.store import Store
from loopmt.theory import estimate_observed
from loopmt.workflow.cached_translator import CachedTranslator
from loopmt.workflow.evaluate import EvaluateOptions, RunEvaluation, evaluate
from loopmt.workflow.kept_translations import KeptTranslations
from loopmt.workflow.report import write_report
from loopmt.workflow.stages import judge_of
from loopmt.workflow.train import TrainOptions, train

_BEFORE, _AFTER = "vanilla", "dual"  # the stages that the theory is checked on
_SENTENCES = 300
_BEAM = 1


@dataclass(frozen=True)
class DemoExample:
    """A sentence whose translation became right."""

    hop: Hop
    source: str
    before: str
    after: str


@dataclass(frozen=True)
class DemoOutcome:
    run: Path
    scorecard: Json
    theory: list[Json]
    examples: list[DemoExample]
    seconds: float


def demo(folder: Path, overrides: Sequence[str], progress: Progress) -> DemoOutcome | None:
    """Draw, train, evaluate, check the theory; None if training was paused before its end."""
    started = time.monotonic()
    with resources.as_file(resources.files("loopmt") / "demo.toml") as file:
        request = TrainOptions(file, folder, overrides, jobs=min(2, os.cpu_count() or 1))
        if not train(request, progress):
            return None
    scorecard = evaluate([folder], EvaluateOptions(beam=_BEAM), progress)
    run = Run.open(folder)
    outcome = DemoOutcome(
        folder, scorecard, check_theory(run, progress), find_examples(run), time.monotonic() - started
    )
    write_json(folder / "theory-check.json", outcome.theory)
    write_report(folder)
    return outcome


def check_theory(run: Run, progress: Progress) -> list[Json]:
    """Accuracy after dual learning as counted, by the exact formula, and by Theorem 1 as printed, for each loop."""
    experiment, store = run.experiment(), Store.open(run.folder / "store")
    hops = [Hop(one, other) for one in experiment.languages for other in experiment.languages if one != other]
    loops = [LanguagePath((hop.source, hop.target, hop.source)) for hop in hops]
    starts = held_out_text(store, "test", hops, _SENTENCES)
    agree = judge_of(experiment)
    assert agree is not None, "the demo is drawn from the built-in languages"
    rule = ExactRule(agree)
    before, after = (
        [
            rule.judge(round_trip)
            for round_trip in CachedTranslator.of(run, name, _BEAM).round_trips(
                starts, loops, progress, f"loops of {name}"
            )
        ]
        for name in (_BEFORE, _AFTER)
    )
    return [_check(one, other) for one, other in zip(before, after, strict=True)]


def _check(before: Verdicts, after: Verdicts) -> Json:
    out = estimate_observed(count_verdicts(before.right, before.home, after.right, after.home))
    parts = {name: out[name] or 0.0 for name in ("c11", "c12", "c2", "alpha", "kappa", "u11", "u12")}
    exact = parts["c11"] * (1 - parts["u11"]) + parts["c12"] * parts["u12"]
    exact += (parts["alpha"] + parts["kappa"]) * parts["c2"]
    return {
        "loop": str(before.loop),
        "before": out["p"],
        "after": out["p_d"],
        "exact_formula": exact,
        "theorem1": out["thm1"],
    }


def find_examples(run: Run, most: int = 2) -> list[DemoExample]:
    """Test sentences that the first stage gets wrong and the last one right, in the directions that gained most."""
    agree = judge_of(run.experiment())
    assert agree is not None, "the demo is drawn from the built-in languages"
    evaluated = {pairs.test.path: pairs for pairs in RunEvaluation.open(run.folder).pairs}
    stages = [KeptTranslations.of(run, stage, _BEAM) for stage in ("vanilla", "multi-step")]
    found = []
    for hop in (Hop("fr", "es"), Hop("es", "fr"), Hop("en", "fr")):
        pairs = evaluated[LanguagePath((hop.source, hop.target))]
        rows = zip(pairs.sources, *(stage.read(pairs) or [] for stage in stages), strict=False)
        mended = (
            DemoExample(hop, source, one, other)
            for source, one, other in rows
            if agree(source, hop.source, other, hop.target) and not agree(source, hop.source, one, hop.target)
        )
        found += [example for example, _ in zip(mended, range(most), strict=False)]
    return found
