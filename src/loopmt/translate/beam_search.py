"""The state of decoding: one hypothesis per sentence (greedy, sampling), or a beam.

A search takes the logits of the next position and chooses tokens. Its state is tensors of fixed shape, and the position
is a tensor, so that a step can be captured as a CUDA graph.

Shapes: B sentences, W beams, T target length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.model.kernels.registry import has_kernel
from loopmt.model.policy_gradient import nucleus
from loopmt.text.ragged import EOS, PAD, Ints, Ragged

Compile = Callable[[Any], Any]
S = TypeVar("S", bound="Search")


@dataclass
class Hypothesis:
    """One translation: ids without EOS, log-probability, and whether it ended with EOS."""

    ids: list[int]
    score: float
    ended: bool


@dataclass(frozen=True)
class Hypotheses:
    """Translations of many sentences, in arrays."""

    ids: Ragged  # without EOS
    scores: npt.NDArray[np.float64]
    ended: npt.NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Sequence[Hypotheses]) -> Hypotheses:
        return cls(
            Ragged.join([subset.ids for subset in parts]),
            np.concatenate([np.zeros(0), *(subset.scores for subset in parts)]),
            np.concatenate([np.zeros(0, np.bool_), *(subset.ended for subset in parts)]),
        )

    @classmethod
    def of(cls, hypotheses: Sequence[Hypothesis]) -> Hypotheses:
        ids = Ragged.of([one.ids for one in hypotheses])
        scores = np.array([one.score for one in hypotheses], dtype=np.float64)
        return cls(ids, scores, np.array([one.ended for one in hypotheses], dtype=np.bool_))

    def take(self, numbers: Ints) -> Hypotheses:
        return Hypotheses(self.ids.take(numbers), self.scores[numbers], self.ended[numbers])

    def each(self) -> list[Hypothesis]:
        table = zip(self.ids.rows(), self.scores.tolist(), self.ended.tolist(), strict=True)
        return [Hypothesis(ids.tolist(), score, ended) for ids, score, ended in table]


class Search(Protocol):
    """The hypotheses of a batch of sentences."""

    tokens: Tensor  # (B*W,), the last token of each hypothesis
    rows: Tensor  # (B,), the number of each row's sentence in the batch

    @property
    def width(self) -> int:
        """Hypotheses per sentence."""

    def advance(self, logits: Tensor, position: Tensor, generator: torch.Generator | None) -> Tensor | None:
        """Add a token to every hypothesis. Return the rows that the new ones continue, (B, W), if rows move."""

    def done(self, position: Tensor) -> Tensor:
        """(B,), the sentences whose result is final."""

    def select(self, keep: Tensor) -> None:
        """Keep only these sentences."""

    def best(self) -> Hypotheses:
        """The best hypothesis of each sentence."""

    def outputs(self) -> list[list[Hypothesis]]:
        """All hypotheses of each sentence, best first."""


def start_search(
    limit: list[int],
    how: Generate,
    device: torch.device,
    fuse: Compile = lambda function: function,
    start: int = PAD,
    opening: int | None = None,
) -> Search:
    """`limit` is the longest length of each output; `fuse` may replace the functions of all logits by faster ones.

    The decoder reads `start` first; every output begins with `opening`, if it is given.
    """
    longest = torch.tensor(limit, device=device)
    rows = torch.arange(len(limit), device=device)
    opens = None if opening is None else torch.full_like(rows, opening)
    if how.how != "beam" or how.beam == 1:
        prefixes = torch.full((len(limit), max(limit)), PAD, device=device)
        ended = torch.zeros(len(limit), dtype=torch.bool, device=device)
        tokens = torch.full_like(rows, start)
        return SingleHypothesis(
            prefixes, torch.zeros(len(limit), device=device), ended, longest, rows, tokens, how, fuse, opens
        )
    prefixes = torch.full((len(limit), how.beam, max(limit)), PAD, device=device)
    nothing = torch.full((len(limit), how.beam), -math.inf, device=device)
    scores = nothing.clone()
    scores[:, 0] = 0.0  # all beams start equal, so only one of them counts
    tokens = torch.full((len(limit) * how.beam,), start, device=device)
    return Beams(prefixes, scores, prefixes.clone(), nothing, longest, rows, tokens, how, fuse, opens)


def search_state(search: Search) -> dict[str, Tensor]:
    """The tensors of a search by name."""
    found = {field.name: getattr(search, field.name) for field in fields(search)}  # type: ignore[arg-type]
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def subset(search: S, rows: Tensor) -> S:
    """A copy of the search with these sentences only."""
    found = copy(search)
    found.select(rows)
    return found


@dataclass
class SingleHypothesis:
    """One hypothesis per sentence."""

    prefixes: Tensor  # (B, T)
    scores: Tensor  # (B,)
    ended: Tensor  # (B,)
    longest: Tensor  # (B,)
    rows: Tensor
    tokens: Tensor
    how: Generate
    fuse: Compile
    opening: Tensor | None = None  # (B,), the token that each hypothesis begins with

    @property
    def width(self) -> int:
        return 1

    def advance(self, logits: Tensor, position: Tensor, generator: torch.Generator | None) -> None:
        picked = self.fuse(pick)(logits, self.how, generator)
        if self.opening is not None:
            tokens, scores = opened(picked[0][:, None], picked[1][:, None], self.opening, position)
            picked = tokens[:, 0], scores[:, 0]
        kept = (self.prefixes, self.scores, self.ended, self.tokens)
        self.prefixes, self.scores, self.ended, self.tokens = self.fuse(extended)(kept, self.longest, position, *picked)

    def done(self, position: Tensor) -> Tensor:
        return self.ended

    def select(self, keep: Tensor) -> None:
        for name, tensor in search_state(self).items():
            setattr(self, name, tensor[keep])

    def best(self) -> Hypotheses:
        return hypotheses_from(self.prefixes, self.scores)

    def outputs(self) -> list[list[Hypothesis]]:
        return [[hypothesis] for hypothesis in self.best().each()]


@dataclass
class Beams:
    """W unfinished and W finished hypotheses per sentence, best first."""

    prefixes: Tensor  # (B, W, T)
    scores: Tensor  # (B, W), log-probability
    finished: Tensor
    finished_scores: Tensor  # (B, W), log-probability over length ** penalty
    longest: Tensor  # (B,)
    rows: Tensor
    tokens: Tensor
    how: Generate
    fuse: Compile
    opening: Tensor | None = None  # (B,)

    @property
    def width(self) -> int:
        return self.how.beam

    def advance(self, logits: Tensor, position: Tensor, generator: torch.Generator | None) -> Tensor:
        logprobs, choices = self.fuse(likeliest)(logits, 2 * self.width)
        if self.opening is not None:
            choices, logprobs = opened(choices, logprobs, self.opening.repeat_interleave(self.width), position)
        now = BeamStep(self.longest, position, (position + 1) ** self.how.length_penalty, logprobs, choices)
        kept = (self.prefixes, self.scores, self.finished, self.finished_scores, self.tokens)
        parents: Tensor
        kept, parents = self.fuse(extended_beams)(kept, now)
        self.prefixes, self.scores, self.finished, self.finished_scores, self.tokens = kept
        return parents

    def done(self, position: Tensor) -> Tensor:
        """At the length limit, or no unfinished hypothesis can overtake the worst finished one."""
        reachable = self.scores[:, 0] / self.longest**self.how.length_penalty
        return (reachable <= self.finished_scores[:, -1]) | (self.longest <= position + 1)

    def select(self, keep: Tensor) -> None:
        tokens = self.tokens.view(-1, self.width)[keep].flatten()
        for name, tensor in search_state(self).items():
            setattr(self, name, tokens if name == "tokens" else tensor[keep])

    def best(self) -> Hypotheses:
        places = torch.arange(self.prefixes.shape[2], device=self.prefixes.device)
        cut = self.prefixes[:, 0].masked_fill(places >= self.longest[:, None], PAD)
        ended, scores = self.finished[:, 0], self.finished_scores[:, 0].double()
        tokens = (ended == EOS).int().argmax(1) + 1
        any_ended = scores > -math.inf
        scores = torch.where(any_ended, scores * tokens**self.how.length_penalty, self.scores[:, 0].double())
        return hypotheses_from(torch.where(any_ended[:, None], ended, cut), scores)

    def outputs(self) -> list[list[Hypothesis]]:
        """Hypotheses cut off at the length limit are used only if none is finished."""
        table = zip(
            self.finished.tolist(),
            self.finished_scores.tolist(),
            self.prefixes.tolist(),
            self.scores.tolist(),
            self.longest.tolist(),
            strict=True,
        )
        return [self._sentence(*row) for row in table]

    def _sentence(
        self,
        finished: list[list[int]],
        finished_scores: list[float],
        prefixes: list[list[int]],
        scores: list[float],
        longest: int,
    ) -> list[Hypothesis]:
        ended = [
            hypothesis(ids, score * (ids.index(EOS) + 1) ** self.how.length_penalty)
            for ids, score in zip(finished, finished_scores, strict=True)
            if score > -math.inf
        ]
        cut = zip(prefixes, scores, strict=True)
        return ended or [hypothesis(ids[:longest], score) for ids, score in cut if score > -math.inf]


def opened(tokens_RC: Tensor, scores_RC: Tensor, opening_R: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """At position 0 the only candidate is the opening, with probability 1; elsewhere the candidates are unchanged."""
    first = torch.zeros_like(scores_RC)
    first[:, 1:] = -math.inf
    begins = position == 0
    return torch.where(begins, opening_R[:, None], tokens_RC), torch.where(begins, first, scores_RC)


SingleState = tuple[Tensor, Tensor, Tensor, Tensor]
"""State of one hypothesis per sentence: (B, T) tokens, (B,) scores, whether it has ended, last token."""


@has_kernel("loopmt.translate.kernels.beam:extended")
def extended(kept: SingleState, longest_B: Tensor, position: Tensor, picked_B: Tensor, scored_B: Tensor) -> SingleState:
    """Append a token to the hypotheses that have not ended."""
    prefixes, scores, ended, _ = kept
    tokens = picked_B.masked_fill(ended, PAD)
    prefixes = prefixes.index_copy(1, position.view(1), tokens[:, None])
    over = ended | (tokens == EOS) | (longest_B <= position + 1)
    return prefixes, scores + scored_B.masked_fill(ended, 0), over, tokens


class BeamStep(NamedTuple):
    """Candidates for the next token of B beams."""

    longest_B: Tensor
    position: Tensor
    penalty: Tensor  # the length penalty, which divides the score of a hypothesis that ends here
    logprobs_RC: Tensor  # of the most likely next tokens of each hypothesis
    choices_RC: Tensor


BeamState = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""State of a beam: (B, W, T) tokens and (B, W) scores, the same for finished hypotheses, (B*W,) last tokens."""


