"""Translates text with the translators of a finished stage, along any path of its languages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from pydantic import model_validator

from loopmt import config
from loopmt.config import validated
from loopmt.distributed import device_of_this_process
from loopmt.errors import ConfigError, DataError, PathError
from loopmt.languages import did_you_mean
from loopmt.path import Hop, LanguagePath
from loopmt.run import Run
from loopmt.text.vocab import Vocab
from loopmt.translate.ensemble import EnsembleModel, TokenModel
from loopmt.translate.long_text import LongTextModel
from loopmt.translate.protocol import DecodeLimits, Sentences, TrainableModel, TranslationModel
from loopmt.translate.utility import UTILITIES, Candidates, best_of
from loopmt.translate.walker import Rollout, Translators, generate_along
from loopmt.workflow.models import for_text, result_of, text_limits
from loopmt.workflow.stage_choice import choose_stage

Item = TypeVar("Item")


@dataclass(frozen=True)
class Candidate:
    """A translation, `text`, and its log-probability over all hops in nats, `score`.

    The score is that of the subwords that the search found. `Translator.score` segments a text anew, so the two agree
    if the segmentations do.
    """

    text: str
    score: float


class Generate(config.Generate):
    """How a hop is decoded: the keys `how`, `temperature`, `top_k`, `top_p`, `beam` and `length_penalty` of a mix.

    Invalid values raise `ConfigError`, a `LoopmtError`.
    """

    @model_validator(mode="before")
    @classmethod
    def _explained(cls, values: Any) -> Any:
        validated(config.Generate, values, "loopmt.Generate")
        return values


class Translator:
    """Translates along every path that the directions of one stage make. `loopmt.load` returns one."""

    def __init__(self, model: TranslationModel, languages: Sequence[str], limits: DecodeLimits) -> None:
        self._model = model
        self._languages = list(languages)
        self._limits = limits

    @property
    def languages(self) -> list[str]:
        """The language codes."""
        return list(self._languages)

    @property
    def directions(self) -> list[str]:
        """The directions that have a translator, such as "en>fr"."""
        return [str(hop) for hop in self._model.hops]

    def translate(
        self, texts: Iterable[str], path: str, beam: int = 4, how: config.Generate | None = None, seed: int = 1
    ) -> list[str]:
        """Translate texts along a path, such as "en>fr" or "fr>en>es". Return one line for each text.

        `how` replaces beam search; `seed` is the seed of sampling.
        """
        return self._walk(texts, path, 1, search(beam) if how is None else how, seed).text.texts

    def nbest(
        self,
        texts: Iterable[str],
        path: str,
        n: int = 4,
        beam: int = 4,
        how: config.Generate | None = None,
        seed: int = 1,
    ) -> list[list[Candidate]]:
        """Return up to `n` translations of each text, best first; with sampling, `n` draws.

        Hops before the last have one translation each.
        """
        rollout = self._walk(texts, path, n, search(beam) if how is None else how, seed)
        last = rollout.trace[-1]
        before = (rollout.scores - last.best().scores).tolist()
        return [
            [Candidate(text, start + score) for text, score in candidates]
            for candidates, start in zip(last.by_source(), before, strict=True)
        ]

    def mbr(
        self, texts: Iterable[str], path: str, n: int = 16, how: config.Generate | None = None, seed: int = 1
    ) -> list[str]:
        """Return, of `n` samples of each text, the one closest to the others (minimum Bayes risk by chrF)."""
        rollout = self._walk(texts, path, n, config.Generate() if how is None else how, seed)
        return self._chosen(rollout, "consensus")

    def rerank(
        self, texts: Iterable[str], path: str, by: str = "dual", n: int = 8, how: config.Generate | None = None
    ) -> list[str]:
        """Return the best of `n` translations of a beam by a utility: `dual`, `round-trip`, `consensus` or your own."""
        self._check_reverse(path, by)
        return self._chosen(self._walk(texts, path, n, search(n) if how is None else how, 1), by)

    def _chosen(self, rollout: Rollout, by: str) -> list[str]:
        """The best hypothesis of the last hop by a utility, given what the hop was to translate."""
        found = rollout.trace[-1]
        before = rollout.trace[-2].best().sentences if len(rollout.trace) > 1 else rollout.start
        real = before.take(np.repeat(np.arange(len(before)), found.counts))
        hop = rollout.hops[-1].reverse
        values = UTILITIES.find(by)(Candidates(self._model, hop, found.sentences, real, found.counts, self._limits))
        allowed = np.ones(len(values), dtype=np.bool_)
        return found.sentences.take(best_of(values, found.counts, allowed)).texts

    def _check_reverse(self, path: str, by: str) -> None:
        UTILITIES.check(by)
        hop = checked_path(self, path).hops[-1].reverse
        if by in ("dual", "round-trip") and hop not in self._model.hops:
            raise PathError(
                f'the utility "{by}" needs a translator {hop}; there are: {", ".join(self.directions)}. '
                'Choose "consensus", or a stage that translates the way back.'
            )

    def trace(
        self, texts: Iterable[str], path: str, beam: int = 4, how: config.Generate | None = None, seed: int = 1
    ) -> list[list[str]]:
        """Return each text followed by its translation after each hop. The last one is that of `translate`."""
        rollout = self._walk(texts, path, 1, search(beam) if how is None else how, seed)
        steps = [rollout.start.texts, *(hop.best().sentences.texts for hop in rollout.trace)]
        return [list(texts) for texts in zip(*steps, strict=True)]

    def score(self, pairs: Iterable[tuple[str, str]], path: str) -> list[float]:
        """Return the log-probability of each pair's target given its source in nats, end of sentence included.

        `path` is one direction. As in `nbest`, only subwords that a translation may have share the probability: tags
        and padding have none. A target that the vocabulary cannot spell has the score -inf.
        """
        hop = self._direction(path)
        sources, targets = _sides(pairs)
        losses, _ = self._model.score(hop, _text(hop.source, sources), _text(hop.target, targets), as_generated=True)
        return [-loss for loss in losses.tolist()]

    def _direction(self, path: str) -> Hop:
        hop, *more = checked_path(self, path).hops
        if more:
            raise PathError(
                f"path {path} goes through other languages, whose sentences no pair has. "
                f"Score one direction: {', '.join(self.directions)}."
            )
        return hop

    def _walk(self, texts: Iterable[str], path: str, n: int, how: config.Generate, seed: int) -> Rollout:
        """The texts along the path: each hop passes on its best translation; the last one returns up to `n`."""
        _check(how, n)
        found = _texts(texts, "texts")
        walk = checked_path(self, path)
        rollout = Rollout.to_the_end(walk, how, _text(walk.languages[0], found), n)
        generate_along(Translators(self._model), [rollout], self._limits, (seed, "translate"))
        return rollout


def by_sentence(translator: Translator) -> Translator:
    """The same translator, splitting each line into sentences and joining their translations."""
    model = translator._model
    split = replace(model, by_sentence=True) if isinstance(model, LongTextModel) else model
    return Translator(split, translator._languages, translator._limits)


def _text(language: str, texts: Sequence[str]) -> Sentences:
    return Sentences(None, language, texts=texts)


def checked_path(translator: Translator, path: str) -> LanguagePath:
    """The path, if there is a translator for each of its hops."""
    languages, directions = translator.languages, translator.directions
    known = ", ".join(directions)
    if not isinstance(path, str):
        raise PathError(f"path = {path!r:.60} is of type {type(path).__name__}, not a string. The run has {known}.")
    walk = LanguagePath.parse(path)
    for language in walk.languages:
        if language not in languages:
            raise PathError(
                f"path {path}: the run has no language '{language}'.{did_you_mean(language, languages)} "
                f"It has {', '.join(languages)} ({known})."
            )
    for hop in walk.hops:
        if str(hop) not in directions:
            raise PathError(f"path {path}: the run has no translator {hop}.{_detour(hop, translator)} It has {known}.")
    return walk


def _detour(hop: Hop, translator: Translator) -> str:
    for pivot in translator.languages:
        if {f"{hop.source}>{pivot}", f"{pivot}>{hop.target}"} <= set(translator.directions):
            return f" Go through {pivot}: {hop.source}>{pivot}>{hop.target}."
    return ""


def _check(how: config.Generate, n: int) -> None:
    """Refuse values that Python accepts but that are mistakes."""
    if not isinstance(how, config.Generate):
        raise ConfigError(f'how = {how!r} is no Generate. Write, for example, how=loopmt.Generate(how="greedy").')
    if how.generators != ["live"]:
        raise ConfigError(
            f'how.by = "{how.by}": a finished stage has one set of weights, so there is nobody else to ask. Leave `by` '
            "out, and name the stage whose weights you want in `loopmt.load`."
        )
    _check_count("n", n)
    if how.how != "sample" and n > (how.beam if how.how == "beam" else 1):
        raise ConfigError(f"{n} best translations need a beam of {n} at least, or sampling.")


def _texts(texts: Iterable[str], name: str) -> list[str]:
    if isinstance(texts, str):
        raise DataError(f"{name} is one string, which would be read letter by letter. Put it into a list: [text].")
    found = _listed(texts, name)
    for number, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(f"{name}[{number}] is of type {type(text).__name__}, not a string: {text!r:.60}.")
    return found


def _sides(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    found = _listed(pairs, "pairs")
    for number, pair in enumerate(found):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise DataError(f"pairs[{number}] is no pair: {pair!r:.60}. Write (source, target) for each.")
        _texts(pair, f"pairs[{number}]")
    return [source for source, _ in found], [target for _, target in found]


def _listed(values: Iterable[Item], name: str) -> list[Item]:
    """Texts as a list: a file or a generator can be read only once."""
    if not isinstance(values, Iterable):
        raise DataError(
            f"{name} is of type {type(values).__name__}: {values!r:.60}. Give a list, a file or a generator."
        )
    return list(values)


def search(beam: int) -> config.Generate:
    _check_count("beam", beam)
    return config.Generate(how="beam", beam=int(beam)) if beam > 1 else config.Generate(how="greedy")


def _check_count(name: str, count: int) -> None:
    """A whole number, numpy's included, but not a bool."""
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise ConfigError(f"{name} = {count!r:.60}: write a whole number, 1 or more.")


