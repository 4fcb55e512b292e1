"""The sample of a file has few rows, from all of it, and the same ones however the rows come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopmt.text.corpus import LineBlock, Source
from loopmt.text.line_sample import PIECE, LineSample


def sample(rows: int, block: int, start: int = 0) -> LineSample:
    source = Source("bi", "text", ("en", "fr"), (Path("bi.en"), Path("bi.fr")), start=start)
    found = LineSample("bitext", "en-fr", source)
    for first in range(start, start + rows, block):
        numbers = range(first, min(first + block, start + rows))
        sides = tuple("\n".join(f"{language} {number}" for number in numbers).encode() for language in ("en", "fr"))
        found.add(LineBlock(0, ("en", "fr"), sides, first, ("bi.en", "bi.fr")))
    return found


@pytest.mark.parametrize("rows", [1, 127, 128, 2048])
def test_a_small_file_is_sampled_whole(rows: int) -> None:
    found = list(sample(rows, 1000).rows())
    assert [number for _, number, _ in found] == [*range(1, rows + 1)]
    assert all(row == (f"en {number - 1}", f"fr {number - 1}") for _, number, row in found)


@pytest.mark.parametrize("rows", [2049, 30_000, 200_000])
def test_a_large_one_in_pieces_from_all_of_it(rows: int) -> None:
    found = list(sample(rows, 4096).rows())
    assert PIECE * 8 <= len(found) <= PIECE * 16
    assert found[-1][1] > rows * 0.8
    assert all(row == (f"en {number - 1}", f"fr {number - 1}") for _, number, row in found)
    for piece in {piece for piece, _, _ in found}:
        numbers = [number for one, number, _ in found if one == piece]
        assert numbers == [*range(numbers[0], numbers[0] + len(numbers))]


def test_the_same_rows_for_any_blocks() -> None:
    expected = list(sample(10_000, 4096).rows())
    for block in (1, 100, 128, 999):
        assert list(sample(10_000, block).rows()) == expected


def test_lines_are_counted_in_the_file() -> None:
    found = list(sample(300, 100, start=50).rows())
    assert found[0] == (0, 51, ("en 50", "fr 50")) and found[-1][1] == 350


def test_text_is_in_one_form_and_has_a_limit() -> None:
    found = LineSample("mono", "fr", Source("mono", "text", ("fr",), (Path("mono.fr"),)))
    sides = ("e\u0301te\u0301\r\n" + "a" * 10**6).encode() + b"\n\xff"
    found.add(LineBlock(0, ("fr",), (sides,), 0, ("mono.fr",)))
    assert [row for _, _, row in found.rows()] == [("été",), ("a" * 400,), ("\ufffd",)]
