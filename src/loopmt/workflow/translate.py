"""Text in, text out: the translators of a finished stage, for any walk through its languages."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import model_validator

from loopmt import config
from loopmt.config import Experiment, Stage, spoken_hops, validated
from loopmt.distributed import device_of_this_process
from loopmt.errors import ConfigError, DataError, PathError, RunError
from loopmt.model.backend import precision
from loopmt.path import Hop, LanguagePath
from loopmt.rng import torch_generator
from loopmt.run import Run
from loopmt.text.ragged import Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.decoder import generate_nbest
from loopmt.translate.limits import DecodeLimits
from loopmt.translate.networks import NetworkStack, all_hops, stored_size
from loopmt.translate.scoring import negative_log_likelihood

Item = TypeVar("Item")
_SPARE = 3  # places of a row that text does not get: the end and two tags
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CUTS = [
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？؟।])"),
    re.compile(r"(?<=[,;:–—])\s+|(?<=[、，；])"),
    re.compile(r"\s+"),
]


@dataclass(frozen=True)
class Candidate:
    """A translation and the log-probability of all that was said on the way."""

    text: str
    score: float


class Generate(config.Generate):
    """How a hop is decoded, as an experiment file says it; what cannot be is a sentence here too."""

    @model_validator(mode="before")
    @classmethod
    def _explained(cls, values: Any) -> Any:
        validated(config.Generate, values, "loopmt.Generate")
        return values


class Translator:
    """Every direction of one stage, and the walks made of them."""

    def __init__(self, translators: NetworkStack, dtype: torch.dtype, longest: int) -> None:
        self._translators = translators
        self._dtype = dtype
        self._window = max(1, longest - _SPARE)
        self._limits = DecodeLimits.on(translators.device, min(max(512, 2 * longest), 4096))

    @property
    def languages(self) -> list[str]:
        return list(self._translators.vocab.languages)

    @property
    def directions(self) -> list[str]:
        return [str(hop) for hop in self._translators.hops]

    def translate(
        self, texts: Iterable[str], path: str, beam: int = 4, how: config.Generate | None = None, seed: int = 1
    ) -> list[str]:
        """One line for each text. `how` replaces the beam search; `seed` is of sampling."""
        return [candidates[0].text for candidates in self.nbest(texts, path, 1, beam, how, seed)]

    def nbest(
        self,
        texts: Iterable[str],
        path: str,
        n: int = 4,
        beam: int = 4,
        how: config.Generate | None = None,
        seed: int = 1,
    ) -> list[list[Candidate]]:
        """Up to `n` translations of each text, best first; of sampling, `n` draws. Hops before the last go one way."""
        *_, said = self._steps(texts, path, n, search(beam) if how is None else how, seed)
        return said

    def trace(
        self, texts: Iterable[str], path: str, beam: int = 4, how: config.Generate | None = None, seed: int = 1
    ) -> list[list[str]]:
        """What each text is after each hop, the text itself first; the last is what `translate` says."""
        steps = self._steps(texts, path, 1, search(beam) if how is None else how, seed)
        return [[candidates[0].text for candidates in round_trip] for round_trip in zip(*steps, strict=True)]

    def score(self, pairs: Iterable[tuple[str, str]], path: str) -> list[float]:
        """The log-probability of each pair's target given its source, in nats, the end of the sentence included.

        A target is scored as it is, among all that the network could say; `path` is one direction.
        """
        hop = self._direction(path)
        sources, targets = _sides(pairs)
        encode = self._translators.vocab.encode
        ids = Ragged.of(encode(sources, hop.source)), Ragged.of(encode(targets, hop.target))
        losses, _ = negative_log_likelihood(self._translators, hop, *ids, self._dtype)
        return [-loss for loss in losses.tolist()]

    def _direction(self, path: str) -> Hop:
        hop, *more = checked_path(self, path).hops
        if more:
            raise PathError(
                f"path {path} goes through other languages, whose sentences no pair has. "
                f"Score one direction: {', '.join(self.directions)}."
            )
        return hop

    # -- hop by hop ------------------------------------------------------------------------------------------

    def _steps(
        self, texts: Iterable[str], path: str, n: int, how: config.Generate, seed: int
    ) -> Iterator[list[list[Candidate]]]:
        """The texts, then what is said of them after each hop: one candidate each, and up to `n` at the end."""
        _check(how, n)
        found = [[Candidate(text, 0.0)] for text in _texts(texts, "texts")]
        hops = checked_path(self, path).hops
        yield found
        for number, hop in enumerate(hops):
            last = number == len(hops) - 1
            found = self._hop(hop, found, how, n if last else 1, (seed, "translate", number))
            yield found

    def _hop(
        self,
        hop: Hop,
        before: Sequence[Sequence[Candidate]],
        how: config.Generate,
        n: int,
        key: tuple[str | int, ...],
    ) -> list[list[Candidate]]:
        texts = [candidates[0].text for candidates in before]
        encoded = self._translators.vocab.encode(texts, hop.source)
        pieces = [self._pieces(text, ids, hop.source) for text, ids in zip(texts, encoded, strict=True)]
        said = iter(self._decode(hop, list(itertools.chain.from_iterable(pieces)), how, n, key))
        return [
            _joined(list(itertools.islice(said, len(parts))), start.score)
            for parts, (start, *_) in zip(pieces, before, strict=True)
        ]

    def _pieces(self, text: str, ids: list[int], language: str) -> list[list[int]]:
        """Ids of the text, cut where it is longer than the network has learnt from."""
        if len(ids) <= self._window or len(text) < 2:
            return [ids] if ids else []
        parts = split_in_two(text)
        encoded = self._translators.vocab.encode(parts, language)
        return [piece for part, own in zip(parts, encoded, strict=True) for piece in self._pieces(part, own, language)]

    def _decode(
        self, hop: Hop, pieces: list[list[int]], how: config.Generate, n: int, key: tuple[str | int, ...]
    ) -> list[list[Candidate]]:
        translators = self._translators
        draws = n if how.how == "sample" else 1
        rows = translators.with_tags(Ragged.of(piece for piece in pieces for _ in range(draws)), hop).rows()
        generator = torch_generator(translators.device, *key, str(hop))
        outputs = generate_nbest(translators.decoder(hop, "live", self._dtype), rows, how, self._limits, generator, n)
        flat = [output for candidates in outputs for output in candidates]
        texts = translators.vocab.decode([output.ids for output in flat], hop.target)
        made = (Candidate(one_line(text), output.score) for text, output in zip(texts, flat, strict=True))
        by_row = [list(itertools.islice(made, len(candidates))) for candidates in outputs]
        return [list(itertools.chain(*by_row[row : row + draws])) for row in range(0, len(by_row), draws)]


def checked_path(translator: Translator, path: str) -> LanguagePath:
    """The path, if there is a translator for each of its hops."""
    languages, directions = translator.languages, translator.directions
    known = ", ".join(directions)
    if not isinstance(path, str):
        raise PathError(f"path = {path!r:.60} is of type {type(path).__name__}, not a string. The run has {known}.")
    walk = LanguagePath.parse(path)
    for language in walk.languages:
        if language not in languages:
            raise PathError(f"path {path}: the run has no language '{language}', but {', '.join(languages)} ({known}).")
    for hop in walk.hops:
        if str(hop) not in directions:
            raise PathError(f"path {path}: the run has no translator {hop}, but {known}.{_detour(hop, translator)}")
    return walk


def _detour(hop: Hop, translator: Translator) -> str:
    for pivot in translator.languages:
        if {f"{hop.source}>{pivot}", f"{pivot}>{hop.target}"} <= set(translator.directions):
            return f" Go through {pivot}: {hop.source}>{pivot}>{hop.target}."
    return ""


def _check(how: config.Generate, n: int) -> None:
    """What Python would accept and nobody means."""
    if not isinstance(how, config.Generate):
        raise ConfigError(f'how = {how!r} is no Generate. Write, for example, how=loopmt.Generate(how="greedy").')
    if how.by != "live":
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
    """A file or a generator can be read but once."""
    if not isinstance(values, Iterable):
        raise DataError(
            f"{name} is of type {type(values).__name__}: {values!r:.60}. Give a list, a file or a generator."
        )
    return list(values)


def search(beam: int) -> config.Generate:
    _check_count("beam", beam)
    return config.Generate(how="beam", beam=int(beam)) if beam > 1 else config.Generate(how="greedy")


def _check_count(name: str, count: int) -> None:
    """Not `int` alone: numpy's are whole numbers too, and `True` is none."""
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise ConfigError(f"{name} = {count!r:.60}: write a whole number, 1 or more.")


