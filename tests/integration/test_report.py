from __future__ import annotations

import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.commands import Cli
from helpers.facts import lacks, missing
from loopmt.cli import app
from loopmt.errors import MissingExtraError, RunError
from loopmt.files.documents import read_checked
from loopmt.path import Pattern
from loopmt.progress import Silent
from loopmt.report.page import page
from loopmt.run import Run, read_json, write_json
from loopmt.workflow.analyze import AnalyzeOptions, analyze
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.plan import PlanOptions, plan
from loopmt.workflow.report import ReportOptions, collect, report, steps_to_show, write_report
from loopmt.workflow.show import overview

SECTIONS = (
    *("overview", "data", "languages", "stages", "scores", "curves", "time"),
    *("guards", "thresholds", "parameters", "predicted", "followed", "again"),
)
LANGUAGES = ["en", "fr", "es"]
QUICK = ReportOptions(sentences=8, beam=1)
HOSTILE = "<script>alert('x')</script>&amp;\"<img src=http://x.test onerror=alert(1)>"
VOID = {"meta", "path", "rect", "circle", "polygon", "use", "line", "polyline"}


class Page(HTMLParser):
    """Checks that tags nest, and collects what matters."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)
        if tag not in VOID - {"path", "rect", "circle", "polygon", "use"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action", "data")]
        assert not [name for name, _ in attrs if name.startswith("on")], f"<{tag}> runs a script"

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def read(file: Path) -> Page:
    found = Page(file.read_text(encoding="utf-8"))
    assert found.open == [], "every tag is closed"
    return found


@pytest.fixture(scope="module")
def judged(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all that a report can show."""
    folder = tmp_path_factory.mktemp("reported") / "run"
    shutil.copytree(tiny_run, folder)
    evaluate([folder], EvaluateOptions(beam=1, samples=20), Silent())
    plan(folder, PlanOptions(sentences=12, beam=1), Silent())
    planned = read_json(folder / "plan.json")["threshold"]
    analyze(folder, AnalyzeOptions(thresholds=(10.0, 20.0, planned), beam=1, sentences=12), Silent())
    report([folder], QUICK, Silent())
    return folder


@pytest.fixture
def copied(judged: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(judged, tmp_path / "run"))


@pytest.fixture
def unfinished(tiny_run: Path, tmp_path: Path) -> Path:
    """The last stage is under way, and its log was cut in the middle of a line."""
    folder = Path(shutil.copytree(tiny_run, tmp_path / "unfinished"))
    shutil.rmtree(folder / "stages/dual/result")
    metrics = folder / "stages/dual/metrics.jsonl"
    lines = [line for line in metrics.read_text(encoding="utf-8").splitlines() if '"kind": "end"' not in line]
    metrics.write_text("\n".join(lines) + '\n{"kind": "tra', encoding="utf-8")
    return folder


# -- the page --------------------------------------------------------------------------------------------------


def test_a_judged_run_has_every_section(judged: Path) -> None:
    found = read(judged / "report.html")
    assert set(SECTIONS) <= set(found.ids)
    assert [link for link in found.links if link.startswith("#") and link[1:] not in found.ids] == []
    assert len(found.ids) == len(set(found.ids))
    text = (judged / "report.html").read_text(encoding="utf-8")
    assert 'class="missing"' not in text, "nothing is missing"
    for what in ("dual less", "vanilla-longer", "paired bootstrap", "en>fr>en", "Theorem 1"):
        assert what in found.text
    assert f"loopmt train tiny.toml --run {judged}" in found.text
    assert (judged / "experiment.toml").read_text(encoding="utf-8").split()[-1] in found.text


def test_it_is_self_contained(judged: Path) -> None:
    found, text = read(judged / "report.html"), (judged / "report.html").read_text(encoding="utf-8")
    assert all(link.startswith("#") for link in found.links)
    assert not found.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert not re.search(r"@import|url\((?!#p\d+-)", text)
    assert 'http-equiv="refresh"' not in text, "a finished run's page does not load itself again"
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    assert policy and text.index(policy[0]) < text.index("<style>")
    assert policy[1].split("; ")[:2] == ["default-src 'none'", "style-src 'unsafe-inline'"]


