"""The built-in metrics, each with a signature of its computation.

A function `..._statistics` returns numbers for every sentence that can be resampled (`loopmt.evaluation.bootstrap`) and
summed to a corpus score. Every sentence has one hypothesis and one reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from loopmt.errors import ConfigError, MissingExtraError
from loopmt.evaluation.bootstrap import FloatArray, Score, Statistics, mean_statistics
from loopmt.evaluation.metric import METRICS as METRICS
from loopmt.evaluation.metric import MetricInput, Texts, check_parallel, metric
from loopmt.text.moses import tokenize

ORDER = 4
_KEPT = 64  # sets of references


# -- by name ---------------------------------------------------------------------------------------------------


@metric("multi_bleu", label="BLEU", title="BLEU (multi-bleu on Moses tokens)", surface=True)
def _multi_bleu(texts: MetricInput) -> Statistics:
    return multi_bleu_statistics(texts.hypotheses, texts.references, language=texts.language, lowercase=texts.lowercase)


@metric("sacrebleu", label="sacreBLEU", by_direction=False, surface=True)
def _sacre_bleu(texts: MetricInput) -> Statistics:
    return sacre_bleu_statistics(texts.hypotheses, texts.references, lowercase=texts.lowercase)


@metric("chrf", label="chrF2", surface=True)
def _chrf2(texts: MetricInput) -> Statistics:
    return chrf_statistics(texts.hypotheses, texts.references, lowercase=texts.lowercase)


@metric("accuracy", label="exact accuracy", digits=3, needs_sources=True, needs_judge=True)
def _accuracy(texts: MetricInput) -> Statistics:
    """The share of translations with exactly the same meaning, by the judge of the built-in languages."""
    if texts.agree is None or texts.hop is None or texts.sources is None:
        raise ConfigError(
            'metric "accuracy" needs the exact judge, which exists only for the built-in languages. Use another metric.'
        )
    hop, agree = texts.hop, texts.agree
    rows = zip(texts.sources, texts.hypotheses, strict=True)
    right = [agree(source, hop.source, translation, hop.target) for source, translation in rows]
    return mean_statistics(right, "exact|against:source|judge:built-in languages")


@metric("comet", label="COMET", digits=3, needs_sources=True)
def _comet(texts: MetricInput) -> Statistics:
    if texts.checkpoint is None or texts.sources is None:
        raise ConfigError('metric "comet" needs a checkpoint. Give its file with --comet or as evaluate.comet.')
    return comet_statistics(texts.sources, texts.hypotheses, texts.references, texts.checkpoint)


# -- functions -------------------------------------------------------------------------------------------------


def sacre_bleu(hypotheses: Texts, references: Texts, *, lowercase: bool = False) -> Score:
    """BLEU with sacreBLEU's defaults: 13a tokens, exponential smoothing."""
    return sacre_bleu_statistics(hypotheses, references, lowercase=lowercase).summary()


def multi_bleu_statistics(
    hypotheses: Texts, references: Texts, *, language: str | None = None, lowercase: bool = False
) -> Statistics:
    """BLEU as computed by multi-bleu.perl: on the given text, or with a language on Moses tokens.

    Lower-casing covers Unicode; that of the script's `-lc` may cover only ASCII.
    """
    check_parallel(hypotheses=hypotheses, references=references)
    tokens = "tok:white-space"
    if language is not None:
        hypotheses, references = moses(hypotheses, language), moses(references, language)
        tokens = f"tok:moses-{language}-no-escape|sacremoses:{version('sacremoses')}"
    if lowercase:
        hypotheses, references = _lower(hypotheses), _lower(references)
    signature = f"multi-bleu|nrefs:1|case:{'lc' if lowercase else 'mixed'}|eff:no|smooth:none|{tokens}"
    return Statistics(ngram_counts(hypotheses, references), bleu, signature)


def sacre_bleu_statistics(hypotheses: Texts, references: Texts, *, lowercase: bool = False) -> Statistics:
    check_parallel(hypotheses=hypotheses, references=references)
    return _sacre_statistics(_bleu_against(tuple(references), lowercase), partial(bleu, smooth=True), hypotheses)


def chrf_statistics(hypotheses: Texts, references: Texts, *, lowercase: bool = False) -> Statistics:
    """chrF2 with sacreBLEU's defaults: character n-grams up to six."""
    check_parallel(hypotheses=hypotheses, references=references)
    return _sacre_statistics(_chrf_against(tuple(references), lowercase), _chrf, hypotheses)


@lru_cache(maxsize=_KEPT)
def _bleu_against(references: tuple[str, ...], lowercase: bool) -> BLEU:
    """sacreBLEU's metric with cached n-grams of the references, which every validation needs again."""
    return BLEU(lowercase=lowercase, force=True, references=[references])


@lru_cache(maxsize=_KEPT)
def _chrf_against(references: tuple[str, ...], lowercase: bool) -> CHRF:
    return CHRF(lowercase=lowercase, references=[references])


def _sacre_statistics(sacre: BLEU | CHRF, formula: Callable[[FloatArray], FloatArray], hypotheses: Texts) -> Statistics:
    """Statistics against the references of `sacre`."""
    rows = sacre._extract_corpus_statistics(hypotheses, None)
    return Statistics(np.array(rows, dtype=np.float64), formula, str(sacre.get_signature()))


