"""Utilities: scores of generated sentences for choosing candidates, keeping rows and rewarding generators.

A utility is a registered name, `"module:function"` or `"command:PROGRAM ARGS..."`; the larger, the better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from loopmt.config import Generate
from loopmt.errors import ExternalError
from loopmt.external import Command
from loopmt.path import Hop
from loopmt.registry import Registry
from loopmt.text.ragged import Ints
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Mask, Sentences, TranslationModel
from loopmt.translate.scoring import dual_cross_entropy

_ORDERS = 6  # of character n-grams
_RECALL = 4.0  # chrF2: recall counts beta squared times as much as precision
_SHIFT = np.uint64(61)  # the order of an n-gram in the upper three bits of its hash


@dataclass(frozen=True)
class Candidates:
    """Generated sentences: one or more in a row for each real sentence."""

    model: TranslationModel
    hop: Hop  # from the generated language to the real one
    generated: Sentences
    real: Sentences  # for every candidate, the sentence that must result from it
    counts: Ints  # candidates of each real sentence
    limits: DecodeLimits
    timeout: float = 600.0  # seconds that a program may take

    def blocks(self) -> Iterator[slice]:
        """The candidates of each real sentence."""
        return (slice(*ends) for ends in pairwise([0, *np.cumsum(self.counts).tolist()]))


@dataclass(frozen=True)
class Utility:
    """A function that returns a number for each candidate."""

    name: str
    function: Callable[[Candidates], Floats]

    def __call__(self, candidates: Candidates) -> Floats:
        found = np.asarray(self.function(candidates), dtype=np.float64)
        if found.shape != (len(candidates.generated),):
            raise ExternalError(
                f'utility "{self.name}" returned an array of shape {found.shape} for {len(candidates.generated)} '
                "candidates. Return one number for each."
            )
        return found


def _from_command(command: Command) -> Callable[[Candidates], Floats]:
    """A program reads the generated sentence and the real one, and prints the utility."""

    def function(candidates: Candidates) -> Floats:
        rows = list(zip(candidates.generated.texts, candidates.real.texts, strict=True))
        hop = candidates.hop
        return np.array(command.numbers(rows, candidates.timeout, (hop.source, hop.target)))

    return function


UTILITIES: Registry[Utility] = Registry("utility", Utility, _from_command)
utility = UTILITIES.register


def best_of(values: Floats, counts: Ints, allowed: Mask) -> Ints:
    """The index of the best allowed candidate of each sentence; if none is allowed, of the best candidate."""
    owners = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((-np.where(allowed, values, -np.inf), owners))
    return np.asarray(order[np.cumsum(counts) - counts])


# -- utilities ---------------------------------------------------------------------------------------------------


@utility("likelihood")
def likelihood(candidates: Candidates) -> Floats:
    """The log-probability per token of the real sentence, given the generated one."""
    return -np.divide(*candidates.model.score(candidates.hop, candidates.generated, candidates.real))


@utility("dual")
def dual(candidates: Candidates) -> Floats:
    """Dual cross-entropy of the pair (Junczys-Dowmunt 2018), negated: high if both directions find it likely."""
    return -dual_cross_entropy(candidates.model, candidates.hop, candidates.generated, candidates.real)


@utility("round-trip")
def round_trip(candidates: Candidates) -> Floats:
    """chrF of the real sentence and the greedy translation of the candidate into its language."""
    inputs = [HopInput(candidates.hop, candidates.generated)]
    (back,) = candidates.model.generate(inputs, Generate(how="greedy"), candidates.limits, ("round-trip",))
    pairs = zip(back.sentences.texts, candidates.real.texts, strict=True)
    return np.array([chrf_table([back, real])[0, 1] for back, real in pairs])


@utility("consensus")
def consensus(candidates: Candidates) -> Floats:
    """Mean chrF against the other candidates of the sentence: minimum Bayes risk (Eikema and Aziz 2020)."""
    texts = candidates.generated.texts
    found = np.zeros(len(texts))
    for block in candidates.blocks():
        table = chrf_table(texts[block])
        np.fill_diagonal(table, 0)
        found[block] = table.sum(1) / max(1, len(table) - 1)
    return found


def chrf_table(texts: Sequence[str]) -> Floats:
    """chrF2, as in sacreBLEU, of each text as hypothesis (row) against each as reference (column)."""
    counts, orders = _ngram_counts(texts)
    totals = np.add.reduceat(counts, orders, axis=1)  # texts x orders
    matches = np.add.reduceat(np.minimum(counts[:, None], counts[None]), orders, axis=2)
    both = (totals[:, None] > 0) & (totals[None] > 0)
    effective = np.maximum(both.sum(-1), 1)
    precision = np.divide(matches, totals[:, None], where=both, out=np.zeros(both.shape)).sum(-1) / effective
    recall = np.divide(matches, totals[None], where=both, out=np.zeros(both.shape)).sum(-1) / effective
    below = _RECALL * precision + recall
    return np.asarray(100 * (1 + _RECALL) * precision * recall / np.where(below > 0, below, 1))


def _ngram_counts(texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], Ints]:
    """The count of each n-gram in each text (without spaces), and the first column of each order.

    The first column of every order stands for no n-gram and is 0.
    """
    hashes = [_ngrams(text) for text in texts]
    owners = np.repeat(np.arange(len(texts)), [len(row) for row in hashes])
    none = np.arange(1, _ORDERS + 1, dtype=np.uint64) << _SHIFT
    distinct, places = np.unique(np.concatenate([none, *hashes]), return_inverse=True)
    counts = np.zeros((len(texts), len(distinct)), dtype=np.int64)
    np.add.at(counts, (owners, places[_ORDERS:]), 1)
    return counts, np.searchsorted(distinct, none)


def _ngrams(text: str) -> npt.NDArray[np.uint64]:
    """A hash for each n-gram of each order, whose lower bits are never 0."""
    letters = np.frombuffer("".join(text.split()).encode("utf-32-le"), dtype="<u4").astype(np.uint64) + np.uint64(1)
    found, rolling = [], np.zeros(len(letters), dtype=np.uint64)
    for order in range(1, min(_ORDERS, len(letters)) + 1):
        rolling = rolling[: len(letters) - order + 1] * np.uint64(0x9E3779B97F4A7C15) + letters[order - 1 :]
        low = (rolling >> np.uint64(3)) ^ (rolling & np.uint64(2**58 - 1))
        found.append((np.uint64(order) << _SHIFT) | np.maximum(low, np.uint64(1)) & np.uint64(2**61 - 1))
    return np.concatenate(found) if found else rolling
