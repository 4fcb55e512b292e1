"""Serving with CTranslate2, which translates as our own decoder does, and without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from helpers.facts import missing
from loopmt.errors import MissingExtraError
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.text.store import Store
from loopmt.workflow.serve import LoadedEngine, ServeOptions, load_engine


@pytest.fixture(scope="module")
def engine(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedEngine:
    return load_engine(ServeOptions(tiny_run, backend="loopmt"), tmp_path_factory.mktemp("unused"), Silent())


def test_ctranslate2_translates_as_we_do(tiny_run: Path, engine: LoadedEngine, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    fast = load_engine(ServeOptions(tiny_run, kind="float32"), tmp_path, Silent())
    assert (fast.backend, engine.backend) == ("CTranslate2 float32", "loopmt on cpu")
    lines = [*Store.open(tiny_run / "store").texts("valid", "en")[:20], "", "xyz " * 60]
    for hop in (Hop("en", "fr"), Hop("es", "en")):
        ours, theirs = engine.translate(lines, hop, 1), fast.translate(lines, hop, 1)
        same = [one[0].text == other[0].text for one, other in zip(ours, theirs, strict=True)]
        assert sum(same) >= len(lines) - 2, "a beam may part at a tie"
        for one, other, equal in zip(ours[:-1], theirs, same, strict=False):  # nonsense may be cut into other subwords
            assert not equal or one[0].score == pytest.approx(other[0].score, abs=1e-2)
    assert len(fast.translate(lines[:1], Hop("en", "fr"), 6)[0]) == 6


@pytest.mark.parametrize("beam", [1, 4])
def test_a_translation_cut_off_at_its_limit_has_the_right_score(
    tiny_run: Path, engine: LoadedEngine, tmp_path: Path, beam: int
) -> None:
    """In a batch with a long sentence, the others are cut off at the same length as alone."""
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    fast = load_engine(ServeOptions(tiny_run, kind="float32"), tmp_path, Silent())
    lines = ["The small child hears the kind cat often the red dog.", "xyz", "qq", "a", "中文", "☃☃☃☃"]
    ours, theirs = (one.translator.nbest(lines, "en>fr", 1, beam) for one in (engine, fast))
    assert any(not best.text.endswith(".") for best, *_ in ours), "none was cut off"
    same = [(one, other) for (one, *_), (other, *_) in zip(ours, theirs, strict=True) if one.text == other.text]
    assert len(same) >= len(lines) - 1, "a beam may part at a tie"
    for one, other in same:
        assert one.score == pytest.approx(other.score, abs=1e-2)


def test_ctranslate2_translates_parts_as_the_whole(tiny_run: Path, tmp_path: Path) -> None:
    """With two threads, so many sentences are decoded in two parts."""
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    lines = [*Store.open(tiny_run / "store").texts("valid", "en")[:40]]
    assert len(lines) == 40
    said = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        (folder := tmp_path / str(threads)).mkdir()
        engine = load_engine(ServeOptions(tiny_run, kind="float32"), folder, Silent())
        torch.set_num_threads(1)
        said.append([best.text for best, *_ in engine.translate(lines, Hop("en", "fr"), 1)])
    assert said[0] == said[1]


def test_int8_is_the_default_and_translates_nearly_the_same(
    tiny_run: Path, engine: LoadedEngine, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    fast = load_engine(ServeOptions(tiny_run), tmp_path, Silent())
    assert fast.backend == "CTranslate2 int8"
    lines = Store.open(tiny_run / "store").texts("valid", "en")[:20]
    said = zip(engine.translate(lines, Hop("en", "fr"), 1), fast.translate(lines, Hop("en", "fr"), 1), strict=True)
    same = [one[0].text == other[0].text for one, other in said]
    assert sum(same) >= len(lines) * 0.7


def test_without_ctranslate2_loopmt_decodes(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from loopmt.progress import Lines

    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert load_engine(ServeOptions(tiny_run), tmp_path, Lines()).backend == "loopmt on cpu"
    assert not missing(capsys.readouterr().err, "without CTranslate2", "package ctranslate2")
    with pytest.raises(MissingExtraError, match=r"pip install 'loopmt\[export\]'"):
        load_engine(ServeOptions(tiny_run, backend="ctranslate2"), tmp_path, Silent())
