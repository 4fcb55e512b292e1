from __future__ import annotations

import copy
import dataclasses
import shutil
from pathlib import Path
from statistics import fmean

import pytest

from helpers.facts import refused
from helpers.kept import kept_files, replace_translations
from loopmt.cli.score_tables import print_scorecard
from loopmt.errors import ConfigError, DataError, PathError, RunError
from loopmt.evaluation.bootstrap import mean_statistics
from loopmt.evaluation.metrics import METRICS, chrf_statistics, multi_bleu_statistics
from loopmt.files.documents import read_checked
from loopmt.path import Hop, LanguagePath
from loopmt.progress import Silent
from loopmt.run import Json, Run, read_json, write_json
from loopmt.workflow.budgets import unequal_tokens
from loopmt.workflow.evaluate import EvaluateOptions, RunEvaluation, evaluate
from loopmt.workflow.kept_translations import folder_name
from loopmt.workflow.measures import RunMeasures, StageMeasures
from loopmt.workflow.measures import TestPath as OneTest
from loopmt.workflow.report import write_report
from loopmt.workflow.scorecard import over_seeds, scorecard
from loopmt.workflow.scorer import Scorer
from loopmt.workflow.show import overview
from loopmt.workflow.translate import Translator, load

QUICK = EvaluateOptions(beam=1, samples=50)
STAGES = ["vanilla", "vanilla-longer", "dual"]
NAMES = ["multi_bleu", "sacrebleu", "chrf"]
STATE: Json = {"update": 1, "best_bleu": 0.0, "average_bleu": None, "seconds": {}, "spent": {}}


@pytest.fixture(scope="module")
def judged(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Json]:
    """A run that was evaluated, and its scorecard."""
    folder = tmp_path_factory.mktemp("judged") / "run"
    shutil.copytree(tiny_run, folder)
    return folder, evaluate([folder], QUICK, Silent())


@pytest.fixture
def copied(judged: tuple[Path, Json], tmp_path: Path) -> Path:
    return Path(shutil.copytree(judged[0], tmp_path / "run"))


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n")[:-1]


def kept(run: Path, stage: str, path: str) -> list[str]:
    (file,) = kept_files(run, stage, path)
    return lines(file)


def test_scorecard_has_every_stage_and_direction(judged: tuple[Path, Json]) -> None:
    folder, card = judged
    assert card == read_json(folder / "scorecard.json")
    assert list(card["stages"]) == STAGES and list(card["signatures"]) == NAMES
    for name, stage in card["stages"].items():
        directions = stage["sets"]["test"]["directions"]
        assert list(directions) == ["en>fr", "en>es", "fr>en", "fr>es", "es>en", "es>fr"]
        for metric in NAMES:
            mean = fmean(scores[metric] for scores in directions.values())
            assert stage["mean"][metric] == pytest.approx(mean) == stage["sets"]["test"]["mean"][metric]
        assert stage["seconds"]["train"] > 0 and stage["spent"]["en>fr"]["rows"] > 0
        assert read_json(folder / "stages" / name / "scores.json") == {"beam": 1, **stage}
    assert "en>fr>en" in card["stages"]["dual"]["spent"]


@pytest.mark.parametrize(("average", "bleu"), [(31.0, 31.0), (29.0, 30.0), (None, 30.0)])
def test_validation_is_of_the_weights_that_were_chosen(copied: Path, average: float | None, bleu: float) -> None:
    """The average of the last checkpoints is the result where validation says that it is better than the best."""
    file = copied / "stages/dual/result/state.json"
    content = read_checked(file, "")
    chosen = "average" if bleu == average else "best"
    state = content["state"] | {"best_bleu": 30.0, "average_bleu": average, "chosen": chosen}
    write_json(file, content | {"state": state})
    shown = {stage["name"]: stage["best_valid_bleu"] for stage in overview(copied)["stages"]}
    card = evaluate([copied], QUICK, Silent())
    assert card["stages"]["dual"]["valid_bleu"] == shown["dual"] == bleu
    assert {name: stage["valid_bleu"] for name, stage in card["stages"].items()} == shown


def test_scores_are_those_of_the_kept_translations(judged: tuple[Path, Json]) -> None:
    folder, card = judged
    said = kept(folder, "dual", "en>fr")
    expected = multi_bleu_statistics(said, lines(folder / "store/set1.fr.txt"), language="fr")
    scores = card["stages"]["dual"]["sets"]["test"]["directions"]["en>fr"]
    assert scores["multi_bleu"] == pytest.approx(expected.score()) and scores["sentences"] == 40
    assert card["signatures"]["multi_bleu"]["fr"] == expected.signature
    assert "tok:moses-fr" in expected.signature