@has_kernel("loopmt.translate.kernels.beam:extended_beams")
def extended_beams(kept: BeamState, now: BeamStep) -> tuple[BeamState, Tensor]:
    """Append a token to the beams. Also return the rows that they continue, (B, W)."""
    prefixes, scores, finished, finished_scores, _ = kept
    rows, width = scores.shape
    total = (scores[..., None] + now.logprobs_RC.view(rows, width, -1)).flatten(1)
    best, place = total.topk(2 * width, dim=1)  # at most W of them end, so W continue
    parent, token = place // now.logprobs_RC.shape[-1], now.choices_RC.view(rows, -1).gather(1, place)
    longer = _gathered(prefixes, parent).index_copy(2, now.position.view(1), token[..., None])
    ending = token == EOS
    active = (now.longest_B > now.position)[:, None]  # a sentence at its length limit does not change
    new_scores = best.masked_fill(~(ending & active), -math.inf) / now.penalty
    finished_scores, order = torch.cat([finished_scores, new_scores], 1).topk(width, dim=1)
    finished = _gathered(torch.cat([finished, longer], 1), order)
    new_scores, order = best.masked_fill(ending, -math.inf).topk(width, dim=1)
    scores = new_scores.where(active, scores)
    prefixes = _gathered(longer, order).where(active[..., None], prefixes)
    first = torch.arange(rows, device=prefixes.device)[:, None] * width
    kept = (prefixes, scores, finished, finished_scores, token.gather(1, order).flatten())
    return kept, first + parent.gather(1, order)


