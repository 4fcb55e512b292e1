"""Public corpora by name: where their files are, which rows are taken, and which experiment uses them.

A recipe has checksums where they are published: sacreBLEU publishes those of WMT's test sets, several projects those of
WMT14's training text. OPUS, News Crawl and Multi30k publish none; the checksums of the downloads are recorded beside
the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from loopmt.errors import DataError

_OPUS = "https://object.pouta.csc.fi/OPUS-{corpus}/{version}/moses/{pair}.txt.zip"
_STATMT = "https://www.statmt.org"
_CRAWL = "https://data.statmt.org/news-crawl/{language}/news.{year}.{language}.shuffled.deduped.gz"
_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/{name}.{language}.gz"


@dataclass(frozen=True)
class Remote:
    """A file on the network; `checksum` is "sha256:..." or "md5:...", if one is known."""

    address: str
    checksum: str | None = None


@dataclass(frozen=True)
class RecipeSide:
    """One language's lines: a member of an archive, or, without `member`, the file itself."""

    remote: Remote
    member: str | None = None


@dataclass(frozen=True)
class TextBlock:
    """Rows assigned to PREFIX.LANG; without `rows` all that are left, without `languages` every language."""

    prefix: str
    rows: int | None = None
    languages: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RecipePart:
    """Aligned text, piece after piece, and the blocks its rows are dealt to by seed.

    `through` joins pieces of two languages each into rows of all of them, by the sentence in that language.
    """

    name: str
    languages: tuple[str, ...]
    pieces: tuple[dict[str, RecipeSide], ...]
    blocks: tuple[TextBlock, ...]
    through: str | None = None

    def remotes(self) -> list[Remote]:
        return list(dict.fromkeys(side.remote for piece in self.pieces for side in piece.values()))

    def with_remotes(self, others: Mapping[Remote, Remote]) -> RecipePart:
        def changed(side: RecipeSide) -> RecipeSide:
            return replace(side, remote=others.get(side.remote, side.remote))

        pieces = tuple({language: changed(side) for language, side in piece.items()} for piece in self.pieces)
        return replace(self, pieces=pieces)


@dataclass(frozen=True)
class Recipe:
    """A corpus by name; `folder` is the default folder of its text, shared by corpora of the same experiment."""

    name: str
    about: str
    parts: tuple[RecipePart, ...]
    experiments: tuple[str, ...]
    folder: str

    def remotes(self) -> list[Remote]:
        return list(dict.fromkeys(remote for part in self.parts for remote in part.remotes()))

    def with_remotes(self, others: Mapping[Remote, Remote]) -> Recipe:
        """The recipe with some of its files replaced by others."""
        return replace(self, parts=tuple(part.with_remotes(others) for part in self.parts))


def recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise DataError(f"there is no recipe '{name}'; there are {', '.join(RECIPES)}.")
    return RECIPES[name]()


# -- WMT14 and news-crawl ------------------------------------------------------------------------------------

_ENDE = ("en", "de")
_TRAINING = {  # address, checksum, member
    "wmt13/training-parallel-europarl-v7.tgz": (
        "sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
        "training/europarl-v7.de-en.{}",
    ),
    "wmt13/training-parallel-commoncrawl.tgz": (
        "sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
        "commoncrawl.de-en.{}",
    ),
    "wmt14/training-parallel-nc-v9.tgz": (
        "sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
        "training/news-commentary-v9.de-en.{}",
    ),
}
_VALIDATION = {
    "wmt12/test.tgz": ("md5:608232d34ebc4ba2ff70fead45674e47", "test/newstest2012-src.{}.sgm"),
    "wmt13/test.tgz": ("md5:48eca5d02f637af44e85186847141f67", "test/newstest2013-src.{}.sgm"),
}
_TEST = Remote(f"{_STATMT}/wmt14/test-full.tgz", "md5:a8cd784e006feb32ac6f3d9ec7eb389a")
_CRAWL_YEARS = range(2010, 2014)  # what WMT14 allowed, the years next to its test set


def _wmt14() -> Recipe:
    test = {
        "en": RecipeSide(_TEST, "test-full/newstest2014-deen-src.en.sgm"),
        "de": RecipeSide(_TEST, "test-full/newstest2014-deen-ref.de.sgm"),
    }
    parts = (
        RecipePart("train", _ENDE, _statmt(_TRAINING), (TextBlock("train"),)),
        RecipePart("valid", _ENDE, _statmt(_VALIDATION), (TextBlock("valid"),)),
        RecipePart("test", _ENDE, (test,), (TextBlock("test"),)),
    )
    about = "en-de: Europarl v7, Common Crawl, News Commentary v9; newstest2012 + 2013 valid, newstest2014 test"
    return Recipe("wmt14", about, parts, ("examples/paper-wmt14.toml",), "wmt14")


def _statmt(files: dict[str, tuple[str, str]]) -> tuple[dict[str, RecipeSide], ...]:
    remotes = {Remote(f"{_STATMT}/{path}", checksum): member for path, (checksum, member) in files.items()}
    return tuple(
        {language: RecipeSide(remote, member.format(language)) for language in _ENDE}
        for remote, member in remotes.items()
    )


