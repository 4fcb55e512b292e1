"""Do routes make different errors? The oracle best of (direct, pivot) against that of two direct translations.

    python -m benchmarks.oracle RUN --stage dual --sentences 500 --out docs/results/oracle/RUN.json

Nothing is trained. Held-out text is translated directly, twice, and once through each other language: with samples, and
with beam search, whose second direct translation is the second of the beam. The oracle keeps, for each sentence, the
one with the higher sentence BLEU. If routes only add another draw, both oracles score the same; training on routes
together is worth a trial where the routes win clearly (docs/experiments/seven-languages.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from loopmt.config import Generate
from loopmt.evaluation.bootstrap import Interval, Statistics, bootstrap_difference
from loopmt.evaluation.metric import MetricInput
from loopmt.evaluation.metrics import METRICS, sentence_bleu
from loopmt.evaluation.validation import HeldOut, held_out
from loopmt.path import Hop, LanguagePath, ways
from loopmt.run import Run, write_json
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.protocol import DecodeLimits, TranslationModel
from loopmt.translate.walker import Rollout, Translators, generate_along
from loopmt.workflow.models import result_of
from loopmt.workflow.stage_choice import choose_stage

Json = dict[str, Any]
Texts = list[str]
CLEARLY = 1.0
"""BLEU by which the routes' oracle must win for training on routes together to be worth a trial."""
METRIC_NAMES = ("multi_bleu", "chrf")
DECODINGS = {"sampled": Generate(), "beam": Generate(how="beam", beam=4)}
ALONE, TWICE, ROUTES = "direct", "two direct", "direct and pivot"


@dataclass(frozen=True)
class Translated:
    """One direction: two direct translations of every sentence, and one through each pivot."""

    pairs: HeldOut
    direct: tuple[Texts, Texts]
    through: Mapping[LanguagePath, Texts]


def oracle(model: TranslationModel, sets: Sequence[HeldOut], samples: int) -> Json:
    """For each decoding, the rows of all directions and pivots, and their mean."""
    return {name: _compared(list(_translated(model, sets, how)), samples) for name, how in DECODINGS.items()}


def _translated(model: TranslationModel, sets: Sequence[HeldOut], how: Generate) -> Iterator[Translated]:
    for pairs in sets:
        direct, *through = ways(pairs.hop, model.hops)
        twice, *others = [
            Rollout.to_the_end(path, how, pairs.sources, n=2 if path is direct else 1) for path in (direct, *through)
        ]
        limits = DecodeLimits.on(model.device)
        generate_along(Translators(model), [twice, *others], limits, ("oracle", str(pairs.hop)))
        texts = {one.path: one.text.texts for one in others}
        yield Translated(pairs, _both(twice), texts)


def _both(rollout: Rollout) -> tuple[Texts, Texts]:
    """The first and the second hypothesis; the first again where there is but one."""
    found = [[text for text, _ in each] for each in rollout.trace[-1].by_source()]
    return [each[0] for each in found], [each[-1] for each in found]


def _compared(translated: Sequence[Translated], samples: int) -> Json:
    rows = [(one, path) for one in translated for path in one.through]
    scored = [_statistics(one, path) for one, path in rows]
    return {
        "rows": [
            {"direction": str(one.pairs.hop), "pivot": str(path), **_row([stats], [one], samples)}
            for (one, path), stats in zip(rows, scored, strict=True)
        ],
        "mean": _row(scored, [one for one, _ in rows], samples),
    }


def _statistics(one: Translated, path: LanguagePath) -> dict[str, dict[str, Statistics]]:
    """By metric: the direct translator, the oracle of two direct translations, and that of direct and pivot."""
    first, second = one.direct
    found = {ALONE: first, TWICE: _best(one, second), ROUTES: _best(one, one.through[path])}
    return {
        metric: {name: METRICS.find(metric).measure(_input(one.pairs, texts)) for name, texts in found.items()}
        for metric in METRIC_NAMES
    }