def test_comparison_is_paired_and_joint(judged: tuple[Path, Json]) -> None:
    (comparison,) = judged[1]["comparisons"]
    assert (comparison["of"], comparison["against"]) == ("dual", "vanilla-longer")
    joint, directions = comparison["joint"], comparison["sets"]["test"]["directions"]
    for metric in NAMES:
        one = joint[metric]
        assert one["difference"] == pytest.approx(one["of"] - one["against"])
        assert one["difference"] == pytest.approx(fmean(other[metric]["difference"] for other in directions.values()))
        assert one["low"] <= one["difference"] <= one["high"] and 0 < one["p_value"] <= 1
        assert one["samples"] == 50
    assert len(directions) == 6


def test_translations_are_reused_until_something_changes(copied: Path) -> None:
    replace_translations(copied, "dual", "en>fr", lines(copied / "store/set1.fr.txt"))
    kept_files(copied, "dual", "en>es")[0].unlink()

    def scores(options: EvaluateOptions) -> tuple[float, float]:
        directions = evaluate([copied], options, Silent())["stages"]["dual"]["sets"]["test"]["directions"]
        return directions["en>fr"]["chrf"], directions["en>es"]["chrf"]

    before = read_json(copied / "stages/dual/scores.json")["sets"]["test"]["directions"]["en>es"]["chrf"]
    assert scores(QUICK) == (100.0, before)
    assert scores(dataclasses.replace(QUICK, beam=2))[0] < 100