def _gathered(tokens_BWT: Tensor, order: Tensor) -> Tensor:
    return tokens_BWT.gather(1, order[..., None].expand(-1, -1, tokens_BWT.shape[2]))


def hypotheses_from(ids_BT: Tensor, scores_B: Tensor) -> Hypotheses:
    """Hypotheses from padded rows, computed on the device of the tensors."""
    places = torch.arange(ids_BT.shape[1], device=ids_BT.device)
    over = (ids_BT == EOS) | (ids_BT == PAD)
    lengths = torch.where(over, places, ids_BT.shape[1]).amin(1)
    flat = ids_BT[places < lengths[:, None]]
    offsets = np.concatenate([[0], lengths.cumsum(0).cpu().numpy()])
    ended = (ids_BT == EOS).any(1)
    return Hypotheses(Ragged(flat.cpu().numpy(), offsets), scores_B.double().cpu().numpy(), ended.cpu().numpy())


def hypothesis(ids: list[int], score: float) -> Hypothesis:
    length = next((place for place, token in enumerate(ids) if token in (EOS, PAD)), len(ids))
    return Hypothesis(ids[:length], score, EOS in ids)


@has_kernel("loopmt.translate.kernels.sampling:likeliest")
def likeliest(logits_BV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities and ids of the `count` most likely tokens of every row, (B, count)."""
    logits = logits_BV.float()
    best, tokens = logits.topk(min(count, logits.shape[-1]), dim=-1)
    return best - logits.logsumexp(-1, keepdim=True), tokens


@has_kernel("loopmt.translate.kernels.sampling:pick")
def pick(logits_BV: Tensor, how: Generate, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """The next token of every row and its log-probability under the unrestricted distribution."""
    logits = logits_BV.float()
    chosen = logits.argmax(-1) if how.how != "sample" else _sampled(logits, how, generator)
    return chosen, logits.gather(-1, chosen[:, None])[:, 0] - logits.logsumexp(-1)


def _sampled(logits_BV: Tensor, how: Generate, generator: torch.Generator | None) -> Tensor:
    if how.top_k and how.top_k < logits_BV.shape[-1]:
        best, places = logits_BV.topk(how.top_k, dim=-1)
        return places.gather(-1, drawn(best, how, generator)[:, None])[:, 0]
    return drawn(logits_BV, how, generator)


def drawn(logits_BV: Tensor, how: Generate, generator: torch.Generator | None) -> Tensor:
    """Draw a column of every row from the softmax of its logits."""
    scaled = nucleus(logits_BV / how.temperature, how.top_p)
    # The argmax of logits + Gumbel noise is a draw from their softmax.
    noise = torch.empty_like(scaled).exponential_(generator=generator).clamp_min_(1e-30).log_()
    return (scaled - noise).argmax(-1)
