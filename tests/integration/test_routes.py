"""Direct or through another language: evaluated unasked where no bitext teaches a direction, and chosen by that."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from helpers.commands import Cli
from helpers.kept import replace_translations
from loopmt import load
from loopmt.errors import PathError, RunError
from loopmt.evaluation.bootstrap import mean_statistics
from loopmt.evaluation.metric import MetricFacts
from loopmt.files.documents import read_checked
from loopmt.path import LanguagePath
from loopmt.progress import Silent
from loopmt.run import Json, Run, read_json, write_json
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.measures import TestPath as OneTest
from loopmt.workflow.routes import compared_routes, told_routes
from loopmt.workflow.serve import LoadedEngine, ServeOptions, load_engine

QUICK = EvaluateOptions(beam=1, samples=50)
TEXTS = "Le chat petit voit souvent le chien rouge.\n"
FACTS = MetricFacts("accuracy", "accuracy", "accuracy")


@pytest.fixture(scope="module")
def star(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without bitext of French and Spanish: vanilla lacks the two directions, loops through English have them."""
    run = Path(shutil.copytree(tiny_run, tmp_path_factory.mktemp("star") / "run"))
    experiment = read_checked(run / "experiment.json", "")
    vanilla, _, dual = experiment["stage"]
    bitext = {pair: files for pair, files in experiment["data"]["bitext"].items() if pair != "fr-es"}
    loops = {**dual, "mix": ["X>Y", "X>en>Y>X"]}
    changed = {"data": {**experiment["data"], "bitext": bitext}, "stage": [vanilla, loops], "compare": []}
    write_json(run / "experiment.json", experiment | changed)
    return run


@pytest.fixture(scope="module")
def judged(star: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Json]:
    """Evaluated, with direct translations es>fr that are perfect, and fr>es that are not."""
    run = Path(shutil.copytree(star, tmp_path_factory.mktemp("judged") / "run"))
    texts = {one: (run / f"store/set1.{one}.txt").read_text(encoding="utf-8").splitlines() for one in ("fr", "es")}
    replace_translations(run, "dual", "es>fr", texts["fr"])
    replace_translations(run, "dual", "fr>es", ["no"] * len(texts["es"]))
    return run, evaluate([run], QUICK, Silent())


@pytest.fixture
def copied(judged: tuple[Path, Json], tmp_path: Path) -> Path:
    return Path(shutil.copytree(judged[0], tmp_path / "run"))


def test_a_pair_without_bitext_is_also_translated_through_another_language(judged: tuple[Path, Json]) -> None:
    _, card = judged
    for stage in card["stages"].values():
        found = stage["sets"]["test"]
        assert list(found["pivots"]) == ["fr>en>es", "es>en>fr"]
        taught = [found["directions"][hop]["chrf"] for hop in ("en>fr", "en>es", "fr>en", "es>en")]
        directions = [one["chrf"] for one in found["directions"].values()]
        assert stage["mean"]["chrf"] == pytest.approx(sum(directions) / len(directions)) and len(taught) == 4
    assert "fr>es" not in card["stages"]["vanilla"]["sets"]["test"]["directions"]


def test_the_better_route_is_reported(judged: tuple[Path, Json]) -> None:
    _, card = judged
    vanilla, dual = (card["stages"][name]["routes"] for name in ("vanilla", "dual"))
    assert vanilla["fr>es"]["best"] == "fr>en>es" and list(vanilla["fr>es"]["scores"]) == ["fr>en>es"]
    assert (dual["es>fr"]["best"], dual["es>fr"]["decided"]) == ("es>fr", True)
    assert (dual["fr>es"]["best"], dual["fr>es"]["decided"]) == ("fr>en>es", True)
    over = dual["fr>es"]["over_direct"]
    assert over["low"] > 0 and over["difference"] == pytest.approx(over["of"] - over["against"])
    assert dual["fr>es"]["scores"]["fr>en>es"] == pytest.approx(over["of"])
    assert "en>fr" not in dual, "bitext teaches it, and nobody asked for another way"


def test_the_command_line_reports_it(copied: Path, cli: Cli) -> None:
    shown = cli("evaluate", copied, "--beam", 1, "--samples", 50).out
    lines = {line[:5]: line for line in shown.splitlines() if "use " in line}
    assert list(lines) == ["fr>es", "es>fr"]
    assert "use fr>en>es" in lines["fr>es"] and "direct translator" in lines["es>fr"] and "stage dual" in lines["es>fr"]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "│" in line]
    assert [row[-1] for row in rows if row[:2] == ["fr>es", "vanilla"]] == ["only way"]
    assert [row[-1] for row in rows if row[1:2] == ["dual"]] == ["through", "direct"]


def test_it_may_be_left_out(copied: Path, cli: Cli) -> None:
    card = json.loads(cli("evaluate", copied, "--beam", 1, "--samples", 10, "--direct-only", "--json").out)
    assert all("pivots" not in stage["sets"]["test"] and stage["routes"] == {} for stage in card["stages"].values())
    words = ("evaluate", copied, "--beam", 1, "--samples", 10, "--direct-only", "--path", "fr>en>es", "--json")
    card = json.loads(cli(*words).out)
    assert list(card["stages"]["dual"]["routes"]) == ["fr>es"]


