"""A new objective is a module, a key of the schema and a line of the registry."""

from __future__ import annotations

from pathlib import Path

from helpers.digests import weights_digest
from helpers.extended import PACKAGE, REGISTRY, SCHEMA, changed, extended, train_with
from helpers.stages import ASK, records, stage


def trained_with(package: Path, ask_for: ASK, train_: str = "", entry: str = "") -> str:
    """The weights of a stage with loops, as a digest."""
    mix = f'["X>Y", {{ path = "X>Y>X"{entry}, generate = {{ how = "greedy" }} }}]'
    request = ask_for(stage(mix, tokens=128, dropout=0.2).replace("train = {", f"train = {{{train_}"))
    train_with(package, request)
    assert request.run is not None and records(request)[-1]["generated_tokens"] > 0
    return weights_digest(request.run / "stages" / "loops")


def test_an_objective_is_added_by_a_module_and_two_lines(ask_for: ASK, tmp_path: Path) -> None:
    """And a stage that does not turn it on has the weights that it had without."""
    package = extended(tmp_path / "package", "confidence", "length_reward")
    assert changed(package) == {SCHEMA, REGISTRY}
    plain = trained_with(PACKAGE.parent, ask_for)
    assert trained_with(package, ask_for) == plain
    consistent = trained_with(package, ask_for, train_=" confidence = 0.5,")
    rewarded = trained_with(package, ask_for, entry=", length_reward = 0.5")
    assert len({plain, consistent, rewarded}) == 3


def test_r_drop_is_a_module_a_key_and_a_line() -> None:
    files = {file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}
    assert {name for name, text in files.items() if "rdrop" in text.lower()} == {"learn/rdrop.py", SCHEMA, REGISTRY}
