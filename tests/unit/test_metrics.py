"""Scores compared with independent computations, and the verb `score`."""

from __future__ import annotations

import gzip
import json
import lzma
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import sacrebleu
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from helpers.noisy import corpus, corrupted
from loopmt.cli.score import score
from loopmt.errors import DataError, MissingExtraError
from loopmt.evaluation.bootstrap import bootstrap_difference
from loopmt.evaluation.metrics import (
    chrf_statistics,
    comet_statistics,
    moses,
    multi_bleu_statistics,
    ngram_counts,
    sacre_bleu,
    sentence_bleu,
)
from loopmt.text.files import read_files

SENTENCES = st.lists(st.sampled_from(["le", "chat", "dort", "la", "nuit", "."]), max_size=9).map(" ".join)
CORPORA = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=6)


def script_bleu(hypotheses: list[str], references: list[str]) -> float:
    """The algorithm of multi-bleu.perl, one reference: n-grams as strings, clipped counts, log average."""
    correct, total = [0] * 5, [0] * 5
    length = reference_length = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        ours, theirs = ([w for w in re.split("[ \t\n\r\f\v]+", t) if w] for t in (hypothesis, reference))
        length, reference_length = length + len(ours), reference_length + len(theirs)
        for n in range(1, 5):
            known: dict[str, int] = {}
            for start in range(len(theirs) - n + 1):
                ngram = " ".join(theirs[start : start + n])
                known[ngram] = known.get(ngram, 0) + 1
            for start in range(len(ours) - n + 1):
                ngram = " ".join(ours[start : start + n])
                total[n] += 1
                if known.get(ngram, 0) > 0:
                    known[ngram] -= 1
                    correct[n] += 1
    precisions = [correct[n] / total[n] if total[n] else 0.0 for n in range(1, 5)]
    if reference_length == 0 or length == 0 or 0 in precisions:
        return 0.0
    brevity = math.exp(1 - reference_length / length) if length < reference_length else 1.0
    return 100 * brevity * math.exp(sum(map(math.log, precisions)) / 4)


@pytest.mark.parametrize("error", [0.0, 0.1, 0.4, 0.9])
def test_multi_bleu_is_the_script_on_random_text(error: float) -> None:
    hypotheses, references = corpus(np.random.default_rng(3), 60, error)
    assert multi_bleu_statistics(hypotheses, references).score() == pytest.approx(script_bleu(hypotheses, references))


