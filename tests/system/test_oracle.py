"""The oracle test: the better of two translations of every sentence, by two routes or twice by the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.oracle import DECODINGS, METRIC_NAMES, ROUTES, TWICE, Translated, _compared, main

from loopmt.errors import LoopmtError
from loopmt.evaluation.validation import HeldOut
from loopmt.path import Hop, LanguagePath
from loopmt.translate.protocol import Sentences

REFERENCES = [f"the cat sees the {noun} today ." for noun in ("dog", "bird", "fish", "king", "child", "cat")]
WRONG = ["nothing of it is right here"] * len(REFERENCES)
PATH = LanguagePath.parse("fr>en>es")


def translated(second: list[str], through: list[str]) -> Translated:
    """The first direct translation is right in the first two sentences only."""
    sides = (Sentences(None, language, texts=REFERENCES) for language in ("fr", "es"))
    first = REFERENCES[:2] + WRONG[2:]
    return Translated(HeldOut(Hop("fr", "es"), *sides), (first, second), {PATH: through})


def test_the_oracle_gains_by_errors_that_differ() -> None:
    """Another draw that errs in the same sentences adds nothing, and a route that errs in others does."""
    same, other = REFERENCES[:2] + WRONG[2:], WRONG[:2] + REFERENCES[2:]
    bleu = _compared([translated(same, other)], samples=200)["mean"]["multi_bleu"]
    assert bleu[TWICE] == bleu["direct"] < bleu[ROUTES] == 100
    ahead, low, high = bleu["ahead"]
    assert ahead == pytest.approx(100 - bleu["direct"]) and low <= ahead <= high
    behind = _compared([translated(other, same)], samples=200)["rows"][0]["multi_bleu"]
    assert behind[ROUTES] < behind[TWICE] == 100 and behind["ahead"][0] == pytest.approx(-ahead)


def test_a_run(tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "kept/oracle.json"
    main([str(tiny_run), "--stage", "dual", "--sentences", "12", "--samples", "50", "--out", str(out)])
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["stage"], found["set"], found["sentences"]) == ("dual", "valid", 12)
    for decoding in DECODINGS:
        rows = found[decoding]["rows"]
        assert len(rows) == 6 and {row["direction"].split(">")[0] for row in rows} == {"en", "fr", "es"}
        for row in rows:
            assert row["pivot"].split(">")[::2] == row["direction"].split(">")
            for metric in METRIC_NAMES:
                scores = row[metric]
                assert scores["ahead"][0] == pytest.approx(scores[ROUTES] - scores[TWICE])
        mean = found[decoding]["mean"]["multi_bleu"]
        assert mean[ROUTES] == pytest.approx(sum(row["multi_bleu"][ROUTES] for row in rows) / 6)
    shown = capsys.readouterr().out
    assert "fr>en>es" in shown and shown.count("by 1 BLEU") == len(DECODINGS)


def test_a_stage_that_is_not_finished(tiny_run: Path) -> None:
    with pytest.raises(LoopmtError):
        main([str(tiny_run), "--stage", "nothing"])
