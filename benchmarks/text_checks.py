"""How often `prepare` notices wrong training text, and how often it complains about good text.

    python -m benchmarks.text_checks --data FOLDER [--out docs/results/text-checks.json]

FOLDER holds xz-compressed corpora, one sentence a line: `europarl7/{bi.en-X,extra.X-Y,mono,valid}.LANG`,
`multi30k/train.LANG`, `tatoeba/train.LANG` and `news/newstest2011.LANG`. The built-in languages are drawn.
Every trial is a run of two languages: bitext, monolingual text of both and a validation set, all of other sentences.
Damage is done to the bitext or to one monolingual file.
"""

from __future__ import annotations

import argparse
import functools
import json
import lzma
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from loopmt.synthetic import World, write_corpora
from loopmt.text.checks import check_texts
from loopmt.text.corpus import Source, grouped
from loopmt.text.line_sample import LineSample

SIZES = (100, 500, 2_000, 20_000)
BLOCKS = {100: 5, 500: 5, 2_000: 5, 20_000: 1}  # of undamaged text
VALID = 500
Lines = list[str]
Read = Callable[[str, int, int], Lines]  # file, first line, count

EUROPARL = [("bi.en-de", "en", "de"), ("bi.en-es", "en", "es"), ("bi.en-fr", "en", "fr"), ("bi.en-it", "en", "it"),
            ("bi.en-nl", "en", "nl"), ("bi.en-pt", "en", "pt"), ("extra.de-fr", "de", "fr"),
            ("extra.es-pt", "es", "pt"), ("extra.it-nl", "it", "nl")]  # fmt: skip
OTHERS = [("multi30k", "train", "en", "de"), ("multi30k", "train", "de", "fr"), ("tatoeba", "train", "en", "fr"),
          ("tatoeba", "train", "fr", "es"), ("news", "newstest2011", "en", "de"),
          ("news", "newstest2011", "fr", "es")]  # fmt: skip
BUILT_IN = [("en", "de"), ("en", "fr"), ("es", "fr"), ("de", "es")]
FOREIGN = {"de": "nl", "nl": "de", "es": "pt", "pt": "es", "it": "es", "fr": "it"}  # a close language


@dataclass(frozen=True)
class Text:
    """The text of a run of two languages, and a close third language that the run does not have."""

    group: str
    name: str
    languages: tuple[str, str]
    bitext: tuple[Lines, Lines]
    mono: tuple[Lines, Lines] | None
    valid: tuple[Lines, Lines]
    foreign: Lines
    close: str

    def samples(self) -> list[LineSample]:
        one, other = self.languages
        found = [_sample("bitext", f"{one}-{other}", self.languages, self.bitext)]
        if self.mono is not None:
            found += [
                _sample("mono", name, (name,), (lines,)) for name, lines in zip(self.languages, self.mono, strict=True)
            ]
        return [*found, _sample("valid", "valid", self.languages, self.valid)]


def _sample(kind: str, name: str, languages: tuple[str, ...], sides: Sequence[Lines]) -> LineSample:
    files = tuple(Path(f"{kind}.{language}") for language in languages)
    found = LineSample(kind, name, Source(kind, "text", languages, files))
    rows = zip(*([line.encode() for line in side] for side in sides), strict=True)
    for block in grouped(rows, 0, languages, 0, tuple(map(str, files))):
        found.add(block)
    return found


# -- text ----------------------------------------------------------------------------------------------------------


def reader(folder: Path) -> Read:
    @functools.cache
    def whole(file: str) -> Lines:
        with lzma.open(folder / f"{file}.xz", "rt", encoding="utf-8", newline="\n") as stream:
            return [line.rstrip("\n") for line in islice(stream, 25_000)]

    return lambda file, first, count: whole(file)[first : first + count]


def texts(read: Read, size: int, block: int) -> Iterator[Text]:
    """Every corpus that has so many rows; monolingual text and the validation set are of Europarl."""
    for name, one, other in EUROPARL:
        yield from _text(read, "Europarl", f"europarl7/{name}", (one, other), size, block)
    for folder, name, one, other in OTHERS:
        yield from _text(read, "other register", f"{folder}/{name}", (one, other), size, block)


def _text(read: Read, group: str, name: str, languages: tuple[str, str], size: int, block: int) -> Iterator[Text]:
    sides = [read(f"{name}.{language}", block * size, size) for language in languages]
    if len(sides[0]) < size:
        return
    mono, valid = (
        [read(f"europarl7/{kind}.{language}", block * count % 500, count) for language in languages]
        for kind, count in (("mono", size), ("valid", VALID))
    )
    close = FOREIGN[languages[1]]
    close = close if close not in languages else "it"
    yield Text(group, name, languages, (sides[0], sides[1]), (mono[0], mono[1]), (valid[0], valid[1]),
               read(f"europarl7/mono.{close}", 0, size), close)  # fmt: skip


def built_in(folder: Path, size: int) -> Iterator[Text]:
    world = World("small", ["en", "fr", "es", "de"])
    pairs = {f"{one}-{other}": size for one, other in BUILT_IN}
    write_corpora(folder, world, 1, pairs, dict.fromkeys(world.languages, size), valid=VALID, test=1)

    def lines(name: str) -> Lines:
        return (folder / name).read_text(encoding="utf-8").splitlines()

    for one, other in BUILT_IN:
        bitext, mono, valid = (
            (lines(f"{name}.{one}"), lines(f"{name}.{other}")) for name in (f"bi.{one}-{other}", "mono", "valid")
        )
        close = next(language for language in world.languages if language not in (one, other))
        yield Text("built-in", f"{one}-{other}", (one, other), bitext, mono, valid, lines(f"mono.{close}"), close)


