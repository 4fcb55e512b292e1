"""The documentation says what the code does."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from helpers.paths import ROOT
from loopmt.config import MixEntry, load
from loopmt.text.recipes import recipe

EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
FETCHED = {file.stem: file for file in EXAMPLES if "#   loopmt fetch" in file.read_text(encoding="utf-8")}


def test_the_reference_is_made_from_the_code() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["reference"]()
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert written == made, "run `python docs/make_reference.py`"
    assert "| `valid` | string or table of string | required, unless there is `world` |" in made


def test_the_page_of_the_command_line_is_made_from_the_code() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_cli.py"))["commands"]()
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == made, "run `python docs/make_cli.py`"
    for words in ("## translate\n", "`--route` | `given` or `auto` | `given`", "`--pictures`, `--no-pictures`"):
        assert words in made


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_is_a_valid_experiment(file: Path) -> None:
    assert load(file).stages


@pytest.mark.parametrize("file", FETCHED.values(), ids=FETCHED)
def test_the_commands_of_an_example_find_what_they_fetch(file: Path) -> None:
    """`data.root` is beside the file, what is fetched where the command was given."""
    header = file.read_text(encoding="utf-8").partition("languages =")[0].replace("\\\n#", "")
    fetched = {f"corpora/{recipe(name).folder}" for name in re.findall(r"loopmt fetch ([\w-]+)", header)}
    train = next(line for line in header.splitlines() if "loopmt train" in line)
    assert f"examples/{file.name}" in train
    assert set(re.findall(r"--set data\.root=\$PWD/(\S+)", train)) == fetched


def test_the_page_of_mixes_can_be_pasted() -> None:
    text = (ROOT / "docs" / "mixes.md").read_text(encoding="utf-8")
    spans = re.findall(r"`([^`]+)`", text.split("| you want |")[1].split("\n\n")[0])
    paths = [span for span in spans if re.fullmatch(r'"[A-Z<>]+"', span)]
    entries = [f"{{ path = {path} }}" for path in paths] + [span for span in spans if span.startswith("{")]
    entries += [
        f'{{ path = "X>Y>Z>X", {span} }}' for span in spans if re.match(r"(generate|samples|keep|same_rows) ", span)
    ]
    block = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert block
    mixes = [tomllib.loads(f"mix = [{entry}]")["mix"][0] for entry in entries] + tomllib.loads(block[1])["mix"][1:]
    assert len([MixEntry.model_validate(mix) for mix in mixes]) > 15
