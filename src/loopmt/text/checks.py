"""Wrong training text: files in another language than their name says, swapped sides, and lines that are not aligned.

Only a bounded sample of each file is looked at, and the same rows every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from loopmt.errors import DataError
from loopmt.text.alignment import OFFSETS, Alignment, align
from loopmt.text.language_models import Misnamed, Text, misnamed
from loopmt.text.line_sample import PIECE, LineSample
from loopmt.text.manifest import Finding

_ROWS_IN_ALL, _ROWS_LEAST = 8_192, 512  # whose alignment is judged
_SETS_WEIGHT = 0.8  # where training text and a set contradict each other, the training text is blamed
_SHOWN = 60  # characters of an example


def check_texts(samples: Sequence[LineSample]) -> list[Finding]:
    """Everything that looks wrong, in the order of the samples."""
    found = _languages(samples)
    wrong = {file for finding in found if finding.kind == "language" for file in finding.files}
    pairs = [(one, side) for one in samples for side in range(1, len(one.languages))]
    most = max(_ROWS_LEAST, _ROWS_IN_ALL // max(len(pairs), 1))
    for sample, side in pairs:
        files = [sample.file(sample.languages[0]), sample.file(sample.languages[side])]
        if not wrong & {*files} and (finding := _aligned(sample, side, files, most)):
            found.append(finding)
    return found


def refuse_findings(findings: Sequence[Finding]) -> None:
    """Raise an error for findings, if `data.strict` is set."""
    if findings:
        listed = "\n  ".join(finding.message for finding in findings)
        raise DataError(f"the text looks wrong, and data.strict is true. Nothing was prepared.\n  {listed}")


# -- languages ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Side:
    """One language of a sample: its lines that are not empty, and their positions in the file."""

    sample: LineSample
    language: str
    lines: Sequence[str]
    numbers: Sequence[int]

    @property
    def file(self) -> str:
        return self.sample.file(self.language)

    def text(self) -> Text:
        weight = 1.0 if self.sample.kind in ("bitext", "mono") else _SETS_WEIGHT
        return Text(f"{self.sample.label} {self.sample.source.reference}", self.language, self.lines, weight)


def _sides(sample: LineSample) -> Iterator[_Side]:
    rows = [(number, row) for _, number, row in sample.rows()]
    for place, language in enumerate(sample.languages):
        filled = [(row[place], number) for number, row in rows if row[place]]
        yield _Side(sample, language, [text for text, _ in filled], [number for _, number in filled])


def _languages(samples: Sequence[LineSample]) -> list[Finding]:
    sides = [side for sample in samples for side in _sides(sample)]
    found = {one.text: one for one in misnamed([side.text() for side in sides])}
    findings = []
    for number, one in found.items():
        partner = _partner(sides, found, number)
        if partner is None:
            findings.append(_misnamed(sides, one))
        elif number < partner:
            findings.append(_swapped(sides, one, found[partner]))
    return findings


def _partner(sides: Sequence[_Side], found: dict[int, Misnamed], number: int) -> int | None:
    """The other side of the same text, if each side is in the language of the other."""
    for other in found:
        if sides[other].sample is sides[number].sample and found[other].language == sides[number].language:
            return other if found[number].language == sides[other].language else None
    return None


def _misnamed(sides: Sequence[_Side], one: Misnamed) -> Finding:
    side, compared = sides[one.text], sides[one.compared]
    like = f"and is like {one.language}" if one.language else "nor in another language of the run"
    message = (
        f"{side.sample.label}: {side.file} does not look like {side.language}, {like}: {_figures(sides, one)}. "
        f"{_example(side, one)} Replace the file, or replace {compared.file} if that is the wrong one."
    )
    return _finding("language", side.sample, [side.file], message, one)


def _swapped(sides: Sequence[_Side], one: Misnamed, other: Misnamed) -> Finding:
    first, second = sides[one.text], sides[other.text]
    what = "columns" if first.sample.source.files == second.sample.source.files[:1] else "two files"
    message = (
        f"{first.sample.label}: {first.file} and {second.file} look swapped: the {first.language} side is like "
        f"{one.language} ({_figures(sides, one)}), and the {second.language} side like {other.language}. "
        f"{_example(first, one)} Exchange the {what}; or those of {sides[one.compared].file} if these are wrong."
    )
    return _finding("swapped", first.sample, [first.file, second.file], message, one)


def _figures(sides: Sequence[_Side], one: Misnamed) -> str:
    other = f"text of {one.language}" if one.language else "the nearest text of other languages"
    return (
        f"{one.share:.0%} of {one.sampled:,} sampled lines fit other text better; {one.bits:.2f} bits per "
        f"character under {sides[one.compared].file}, {one.bits_other:.2f} under {other}"
    )


def _example(side: _Side, one: Misnamed) -> str:
    place = one.example
    return f'Line {side.numbers[place]:,} is "{_short(side.lines[place])}".'


def _finding(kind: str, sample: LineSample, files: list[str], message: str, one: Misnamed) -> Finding:
    figures = {"share": one.share, "bits": one.bits, "bits_other": one.bits_other}
    return Finding(kind=kind, corpus=sample.label, files=files, message=message, figures=figures)


# -- alignment ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """The sampled rows of two sides of a text."""

    pieces: list[int]
    numbers: list[int]
    sources: list[str]
    targets: list[str]

    @classmethod
    def of(cls, sample: LineSample, side: int, most: int) -> _Rows:
        pieces = [list(rows) for _, rows in groupby(sample.rows(), key=lambda row: row[0])]
        kept = [row for piece in pieces[:: -(-len(pieces) * PIECE // most)] for row in piece]
        columns = [(piece, number, row[0], row[side]) for piece, number, row in kept]
        return cls(*map(list, zip(*columns, strict=True)))


def _aligned(sample: LineSample, side: int, files: list[str], most: int) -> Finding | None:
    rows = _Rows.of(sample, side, most)
    found = align(rows.sources, rows.targets, rows.pieces)
    if found is None or not (found.shifted or found.unrelated):
        return None
    message = f"{sample.label}: {_shift(rows, found, files) if found.shifted else _unrelated(rows, found, files)}"
    figures = {f"offset {offset:+d}" if offset else "offset 0": score for offset, score in found.scores.items()}
    figures |= {"share": found.better if found.shifted else 1.0, "offset": float(found.offset)}
    kind = "shifted" if found.shifted else "unrelated"
    return Finding(kind=kind, corpus=sample.label, files=files, message=message, figures=figures)


def _shift(rows: _Rows, found: Alignment, files: list[str]) -> str:
    numbers, offset = rows.numbers, found.offset
    row = next((row for row in range(found.first, found.last) if _has(rows, row + offset, row)), found.first)
    partner = min(max(row + offset, 0), len(numbers) - 1)
    where = f"about lines {numbers[found.first]:,} to {numbers[found.last - 1]:,}"
    missing, extra = files if offset > 0 else files[::-1]
    lines = f"{abs(offset)} line{'s' * (abs(offset) > 1)}"
    return (
        f"in {where}, line n of {files[0]} fits line n{offset:+d} of {files[1]} better than line n: "
        f"for {found.better:.0%} of {found.last - found.first:,} sampled lines; mean score {found.score_there:.2f} "
        f"against {found.score_here:.2f}. "
        f'Line {numbers[row]:,} is "{_short(rows.sources[row])}" and "{_short(rows.targets[row])}"; line '
        f'{numbers[partner]:,} of {files[1]} is "{_short(rows.targets[partner])}". Near line {numbers[found.first]:,}, '
        f"add {lines} that {missing} lacks, or remove {lines} from {extra}."
    )


def _has(rows: _Rows, other: int, row: int) -> bool:
    return 0 <= other < len(rows.pieces) and rows.pieces[other] == rows.pieces[row]


def _unrelated(rows: _Rows, found: Alignment, files: list[str]) -> str:
    best = max(OFFSETS, key=lambda offset: found.scores[offset])
    example = f'"{_short(rows.sources[0])}" and "{_short(rows.targets[0])}"'
    return (
        f"the lines of {files[0]} and {files[1]} do not fit each other: mean score {found.scores[0]:.2f}, and with "
        f"lines shifted by {best:+d} {found.scores[best]:.2f}; aligned text has more than 0.5. "
        f"Line {rows.numbers[0]:,} is {example}. Line n of both files must be the same sentence."
    )


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