def test_every_pair_with_bitext_needs_no_other_way(tiny_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    card = evaluate([run], EvaluateOptions(stages=["dual"], beam=1, samples=10), Silent())
    assert card["stages"]["dual"]["routes"] == {} and "pivots" not in card["stages"]["dual"]["sets"]["test"]


def test_several_seeds(judged: tuple[Path, Json], copied: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    write_json(other / "experiment.json", read_checked(other / "experiment.json", "") | {"seed": 2})
    card = evaluate([copied, other], QUICK, Silent())
    alone = judged[1]["stages"]["dual"]["routes"]["fr>es"]
    both = card["stages"]["dual"]["routes"]["fr>es"]
    assert both["best"] == alone["best"] and both["scores"] == pytest.approx(alone["scores"])


def measured(**right: list[bool]) -> Json:
    """Routes of fr>es on one test set, written fr_en_es, and which sentences each has right."""
    tests = {
        OneTest("test", LanguagePath(tuple(route.split("_"))), "rows"): {"accuracy": mean_statistics(rows)}
        for route, rows in right.items()
    }
    found: Json = compared_routes({1: tests}, FACTS, samples=200)["fr>es"]
    return found


def test_insignificant_differences_do_not_choose_a_route() -> None:
    direct, through = [row < 20 for row in range(40)], [row >= 19 for row in range(40)]
    found = measured(fr_es=direct, fr_en_es=through)
    assert (found["best"], found["decided"]) == ("fr>es", False), "one hop costs half of two"
    (told,) = told_routes({"dual": {"fr>es": found}}, FACTS)
    assert "chance" in told and "use the direct translator" in told


def test_no_route_is_named_where_all_score_nothing() -> None:
    found = measured(fr_es=[False] * 40, fr_en_es=[False] * 40)
    (told,) = told_routes({"dual": {"fr>es": found}}, FACTS)
    assert told.startswith("fr>es") and "use" not in told and "0.0" in told


def test_the_best_of_several_pivots_is_set_against_the_direct_way() -> None:
    rows = {"fr_es": 10, "fr_en_es": 20, "fr_de_es": 35}
    found = measured(**{route: [row < right for row in range(40)] for route, right in rows.items()})
    assert (found["best"], found["pivot"], found["decided"]) == ("fr>de>es", "fr>de>es", True)
    assert found["over_direct"]["difference"] == pytest.approx(25 / 40)


# -- --route auto ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("direction", "stage", "route"),
    [
        ("fr>es", "dual", "fr>en>es"),
        ("es>fr", "dual", "es>fr"),
        ("fr>en", "dual", "fr>en"),
        ("fr>es", "vanilla", "fr>en>es"),
    ],
)
def test_translate_takes_the_better_route(copied: Path, cli: Cli, direction: str, stage: str, route: str) -> None:
    done = cli("translate", copied, direction, "--stage", stage, "--route", "auto", stdin=TEXTS)
    assert done.code == 0 and f"route {route}\n" in done.err
    assert done.out.splitlines() == load(copied, stage).translate(TEXTS.splitlines(), route)


def test_without_an_evaluation_there_is_no_better_route(star: Path, copied: Path, cli: Cli) -> None:
    done = cli("translate", star, "fr>es", "--route", "auto", stdin=TEXTS)
    assert (done.code, done.out) == (2, "")
    assert all(fact in done.err for fact in ('"dual"', f"loopmt evaluate {star} --stage dual", "--route"))
    shutil.rmtree(copied / "stages/dual/result")
    shutil.copytree(copied / "stages/vanilla/result", copied / "stages/dual/result")
    again = cli("translate", copied, "fr>es", "--route", "auto", stdin=TEXTS)
    assert again.code == 2 and "as it is now" in again.err, "that was another dual"


def engine_of(run: Path, place: Path, stage: str) -> LoadedEngine:
    return load_engine(ServeOptions(run, stage, backend="loopmt", route="auto"), place, Silent())


def test_the_server_takes_the_better_route(copied: Path, tmp_path: Path) -> None:
    """A longer path is one that somebody has chosen already."""
    dual, vanilla = (engine_of(copied, tmp_path, stage) for stage in ("dual", "vanilla"))
    asked = ("fr>es", "es>fr", "fr>en", "en>fr>es")
    assert [str(dual.parse_path(path)) for path in asked] == ["fr>en>es", "es>fr", "fr>en", "en>fr>es"]
    assert str(vanilla.parse_path("fr>es")) == "fr>en>es", "which it cannot translate directly"
    assert dual.routes and dual.routes.lines() == ["route fr>en>es for fr>es"]
    with pytest.raises(PathError, match="no language 'de'"):
        dual.parse_path("en>de")


def test_the_server_needs_an_evaluation_for_that(star: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="loopmt evaluate"):
        engine_of(star, tmp_path, "dual")


def test_a_direction_that_was_not_evaluated(copied: Path, cli: Cli) -> None:
    card = read_json(copied / "scorecard.json")
    del card["stages"]["dual"]["routes"]["fr>es"]
    write_json(copied / "scorecard.json", card)
    done = cli("translate", copied, "fr>es", "--route", "auto", stdin=TEXTS)
    assert done.code == 2 and all(fact in done.err for fact in ("fr>es", "es>fr", "test set", "--route"))


def test_a_route_is_chosen_for_a_direction(copied: Path, cli: Cli) -> None:
    done = cli("translate", copied, "fr>en>es", "--route", "auto", stdin=TEXTS)
    assert done.code == 2 and "fr>en>es" in done.err and "such as fr>es" in done.err
    assert Run.open(copied).finished() == ["vanilla", "dual"]