def _news_crawl() -> Recipe:
    parts = tuple(_crawled(language) for language in _ENDE)
    years = f"{_CRAWL_YEARS[0]} to {_CRAWL_YEARS[-1]}"
    about = f"en, de: 40M monolingual sentences each, of the years {years}"
    return Recipe("news-crawl", about, parts, ("examples/paper-wmt14.toml",), "wmt14")


def _crawled(language: str) -> RecipePart:
    addresses = [_CRAWL.format(language=language, year=year) for year in _CRAWL_YEARS]
    pieces = tuple({language: RecipeSide(Remote(address))} for address in addresses)
    return RecipePart(language, (language,), pieces, (TextBlock("mono", 40_000_000),))


# -- OPUS ----------------------------------------------------------------------------------------------------


def _opus(corpus: str, version: str, pair: str) -> dict[str, RecipeSide]:
    remote = Remote(_OPUS.format(corpus=corpus, version=version, pair=pair))
    return {language: RecipeSide(remote, f"{corpus}.{pair}.{language}") for language in pair.split("-")}


def _by_pair(corpus: str, version: str, blocks: Callable[[str, str], Sequence[TextBlock]]) -> tuple[RecipePart, ...]:
    """en, es and fr; each language's monolingual text is the unused rest of one pair."""
    alone = {"en-fr": "en", "en-es": "es", "es-fr": "fr"}
    return tuple(
        RecipePart(pair, tuple(pair.split("-")), (_opus(corpus, version, pair),), tuple(blocks(pair, language)))
        for pair, language in alone.items()
    )


def _multiun() -> Recipe:
    """Valid, test and monolingual text come first, so the 0.2M pairs are some of the 2M and share all else."""

    def blocks(pair: str, language: str) -> list[TextBlock]:
        held = [
            TextBlock(f"valid.{pair}", 6_000),
            TextBlock(f"test.{pair}", 3_000),
            TextBlock("mono", 1_000_000, (language,)),
        ]
        return [*held, TextBlock(f"bitext-02m.{pair}", 200_000), TextBlock(f"bitext-18m.{pair}", 1_800_000)]

    about = "en, fr, es: 0.2M + 1.8M pairs, 6K valid and 3K test for each pair, 1M monolingual for each language"
    experiments = ("examples/paper-multiun-2m.toml", "examples/paper-multiun-02m.toml")
    return Recipe("multiun", about, _by_pair("MultiUN", "v1", blocks), experiments, "multiun")


def _europarl() -> Recipe:
    def blocks(pair: str, language: str) -> list[TextBlock]:
        held = [
            TextBlock(f"valid.{pair}", 3_000),
            TextBlock(f"test.{pair}", 3_000),
            TextBlock("mono", 500_000, (language,)),
        ]
        return [*held, TextBlock(f"bitext.{pair}")]

    about = "en, fr, es: parliament, 3K valid and 3K test for each pair, 0.5M monolingual, the rest bitext"
    return Recipe("europarl", about, _by_pair("Europarl", "v8", blocks), ("examples/europarl-opus.toml",), "europarl")


def _tatoeba() -> Recipe:
    pieces = tuple(_opus("Tatoeba", "v2023-04-12", pair) for pair in ("en-fr", "en-es"))
    blocks = (TextBlock("valid", 1_000), TextBlock("test", 2_000), TextBlock("train"))
    about = "en, fr, es: short everyday sentences in all three, joined by the English one"
    experiments = ("examples/tatoeba-symmetric.toml", "examples/tatoeba-star.toml")
    part = RecipePart("train", ("en", "fr", "es"), pieces, blocks, "en")
    return Recipe("tatoeba", about, (part,), experiments, "tatoeba")


# -- Multi30k ------------------------------------------------------------------------------------------------


def _multi30k() -> Recipe:
    languages = ("en", "de", "fr")
    translated = tuple(
        RecipePart(name, languages, (_captions(f"task1/raw/{theirs}", languages),), (TextBlock(name),))
        for name, theirs in {"train": "train", "valid": "val", "test_2016_flickr": "test_2016_flickr"}.items()
    )
    described = tuple(_described(language) for language in ("en", "de"))
    about = "en, de, fr: 29,000 captions of pictures, 1,014 valid, 1,000 test; en, de: five more of each picture"
    experiments = ("examples/multi30k.toml", "examples/multi30k-dual.toml")
    return Recipe("multi30k", about, (*translated, *described), experiments, "multi30k")


def _described(language: str) -> RecipePart:
    """Captions that five people wrote for each training picture in one language; they are not translations."""
    pieces = tuple(_captions(f"task2/raw/train.{writer}", (language,)) for writer in range(1, 6))
    return RecipePart(f"mono.{language}", (language,), pieces, (TextBlock("mono"),))


def _captions(name: str, languages: Sequence[str]) -> dict[str, RecipeSide]:
    return {language: RecipeSide(Remote(_MULTI30K.format(name=name, language=language))) for language in languages}


RECIPES: dict[str, Callable[[], Recipe]] = {
    "wmt14": _wmt14,
    "news-crawl": _news_crawl,
    "multiun": _multiun,
    "europarl": _europarl,
    "tatoeba": _tatoeba,
    "multi30k": _multi30k,
}