def moses(texts: Texts, language: str) -> list[str]:
    """Texts tokenized by the Moses rules for a language, without XML escapes."""
    return [tokenize(text, language) for text in texts]


def _lower(texts: Texts) -> list[str]:
    return [text.lower() for text in texts]


def words(text: str) -> list[bytes]:
    """Tokens separated by ASCII white space. A no-break space is part of its word, as in multi-bleu.perl."""
    return text.encode().split()


def ngram_counts(hypotheses: Texts, references: Texts) -> FloatArray:
    """Per sentence: both lengths, matching n-grams, and n-grams of the hypothesis; n = 1 to 4."""
    pairs = zip(hypotheses, references, strict=True)
    rows = [_sentence_counts(words(hypothesis), words(reference)) for hypothesis, reference in pairs]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 2 + 2 * ORDER)


def _sentence_counts(hypothesis: list[bytes], reference: list[bytes]) -> list[int]:
    matches = [(_ngrams(hypothesis, n) & _ngrams(reference, n)).total() for n in range(1, ORDER + 1)]
    totals = [max(len(hypothesis) - n, 0) for n in range(ORDER)]
    return [len(hypothesis), len(reference), *matches, *totals]


def _ngrams(tokens: list[bytes], n: int) -> Counter[tuple[bytes, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


def bleu(counts: FloatArray, *, smooth: bool = False, effective_order: bool = False) -> FloatArray:
    """BLEU of (sums of) `ngram_counts`, over the last axis.

    `smooth` halves once more for every order without a match, as in mteval and sacreBLEU; `effective_order` leaves out
    orders for which the hypothesis is too short.
    """
    length, reference_length = counts[..., 0], counts[..., 1]
    matches, totals = counts[..., 2 : 2 + ORDER], counts[..., 2 + ORDER :]
    missing = (matches == 0) & (totals > 0)
    halved = 0.5 ** np.cumsum(missing, axis=-1)
    precision = np.where(missing & smooth, halved, matches) / np.maximum(totals, 1)
    used = (totals > 0) | (not effective_order)
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(used, precision, 1)).sum(axis=-1) / np.maximum(used.sum(axis=-1), 1)
    brevity = np.exp(np.minimum(1 - reference_length / np.maximum(length, 1), 0))
    return np.where(matches.any(axis=-1), 100 * brevity * np.exp(logs), 0.0)


def _chrf(counts: FloatArray) -> FloatArray:
    """chrF2 of summed sacreBLEU statistics: for each order the n-grams of hypothesis, reference and both."""
    by_order = counts.reshape(*counts.shape[:-1], CHRF.CHAR_ORDER, 3)
    hypothesis, reference, both = np.moveaxis(by_order, -1, 0)
    used = (hypothesis > 0) & (reference > 0)
    num_used = np.maximum(used.sum(axis=-1), 1)
    precision = np.where(used, both / np.maximum(hypothesis, 1), 0).sum(axis=-1) / num_used
    recall = np.where(used, both / np.maximum(reference, 1), 0).sum(axis=-1) / num_used
    weighted = CHRF.BETA**2 * precision + recall
    fscore = (1 + CHRF.BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    return np.asarray(100 * fscore)


def sentence_bleu(hypotheses: Texts, references: Texts, *, smooth: bool = True) -> FloatArray:
    """BLEU of every sentence on white-space tokens; a hypothesis equal to its reference scores 100.

    With smoothing, short sentences are scored by the orders they have; without, a sentence without a matching 4-gram
    scores 0.
    """
    check_parallel(hypotheses=hypotheses, references=references)
    scores = bleu(ngram_counts(hypotheses, references), smooth=smooth, effective_order=smooth)
    return np.where(_exact(hypotheses, references), 100.0, scores)


def _exact(hypotheses: Texts, references: Texts) -> NDArray[np.bool_]:
    pairs = zip(hypotheses, references, strict=True)
    return np.array([words(hypothesis) == words(reference) for hypothesis, reference in pairs], dtype=np.bool_)


def comet_statistics(sources: Texts, hypotheses: Texts, references: Texts, checkpoint: Path) -> Statistics:
    """COMET scores by a checkpoint file on this machine; nothing is downloaded."""
    check_parallel(sources=sources, hypotheses=hypotheses, references=references)
    try:
        from comet import load_from_checkpoint
    except ImportError as error:
        message = "COMET is not installed. Install it: pip install unbabel-comet, or remove the metric."
        raise MissingExtraError(message) from error
    if not checkpoint.is_file():
        raise MissingExtraError(f"{checkpoint}: there is no such COMET checkpoint. Download a model and give its file.")
    network = load_from_checkpoint(str(checkpoint), local_files_only=True)
    triples = zip(sources, hypotheses, references, strict=True)
    data = [{"src": source, "mt": hypothesis, "ref": reference} for source, hypothesis, reference in triples]
    prediction = network.predict(data, progress_bar=False)
    return mean_statistics(prediction.scores, f"comet|model:{checkpoint.name}|version:{version('unbabel-comet')}")
