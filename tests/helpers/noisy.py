"""References, and systems that make as many errors as they are told to."""

from __future__ import annotations

import numpy as np


def corpus(rng: np.random.Generator, size: int, error: float) -> tuple[list[str], list[str]]:
    """References of random words, and hypotheses in which words were replaced, dropped and doubled."""
    references = [" ".join(f"w{i}" for i in rng.integers(30, size=rng.integers(1, 25))) for _ in range(size)]
    return [corrupted(rng, reference, error) for reference in references], references


def corrupted(rng: np.random.Generator, reference: str, error: float) -> str:
    choices = {0: "{w}", 1: "", 2: "{w} {w}", 3: "w" + str(rng.integers(30))}
    kinds = rng.choice(4, p=[1 - error, error / 3, error / 3, error / 3], size=len(reference.split(" ")))
    changed = [choices[kind].format(w=w) for kind, w in zip(kinds, reference.split(" "), strict=True)]
    return " ".join(" ".join(changed).split(" "))
