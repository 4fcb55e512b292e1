"""Translations that are kept: of one search and of one result each, and nothing that was edited or damaged is used."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.kept import kept_files
from loopmt.errors import RunError
from loopmt.files.documents import read_checked
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.run import Json, Run
from loopmt.translate.protocol import HopInput, Sentences
from loopmt.workflow.cached_translator import CachedTranslator
from loopmt.workflow.evaluate import EvaluateOptions, RunEvaluation, evaluate
from loopmt.workflow.kept_translations import KeptTranslations
from loopmt.workflow.models import text_limits
from loopmt.workflow.translate import Translator, load

QUICK = EvaluateOptions(stages=["dual"], beam=1, samples=10)
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def judged(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Json]:
    folder = tmp_path_factory.mktemp("judged") / "run"
    shutil.copytree(tiny_run, folder)
    return folder, evaluate([folder], QUICK, Silent())


@pytest.fixture
def copied(judged: tuple[Path, Json], tmp_path: Path) -> Path:
    return Path(shutil.copytree(judged[0], tmp_path / "run"))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages whose weights were read."""
    found: list[str] = []

    def watched(folder: Path, stage: str) -> Translator:
        found.append(stage)
        return load(folder, stage)

    monkeypatch.setattr("loopmt.workflow.kept_translations.load", watched)
    return found


def test_each_search_has_its_own_folder(copied: Path, judged: tuple[Path, Json], loaded: list[str]) -> None:
    before = {file: file.read_bytes() for file in kept_files(copied, "dual")}
    evaluate([copied], dataclasses.replace(QUICK, beam=2), Silent())
    assert len(kept_files(copied, "dual", beam=2)) == len(before) == 6 and loaded == ["dual"]
    assert {file: file.read_bytes() for file in kept_files(copied, "dual")} == before
    assert evaluate([copied], QUICK, Silent())["stages"] == judged[1]["stages"] and loaded == ["dual"]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "an edited line": lambda content: content.replace(b"e", b"a", 1),
    "a byte that is not UTF-8": lambda content: b"\xff" + content[1:],
    "a line less": lambda content: content.partition(b"\n")[2],
    "nothing": lambda content: b"",
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_was_edited_or_damaged_is_translated_again(
    case: str, copied: Path, judged: tuple[Path, Json], loaded: list[str]
) -> None:
    (file,) = kept_files(copied, "dual", "en>fr")
    whole = file.read_bytes()
    file.write_bytes(DAMAGE[case](whole))
    with pytest.warns(UserWarning, match="translated again") as told:
        card = evaluate([copied], QUICK, Silent())
    assert str(file) in str(told[0].message) and len(told) == 1
    assert card["stages"] == judged[1]["stages"] and loaded == ["dual"] and file.read_bytes() == whole


def test_what_was_not_asked_for_is_left_out_where_it_is_damaged(copied: Path) -> None:
    (file,) = kept_files(copied, "dual", "en>fr")
    file.write_bytes(b"\xff")
    with pytest.warns(UserWarning, match="edited or damaged"):
        evaluate([copied], dataclasses.replace(QUICK, stages=["vanilla"]), Silent())
    assert list(json.loads((copied / "scorecard.json").read_text())["stages"]) == ["vanilla"]


def test_translations_of_other_sources_are_not_taken(copied: Path) -> None:
    evaluation = RunEvaluation.open(copied)
    kept = KeptTranslations.of(evaluation.run, "dual", 1)
    pairs = evaluation.pairs[0]
    assert kept.read(pairs) is not None
    with pytest.warns(UserWarning, match="edited or damaged"):
        assert kept.read(dataclasses.replace(pairs, sources=pairs.sources[::-1])) is None


def replace_result(run: Path, stage: str, other: str) -> None:
    shutil.rmtree(run / "stages" / stage / "result")
    shutil.copytree(run / "stages" / other / "result", run / "stages" / stage / "result")


def test_nothing_is_kept_of_a_stage_that_is_trained_again_meanwhile(copied: Path) -> None:
    evaluation = RunEvaluation.open(copied)
    kept = KeptTranslations.of(evaluation.run, "dual", 2)
    replace_result(copied, "dual", "vanilla")
    with pytest.raises(RunError, match='"dual" was replaced'):
        kept.translate(evaluation.pairs[:1], Silent())
    assert kept_files(copied, "dual", beam=2) == []
    cached = CachedTranslator.of(Run.open(copied), "vanilla", 1)
    replace_result(copied, "vanilla", "vanilla-longer")
    with pytest.raises(RunError, match='"vanilla" was replaced'):
        translated(cached)
    assert not (copied / "analysis").exists()