# -- which translators -----------------------------------------------------------------------------------------


def load(folder: Path, stage: str | None = None, device: str | None = None) -> Translator:
    """Load the result of a stage, by default of the last finished one that is not a control.

    It runs on a GPU if there is one; `device` names another device, such as "cpu".
    """
    run = Run.open(folder)
    experiment = run.experiment()
    chosen = choose_stage(run, experiment, stage)
    return text_translator(result_of(run, experiment, chosen, _device(device)), experiment.training(chosen).max_length)


def load_ensemble(folder: Path, stages: Sequence[str], device: str | None = None) -> Translator:
    """Load several stages of a run, which choose every token by the mean of their probabilities."""
    run = Run.open(folder)
    experiment = run.experiment()
    chosen = [choose_stage(run, experiment, stage) for stage in stages]
    networks = [result_of(run, experiment, stage, _device(device)) for stage in chosen]
    members = [one for one in networks if isinstance(one, TokenModel)]
    if len(members) < len(networks):
        raise ConfigError("an ensemble needs networks trained by loopmt; this run trains pretrained checkpoints.")
    ensemble = EnsembleModel([(one, "live") for one in members])
    longest = max(experiment.training(stage).max_length for stage in chosen)
    return _over_text(ensemble, networks[0].vocab, longest)


