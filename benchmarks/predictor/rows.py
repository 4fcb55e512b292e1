"""One flat table of the recorded comparisons, docs/results/predictor/rows.json: `python -m benchmarks.predictor.rows`.

A row is a direction of a comparison: what was known of it when the plan was made, and what it gained over its control.
Scorecards and plans of Europarl, Multi30k and Tatoeba are in docs/results. Plans on the built-in languages are whole in
the repository's history only (commit HISTORY).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import condense
from benchmarks.predictor.mixes import longer_share, patterns

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
ROWS = RESULTS / "predictor" / "rows.json"
LATER = RESULTS / "predictor" / "later.json"
HISTORY = "bb7ffad"
_COMMAND = "python -m benchmarks.regime_job REGIME 3 --short --work WORK --out DIR"

_LINES = {"europarl/mono": 239_049, "mono/en": 115_553, "mono/de": 141_154, "train": 28_987}
_FULL = 100_000  # rows of each file of bitext of Europarl
_TOKENS = {"en": 14.5}  # of the budget, for a sentence of the built-in languages; in the demo
_OTHERS = 17.4
_SETS = ("test", "test_2016_flickr", "tatoeba")  # text like the one that a plan is made on
_CONTROLS = ("dual-longer-filtered", "dual-longer", "dual-longer-two")
_UNIFORM, _CHOSEN = ("multi-step", "uniform"), ("auto", "hand", "letter-half")


@dataclass(frozen=True)
class Recorded:
    """A run, as far as rows are made of it."""

    run: str
    corpus: str
    shared: bool
    plan: Json
    scores: Mapping[str, Json]
    """By stage and direction."""
    gains: Mapping[tuple[str, str], Json]
    """By stage and control, then by direction and metric."""
    pairs: Mapping[str, int]
    mono: Mapping[str, int]
    rows_read: Mapping[str, float]
    """Rows of bitext that the planned stage and those before it learnt from, by direction."""
    chosen: Mapping[str, float] = field(default_factory=dict)
    """Shares of the first choice of `mix = "auto"`."""
    mixes: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--later", type=Path, help="folder of records of benchmarks.regime_job: write later.json instead"
    )
    options = parser.parse_args(arguments)
    if options.later:
        later(options.later)
    else:
        recorded()


def later(folder: Path) -> None:
    """Runs that were made after the fit, to hold it against."""
    records = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*-[0-9].json"))}
    found = [row for name, record in records.items() for one in built_in(f"later-{name}", record) for row in rows(one)]
    about = {name: {key: record[key] for key in ("machine", "cpu_seconds")} for name, record in records.items()}
    condense.write(LATER, {"command": _COMMAND, "runs": about, "rows": found}, 2)
    print(f"{len(found)} rows of {len(records)} runs in {LATER.relative_to(ROOT)}")


def recorded() -> None:
    found = [*(row for one in runs() for row in rows(one)), *untaught()]
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    condense.write(ROWS, {"history": HISTORY, "rows": found}, 2)
    print(f"{len(found)} rows of {len({row['run'] for row in found})} runs in {ROWS.relative_to(ROOT)}")


def runs() -> Iterator[Recorded]:
    for folder in sorted(one.parent.name for one in RESULTS.glob("*/experiment-1.json")):
        for file in sorted((RESULTS / folder).glob("seed-*.json")):
            yield _europarl_or_multi30k(folder, file.stem.removeprefix("seed-"))
    for folder in ("regimes", "regimes-short"):
        for file in sorted((RESULTS / folder).glob("*-[0-9].json")):
            yield from built_in(f"{folder}-{file.stem}", _past(f"{folder}/{file.stem}"))
    yield _tatoeba("star", {"en-fr": 8000, "en-es": 8000, "fr-es": 500}, 6300)
    yield _tatoeba("symmetric", {"en-fr": 4000, "en-es": 4000, "fr-es": 4000}, 7800)


# -- rows of a run ---------------------------------------------------------------------------------------------


def rows(recorded: Recorded) -> Iterator[Json]:
    for (of, against), directions in recorded.gains.items():
        kind = _kind(of, against, recorded)
        for hop, gain in directions.items() if kind else ():
            known, longer = _known(hop, recorded), _longer(hop, of, recorded) if kind != "dual" else {}
            if known is not None and longer is not None:
                head = {"run": recorded.run, "corpus": recorded.corpus, "planned_on": recorded.plan["stage"]}
                names = {"kind": kind, "of": of, "against": against, "direction": hop}
                yield {**head, **names, **known, **longer, **_gains(gain)}


def _kind(of: str, against: str, recorded: Recorded) -> str | None:
    """Dual loops over longer training; a third language over dual loops: in all directions alike, or where chosen."""
    if (of, against) == ("dual", "vanilla-longer"):
        return "dual" if recorded.plan["stage"] == "vanilla" else None
    control = next((one for one in _CONTROLS if (of, one) in recorded.gains), None)
    if against != control:
        return None
    return "uniform" if of in _UNIFORM else "chosen" if of in _CHOSEN else None


def _known(hop: str, recorded: Recorded) -> Json | None:
    """What a plan on the start of the comparison knows of a direction with bitext."""
    one, other = hop.split(">")
    scores, plan = recorded.scores.get(recorded.plan["stage"], {}), recorded.plan
    loops = {loop["loop"]: loop for loop in plan["directions"].get(hop, {"loops": []})["loops"]}
    dual, back = loops.get(f"{hop}>{one}"), f"{other}>{one}"
    count = recorded.pairs.get(f"{one}-{other}") or recorded.pairs.get(f"{other}-{one}")
    if not count or dual is None or hop not in scores or back not in scores:
        return None
    return {
        "bleu": round(scores[hop]["multi_bleu"], 3),
        "bleu_back": round(scores[back]["multi_bleu"], 3),
        "M": _value(dual.get("values", dual)["M"]),
        "pairs": count,
        "mono": recorded.mono[other],
        "epochs": round(recorded.rows_read[hop] / count, 2),
        "shared": int(recorded.shared),
        "route": _rate(plan, hop, f"{other}>{one}>{other}"),
    }


def _longer(hop: str, of: str, recorded: Recorded) -> Json | None:
    """How much text comes by other languages, how much more of it is right, and the least M beyond the dual loop."""
    plan = recorded.plan
    rates = {path: _rate(plan, hop, path) for path in plan["routes"].get(hop, {})}
    mix = [(path, share) for path, share in recorded.chosen.items()] if of == "auto" else recorded.mixes.get(of, ())
    found = longer_share(hop, mix, rates)
    if found is None:
        return None
    new = [_value(pivot["new_information"]) for pivot in plan["directions"].get(hop, {}).get("pivots", ())]
    return {**found, "M_beyond_dual": min((one for one in new if one is not None), default=None)}


def _gains(gain: Json) -> Json:
    return {
        f"{name}_gain": [round(value, 4) for value in gain[metric]] if metric in gain else None
        for name, metric in (("bleu", "multi_bleu"), ("chrf", "chrf"))
    }


def _value(estimate: Sequence[Any]) -> float | None:
    """A ratio; "inf" and null are no measurement."""
    return None if estimate[0] is None or isinstance(estimate[0], str) else round(estimate[0], 4)


def _rate(plan: Json, hop: str, path: str) -> float | None:
    rate = plan["routes"].get(hop, {}).get(path, [None])[0]
    return None if rate is None else round(rate, 4)


# -- recorded runs ---------------------------------------------------------------------------------------------


def _europarl_or_multi30k(folder: str, seed: str) -> Recorded:
    record, settings = _read(f"{folder}/seed-{seed}"), _read(f"{folder}/experiment-1")
    card, plan = record["scorecard"], _read(f"{folder}/plan-{seed}")
    plan = _past(f"{folder}/plan-{seed}") | {"routes": plan["routes"]}  # the pivots are in the history only
    test = next(name for name in _SETS if name in card["stages"]["vanilla"]["sets"])
    data, choices = settings["data"], record["stages"].get("auto", {}).get("choices", [])
    return Recorded(
        f"{folder}-{seed}",
        folder.partition("-")[0],
        settings["model"]["sharing"] == "all",
        plan,
        {name: one["sets"][test]["directions"] for name, one in card["stages"].items()},
        {(one["of"], one["against"]): one["sets"][test]["directions"] for one in card["comparisons"]},
        {pair: _count(specs[0]) for pair, specs in data["bitext"].items()},
        {language: _count(specs[0], language) for language, specs in data["mono"].items()},
        _rows_read(card["stages"]["vanilla"]),
        choices[0] if choices else {},
        patterns(settings["stage"]),
    )


def _rows_read(stage: Json) -> dict[str, float]:
    return {hop: float(one["rows"]) for hop, one in stage["spent"].items()}


def _count(spec: str, language: str = "") -> int:
    """Rows of a corpus by its name and slice."""
    name, _, part = spec.partition("[")
    whole = _LINES.get(name) or _LINES.get(f"{name}/{language}") or _FULL
    return int(part.rstrip("]").rpartition(":")[2]) if part else whole


def built_in(name: str, record: Json) -> Iterator[Recorded]:
    """By the plan on the first stage, and by the one on dual loops; a record is that of `benchmarks.regime_job`."""
    settings = tomllib.loads(record["experiment"])
    world, tokens = settings["data"]["world"], settings["train"]["tokens"]
    updates = {one["name"]: one["updates"] for one in settings["stage"]}
    chosen: Json = next((one["worth"] for one in record["choices"] if one["update"] == 0), {})
    for plan in record["plans"]:
        bitext = updates["vanilla"] + (0.5 * updates["dual"] if plan["stage"] == "dual" else 0)
        if plan["pilot_updates"] is None:
            yield Recorded(
                name,
                "built-in",
                False,
                plan,
                {stage: one["directions"] for stage, one in record["stages"].items()},
                {(one["of"], one["against"]): _triples(one["directions"]) for one in record["comparisons"]},
                world["pairs"],
                world["mono"],
                {hop: bitext * tokens / _TOKENS.get(hop[-2:], _OTHERS) for hop in plan["directions"]},
                {path: one["share"] for path, one in chosen.items()},
                patterns(settings["stage"]),
            )


def _triples(directions: Json) -> Json:
    keys = ("difference", "low", "high")
    return {
        hop: {metric: [one[key] for key in keys] for metric, one in found.items()} for hop, found in directions.items()
    }


def _tatoeba(name: str, pairs: Mapping[str, int], mono: int) -> Recorded:
    """Its plan was not kept, but the analysis of its first stage has the loops of two languages."""
    card = _read(f"tatoeba/{name}")
    first = {
        row["loop"]: row["values"]
        for row in _read(f"tatoeba/{name}-analysis")["pairs"]
        if (row["before"], row["after"], row["rule"]) == ("vanilla", "vanilla-longer", "BLEU > 20")
    }
    hops = {loop.rpartition(">")[0]: loop for loop in first if loop.count(">") == 2}
    directions = {hop: {"loops": [{"loop": loop, "values": first[loop]}]} for hop, loop in hops.items()}
    routes = {_back(hop): {loop: first[loop]["p"]} for hop, loop in hops.items()}
    return Recorded(
        f"tatoeba-{name}",
        "tatoeba",
        False,
        {"stage": "vanilla", "directions": directions, "routes": routes},
        {stage: one["sets"]["tatoeba"]["directions"] for stage, one in card["stages"].items()},
        {(one["of"], one["against"]): one["sets"]["tatoeba"]["directions"] for one in card["comparisons"]},
        pairs,
        dict.fromkeys(("en", "fr", "es"), mono),
        _rows_read(card["stages"]["vanilla"]),
    )


def _back(hop: str) -> str:
    return ">".join(reversed(hop.split(">")))


# -- directions without bitext ---------------------------------------------------------------------------------


_THROUGH = {
    "europarl-star-none/seed-1": (("auto", 3500), ("multi-step", 3500), ("poor", 10500)),
    "europarl-star-none/seed-2": (("poor", 10500),),
    "europarl-star-none-shared/seed-1": (
        ("dual", 7000),
        ("dual-longer", 10500),
        ("auto", 10500),
        ("multi-step", 10500),
    ),
    "zero-resource/scores": (("poor", 1200),),
    "zero-resource/shared-scores": (("through", 400), ("through-longer", 1600), ("auto", 1200)),
    "demo/seed-1": (("loops", 1600),),
    "demo/seed-2": (("loops", 1600),),
    "demo/seed-3": (("loops", 1600),),
}
"""Stages that taught directions without bitext by loops, and the updates of loops that these had by then."""


def untaught() -> Iterator[Json]:
    """The direct translator of such a stage, over decoding through the third language with the same stage."""
    for name, stages in _THROUGH.items():
        found = _read(name)
        card, europarl = found.get("scorecard", found), name.startswith("europarl")
        for stage, updates in stages:
            for way, one in card["stages"][stage]["sets"]["test"]["pivots"].items():
                languages = way.split(">")
                yield {
                    "run": name.replace("/seed", "").replace("/", "-"),
                    "corpus": "europarl" if europarl else "built-in",
                    "planned_on": "vanilla",
                    "kind": "untaught",
                    "of": stage,
                    "against": way,
                    "direction": f"{languages[0]}>{languages[-1]}",
                    "tokens": updates * (4096 if europarl else 512),
                    "mono": 239_049 if europarl else 6000,
                    "shared": int("shared" in name or name.startswith("demo")),
                    "through": round(card["stages"]["vanilla"]["sets"]["test"]["pivots"][way]["multi_bleu"], 3),
                    **_gains({metric: _direct(one["over_direct"][metric]) for metric in ("multi_bleu", "chrf")}),
                }


def _direct(over_direct: Any) -> list[float]:
    values = (
        [over_direct[key] for key in ("difference", "low", "high")] if isinstance(over_direct, dict) else over_direct
    )
    return [-values[0], -values[2], -values[1]]


@cache
def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _past(name: str) -> Any:
    command = ["git", "-C", str(ROOT), "show", f"{HISTORY}:docs/results/{name}.json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


if __name__ == "__main__":
    main()