# -- of an older version ---------------------------------------------------------------------------------------


@pytest.fixture
def legacy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "legacy-run", tmp_path / "legacy", copy_function=shutil.copyfile)) / "run"


PIVOTS = {"es-en-fr", "fr-en-es"}  # no bitext teaches es>fr and fr>es


def new_files(run: Path) -> set[str]:
    """The routes whose translations by beam 4 this version kept."""
    return {file.name.partition(".")[0] for file in kept_files(run, "dual", beam=4)}


def test_translations_of_an_older_version_are_taken_up(legacy: Path, loaded: list[str]) -> None:
    evaluate([legacy], dataclasses.replace(QUICK, beam=4), Silent())
    assert new_files(legacy) == PIVOTS, "an older version did not evaluate these routes"
    evaluate([legacy], QUICK, Silent())
    assert loaded == ["dual", "dual"], "they are of beam 4"
    assert len(list((legacy / "stages/dual/translations/test").glob("*.txt"))) == 4, "and stay"


@pytest.mark.parametrize("content", [b"\xff\n" * 40, b"a line\n"])
def test_damaged_translations_of_an_older_version(legacy: Path, loaded: list[str], content: bytes) -> None:
    file = legacy / "stages/dual/translations/test/en-fr.txt"
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=r"en-fr\.txt was edited or damaged"):
        card = evaluate([legacy], dataclasses.replace(QUICK, beam=4), Silent())
    assert loaded == ["dual"] and new_files(legacy) == {"en-fr", *PIVOTS}
    recorded = json.loads((DATA / "legacy-run.json").read_text(encoding="utf-8"))["bleu"]["dual"]
    found = card["stages"]["dual"]["sets"]["test"]["directions"]
    assert {hop: one["multi_bleu"] for hop, one in found.items()} == pytest.approx(recorded, abs=5)


# -- of analyses -----------------------------------------------------------------------------------------------

EN_FR = Hop("en", "fr")
TEXTS = ["The cat sees the dog.", "The old king hears the child."]


def translated(cached: CachedTranslator, texts: list[str] = TEXTS) -> list[str]:
    sources = Sentences(None, "en", texts=texts)
    limits = text_limits(cached.device, 40)
    (found,) = cached.generate([HopInput(EN_FR, sources)], cached.how, limits, ("test",))
    return found.sentences.texts


def cache_of(run: Path) -> CachedTranslator:
    return CachedTranslator.of(Run.open(run), "dual", 1)


def test_an_edited_translation_of_an_analysis_is_noticed(copied: Path) -> None:
    first = translated(cache_of(copied))
    (file,) = (copied / "analysis").glob("*-beam1/en-fr.json")
    assert read_checked(file, "")["translations"] == dict(zip(TEXTS, first, strict=True))
    whole = file.read_text(encoding="utf-8")
    for content in (whole.replace(first[0], "edited").encode(), b"\xff", b"[]"):
        file.write_bytes(content)
        with pytest.warns(UserWarning, match=r"en-fr\.json .*translated again"):
            assert translated(cache_of(copied)) == first
    assert file.read_text(encoding="utf-8") == whole


def test_analyses_at_the_same_time_keep_what_the_other_translated(copied: Path) -> None:
    one, other = cache_of(copied), cache_of(copied)
    assert one._of(EN_FR) == other._of(EN_FR) == {}, "both have looked"
    found = translated(one, TEXTS[:1]) + translated(other, TEXTS[1:])
    assert cache_of(copied)._of(EN_FR) == dict(zip(TEXTS, found, strict=True))


def test_an_analysis_of_an_older_version_is_taken_up(copied: Path) -> None:
    cached = cache_of(copied)
    assert cached.folder is not None
    cached.folder.mkdir(parents=True)
    (cached.folder / "en-fr.json").write_text(json.dumps({text: text.upper() for text in TEXTS}))
    assert translated(cached) == [text.upper() for text in TEXTS]
