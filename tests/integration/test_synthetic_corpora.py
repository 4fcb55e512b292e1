"""Corpora of the built-in languages: disjoint, and determined by the seed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path

from loopmt.synthetic import Meaning, World, write_corpora


def _lines(folder: Path, pattern: str) -> Iterator[tuple[str, str, str]]:
    for path in sorted(folder.glob(pattern)):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield path.name, path.suffix[1:], line


def test_corpora_are_disjoint_and_parallel(tmp_path: Path) -> None:
    world = World("tiny", ("en", "fr", "es"))
    pairs, mono = {"en-fr": 60, "fr-es": 40}, {"en": 80, "fr": 80, "es": 80}
    written = write_corpora(tmp_path, world, 7, pairs, mono, valid=20, test=30)
    counts = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in written}
    expected = {"bi.en-fr.en": 60, "bi.en-fr.fr": 60, "bi.fr-es.fr": 40, "bi.fr-es.es": 40}
    for code in world.languages:
        expected |= {f"mono.{code}": 80, f"valid.{code}": 20, f"test.{code}": 30}
    assert counts == expected == {path.name: expected[path.name] for path in tmp_path.iterdir()}
    places: dict[tuple[str, str], str] = {}
    meant: dict[Meaning, str] = {}
    for name, code, line in _lines(tmp_path, "*"):
        assert places.setdefault((code, line), name) == name
        block = name if name.startswith("mono") else name.rpartition(".")[0]
        for meaning in world.meanings(line, code):
            assert meant.setdefault(meaning, block) == block
    for name, (one, other) in product(["test", "valid"], permutations(world.languages, 2)):
        rows = zip(_lines(tmp_path, f"{name}.{one}"), _lines(tmp_path, f"{name}.{other}"), strict=True)
        assert all(world.agree(source, one, target, other) for (_, _, source), (_, _, target) in rows)


def test_corpora_depend_on_the_seed_alone(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_corpora(tmp_path / name, World("tiny"), seed, mono={"de": 20}, valid=5, test=5)
    a, b, c = (list(_lines(tmp_path / name, "*")) for name in "abc")
    assert a == b != c
