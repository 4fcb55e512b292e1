"""Kernels are registered with their references; each registered kernel exists, and the code uses it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import loopmt.errors
from loopmt.config import Generate
from loopmt.model.adam import adam_step
from loopmt.model.kernels.registry import KERNELS, kernel_of
from loopmt.translate.beam_search import start_search

SOURCE = Path(loopmt.errors.__file__).parents[1]
OVERRIDDEN = {"model/transformer.py": {"token_losses"}}  # in methods that `Accelerated` overrides


@pytest.mark.parametrize("place", sorted(KERNELS.values()))
def test_every_registered_kernel_exists(place: str) -> None:
    """Read from the source: importing a kernel needs triton."""
    module, _, name = place.partition(":")
    tree = ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_code_asks_for_every_registered_kernel() -> None:
    """The functions that are fused anywhere are exactly those that have a kernel."""
    fused: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE / "loopmt").as_posix()
        fused |= fused_in(file) - OVERRIDDEN.get(place, set())
    assert fused == {function.__name__ for function in KERNELS}


def fused_in(file: Path) -> set[str]:
    calls = [
        node
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fuse"
    ]
    return {call.args[0].id for call in calls if isinstance(call.args[0], ast.Name)}


@pytest.mark.parametrize("how", ["greedy", "sample", "beam"])
def test_a_search_fuses_only_what_has_a_kernel(how: Any) -> None:
    asked: list[Callable[..., Any]] = []

    def fuse(function: Callable[..., Any]) -> Callable[..., Any]:
        asked.append(function)
        return function

    search = start_search([5, 5], Generate(how=how, beam=2, top_k=3), torch.device("cpu"), fuse)
    search.advance(torch.randn(2 * search.width, 9), torch.tensor(0), None)
    assert asked and set(asked) <= set(KERNELS)


def test_a_function_without_a_kernel_is_an_error() -> None:
    with pytest.raises(LookupError, match="test_kernel_registry"):
        kernel_of(test_a_function_without_a_kernel_is_an_error)
    assert adam_step in KERNELS