def split_in_two(text: str) -> list[str]:
    """Two parts: cut at the end of a sentence, else of a clause, else at a space, else in the middle."""
    middle = len(text) // 2
    for cut in _CUTS:
        places = [match.span() for match in cut.finditer(text) if match.start() > 0 and match.end() < len(text)]
        if places:
            end, start = min(places, key=lambda place: abs(place[0] - middle))
            return [text[:end], text[start:]]
    return [text[:middle], text[middle:]]


def one_line(text: str) -> str:
    """A network may spell any character in bytes; a translation is one line all the same."""
    return _UNPRINTABLE.sub(" ", text)


def _joined(parts: list[list[Candidate]], score: float) -> list[Candidate]:
    """Candidates of a line from those of its parts, rank by rank; of nothing, nothing."""
    count = max(map(len, parts), default=1)
    ranks = [[part[min(rank, len(part) - 1)] for part in parts] for rank in range(count)]
    return [
        Candidate(join_pieces([one.text for one in rank]), score + sum(one.score for one in rank)) for rank in ranks
    ]


def join_pieces(texts: Sequence[str]) -> str:
    line = ""
    for text in filter(None, texts):
        wide = line and unicodedata.east_asian_width(line[-1]) in "WF"  # such scripts have no spaces
        line = f"{line}{'' if wide or not line else ' '}{text}"
    return line