@given(CORPORA)
@settings(max_examples=150, deadline=None)
def test_multi_bleu_is_the_script_on_short_text(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [h for h, _ in pairs], [r for _, r in pairs]
    assert multi_bleu_statistics(hypotheses, references).score() == pytest.approx(script_bleu(hypotheses, references))


@pytest.mark.parametrize(
    ("hypotheses", "references", "expected"),
    [
        (["a b c d"], ["a b c d"], 100.0),
        (["a b c"], ["a b c"], 0.0),  # no 4-gram at all
        (["a b c x"], ["a b c d"], 0.0),  # no 4-gram right
        ([""], ["a b c d"], 0.0),
        (["a b c d"], [""], 0.0),
        ([""], [""], 0.0),
        (["", "a b c d e"], ["", "a b c d e"], 100.0),  # an empty line costs nothing
        (["a b c d"], ["a b c d e f g h"], 100 * math.exp(-1)),
        (["  a\tb  c d "], ["a b c d\r"], 100.0),
        (["10\u00a0000 b c d"], ["10 000 b c d"], 0.0),  # one word, not two
        (["10\u00a0000 b c d"], ["10\u00a0000 b c d"], 100.0),
        (["a\u2003b\u0085c d"], ["a b c d"], 0.0),
    ],
)
def test_multi_bleu_by_hand(hypotheses: list[str], references: list[str], expected: float) -> None:
    assert multi_bleu_statistics(hypotheses, references).score() == pytest.approx(expected)
    assert script_bleu(hypotheses, references) == pytest.approx(expected)


def test_no_break_space_joins_one_word() -> None:
    rows = ngram_counts(["10\u00a0000 euros \u00ab\u00a0net\u00a0\u00bb"], ["10 000 euros"])
    assert rows[0, 0] == 3
    assert rows[0, 2] == 1  # euros


def test_signatures_say_how() -> None:
    text = ["Le chat dort ."]
    assert (
        multi_bleu_statistics(text, text).signature
        == "multi-bleu|nrefs:1|case:mixed|eff:no|smooth:none|tok:white-space"
    )
    tokenised = multi_bleu_statistics(text, text, language="fr", lowercase=True).signature
    assert tokenised.startswith("multi-bleu|nrefs:1|case:lc|eff:no|smooth:none|tok:moses-fr-no-escape|sacremoses:")
    assert sacre_bleu(text, text).signature == (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )
    assert chrf_statistics(text, text, lowercase=True).signature == (
        f"nrefs:1|case:lc|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"
    )


def test_moses_tokens_are_not_escaped_and_lower_case_comes_after() -> None:
    assert moses(["L'été, c'est <beau> & chaud.", ""], "fr") == ["L' été , c' est < beau > & chaud .", ""]
    scored = multi_bleu_statistics(["ÉTÉ, c'est beau."], ["été, c'est beau."], language="fr", lowercase=True)
    assert scored.score() == pytest.approx(100.0)


@given(CORPORA)
@settings(max_examples=100, deadline=None)
def test_sacre_scores_are_sacrebleu_s(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [h for h, _ in pairs], [r for _, r in pairs]
    expected_bleu = sacrebleu.corpus_bleu(hypotheses, [references], force=True).score
    assert sacre_bleu(hypotheses, references).score == pytest.approx(expected_bleu)
    assert chrf_statistics(hypotheses, references).score() == pytest.approx(
        sacrebleu.corpus_chrf(hypotheses, [references]).score
    )


def test_scores_are_json() -> None:
    hypotheses, references = corpus(np.random.default_rng(5), 20, 0.3)
    scored = asdict(chrf_statistics(hypotheses, references).summary())
    assert json.loads(json.dumps(scored)) == scored
    system = multi_bleu_statistics(hypotheses, references)
    interval = asdict(bootstrap_difference([system], [system], samples=10))
    assert json.loads(json.dumps(interval)) == interval


@pytest.mark.parametrize("metric", [multi_bleu_statistics, sacre_bleu, chrf_statistics, sentence_bleu])
@pytest.mark.parametrize(("hypotheses", "references"), [(["a", "b"], ["a"]), ([], [])])
def test_uneven_or_empty_sides_are_refused(
    metric: Callable[..., object], hypotheses: list[str], references: list[str]
) -> None:
    listed = f"{len(hypotheses)} hypotheses, {len(references)} references"
    with pytest.raises(DataError, match=listed):
        metric(hypotheses, references)


def test_sentence_bleu_smoothed_is_sacrebleu_s_except_for_exact_matches() -> None:
    hypotheses, references = corpus(np.random.default_rng(7), 300, 0.5)
    hypotheses, references = [*hypotheses, "", "w1", "w1 w2"], [*references, "w1", "w2", "w1 w3"]
    metric = sacrebleu.BLEU(tokenize="none", effective_order=True, force=True)
    expected = [
        100.0 if h.split() == r.split() else metric.sentence_score(h, [r]).score
        for h, r in zip(hypotheses, references, strict=True)
    ]
    np.testing.assert_allclose(sentence_bleu(hypotheses, references), expected, rtol=1e-12)


def test_sentence_bleu_unsmoothed_is_the_script_s_except_for_exact_matches() -> None:
    hypotheses, references = corpus(np.random.default_rng(8), 200, 0.2)
    expected = [
        100.0 if h.split() == r.split() else script_bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)
    ]
    assert 0.0 in expected
    np.testing.assert_allclose(sentence_bleu(hypotheses, references, smooth=False), expected, rtol=1e-12)


def test_comet_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(MissingExtraError, match="pip install unbabel-comet"):
        comet_statistics(["a"], ["b"], ["c"], Path("model.ckpt"))


def test_comet_reads_a_local_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for the package, since its models weigh gigabytes."""

    class Network:
        def predict(self, data: list[dict[str, str]], progress_bar: bool) -> SimpleNamespace:
            return SimpleNamespace(scores=[float(row["mt"] == row["ref"]) for row in data])

    module = ModuleType("comet")
    module.load_from_checkpoint = lambda path, local_files_only: Network()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comet", module)
    monkeypatch.setattr("loopmt.evaluation.metrics.version", lambda package: "2.2")
    checkpoint = tmp_path / "model.ckpt"
    with pytest.raises(MissingExtraError, match=r"model\.ckpt.*no such COMET checkpoint"):
        comet_statistics(["s"], ["a"], ["a"], checkpoint)
    checkpoint.touch()
    scored = comet_statistics(["s", "s"], ["a", "b"], ["a", "c"], checkpoint)
    assert (scored.score(), scored.signature) == (0.5, "comet|model:model.ckpt|version:2.2")


def run(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command()(score)
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, [str(argument) for argument in arguments])


def read_lines(file: Path) -> list[str]:
    return list(read_files([file]))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    rng = np.random.default_rng(14)
    good, references = corpus(rng, 80, 0.1)
    bad = [corrupted(rng, reference, 0.4) for reference in references]
    paths = tmp_path / "good.fr", tmp_path / "bad.fr.gz", tmp_path / "test.fr.xz"
    paths[0].write_text("\n".join(good) + "\n", encoding="utf-8")
    paths[1].write_bytes(gzip.compress(("\n".join(bad) + "\n").encode()))
    paths[2].write_bytes(lzma.compress(("\r\n".join(references) + "\r\n").encode()))
    return paths


def test_verb_prints_unrounded_json(files: tuple[Path, Path, Path]) -> None:
    good, _, test = files
    result = json.loads(run(good, test, "--json").stdout)
    assert list(result) == ["multi_bleu", "sacrebleu", "chrf"]
    hypotheses, references = read_lines(good), read_lines(test)
    assert result["multi_bleu"] == asdict(multi_bleu_statistics(hypotheses, references).summary())
    assert result["sacrebleu"] == asdict(sacre_bleu(hypotheses, references))
    assert result["chrf"] == asdict(chrf_statistics(hypotheses, references).summary())


def test_verb_compares(files: tuple[Path, Path, Path]) -> None:
    good, bad, test = files
    arguments = (good, test, "--against", bad, "--language", "fr", "--lowercase", "--samples", "50", "--json")
    result = json.loads(run(*arguments).stdout)
    assert list(result) == ["multi_bleu", "multi_bleu_moses", "sacrebleu", "chrf", "against"]
    other = result["against"]["multi_bleu"]
    assert other["score"] == multi_bleu_statistics(read_lines(bad), read_lines(test), lowercase=True).score()
    assert other["difference"] == pytest.approx(result["multi_bleu"]["score"] - other["score"])
    assert 0 < other["low"] < other["difference"] < other["high"]
    assert json.loads(run(*arguments).stdout) == result
    assert json.loads(run(*arguments, "--seed", "2").stdout)["against"] != result["against"]


def test_verb_prints_a_table(files: tuple[Path, Path, Path]) -> None:
    good, bad, test = files
    printed = run(good, test, "--against", bad, "--samples", "20").stdout
    assert f"{multi_bleu_statistics(read_lines(good), read_lines(test)).score():.2f}" in printed
    for word in ("multi-bleu", "sacreBLEU", "chrF2", "tok:white-space", "95% interval", "against"):
        assert word in printed
    assert "interval" not in run(good, test).stdout


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes("a\u2028b\x0bc\x85\u0085d\re\r\n\nlast".encode())
    assert read_lines(path) == ["a\u2028b\x0bc\x85\u0085d\re", "", "last"]
    path.write_bytes(b"one\n\n")
    assert read_lines(path) == ["one", ""]


def test_files_are_read_as_by_every_verb(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """A byte order mark is no text, and zstd is read too."""
    zstandard = pytest.importorskip("zstandard")
    good, _, test = files
    (tmp_path / "marked.fr").write_bytes(b"\xef\xbb\xbf" + good.read_bytes())
    (tmp_path / "test.fr.zst").write_bytes(zstandard.ZstdCompressor().compress(lzma.decompress(test.read_bytes())))
    same = run(tmp_path / "marked.fr", tmp_path / "test.fr.zst", "--json").stdout
    assert same == run(good, test, "--json").stdout != ""


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (None, "absent", r"absent cannot be read: No such file or directory\."),
        (b"", "hyp", r"hyp is empty; scoring needs at least one line\."),
        (b"a\nb\n", "hyp", r"hyp has 2 lines and .*ref has 1; scoring needs one hypothesis per reference"),
        (b"a\n\xff\n", "hyp", r"hyp, line 2 is not UTF-8 \(byte 0xff\)\. Convert the text"),
        (b"plain", "hyp.gz", r"hyp\.gz is damaged or cut off"),
        (b"plain", "hyp.xz", r"hyp\.xz is damaged or cut off "),
        (gzip.compress(b"a" * 99, mtime=0)[:-9], "hyp.gz", r"hyp\.gz is damaged or cut off "),
        (lzma.compress(b"a" * 99)[:-9], "hyp.xz", r"hyp\.xz is damaged or cut off "),
    ],
)
def test_verb_explains_bad_files(tmp_path: Path, content: bytes | None, name: str, message: str) -> None:
    reference = tmp_path / "ref"
    reference.write_text("a\n", encoding="utf-8")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = run(tmp_path / name, reference, "--json")
    assert result.stdout == ""
    assert isinstance(result.exception, DataError)
    assert re.search(message, str(result.exception))


def test_verb_refuses_a_folder(tmp_path: Path) -> None:
    result = run(tmp_path, tmp_path)
    assert isinstance(result.exception, DataError)
    assert f"{tmp_path} is a folder" in str(result.exception)


def test_scoring_does_not_import_torch() -> None:
    code = "import sys, loopmt.cli.score, loopmt.workflow.score; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
