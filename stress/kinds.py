"""The kinds of fuzzing cases, each with its target."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from loopmt.progress import Silent
from loopmt.workflow.train import TrainOptions, train
from stress.inputs import Document, Strategy, lines, misspelt, packed, pairs, records, texts, toml, values, wrong
from stress.targets import Server, Verbs

_STAGES = [
    {"name": "vanilla", "mix": ["X>Y"], "updates": 2},
    {"name": "longer", "from": "vanilla", "mix": ["X>Y"], "updates": 1},
    {"name": "dual", "from": "vanilla", "mix": ["X>Y", {"path": "X>Y>X", "generate": {"how": "greedy"}}], "updates": 1},
]
_SMALL: Document = {
    "vocab": {"size": 320, "kind": "bpe", "sharing": "joint", "byte_fallback": True},
    "model": {"preset": "tiny", "layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.1},
    "train": {"tokens": 64, "max_length": 24, "shapes": 1, "round": 1, "validate_sentences": 2, "validate_every": 2},
    "stage": _STAGES,
    "compare": [{"of": "dual", "against": "longer"}],
}
WORLD: Document = {
    "languages": ["en", "fr", "es"],
    "seed": 1,
    "data": {"world": {"size": "tiny", "pairs": {"en-fr": 9, "fr-es": 9}, "mono": {"en": 9, "fr": 9}, "valid": 4}},
    **_SMALL,
}
FILES: Document = {
    "name": "fuzz",
    "languages": ["en", "fr"],
    "data": {
        "root": "text", "bitext": {"en-fr": ["bi", "more[0:2]"]}, "mono": {"en": "mono"}, "valid": {"en-fr": "valid"},
        "test": {"news": "test", "web": {"en-fr": "t.tsv"}}, "clean": {"max_words": 50, "ratio": 4.0, "nfc": False},
        "pretokenize": True, "lowercase": False,
    },
    **_SMALL,
    "stage": [*_STAGES[:2], {"name": "auto", "from": "vanilla", "mix": "auto", "until": "patience",
                             "auto": {"supervised": 0.5, "candidates": ["X>Y>X"]}, "train": {"patience": 1}}],
    "compare": [],
    "imported": [{"direction": "en>fr", "use": "generator"}],
}  # fmt: skip
_VECTORS = Path(__file__).parent.parent / "tests" / "data" / "vectors.json"
ASKED: Document = {"path": "en>fr", "texts": ["The cat sleeps.", "A dog."], "nbest": 2, "loops": True}


@dataclass(frozen=True)
class Kind:
    """A kind of case: its share of all cases, their strategy, the check of a case, and the context for the checks."""

    name: str
    share: float
    cases: Strategy[Any]
    check: Callable[[Any], str | None]
    ready: Callable[[], contextlib.AbstractContextManager[None]] = field(default=contextlib.nullcontext)


def train_a_run(folder: Path) -> Path:
    """Train a small run of the built-in languages."""
    (folder / "world.toml").write_text(toml(WORLD), encoding="utf-8")
    assert train(TrainOptions(folder / "world.toml", folder / "run"), Silent())
    return folder / "run"


def kinds(folder: Path, run: Path) -> list[Kind]:
    """All kinds; they write into `folder`."""
    (folder / "world.toml").write_text(toml(WORLD), encoding="utf-8")
    verbs, server = Verbs(folder, run), Server(run)
    documents = wrong([WORLD, WORLD, FILES])
    invalid = st.builds(toml, documents)
    spelling = misspelt(toml(FILES)) | misspelt(toml(WORLD))
    experiments = invalid | invalid | invalid | spelling | st.builds(toml, st.dictionaries(texts, values()))
    settings = st.sampled_from(["1", "64", "0.5", "true", '"tiny"', '["X>Y"]']) | texts | st.builds(str, values())
    numbers = st.sampled_from([0, 1, 0.5, 0.7, -1, 2, 1e-300, 10**400, float("inf"), "0.5", None, True])
    theory = wrong(_theory_cases(), numbers | texts) | values()
    requests = st.builds(_body, wrong([ASKED])) | st.builds(_body, values()) | st.binary(max_size=200) | lines(10**5)
    bitext = st.sampled_from([None, None, "en-fr", "en-fr,fr-es"]) | texts
    files, short = packed(lines()), packed(lines(10**4))
    paths = st.sampled_from(["en>fr", "es>fr", "en>fr>es", "fr>en>fr"] * 2) | patterns()
    odd_words = st.lists(texts, max_size=3)
    return [
        Kind("experiment files", 0.34, experiments, verbs.experiment),
        Kind("overrides", 0.06, st.tuples(overrides(), settings), verbs.override),
        Kind("patterns", 0.12, st.tuples(patterns(), languages(), bitext), verbs.pattern),
        Kind("corpora", 0.04, st.tuples(*[lines() for _ in range(3)], st.sampled_from(_NAMES)), verbs.corpus),
        Kind("odd corpora", 0.02, pairs(), verbs.odd_corpus),
        Kind("compressed corpora", 0.03, st.tuples(short, st.sampled_from(_PACKED)), verbs.packed_corpus),
        Kind("corpora of records", 0.03, st.tuples(records(), st.sampled_from(_RECORDS)), verbs.records),
        Kind("text to translate", 0.05, st.tuples(lines(2000), paths), verbs.translate),
        Kind("files to score", 0.10, st.tuples(files, files, st.sampled_from(_ENDINGS), texts), verbs.score),
        Kind("theory cases", 0.11, st.builds(_body, theory) | lines(10**4), verbs.theory),
        Kind("damaged runs", 0.02, st.tuples(st.sampled_from(_RUN_FILES), values() | lines(100)), verbs.damaged_run),
        Kind("requests", 0.11, st.tuples(_METHODS, _ADDRESSES, requests), server.request, server.running),
        Kind("processes", 0.02, st.tuples(st.sampled_from(_VERBS), odd_words, lines(1000)), verbs.process),
    ]  # fmt: skip


_NAMES = ["bi", "bi[0:3]", "bi[2:]", "bi.tsv", "bi.tmx", "missing"]
_RECORDS = ["jsonl", "jsonl.gz", "jsonl.zst", "parquet"]
_PACKED = [".gz", ".xz", ".zst"]
_ENDINGS = ["", ".gz", ".xz"]
_RUN_FILES = [
    "experiment.json", "manifest.json", "vocab/vocab.json", "stages/vanilla/metrics.jsonl", "scorecard.json",
    "stages/vanilla/result/state.json", "stages/dual/result/weights.safetensors", "store/store.json",
]  # fmt: skip
_VERBS = [*["paths", "theory", "score", "fetch"] * 3, "prepare", "show", "translate"]  # the last need torch
_METHODS = st.sampled_from(["POST"] * 6 + ["GET", "PUT", "DELETE", "BREW"])
_ADDRESSES = st.sampled_from(
    ["/translate"] * 8 + ["/watch?offset=-1", "/watch?stage=../x", "/..%2f..%2fetc/passwd", "/health"]
)


def _theory_cases() -> list[Document]:
    """A document for each kind of case."""
    cases = json.loads(_VECTORS.read_text(encoding="utf-8"))["cases"]
    by_kind = {case["kind"]: {name: case[name] for name in ("id", "kind", "in")} for case in cases}
    return [{"cases": [case]} for case in by_kind.values()]


def patterns() -> Strategy[str]:
    good = st.lists(st.sampled_from(["en", "fr", "es", "X", "Y", "Z"]), min_size=2, max_size=5).map(">".join)
    places = st.sampled_from(["en", "fr", "es", "X", "Y", "Z", "A", "B", "zh_Hans", " en ", ""]) | texts
    return good | good | st.lists(places, min_size=1, max_size=9).map(">".join) | texts


def languages() -> Strategy[str]:
    many = st.sampled_from([",".join(f"l{number}" for number in range(count)) for count in (3, 12, 200)])
    good = st.sampled_from(["en,fr,es", "en,fr", "en, es ,fr,de", "en,fr,es,zh_Hans"])
    return good | good | many | st.lists(st.sampled_from(["en", "fr", "es"]) | texts, max_size=5).map(",".join)


def overrides() -> Strategy[str]:
    keys = [
        "train.tokens",
        "stage.vanilla.updates",
        "stage.x.mix",
        "data",
        "languages",
        "stage",
        "model.preset",
        "a.b.c",
    ]
    return st.sampled_from([*keys, "compare.of", "..", ""]) | texts


def _body(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