# -- which translators -----------------------------------------------------------------------------------------


def load(folder: Path, stage: str | None = None, device: str | None = None) -> Translator:
    """The result of a stage; by default of the last finished one, on this process's GPU if there is one."""
    run = Run.open(folder)
    experiment = run.experiment()
    chosen = choose_stage(run, experiment, stage)
    where, train = _device(device), experiment.training(chosen)
    return Translator(load_translators(run, experiment, chosen, where), precision(train, where), train.max_length)


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


def load_translators(run: Run, experiment: Experiment, stage: Stage, device: torch.device) -> NetworkStack:
    hops = all_hops(experiment.languages, spoken_hops(experiment, stage.name))
    weights = run.stage(stage.name).result().tensors["weights"]
    vocab = Vocab.load(run.folder / "vocab")
    translators = NetworkStack(experiment.model, vocab, hops, device, size=stored_size(weights))
    translators.load(weights)
    return translators


def choose_stage(run: Run, experiment: Experiment, name: str | None) -> Stage:
    """The stage of that name, or the last finished one."""
    finished = run.finished()
    if not finished:
        raise RunError(f"{run.folder} has no finished stage. Train on: `loopmt train EXPERIMENT --run {run.folder}`.")
    stage = experiment.stage(name or finished[-1])
    if stage.name not in finished:
        raise RunError(f'{run.folder}: stage "{stage.name}" is not finished; finished: {", ".join(finished)}.')
    return stage


def growing_chunks(texts: Iterable[str], first: int = 32, most: int = 8192) -> Iterator[list[str]]:
    """Few lines at first, so that output appears soon, then more and more, up to what memory is sure to hold."""
    stream, size = iter(texts), first
    while chunk := list(itertools.islice(stream, size)):
        yield chunk
        size = min(2 * size, most)
