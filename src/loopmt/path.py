"""The grammar of hops, paths and patterns.

A path is a sequence of languages, `en>fr>es>en`. The text at its two ends is real, the text between is generated: every
hop but the last generates, and the last one learns. If the last arrow points back, `en>es<fr`, the last hop learns the
generated sentence from the real one: fr>es, from the output of en>es. A pattern is a path with capitals for languages,
`X>Y>Z>X`; each capital stands for a language that the pattern does not name elsewhere.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

from loopmt.errors import PathError
from loopmt.languages import did_you_mean

_LANGUAGE = re.compile(r"[a-z][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"[A-Z]")
_MOST_PATHS = 1_000_000  # a hundred languages have 970,200 loops of three hops, which are still feasible
_HELP = "Write languages joined by '>', such as en>fr or en>fr>es>en; capitals stand for any language, as in X>Y>X."


def _perhaps(place: str) -> str:
    """A suggestion for the likely mistakes: capitals, or languages joined as pairs are."""
    for other in (place.lower(), place.replace("-", ">")):
        if other != place and all(_LANGUAGE.fullmatch(language) for language in other.split(">")):
            return f" (did you mean {other}?)"
    return ""


@dataclass(frozen=True, order=True)
class Hop:
    """A translation direction, from one language to another."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}>{self.target}"

    @property
    def pair(self) -> str:
        return pair(self.source, self.target)

    @property
    def reverse(self) -> Hop:
        return Hop(self.target, self.source)


_hop = cache(Hop)  # a hundred languages have a million paths of three hops, and ten thousand hops


@dataclass(frozen=True, order=True)
class LanguagePath:
    """A sequence of languages; the text at its two ends is real."""

    languages: tuple[str, ...]
    backward: bool = False  # in the last hop: its source is real, its target was generated

    def __str__(self) -> str:
        return _format(self.languages, self.backward)

    @classmethod
    def parse(cls, text: str) -> LanguagePath:
        """Parse a path of languages, without variables and backward arrows."""
        pattern = Pattern.parse(text)
        if pattern.variables:
            raise PathError(f"'{text}' is a pattern, not a path: {pattern.variables[0]} is a variable. {_HELP}")
        if pattern.backward:
            raise PathError(f"'{text}' has a backward arrow, which is valid only in the mix of a stage. {_HELP}")
        return cls(pattern.places)

    @cached_property
    def hops(self) -> tuple[Hop, ...]:
        """The hops that generate, then the one that learns."""
        *generating, last = itertools.starmap(_hop, itertools.pairwise(self.languages))
        return (*generating, last.reverse if self.backward else last)

    @property
    def ends(self) -> tuple[str, str]:
        return self.languages[0], self.languages[-1]

    @property
    def closed(self) -> bool:
        return self.languages[0] == self.languages[-1]

    @property
    def loop(self) -> bool:
        """Whether the path is closed: a sentence must be reconstructed."""
        return self.closed and not self.backward

    @property
    def generating(self) -> tuple[Hop, ...]:
        return self.hops[:-1]

    @property
    def taught(self) -> Hop:
        return self.hops[-1]


@dataclass(frozen=True)
class Pattern:
    """A path in which some languages are variables."""

    places: tuple[str, ...]
    backward: bool = False

    def __str__(self) -> str:
        return _format(self.places, self.backward)

    @classmethod
    def parse(cls, text: str) -> Pattern:
        forward, arrow, last = text.partition("<")
        places = tuple(place.strip() for place in (*forward.split(">"), *[last] * bool(arrow)))
        for place in places:
            if not (_LANGUAGE.fullmatch(place) or _VARIABLE.fullmatch(place)):
                what = f"'{place}' is not a language code{_perhaps(place)}" if place else "a language is missing"
                raise PathError(f"path {text!r}: {what}. {_HELP}")
        if len(places) < 2:
            raise PathError(f"path {text!r} has no hop. {_HELP}")
        for here, there in itertools.pairwise(places):
            if here == there:
                raise PathError(f"path {text!r} has the hop {here}>{here}: a hop needs two languages. {_HELP}")
        if arrow and len(places) < 3:
            raise PathError(f"path {text!r} has a backward arrow but no hop that generates, as in en>es<fr. {_HELP}")
        return cls(places, bool(arrow))

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place for place in self.places if _VARIABLE.fullmatch(place)))

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place for place in self.places if not _VARIABLE.fullmatch(place)))

    def expand(self, languages: Sequence[str]) -> list[LanguagePath]:
        """All paths of the pattern over `languages`, in their order."""
        for language in self.named:
            if language not in languages:
                raise PathError(
                    f"path {self}: language '{language}' is not in the experiment, which has {', '.join(languages)}."
                    + did_you_mean(language, languages)
                )
        free = [language for language in languages if language not in self.named]
        if (count := math.perm(len(free), len(self.variables))) > _MOST_PATHS:
            raise PathError(
                f"path {self} has {count:,} paths over {len(languages)} languages; the limit is {_MOST_PATHS:,}. "
                "Replace variables by languages, or shorten it."
            )
        words = (*self.variables, *self.named)
        where = [words.index(place) for place in self.places]
        bindings = itertools.permutations(free, len(self.variables))
        return [
            LanguagePath(tuple(map((*binding, *self.named).__getitem__, where)), self.backward) for binding in bindings
        ]


