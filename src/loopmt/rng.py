"""Random number generators, keyed by their purpose.

A key is any sequence of names and numbers, such as `(seed, "vanilla", "rows", round, rank)`. The same key gives the
same numbers, regardless of earlier draws, so a checkpoint needs no random state.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Indices = npt.NDArray[np.int64]

DRAWS = 2  # increment it when a key of training changes: a resumed stage then reports that its draws differ
_FEISTEL_ROUNDS = 4


def keyed_seed(*key: str | int) -> int:
    """A 63-bit seed that depends only on the parts of the key."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in key)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def numpy_generator(*key: str | int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(keyed_seed(*key)))


def torch_generator(device: torch.device | str, *key: str | int) -> torch.Generator:
    import torch

    return torch.Generator(device=device).manual_seed(keyed_seed(*key))


def permute(indices: Indices, size: int, *key: str | int) -> Indices:
    """Apply a keyed permutation of range(size) to `indices`, without an array of length `size`.

    A Feistel network permutes the next power of four; values outside range(size) are permuted again until inside.
    """
    half = max(1, ((max(size, 2) - 1).bit_length() + 1) // 2)
    rounds = [keyed_seed(*key, "feistel", number) for number in range(_FEISTEL_ROUNDS)]
    out = _feistel(np.asarray(indices, dtype=np.uint64), half, rounds)
    while (outside := out >= size).any():
        out[outside] = _feistel(out[outside], half, rounds)
    return out.astype(np.int64)


def _feistel(values: npt.NDArray[np.uint64], half: int, rounds: list[int]) -> npt.NDArray[np.uint64]:
    mask = np.uint64((1 << half) - 1)
    left, right = values >> np.uint64(half), values & mask
    for seed in rounds:
        left, right = right, left ^ (_scramble(right, seed) & mask)
    return (left << np.uint64(half)) | right


def _scramble(values: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """The finalizer of splitmix64: every input bit affects every output bit."""
    mixed = values + np.uint64(seed)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