def test_records_that_lack_a_field_are_left_out(copied: Path, cli: Cli) -> None:
    """Without a checksum nothing else says that they are damaged."""
    log = copied / "stages" / "dual" / "metrics.jsonl"
    lines = []
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        del record["check"]
        lines += [{name: value for name, value in record.items() if name != key} for key in record]
        lines += [{**record, key: value} for key in record for value in ("text", [["nested"]])]
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    for words in (["report", copied, "--sentences", "0"], ["show", copied]):
        outcome = cli(*words)
        assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("name", ["scorecard.json", "analysis.json", "plan.json", "report.json"])
def test_files_of_another_content_are_an_error(copied: Path, cli: Cli, name: str) -> None:
    write_json(copied / name, {"stages": {"dual": {"sets": []}}, "comparisons": 3, "rules": 0})
    outcome = cli("report", copied, "--sentences", "0")
    told = outcome.code == 2 and str(copied / name) in outcome.err and outcome.err.count("\n") == 1
    assert told or (name == "report.json" and outcome.code == 0), outcome


def test_light_dark_and_print(judged: Path) -> None:
    text = (judged / "report.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    style, dark = text.split("@media (prefers-color-scheme: dark)")[:2]
    colours = set(re.findall(r"(--[sq]\d|--(?:ink|paper|muted|rule)): #", style))
    assert colours == set(re.findall(r"(--[sq]\d|--(?:ink|paper|muted|rule)): #", dark.split("}")[0]))
    used, defined = set(re.findall(r"var\((--\w+)\)", text)), set(re.findall(r"(--\w+):", text))
    assert used <= defined
    pictures = re.findall(r'<svg viewBox="[^"]*" aria-hidden="true">.*?</svg>', text, re.DOTALL)
    assert len(pictures) > 10 and not any(re.search(r"#[0-9a-f]{6}\b", picture) for picture in pictures)


def test_text_is_escaped(copied: Path) -> None:
    """Whatever a corpus, a file name or a translation says, the page only shows it."""
    kept = read_json(copied / "report.json")
    for row in kept["followed"]:
        row |= {"start": f"{HOSTILE} \x1b[31m", "set": HOSTILE}
        for round_trip in row["trips"]:
            for hop in round_trip["hops"]:
                hop["text"] = HOSTILE
    write_json(copied / "report.json", kept)
    manifest = read_checked(copied / "manifest.json", "")
    manifest["sets"][1] |= {"name": HOSTILE, "reference": HOSTILE}
    manifest["corpora"][0]["references"] = [HOSTILE]
    write_json(copied / "manifest.json", manifest)
    card = json.loads((copied / "scorecard.json").read_text(encoding="utf-8").replace('"test"', json.dumps(HOSTILE)))
    write_json(copied / "scorecard.json", card)
    with (copied / "experiment.toml").open("a", encoding="utf-8") as file:
        file.write(f"# {HOSTILE}\n")
    found = read(write_report(copied))
    assert found.text.count(" ".join(HOSTILE.split())) > 20
    assert r"\x1b[31m" in found.text and "\x1b" not in found.text
    assert not found.tags & {"script", "img"} and all(link.startswith("#") for link in found.links)


# -- runs in every state ---------------------------------------------------------------------------------------


def test_an_unfinished_run(unfinished: Path) -> None:
    found = read(write_report(unfinished))
    assert set(SECTIONS) <= set(found.ids)
    for command in ("evaluate", "analyze", "plan", "report"):
        assert f"loopmt {command} {unfinished}" in found.text
    assert "dual is at update 16 of 16" in found.text and "unfinished" in found.text and "so far" in found.text
    assert 'http-equiv="refresh"' in (unfinished / "report.html").read_text(encoding="utf-8")
    assert not (unfinished / "analysis").exists(), "nothing was decoded"


def test_sentences_of_an_unfinished_run_are_those_of_its_last_finished_stage(unfinished: Path) -> None:
    _, (data,) = report([unfinished], QUICK, Silent())
    assert [len(row["trips"]) for row in data["followed"]] == [2] * len(data["followed"])
    assert data["paper"] == []


def test_a_run_that_has_not_begun(tiny_run: Path, tiny_experiment_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    shutil.copytree(tiny_run, folder, ignore=shutil.ignore_patterns("stages"))
    found = read(write_report(folder))
    assert f"Nothing was trained yet: loopmt train {tiny_experiment_file} --run {folder}" in found.text
    (folder / "manifest.json").unlink()
    assert "The text is not prepared yet: loopmt prepare" in read(write_report(folder)).text


def test_runs_side_by_side(copied: Path, judged: Path, unfinished: Path, tmp_path: Path) -> None:
    experiment = read_checked(copied / "experiment.json", "")
    write_json(copied / "experiment.json", experiment | {"seed": 2, "name": "again"})
    out, data = report([judged, copied], ReportOptions(tmp_path / "new/both.html", sentences=0), Silent())
    found = read(out)
    assert out == tmp_path / "new/both.html" and [run["seed"] for run in data] == [1, 2]
    assert {"side-by-side", *SECTIONS} <= set(found.ids) and len(found.ids) == len(set(found.ids))
    bleu = data[0]["stages"][0]["best_valid_bleu"]
    assert f"mean ± deviation vanilla validation BLEU {bleu:.2f} {bleu:.2f} {bleu:.2f} ± 0.00" in found.text
    assert data[0]["paper"][0]["heads"][1][0] == "tiny, mean of seeds 1, 2, test"
    assert data[0]["paper"][0]["rows"] == data[1]["paper"][0]["rows"], "these two have the same scores"
    other = Page(page([data[0], collect(Run.open(unfinished))]))
    assert "side-by-side" in other.ids and "mean ± deviation" not in other.text, "the same seed twice is no spread"


def test_means_of_different_directions_say_of_how_many(copied: Path) -> None:
    """As where a network that all directions share was taught half of them first."""
    alike = CliRunner().invoke(app, ["show", str(copied)]).output
    assert "best valid BLEU (" not in alike and " directions" not in stages_of(copied)
    stage = Run.open(copied).stage("vanilla")
    record = next(one for one in stage.records() if one["kind"] == "valid")
    stage.log({**record, "untaught": ["fr>es", "es>fr"]})
    vanilla, dual = (overview(copied)["stages"][place]["best_valid_bleu"] for place in (0, -1))
    shown = CliRunner().invoke(app, ["show", str(copied)]).output
    assert "best valid BLEU (directions)" in shown
    assert f"{vanilla:.2f} (4)" in shown and f"{dual:.2f} (6)" in shown
    text = stages_of(copied)
    assert f"{vanilla:.2f} 4 directions" in text and f"{dual:.2f} 6 directions" in text


def test_as_many_but_other_directions_are_different_ones_too(copied: Path) -> None:
    for name, untaught in (("vanilla", ["fr>es", "es>fr"]), ("dual", ["en>fr", "fr>en"])):
        stage = Run.open(copied).stage(name)
        record = next(one for one in stage.records() if one["kind"] == "valid")
        stage.log({**record, "untaught": untaught})
    shutil.rmtree(copied / "stages/vanilla-longer")
    shown = CliRunner().invoke(app, ["show", str(copied)]).output
    assert "best valid BLEU (directions)" in shown and "cannot be compared (valid:" in shown
    assert "dual: en>es, fr>es, es>en, es>fr" in shown
    text = read(write_report(copied)).text
    assert "not joined: vanilla: en>fr, en>es, fr>en, es>en; dual: en>es" in text


def test_test_scores_of_different_directions_say_of_how_many(copied: Path, judged: Path) -> None:
    card = read_json(copied / "scorecard.json")
    for hop in ("fr>es", "es>fr"):
        del card["stages"]["vanilla"]["sets"]["test"]["directions"][hop]
    write_json(copied / "scorecard.json", card)
    shown = CliRunner().invoke(app, ["show", str(copied)]).output
    vanilla, dual = (card["stages"][name]["mean"]["chrf"] for name in ("vanilla", "dual"))
    assert "test BLEU (directions)" in shown and f"{vanilla:.2f} (4)" in shown and f"{dual:.2f} (6)" in shown
    assert "exact" not in shown, "text of one's own has no exact judge"
    assert "cannot be compared (test:" in shown
    found = read(write_report(copied)).text
    assert "directions of the mean 4 6 6" in found and "mean BLEU of the 4 they share" in found
    both = Page(page([collect(Run.open(folder)) for folder in (copied, judged)])).text
    assert "4 directions" in both.partition("Scores of each stage")[2].partition("</table>")[0]
    before = read(write_report(Path(shutil.copytree(judged, copied.parent / "alike")))).text
    assert "directions of the mean" not in before and "they share" not in before


def stages_of(folder: Path) -> str:
    return read(write_report(folder)).text.partition("where each starts")[2].partition("Network:")[0]


def test_a_stage_that_only_goes_through_other_languages_has_no_mean(copied: Path, judged: Path) -> None:
    """Its translators lead from one end of a test set to the other, but none of them directly."""
    card = read_json(copied / "scorecard.json")
    only = {"directions": {}, "mean": {}, "pivots": {"fr>en>es": {"sentences": 40, "multi_bleu": 3.0}}}
    card["stages"]["vanilla"] |= {"sets": {"test": only}, "mean": {}}
    write_json(copied / "scorecard.json", card)
    assert "mean BLEU –" in read(write_report(copied)).text
    assert overview(copied)["next"].startswith("loopmt translate"), "it was scored"
    found = Page(page([collect(Run.open(folder)) for folder in (copied, judged)])).text
    assert re.search(r"vanilla test BLEU – \d", found)


def test_means_are_of_runs_that_belong_together(copied: Path, judged: Path, tmp_path: Path) -> None:
    """A stage that was added to one run does no harm; one that was trained otherwise does."""
    experiment = read_checked(copied / "experiment.json", "")
    added = [*experiment["stage"], {**experiment["stage"][-1], "name": "later"}]
    changed = [experiment["stage"][0], *({**stage, "updates": 99} for stage in experiment["stage"][1:])]
    for stages, together in ((added, True), (changed, False)):
        write_json(copied / "experiment.json", experiment | {"seed": 2, "stage": stages})
        _, data = report([judged, copied], ReportOptions(tmp_path / "both.html", sentences=0), Silent())
        assert ("mean of seeds 1, 2" in data[0]["paper"][0]["heads"][1][0]) is together


def test_what_is_kept_is_not_decoded_again(copied: Path) -> None:
    kept = read_json(copied / "report.json")
    shutil.rmtree(copied / "analysis")
    for weights in copied.rglob("weights.safetensors"):
        weights.unlink()
    _, (data,) = report([copied], QUICK, Silent())
    assert [row["start"] for row in data["followed"]] == [row["start"] for row in kept["followed"]] != []


def test_a_report_never_ends_training(copied: Path) -> None:
    (copied / "scorecard.json").write_text("{", encoding="utf-8")
    before = (copied / "report.html").read_text(encoding="utf-8")
    with pytest.warns(UserWarning, match=r"report\.html was not written: .*scorecard\.json cannot be read"):
        assert write_report(copied) == copied / "report.html"
    assert (copied / "report.html").read_text(encoding="utf-8") == before


def test_without_the_extra(judged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'needs matplotlib: pip install "loopmt\[report\]"'):
        report([judged], QUICK, Silent())


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        report([tmp_path], QUICK, Silent())


def test_only_a_page_of_ours_is_written_over(judged: Path, tmp_path: Path) -> None:
    keep, page = tmp_path / "keep.toml", tmp_path / "page.html"
    keep.write_text("seed = 1", encoding="utf-8")
    with pytest.raises(RunError) as caught:
        report([judged], ReportOptions(keep, sentences=0), Silent())
    assert not lacks(
        str(caught.value), f"{keep} is there already, and it is no report of loopmt. Name another file with --out."
    )
    assert keep.read_text(encoding="utf-8") == "seed = 1"
    with pytest.raises(RunError, match=r"is a folder\. Name a file with --out"):
        report([judged], ReportOptions(tmp_path, sentences=0), Silent())
    for _ in range(2):
        assert report([judged], ReportOptions(page, sentences=0), Silent())[0] == page


def test_a_run_that_cannot_be_written_is_refused_before_work(
    judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != judged)  # root may write whatever the bits say
    for options in (QUICK, ReportOptions(tmp_path / "page.html", sentences=5, beam=1)):
        with pytest.raises(RunError) as caught:
            report([judged], options, Silent())
    assert not missing(caught.value, f"{judged} is not writable", "--sentences 0 --out FILE", "copy the run")
    assert report([judged], ReportOptions(tmp_path / "page.html", sentences=0), Silent())[0].is_file()
    with pytest.raises(RunError, match=r"is not writable, .* Copy the run to a writable folder"):
        plan(judged, PlanOptions(), Silent())
    with pytest.raises(RunError, match=r"is not writable, .* Copy the run to a writable folder"):
        analyze(judged, AnalyzeOptions(), Silent())


def test_command_line(judged: Path, tmp_path: Path) -> None:
    arguments = ["report", str(judged), "--out", str(tmp_path / "page.html"), "--sentences", "0"]
    outcome = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert outcome.exit_code == 0 and f"written to {tmp_path / 'page.html'}" in outcome.stdout.replace("\n", "")
    (one,) = read_json(judged / "scorecard.json")["comparisons"]
    difference = f"{one['joint']['multi_bleu']['difference']:+.2f}"
    (line,) = [line for line in outcome.stdout.splitlines() if difference in line]
    assert all(fact in line for fact in ("dual", "vanilla-longer", "6 directions"))
    assert "paper" not in outcome.stdout and "paper" not in read(tmp_path / "page.html").ids
    outcome = CliRunner().invoke(app, [*arguments, "--paper"], catch_exceptions=False)
    assert "paper, 0.2M pairs" in outcome.stdout and "43.12" in outcome.stdout
    page = read(tmp_path / "page.html")
    assert "paper" in page.ids and "average gain" in page.text and "#paper" in page.links


def test_right_is_what_the_plan_calls_right(copied: Path) -> None:
    """Where sentences are followed along loops, too."""
    options = ReportOptions(sentences=4, beam=1)
    for threshold in (30.0, 60.0):
        plan(copied, PlanOptions(beam=1, sentences=4, threshold=threshold), Silent())
        report([copied], options, Silent())
        assert {row["threshold"] for row in read_json(copied / "report.json")["followed"]} == {threshold}
        assert f"sentence BLEU above {threshold:g}" in read(copied / "report.html").text


# -- its parts -------------------------------------------------------------------------------------------------


def test_the_paper_stands_beside_us(judged: Path) -> None:
    data = collect(Run.open(judged))
    steps, wmt, accuracy, parameters = data["paper"]
    scores = data["scores"]["stages"]
    ours = [scores[name]["sets"]["test"]["directions"]["en>fr"]["multi_bleu"] for name in ("vanilla", "dual")]
    assert steps["rows"][0] == ["en>fr", *(f"{value:.2f}" for value in ours), "–", "50.26", "50.91", "51.28",
                                "43.12", "45.54", "47.23"]  # fmt: skip
    gain = scores["dual"]["mean"]["multi_bleu"] - scores["vanilla"]["mean"]["multi_bleu"]
    assert steps["rows"][-1] == ["average gain", "", f"{gain:+.2f}", "–", "", "+0.55", "+0.41", "", "+1.93", "+1.49"]
    assert wmt["columns"] == ["", "en>fr", "fr>en", "en>fr", "fr>en"]
    assert accuracy["rows"][0][:2] == ["en-fr", "p12"] and accuracy["rows"][0][4:] == ["0.82", "0.77"]
    assert [row[1] for row in parameters["rows"][:4]] == ["η", "α", "β", "γ"]
    for table in data["paper"]:
        assert {sum(span for _, span in table["heads"]), *map(len, table["rows"])} == {len(table["columns"])}


def test_overrides_are_part_of_the_command(copied: Path) -> None:
    experiment = read_checked(copied / "experiment.json", "")
    experiment["train"]["tokens"] = 256
    for stage in experiment["stage"][1:3]:  # dual and its control, which must agree
        stage["updates"] = 8
    write_json(copied / "experiment.json", experiment)
    again = collect(Run.open(copied))["again"]
    assert again["command"].endswith(
        "--set train.tokens=256 --set stage.vanilla-longer.updates=8 --set stage.dual.updates=8"
    )
    assert json.loads(again["resolved"]) == experiment


def test_curves_follow_the_tree(judged: Path) -> None:
    curves = collect(Run.open(judged))["curves"]
    mean = curves["bleu"]["mean"]
    assert [x for x, _ in mean["vanilla"]] == [64, 120]
    assert mean["dual"][0] == mean["vanilla"][-1] and mean["dual"][-1][0] == 136
    assert set(curves["bleu"]) == {"mean", "en>fr", "en>es", "fr>en", "fr>es", "es>en", "es>fr"}
    assert curves["generate_share"]["vanilla"][0][1] < curves["generate_share"]["dual"][0][1] < 1


def test_time_and_guards(judged: Path) -> None:
    data = collect(Run.open(judged))
    vanilla, _, dual = data["spending"]
    assert vanilla["generated_per_second"] is None and dual["generated_per_second"] > 0
    assert sum(dual["shares"].values()) == pytest.approx(1)
    assert vanilla["shares"]["generate"] == 0 < dual["shares"]["generate"]
    assert vanilla["updates_per_round"] == dual["updates_per_round"] == 8, "[train] round of the experiment"
    for one in (vanilla, dual):
        assert one["learnt_per_second"] > one["tokens_per_second"] > 0, "validating is not learning"
        assert 0 < one["padding"] < 1 and 0 < one["source_padding"] < 1
        assert 0 < one["first_update"] < one["total"]
    assert sorted(row["path"] for row in data["guards"]) == sorted(map(str, Pattern.parse("X>Y>X").expand(LANGUAGES)))
    assert all(row["kept"] + sum(row["dropped"].values()) == pytest.approx(1) for row in data["guards"])


@pytest.mark.parametrize("stage", ["vanilla", "dual"])
def test_the_seconds_of_a_stage_are_by_the_clock(judged: Path, stage: str) -> None:
    """Not those of launching updates, which on a GPU are few: all that passed, but for the last validation."""
    *records, end = Run.open(judged).stage(stage).records()
    passed = sum(record["seconds"] for record in records if record["kind"] == "train")
    assert passed - 1e-3 <= sum(end["seconds"].values()) <= passed + end["seconds"]["validate"]


def test_which_steps_are_shown(judged: Path) -> None:
    experiment = Run.open(judged).experiment()
    assert steps_to_show(experiment, ["vanilla", "vanilla-longer", "dual"]) == [("vanilla", "dual")]
    assert steps_to_show(experiment, ["vanilla", "vanilla-longer"]) == [("vanilla", "vanilla-longer")]
    assert steps_to_show(experiment, ["vanilla"]) == [("vanilla",)] and steps_to_show(experiment, []) == []


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("evaluate", ["--beam", "1", "--samples", "20"]),
        ("plan", ["--beam", "1", "--sentences", "12"]),
        ("plan", ["--beam", "1", "--sentences", "12", "--all"]),
        ("analyze", ["--beam", "1", "--sentences", "12", "--against-plan"]),
        ("analyze", ["--beam", "1", "--sentences", "12", "--all"]),
        ("report", ["--sentences", "0", "--paper"]),
        ("show", []),
    ],
)
def test_no_table_is_cut_on_a_narrow_terminal(copied: Path, verb: str, options: list[str]) -> None:
    done = CliRunner().invoke(app, [verb, str(copied), *options], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    rows = [line for line in done.output.splitlines() if line.startswith(("│", "┃"))]
    assert rows and "…" not in done.output and max(map(len, rows)) <= 80
    whole = not {"--all", "--paper", "--against-plan"} & set(options)
    assert not whole or "(continued)" not in done.output, "in one part"
    if verb == "plan":
        for loop in ("en>fr>en", "en>fr>es>en", "es>en>fr>es"):
            assert any(f" {loop} │" in row for row in rows)
        numbers = [number for row in rows for number in re.findall(r"\d[\d.]*", row) if "." in number]
        assert numbers and all(re.fullmatch(r"\d+\.\d+", number) for number in numbers)
    if verb == "analyze":
        assert "en-de " not in " ".join(row for row in rows if row.startswith("│"))


def test_many_languages_are_matrices(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if three languages were many: the lists are there, folded."""
    few = write_report(copied).read_text(encoding="utf-8")
    monkeypatch.setattr("loopmt.report.gather.MANY_LANGUAGES", 3)
    many = write_report(copied).read_text(encoding="utf-8")
    card = json.loads((copied / "scorecard.json").read_text(encoding="utf-8"))
    assert 'class="matrix"' not in few and "<summary>All directions</summary>" not in few
    assert many.count('class="matrix"') == len(card["stages"]) + len(card["comparisons"])
    first = next(iter(card["stages"].values()))["sets"]["test"]["directions"]["en>fr"]["multi_bleu"]
    assert re.search(rf'class="n heat up" style="--v:[\d.]+">{first:.1f}</td>', many)
    assert "means of directions" in many and "means of differences" in many and "means of directions" not in few
    assert "<summary>All directions</summary>" in many and "<summary>Graph of 3 languages</summary>" in many