def ways(direction: Hop, hops: Collection[Hop]) -> list[LanguagePath]:
    """The direct path and those through one pivot language, if translators exist for all hops."""
    start, end = direction.source, direction.target
    direct = [LanguagePath((start, end))] if direction in hops else []
    pivots = [hop.target for hop in hops if hop.source == start and Hop(hop.target, end) in hops]
    return [*direct, *(LanguagePath((start, pivot, end)) for pivot in pivots)]


def _format(places: Sequence[str], backward: bool) -> str:
    arrow = "<" if backward else ">"
    return ">".join(places[:-1]) + arrow + places[-1]


def check_language(name: str) -> None:
    if not _LANGUAGE.fullmatch(name):
        raise PathError(f"language '{name}': write a code such as en, fr or zh_Hans.")


def pair(one: str, other: str) -> str:
    """The key of a language pair in the data section; the caller orders the two."""
    return f"{one}-{other}"


@dataclass(frozen=True)
class Supply:
    """The available text: pairs with bitext (both directions) and languages with monolingual text."""

    bitext: frozenset[Hop]
    mono: frozenset[str]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], mono: Iterable[str]) -> Supply:
        hops = {hop for one, other in pairs for hop in (Hop(one, other), Hop(other, one))}
        return cls(frozenset(hops), frozenset(mono))

    @cached_property
    def _languages(self) -> str:
        return ", ".join(sorted(self.mono)) or "none"

    @cached_property
    def _pairs(self) -> str:
        return ", ".join(sorted({hop.pair for hop in self.bitext if hop.source < hop.target})) or "none"

    def lack(self, path: LanguagePath) -> str | None:
        """The text that the path's ends need and the data lacks, as a clause; None if nothing is missing."""
        start, end = path.ends
        if path.closed:
            if end in self.mono:
                return None
            return f"needs monolingual text of {end}; the data has {self._languages}. Add data.mono.{end}."
        if Hop(start, end) in self.bitext:
            return None
        close = LanguagePath((*path.languages, start), path.backward)
        return (
            f"needs bitext {start}-{end}; the data has {self._pairs}. "
            f"Add data.bitext.{start}-{end}, or write a path that returns to {start}, such as {close}."
        )


@dataclass(frozen=True)
class LeftOut:
    path: LanguagePath
    why: str


@dataclass(frozen=True)
class Expansion:
    """The paths of a pattern that the data supplies, and those left out, with the reason."""

    paths: tuple[LanguagePath, ...]
    left_out: tuple[LeftOut, ...]


def expand_fed(
    patterns: Sequence[Pattern], languages: Sequence[str], supply: Supply, trained: Collection[Hop] = ()
) -> list[Expansion]:
    """Expand the patterns of one mix to the paths that the data supplies.

    A path is kept if the data has text for its ends, and every hop that generates is trained: before this mix
    (`trained`), or by another kept path of it. So two untrained translators cannot train only on each other's output.
    A path without variables that cannot be kept is an error.
    """
    return list(_expand_fed(tuple(patterns), tuple(languages), supply, frozenset(trained)))


@lru_cache(maxsize=32)  # called often for the same stage
def _expand_fed(
    patterns: tuple[Pattern, ...], languages: tuple[str, ...], supply: Supply, trained: frozenset[Hop]
) -> tuple[Expansion, ...]:
    candidates = [pattern.expand(languages) for pattern in patterns]
    fed = [path for paths in candidates for path in paths if supply.lack(path) is None]
    kept = _reachable(fed, set(trained))
    expansions = [_expansion(paths, supply, kept) for paths in candidates]
    for pattern, expansion in zip(patterns, expansions, strict=True):
        if not expansion.paths:
            raise PathError(_refusal(pattern, expansion, languages))
    return tuple(expansions)


def _reachable(fed: list[LanguagePath], trained: set[Hop]) -> set[LanguagePath]:
    kept: set[LanguagePath] = set()
    while True:
        new = {path for path in fed if path not in kept and trained.issuperset(path.generating)}
        if not new:
            return kept
        kept |= new
        trained |= {path.taught for path in new}


def _expansion(paths: list[LanguagePath], supply: Supply, kept: set[LanguagePath]) -> Expansion:
    left_out = tuple(LeftOut(path, _why(path, supply)) for path in paths if path not in kept)
    return Expansion(tuple(path for path in paths if path in kept), left_out)


def _why(path: LanguagePath, supply: Supply) -> str:
    lack = supply.lack(path)
    return lack or "generates with a hop that no path trains: " + ", ".join(map(str, path.generating)) + "."


def _refusal(pattern: Pattern, expansion: Expansion, languages: Sequence[str]) -> str:
    if not expansion.left_out:
        need = len(pattern.variables) + len(pattern.named)
        return f"path {pattern} needs {need} languages; the experiment has {len(languages)}: {', '.join(languages)}."
    first = expansion.left_out[0]
    subject = f"path {first.path}" if not pattern.variables else f"path {pattern} matches no usable path: {first.path}"
    return f"{subject} {first.why}"