# -- damage --------------------------------------------------------------------------------------------------------


def shifted(lines: Lines, by: int, start: int = 0) -> Lines:
    return [*lines[:start], *lines[start + by :], *lines[start : start + by]]


def _bitext(text: Text, target: Lines) -> Text:
    return replace(text, bitext=(text.bitext[0], target))


def _mono(text: Text, target: Lines) -> Text:
    assert text.mono is not None
    return replace(text, mono=(text.mono[0], target))


def _half(one: Lines, other: Lines) -> Lines:
    return [*one[: len(one) // 2], *other[len(one) // 2 :]]


Damage = Callable[[Text], Text]
WITHOUT_MONO: Damage = lambda text: replace(text, mono=None)  # noqa: E731
DAMAGE: dict[str, tuple[Damage, set[str]]] = {
    "none": (lambda text: text, set()),
    "none, no monolingual text": (WITHOUT_MONO, set()),
    "sides swapped": (lambda text: replace(text, bitext=text.bitext[::-1]), {"swapped"}),
    "sides swapped, no monolingual text": (
        lambda text: WITHOUT_MONO(replace(text, bitext=text.bitext[::-1])), {"swapped"}),
    "shifted by 1": (lambda text: _bitext(text, shifted(text.bitext[1], 1)), {"shifted"}),
    "shifted by 3": (lambda text: _bitext(text, shifted(text.bitext[1], 3)), {"shifted"}),
    "shifted by 1 from the middle": (
        lambda text: _bitext(text, shifted(text.bitext[1], 1, len(text.bitext[1]) // 2)), {"shifted"}),
    "shifted by 10": (lambda text: _bitext(text, shifted(text.bitext[1], 10)), {"unrelated", "shifted"}),
    "monolingual file in the other language": (
        lambda text: _mono(text, text.mono[0] if text.mono else []), {"language"}),
    "monolingual file half in the other language": (
        lambda text: _mono(text, _half(*text.mono) if text.mono else []), {"language"}),
    "monolingual file in a third language": (lambda text: _mono(text, text.foreign), {"language"}),
    "one side of the bitext in a third language": (lambda text: _bitext(text, text.foreign), {"language", "unrelated"}),
}  # fmt: skip


def trial(text: Text, damage: str) -> dict[str, Any]:
    apply, kinds = DAMAGE[damage]
    samples = apply(text).samples()
    began = time.perf_counter()
    findings = check_texts(samples)
    seconds = time.perf_counter() - began
    where = "mono" if damage.startswith("mono") else "bitext"
    right = [one for one in findings if one.kind in kinds and one.corpus.startswith(where)]
    names = [f"{one.kind} {one.corpus}" for one in findings]
    third = {"third": text.close} if "third" in damage else {}
    return {"damage": damage, "group": text.group, "text": text.name, "languages": list(text.languages), **third,
            "rows": len(text.bitext[0]), "found": bool(right), "wrong": len(findings) - len(right[:1]),
            "findings": names, "seconds": round(seconds, 2)}  # fmt: skip


def trials(read: Read) -> Iterator[dict[str, Any]]:
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            first = [*texts(read, size, 0), *built_in(Path(folder), size)]
        more = [text for block in range(1, BLOCKS[size]) for text in texts(read, size, block)]
        yield from (trial(text, damage) for text in first for damage in DAMAGE)
        yield from (trial(text, damage) for text in more for damage in DAMAGE if damage.startswith("none"))


# -- figures -------------------------------------------------------------------------------------------------------


def rates(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By damage, group and size: how many trials there were, in how many it was found, and other findings."""
    cells: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["damage"], row["group"], row["rows"]), []).append(row)
    return [
        {"damage": damage, "group": group, "rows": size, "trials": len(found),
         "found": sum(row["found"] for row in found), "with_wrong_findings": sum(row["wrong"] > 0 for row in found)}
        for (damage, group, size), found in cells.items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/results/text-checks.json"))
    options = parser.parse_args()
    rows = []
    for row in trials(reader(options.data)):
        rows.append(row)
        print(row["rows"], row["damage"], row["text"], row["findings"], flush=True)
    seconds = sorted(row["seconds"] for row in rows)
    report = {
        "command": "python -m benchmarks.text_checks --data FOLDER",
        "machine": f"{os.cpu_count()} shared cores, {platform.machine()}, Python {platform.python_version()}",
        "seconds": {"median": seconds[len(seconds) // 2], "most": seconds[-1]},
        "rates": rates(rows),
        "trials": rows,
    }
    options.out.write_text(_rows_on_lines(report), encoding="utf-8")


def _rows_on_lines(report: dict[str, Any]) -> str:
    parts = []
    for key, value in report.items():
        rows = ",\n".join(f"  {json.dumps(row)}" for row in value) if isinstance(value, list) else ""
        parts.append(f" {json.dumps(key)}: " + (f"[\n{rows}\n ]" if rows else json.dumps(value)))
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