def _best(one: Translated, others: Texts) -> Texts:
    """Of the first direct translation and another one, the better for each sentence; of equal ones the first."""
    references = one.pairs.references.texts
    scores = [np.asarray(sentence_bleu(texts, references)) for texts in (one.direct[0], others)]
    pairs = zip(one.direct[0], others, scores[1] > scores[0], strict=True)
    return [other if better else first for first, other, better in pairs]


def _input(pairs: HeldOut, texts: Texts) -> MetricInput:
    return MetricInput(texts, pairs.references.texts, language=pairs.hop.target.partition("_")[0], hop=pairs.hop)


def _row(scored: Sequence[Mapping[str, Mapping[str, Statistics]]], rows: Sequence[Translated], samples: int) -> Json:
    """Mean scores, and by how much the routes' oracle is ahead, with its interval; rows of a set are drawn together."""
    groups = [f"{len(one.pairs.sources)} rows" for one in rows]
    found: Json = {}
    for metric in METRIC_NAMES:
        systems, controls = ([one[metric][name] for one in scored] for name in (ROUTES, TWICE))
        ahead = bootstrap_difference(systems, controls, samples=samples, groups=groups)
        means = {name: fmean(one[metric][name].score() for one in scored) for name in (ALONE, TWICE, ROUTES)}
        found[metric] = {**means, "ahead": _interval(ahead)}
    return found


def _interval(found: Interval) -> list[float]:
    return [found.difference, found.low, found.high]


# -- the command -----------------------------------------------------------------------------------------------


def measure(folder: Path, name: str | None, held: str, sentences: int, samples: int, device: torch.device) -> Json:
    run = Run.open(folder)
    experiment = run.experiment()
    stage = choose_stage(run, experiment, name)
    model = result_of(run, experiment, stage, device)
    vocab, store = Vocab.load(run.folder / "vocab"), Store.open(run.folder / "store")
    every = [Hop(one, other) for one in experiment.languages for other in experiment.languages if one != other]
    hops = [hop for hop in every if hop in model.hops and len(ways(hop, model.hops)) > 1]
    sets = held_out(store, hops, vocab, held, sentences)
    if not sets:
        sys.exit(f"{folder}: stage {stage.name} translates no direction of {held} both directly and through a pivot.")
    found = {"experiment": experiment.name, "seed": experiment.seed, "stage": stage.name, "set": held}
    return {**found, "sentences": len(sets[0].sources), "samples": samples, **oracle(model, sets, samples)}


def show(found: Json) -> None:
    for decoding in DECODINGS:
        table = Table(title=f"{found['stage']} on {found['set']}, {decoding}: BLEU of what an oracle picks")
        for column in ("route", ALONE, TWICE, ROUTES, "ahead (95%)", "chrF ahead"):
            table.add_column(column, justify="left" if column == "route" else "right")
        for row in [*found[decoding]["rows"], {"pivot": "mean", **found[decoding]["mean"]}]:
            bleu, chrf = (row[metric] for metric in METRIC_NAMES)
            scores = (f"{bleu[name]:.2f}" for name in (ALONE, TWICE, ROUTES))
            table.add_row(row["pivot"], *scores, _shown(bleu["ahead"]), f"{chrf['ahead'][0]:+.2f}")
        Console().print(table)
        ahead, low, _ = found[decoding]["mean"]["multi_bleu"]["ahead"]
        won = ahead >= CLEARLY and low > 0
        print(f"{decoding}: the routes {'win' if won else 'do not win'} by {CLEARLY:g} BLEU or more.")


def _shown(ahead: Sequence[float]) -> str:
    return f"{ahead[0]:+.2f} ({ahead[1]:+.2f} to {ahead[2]:+.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--stage", help="default: the one that other verbs use")
    parser.add_argument("--set", dest="held", default="valid", help="the held-out text; default: valid")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--samples", type=int, default=1000, help="of the bootstrap")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="where the figures are written")
    options = parser.parse_args(arguments)
    wanted = (options.stage, options.held, options.sentences, options.samples)
    found = measure(options.run, *wanted, torch.device(options.device))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(options.out, found)
    show(found)


if __name__ == "__main__":
    main()