def text_translator(networks: TrainableModel, longest: int) -> Translator:
    """A translator of networks that were trained on rows of at most `longest` subwords."""
    return _over_text(networks, networks.vocab, longest)


def _over_text(model: TranslationModel, vocab: Vocab, longest: int) -> Translator:
    return Translator(for_text(model, vocab, longest), vocab.languages, text_limits(model.device, longest))


def _device(name: str | None) -> torch.device:
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    known = ["cpu", *(["cuda"] if gpus else []), *gpus]
    if name is not None and str(name) not in known:
        raise ConfigError(f'device "{name}": this machine has {", ".join(known)}.')
    if name is None or str(name) == "cuda":
        return device_of_this_process()
    device = torch.device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # captured graphs and their draws are of the current device
    return device


def largest_chunk() -> int:
    """The number of lines that are translated together; small on a CPU, so that progress is visible."""
    return 8192 if torch.cuda.is_available() else 1024


def growing_chunks(texts: Iterable[str], first: int = 32, most: int = 8192) -> Iterator[list[str]]:
    """Chunks of few lines at first, so that output appears soon, then larger ones, up to what memory holds."""
    stream, size = iter(texts), first
    while chunk := list(itertools.islice(stream, size)):
        yield chunk
        size = min(2 * size, most)
