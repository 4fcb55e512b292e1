"""Every page is in the site's navigation, every link and anchor leads somewhere, every TOML block is an experiment."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import loopmt
from helpers.paths import DOCS, ROOT
from loopmt.config import Experiment, schema, validated
from loopmt.config.check import check
from loopmt.config.comparison import check_comparisons
from loopmt.config.load import loads
from loopmt.errors import ConfigError, LoopmtError

Document = dict[str, Any]
PAGES = {str(file.relative_to(ROOT)): file for file in [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]}
TOML = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
USUAL = """
languages = ["en", "fr", "es"]
data = { bitext = { "en-fr" = "bi", "en-es" = "bi" }, mono = { en = "m", fr = "m", es = "m" }, valid = "valid" }
stage = [{ name = "vanilla", mix = ["X>Y"], updates = 1 }]
"""


def prose(file: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", file.read_text(encoding="utf-8"))


def slugs(file: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ +(.+?) *#*$", prose(file), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


def dead_links(file: Path, text: str) -> list[str]:
    """Links of the text, as a page at `file`, that lead to no file or to no heading."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link and not leads(file, link)]


def leads(file: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = file.parent / name if name else file
    return target.exists() and (not anchor or anchor in slugs(target))


@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_lead_somewhere(page: str) -> None:
    assert dead_links(PAGES[page], prose(PAGES[page])) == []


def test_a_dead_link_is_found() -> None:
    text = "[a](tutorial.md) [b](tutorial.md#1-install) [c](tutorial.md#no) [d](no.md) [e](https://no.example)"
    assert dead_links(DOCS / "mixes.md", text) == ["tutorial.md#no", "no.md"]


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r": ([\w/.-]+\.md)$", navigation, re.MULTILINE)
    beside = {
        "architecture.md",
        "changelog.md",
        "code-of-conduct.md",
        "contributing.md",
        "security.md",
    }  # site_pages.py
    assert sorted(named) == sorted({str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md")} | beside)


def test_the_page_of_python_has_every_public_name() -> None:
    named = re.findall(r"^::: loopmt\.(\w+)$", (DOCS / "python.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(set(loopmt.__all__) - {"__version__"})


BLOCKS = [
    pytest.param(page, text, id=f"{page}-{number}")
    for page, file in PAGES.items()
    for number, text in enumerate(
        re.findall(r"^```toml\n(.*?)^```", file.read_text(encoding="utf-8"), re.DOTALL | re.M)
    )
]


@pytest.mark.parametrize(("page", "text"), BLOCKS)
def test_toml_can_be_pasted(page: str, text: str) -> None:
    checked(text, base_of(page, text))


def test_a_wrong_key_or_path_in_toml_is_found() -> None:
    for text in ('[train]\nshards = "all"', 'mix = ["X>>Y"]', "languages = 1", '[[stage]]\nname = "a"\nfrom = "a"'):
        with pytest.raises(LoopmtError):
            checked(text, tomllib.loads(USUAL))


def base_of(page: str, text: str) -> Document:
    """The last whole experiment of the page before the block, which a fragment changes; else the usual one."""
    before = PAGES[page].read_text(encoding="utf-8").partition(text)[0]
    whole = [block for block in TOML.findall(before) if is_whole(block)]
    return tomllib.loads(whole[-1] if whole else USUAL)


def is_whole(text: str) -> bool:
    return "languages" in tomllib.loads(text)


def checked(text: str, base: Document) -> Experiment:
    """A whole experiment as it stands; a fragment within `base`, where the stages it goes on from are made up."""
    if is_whole(text):
        return loads(text)
    document = joined(base, tomllib.loads(text))
    experiment = validated(Experiment, document | {"name": "experiment"}, "the page")
    check(experiment)
    check_comparisons(experiment)
    return experiment


def joined(base: Document, part: Document) -> Document:
    if set(part) <= set(schema.Stage.model_fields) and not set(part) & {"train", "guards"}:
        part = {"stage": [{"name": "this", "updates": 1, "from": "vanilla"} | part]}
    if "stage" in part:
        base.pop("compare", None)
        parents = {stage["from"] for stage in part["stage"] if "from" in stage}
        parents -= {stage["name"] for stage in part["stage"]} | {"pretrained"}
        part["stage"] = [{"name": name, "mix": ["X>Y"], "updates": 1} for name in sorted(parents)] + part["stage"]
    sections = {key: base.get(key, {}) | value for key, value in part.items() if isinstance(value, dict)}
    return base | part | (sections if "model" not in part else {})


def test_a_fragment_with_an_unknown_key_names_it() -> None:
    with pytest.raises(ConfigError, match="shards"):
        checked("[train]\nshards = true", tomllib.loads(USUAL))


def test_every_test_that_a_page_names_exists() -> None:
    files = list((ROOT / "tests").rglob("test_*.py"))
    code = "".join(file.read_text(encoding="utf-8") for file in files)
    known = {*re.findall(r"^def (test_\w+)", code, re.MULTILINE), *(file.stem for file in files)}
    named = {
        (page, name)
        for page, file in PAGES.items()
        for name in re.findall(r"`(?:[\w/]*/)?(test_[a-z]\w*)", prose(file))
    }
    assert len(named) > 100
    assert [(page, name) for page, name in sorted(named) if name not in known] == []


WRAPPED = [page for page in PAGES if re.match(r"(ARCHITECTURE|CODE_OF|CONTRIB|SECURITY)|docs/(?!results)", page)]


@pytest.mark.parametrize("page", WRAPPED)
def test_lines_outside_tables_and_code_have_100_columns(page: str) -> None:
    long = [line for line in prose(PAGES[page]).splitlines() if len(line) > 100]
    assert [line for line in long if not line.startswith(("|", "    ", "!["))] == []