def test_one_stage_at_a_time(tiny_run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    first = evaluate([folder], dataclasses.replace(QUICK, stages=["dual"]), Silent())
    assert list(first["stages"]) == ["dual"] and first["comparisons"] == first["waiting"] == []
    (waiting,) = read_json(folder / "scorecard.json")["waiting"]
    assert (waiting["of"], waiting["against"], waiting["lacks"]) == ("dual", "vanilla-longer", ["vanilla-longer"])
    both = evaluate([folder], dataclasses.replace(QUICK, stages=["vanilla-longer"]), Silent())
    assert list(both["stages"]) == ["vanilla-longer"] and both["comparisons"] == both["waiting"] == []
    card = read_json(folder / "scorecard.json")
    assert list(card["stages"]) == ["vanilla-longer", "dual"] and len(card["comparisons"]) == 1
    assert card["stages"]["dual"] == first["stages"]["dual"]
    asked = evaluate([folder], dataclasses.replace(QUICK, stages=["dual", "vanilla-longer"]), Silent())
    assert asked == card


def test_what_was_not_asked_for_is_not_decoded(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def watched(folder: Path, stage: str) -> Translator:
        loaded.append(stage)
        return load(folder, stage)

    monkeypatch.setattr("loopmt.workflow.kept_translations.load", watched)
    kept_files(copied, "vanilla-longer", "en>es")[0].unlink()
    before = read_json(copied / "scorecard.json")["stages"]
    evaluate([copied], dataclasses.replace(QUICK, stages=["dual"], pivots=[LanguagePath.parse("fr>en>es")]), Silent())
    assert loaded == ["dual"]
    after = read_json(copied / "scorecard.json")["stages"]
    assert list(after) == ["vanilla", "dual"], "a stage that lacks a direction is not half scored"
    assert after["vanilla"] == before["vanilla"] and "pivots" in after["dual"]["sets"]["test"]


def test_exact_accuracy_is_judged_against_the_source(judged: tuple[Path, Json]) -> None:
    """The judge here knows the one translation of every test sentence of the toy languages."""
    folder, card = judged
    texts = {language: lines(folder / f"store/set1.{language}.txt") for language in ("en", "fr", "es")}

    def agree(source: str, language: str, said: str, other: str) -> bool:
        return said == texts[other][texts[language].index(source)]

    scorer = Scorer([METRICS.find("accuracy")], agree)
    evaluation = dataclasses.replace(RunEvaluation.open(folder), scorer=scorer)
    measures = evaluation.measures(QUICK, Silent()).stages["vanilla"].tests
    for test, measured in measures.items():
        said = kept(folder, "vanilla", str(test.path))
        right = fmean(one == other for one, other in zip(said, texts[test.ends.target], strict=True))
        assert measured["accuracy"].score() == right
    assert max(measured["accuracy"].score() for measured in measures.values()) > 0
    assert "accuracy" not in card["signatures"]


def test_a_run_that_cannot_be_written_is_refused_before_work(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != copied)  # root may write whatever the bits say
    shutil.rmtree(copied / "stages/dual/translations")
    with refused(RunError, str(copied), "not writable"):
        evaluate([copied], QUICK, Silent())
    assert not (copied / "stages/dual/translations").exists()


def test_several_seeds(copied: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    experiment = read_checked(other / "experiment.json", "")
    write_json(other / "experiment.json", experiment | {"seed": 2, "name": "again"})
    for direction in ("en>fr", "es>fr"):
        replace_translations(other, "dual", direction, lines(other / "store/set1.fr.txt"))
    card = evaluate([copied, other], QUICK, Silent())
    alone = [read_json(folder / "scorecard.json")["stages"]["dual"]["mean"]["chrf"] for folder in (copied, other)]
    assert card["seeds"] == [1, 2] and card["stages"]["dual"]["mean"]["chrf"] == pytest.approx(fmean(alone))
    assert card["stages"]["dual"]["deviation"]["chrf"] == pytest.approx(abs(alone[0] - alone[1]) / 2**0.5)
    assert card["stages"]["vanilla"]["deviation"]["chrf"] == 0
    single = [read_json(folder / "scorecard.json")["comparisons"][0]["joint"]["chrf"] for folder in (copied, other)]
    joint = card["comparisons"][0]["joint"]["chrf"]
    assert joint["difference"] == pytest.approx(fmean(one["difference"] for one in single))
    assert joint["high"] - joint["low"] > single[0]["high"] - single[0]["low"], "seeds are resampled too"


def test_several_seeds_of_one_stage(copied: Path, tmp_path: Path) -> None:
    """A way that only one of the runs has of a stage that was not asked for does no harm."""
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    write_json(other / "experiment.json", read_checked(other / "experiment.json", "") | {"seed": 2})
    through = dataclasses.replace(QUICK, pivots=[LanguagePath.parse("fr>en>es")])
    evaluate([copied], through, Silent())
    card = evaluate([copied, other], dataclasses.replace(through, stages=["dual"]), Silent())
    assert list(card["stages"]) == ["dual"] and card["comparisons"] == card["waiting"] == []
    assert list(read_json(other / "scorecard.json")["stages"]) == STAGES


def test_runs_that_do_not_belong_together(copied: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    with refused(RunError, str(copied), str(other), "seed 1", "--set seed=2"):
        evaluate([copied, other], QUICK, Silent())
    experiment = read_checked(other / "experiment.json", "")
    write_json(other / "experiment.json", experiment | {"seed": 2, "train": {**experiment["train"], "tokens": 99}})
    with refused(RunError, "different experiments", "seed", "name"):
        evaluate([copied, other], QUICK, Silent())


def test_processes_find_the_same_scores(
    judged: tuple[Path, Json], copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopmt.workflow.scorer._WORTH_PROCESSES", 1)
    monkeypatch.setattr("loopmt.workflow.scorer.default_jobs", lambda: 2)
    alone = dataclasses.replace(QUICK, stages=["dual"])
    shutil.rmtree(copied / "stages/vanilla/translations")
    shutil.rmtree(copied / "stages/vanilla-longer/translations")
    assert evaluate([copied], alone, Silent())["stages"] == {"dual": judged[1]["stages"]["dual"]}


def test_what_cannot_be_evaluated(copied: Path) -> None:
    with pytest.raises(ConfigError, match="there is no stage 'duel'"):
        evaluate([copied], EvaluateOptions(["duel"]), Silent())
    manifest = read_checked(copied / "manifest.json", "")
    write_json(copied / "manifest.json", manifest | {"sets": manifest["sets"][:1]})
    with refused(DataError, "no test set", "data.test"):
        evaluate([copied], QUICK, Silent())
    shutil.rmtree(copied / "stages")
    with pytest.raises(RunError, match="has no finished stage"):
        evaluate([copied], QUICK, Silent())


def test_a_pivot_is_scored_beside_the_directions(copied: Path) -> None:
    before = read_json(copied / "scorecard.json")
    card = evaluate([copied], dataclasses.replace(QUICK, pivots=[LanguagePath.parse("fr>en>es")]), Silent())
    found = card["stages"]["dual"]["sets"]["test"]
    pivot = found.pop("pivots")["fr>en>es"]
    sources, references = (lines(copied / f"store/set1.{language}.txt") for language in ("fr", "es"))
    said = load(copied, "dual").translate(sources, "fr>en>es", beam=1)
    assert said == kept(copied, "dual", "fr>en>es")
    assert pivot["multi_bleu"] == pytest.approx(multi_bleu_statistics(said, references, language="es").score())
    difference = pivot["over_direct"]["multi_bleu"]["difference"]
    assert difference == pytest.approx(pivot["multi_bleu"] - found["directions"]["fr>es"]["multi_bleu"])
    assert found == before["stages"]["dual"]["sets"]["test"], "directions and means are as without it"
    assert card["comparisons"] == before["comparisons"]


def test_a_pivot_over_seeds(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    write_json(other / "experiment.json", read_checked(other / "experiment.json", "") | {"seed": 2})
    card = evaluate([copied, other], dataclasses.replace(QUICK, pivots=[LanguagePath.parse("fr>en>es")]), Silent())
    alone = read_json(copied / "scorecard.json")["stages"]["dual"]["sets"]["test"]["pivots"]["fr>en>es"]
    both = card["stages"]["dual"]["sets"]["test"]["pivots"]["fr>en>es"]
    scores = {key: value for key, value in both.items() if key != "over_direct"}
    assert scores == {metric: pytest.approx(alone[metric]) for metric in ("sentences", *NAMES)}
    over, of_one = both["over_direct"]["multi_bleu"], alone["over_direct"]["multi_bleu"]
    assert [over[what] for what in ("difference", "low", "high")] == [
        pytest.approx(of_one[what]) for what in ("difference", "low", "high")
    ], "the same run twice: nothing is added by drawing seeds"
    print_scorecard(card, everything=True)
    printed = capsys.readouterr().out
    assert f"{over['difference']:+.2f} ({over['low']:+.2f} to {over['high']:+.2f})" in printed


def test_stages_say_how_much_of_their_text_was_generated(
    judged: tuple[Path, Json], capsys: pytest.CaptureFixture[str]
) -> None:
    card = copy.deepcopy(judged[1])
    spent = card["stages"]["dual"]["spent"]
    total = sum(one["target_tokens"] for one in spent.values())
    print_scorecard(card)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "generated text" in line]
    assert "dual" in line and f"{total:,} target tokens" in line and "50%" in line
    for one in spent.values():
        one["meant_tokens"] *= 1.5
    print_scorecard(card)
    assert "warning: dual: 50%" in capsys.readouterr().out


def test_a_collapse_into_repetition_is_reported(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scores may hide it: lengths and repetitions of every direction are in the scorecard, the tables and the page."""
    healthy = read_json(copied / "scorecard.json")
    endless = "Le chat rouge " + "voit le chat rouge " * 12
    count = len(kept(copied, "dual", "en>fr"))
    replace_translations(copied, "dual", "en>fr", [endless] * count)
    card = evaluate([copied], QUICK, Silent())
    found = card["stages"]["dual"]["sets"]["test"]["outputs"]
    before = healthy["stages"]["dual"]["sets"]["test"]["outputs"]
    assert before.keys() == found.keys() == card["stages"]["dual"]["sets"]["test"]["directions"].keys()
    assert before["en>fr"]["repetitive"] < 0.1 and 0.5 < before["en>fr"]["length_ratio"] < 2
    assert found["en>fr"]["repetitive"] == 1 and found["en>fr"]["length_ratio"] > 3
    assert found["fr>en"] == before["fr>en"]
    print_scorecard(card, everything=True)
    printed = capsys.readouterr().out
    assert "stage dual, test, en>fr: 100% of the outputs repeat themselves" in " ".join(printed.split())
    assert f"{found['en>fr']['length_ratio']:.2f}, 100%" in printed
    assert "Lengths and repetitions on test" in write_report(copied).read_text(encoding="utf-8")


@pytest.mark.parametrize(("beam", "told"), [(1, False), (4, True)])
def test_another_search_than_in_validation_is_named(
    judged: tuple[Path, Json], capsys: pytest.CaptureFixture[str], beam: int, told: bool
) -> None:
    print_scorecard({**judged[1], "beam": beam})
    printed = " ".join(capsys.readouterr().out.split())
    assert ("train.validate_beam = 1" in printed and "beam 4" in printed) == told


def test_over_seeds_every_seed_answers_on_its_own_rows(judged: tuple[Path, Json]) -> None:
    """As with the built-in languages, which draw a test set for each seed."""
    experiment = Run(judged[0]).experiment()
    right = {1: (0.2, 0.6), 2: (0.6, 0.2), 3: (0.7, 0.2)}  # direct, and through English
    runs = [RunMeasures(seed, {"dual": pivoting(f"rows of seed {seed}", *one)}) for seed, one in right.items()]
    cards = [scorecard(experiment, run, beam=1, samples=100) for run in runs]
    way = over_seeds(experiment, runs, cards, samples=100)["stages"]["dual"]["sets"]["test"]["pivots"]["fr>en>es"]
    over = way["over_direct"]["chrf"]
    assert over["difference"] == pytest.approx((0.4 - 0.4 - 0.5) / 3)
    assert (over["of"], over["against"]) == (pytest.approx(1 / 3), pytest.approx(1.5 / 3))
    assert over["of"] == pytest.approx(way["chrf"]), "the mean that stands beside it"


def pivoting(group: str, direct: float, through: float) -> StageMeasures:
    """A stage that translates fr>es both ways, right in these shares of ten sentences."""
    shares = {"fr>es": direct, "fr>en>es": through}
    tests = {
        OneTest("test", LanguagePath.parse(path), group): {
            "chrf": mean_statistics([row < 10 * share for row in range(10)])
        }
        for path, share in shares.items()
    }
    return StageMeasures(tests, "0", STATE)


def test_a_stage_that_one_seed_lacks_is_waited_for(copied: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    write_json(other / "experiment.json", read_checked(other / "experiment.json", "") | {"seed": 2})
    shutil.rmtree(other / "stages/vanilla-longer")
    card = evaluate([copied, other], QUICK, Silent())
    assert "vanilla-longer" not in card["stages"] and card["comparisons"] == []
    assert [(one["of"], one["lacks"]) for one in card["waiting"]] == [("dual", ["vanilla-longer"])]


def test_a_stage_that_was_added_to_one_seed(copied: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    experiment = read_checked(other / "experiment.json", "")
    added = [*experiment["stage"], {**experiment["stage"][-1], "name": "later"}]
    write_json(other / "experiment.json", experiment | {"seed": 2, "stage": added})
    assert set(evaluate([copied, other], QUICK, Silent())["stages"]) == set(
        read_json(copied / "scorecard.json")["stages"]
    )
    changed = [experiment["stage"][0], *({**stage, "updates": 99} for stage in experiment["stage"][1:])]
    write_json(other / "experiment.json", experiment | {"seed": 2, "stage": changed})
    with pytest.raises(RunError, match="different experiments"):
        evaluate([copied, other], QUICK, Silent())


def measured(name: str, direction: str) -> StageMeasures:
    """A stage that speaks one direction, which one test set has."""
    texts = ["le chat dort", "la nuit"]
    measures = {"multi_bleu": multi_bleu_statistics(texts, texts), "chrf": chrf_statistics(texts, texts)}
    return StageMeasures({OneTest(name, LanguagePath.parse(direction), name): measures}, "0", STATE)


def test_stages_that_share_no_direction_are_not_compared(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = Run(copied).experiment()
    stages = {"vanilla-longer": measured("news", "fr>en"), "dual": measured("talks", "en>fr")}
    runs = [RunMeasures(seed, stages) for seed in (1, 2)]
    card, other = (scorecard(experiment, run, beam=1, samples=10) for run in runs)
    for one in (card, over_seeds(experiment, runs, [card, other], samples=10)):
        assert one["comparisons"] == []
        assert [(waiting["of"], waiting["lacks"]) for waiting in one["waiting"]] == [("dual", [])]
    print_scorecard(card)
    sentence = "dual against vanilla-longer cannot be compared: no test set has a direction that both train"
    assert sentence in capsys.readouterr().out
    write_json(copied / "scorecard.json", card)
    assert f"{sentence}." in write_report(copied).read_text(encoding="utf-8")


def test_test_sets_of_every_stage_are_printed(judged: tuple[Path, Json], capsys: pytest.CaptureFixture[str]) -> None:
    stages = {"vanilla-longer": measured("news", "fr>en"), "dual": measured("talks", "en>fr")}
    print_scorecard(scorecard(Run(judged[0]).experiment(), RunMeasures(1, stages), beam=1, samples=10))
    printed = capsys.readouterr().out
    assert printed.index("on news") < printed.index("on talks")


def test_directions_that_one_stage_trains_are_left_out_and_named(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An experiment file with such a comparison is refused; a run of an older version may have one."""
    experiment = read_checked(copied / "experiment.json", "")
    stages = [{**one, "mix": ["en>fr"]} if one["name"] == "vanilla-longer" else one for one in experiment["stage"]]
    write_json(copied / "experiment.json", experiment | {"stage": stages})
    card = evaluate([copied], QUICK, Silent())
    (one,) = card["comparisons"]
    assert list(one["sets"]["test"]["directions"]) == one["compared"] == ["en>fr"]
    assert one["joint"]["chrf"] == one["sets"]["test"]["directions"]["en>fr"]["chrf"]
    assert one["excluded"] == dict.fromkeys(["en>es", "fr>en", "fr>es", "es>en", "es>fr"], "only dual trains it")
    print_scorecard(card)
    assert "en>es, fr>en, fr>es, es>en, es>fr (only dual trains it)" in capsys.readouterr().out
    page = write_report(copied).read_text(encoding="utf-8")
    assert "en>es (only dual trains it)".replace(">", "&gt;") in page


def trained(tokens: int, **state: object) -> Json:
    spent = {path: {"rows": 1, "target_tokens": tokens, "real_rows": 1} for path in ("en>fr", "fr>en>fr", "en>es<fr")}
    return {**STATE, "spent": spent, "seconds": {"train": 60.0, "validate": 40.0}, **state}


def test_a_comparison_says_what_both_stages_were_trained_with(
    judged: tuple[Path, Json], capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = Run(judged[0]).experiment()
    stages = {
        name: dataclasses.replace(scored(en_fr=4, fr_es=6), state=trained(tokens, update=update))
        for name, tokens, update in (("vanilla-longer", 1000, 70), ("dual", 1040, 80))
    }
    card = scorecard(experiment, RunMeasures(1, stages), beam=1, samples=10)
    (one,) = card["comparisons"]
    assert one["budget"]["of"] == {"target_tokens": 2080 + 1040, "updates": 80, "seconds": 100}, "en>es<fr trains fr>es"
    assert one["budget"]["against"]["target_tokens"] == 3000
    print_scorecard(card)
    printed = capsys.readouterr().out
    assert "dual: 3,120 target tokens, 80 updates, 100 s; vanilla-longer: 3,000 target tokens, 70 updates" in printed
    assert not judged[1]["comparisons"][0]["excluded"], "here the budgets are equal"


@pytest.mark.parametrize(("tokens", "compared"), [(1049, True), (1051, False), (953, True), (951, False), (0, True)])
def test_token_counts_may_differ_by_a_twentieth(judged: tuple[Path, Json], tokens: int, compared: bool) -> None:
    stages = {
        name: dataclasses.replace(scored(en_fr=4), state=trained(number))
        for name, number in (("vanilla-longer", 1000), ("dual", tokens))
    }
    card = scorecard(Run(judged[0]).experiment(), RunMeasures(1, stages), beam=1, samples=10)
    assert bool(card["comparisons"]) == compared
    assert [(one["of"], one["lacks"]) for one in card["waiting"]] == ([] if compared else [("dual", [])])


def test_a_direction_with_other_token_counts_is_left_out_and_named(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One direction differs by 12%; all together by 4% only."""
    more = trained(1000)
    more["spent"]["en>es<fr"]["target_tokens"] = 1120
    stages = {
        "vanilla-longer": dataclasses.replace(scored(en_fr=4, fr_es=1), state=trained(1000)),
        "dual": dataclasses.replace(scored(en_fr=5, fr_es=9), state=more),
    }
    card = scorecard(Run(copied).experiment(), RunMeasures(1, stages), beam=1, samples=10)
    (one,) = card["comparisons"]
    assert list(one["sets"]["news"]["directions"]) == ["en>fr"]
    assert one["joint"]["chrf"]["difference"] == pytest.approx(1), "of the compared direction alone"
    assert "fr>es" not in one["compared"] and "12%" in one["excluded"]["fr>es"]
    assert one["budget"]["of"]["target_tokens"] == 2000, "of the compared directions"
    print_scorecard(card)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Not compared")]
    assert "fr>es" in line and "12%" in line and "dual" in line
    write_json(copied / "scorecard.json", card)
    assert "fr&gt;es (dual learnt from 12%" in write_report(copied).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("of", "left_out"),
    [
        ({"en>fr": 1060, "fr>en": 970}, []),
        ({"en>fr": 1090, "fr>en": 1040}, ["en>fr"]),
        ({"en>fr": 1500, "fr>en": 1010}, ["en>fr"]),
        ({"en>fr": 1080, "fr>en": 1070}, ["en>fr", "fr>en"]),
    ],
)
def test_directions_agree_together_or_each(of: dict[str, int], left_out: list[str]) -> None:
    sides = [
        [{**STATE, "spent": {hop: {"target_tokens": tokens} for hop, tokens in side.items()}}]
        for side in (of, dict.fromkeys(of, 1000))
    ]
    found = unequal_tokens("dual", "control", sides, [Hop("en", "fr"), Hop("fr", "en")])
    assert list(map(str, found)) == left_out


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("fr>es", "path fr>es:.* such as fr>en>es"),
        ("fr>en>fr", "path fr>en>fr:.* such as fr>en>es"),
        ("fr>de>es", "path fr>de>es: .* en>fr, en>es"),
    ],
)
def test_what_is_no_pivot(tiny_run: Path, path: str, sentence: str) -> None:
    with pytest.raises(PathError, match=sentence):
        evaluate([tiny_run], dataclasses.replace(QUICK, pivots=[LanguagePath.parse(path)]), Silent())


def test_folder_names() -> None:
    assert [folder_name(name) for name in ("news 2011", "a/b", "..", "été")] == [
        "news 2011",
        "a%2Fb",
        "%2E%2E",
        "%C3%A9t%C3%A9",
    ]


def test_every_test_set_has_its_mean_in_a_comparison(
    judged: tuple[Path, Json], capsys: pytest.CaptureFixture[str]
) -> None:
    card = judged[1]
    (one,) = card["comparisons"]
    ((name, scores),) = one["sets"].items()
    print_scorecard(card)
    assert f"{name}, mean" not in capsys.readouterr().out, "one set: its mean is that of all"
    print_scorecard({**card, "comparisons": [{**one, "sets": {name: scores, "news": scores}}]})
    rows = [line for line in capsys.readouterr().out.splitlines() if ", mean" in line]
    difference = scores["joint"]["multi_bleu"]["difference"]
    assert len(rows) == 2 and all(f"{difference:+z.2f} (" in row for row in rows)


def test_a_comparison_says_what_was_tuned_for_each(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copied / "experiment.json"
    experiment = read_checked(file, "")
    write_json(file, experiment | {"compare": [experiment["compare"][0] | {"tuned": ["dropout"]}]})
    print_scorecard(evaluate([copied], QUICK, Silent()))
    (title,) = [line for line in capsys.readouterr().out.splitlines() if "own dropout" in line]
    assert "dual" in title and "vanilla-longer" in title
    assert "each has its own dropout" in write_report(copied).read_text(encoding="utf-8")


def scored(**bleu: float) -> StageMeasures:
    """A stage that scores so much in each of its directions, written en_fr."""
    tests = {
        OneTest("news", LanguagePath.parse(hop.replace("_", ">")), "rows"): {
            "multi_bleu": mean_statistics([share]),
            "chrf": mean_statistics([share]),
        }
        for hop, share in bleu.items()
    }
    return StageMeasures(tests, "0", STATE)


def test_means_of_different_directions_do_not_stand_side_by_side(
    judged: tuple[Path, Json], capsys: pytest.CaptureFixture[str]
) -> None:
    stages = {"vanilla-longer": scored(en_fr=4, fr_en=6), "dual": scored(en_fr=5, fr_en=7, fr_es=0)}
    experiment = Run(judged[0]).experiment()
    print_scorecard(scorecard(experiment, RunMeasures(1, stages), beam=1, samples=10))
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if "│" in line]
    assert ["mean (directions)", "5.00 (2)", "4.00 (3)"] in rows
    assert ["mean of the 2 they share", "5.00", "6.00"] in rows
    assert not any("BLEU (directions)" in row for row in rows), "one test set: its tables have the means already"
    print_scorecard(judged[1])
    assert "(directions)" not in capsys.readouterr().out, "here all stages have the same"
