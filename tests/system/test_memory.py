"""Out of memory: updates and decoding continue with halves and the same result, or end with a clear error.

The limit is a real one (RLIMIT_AS), in a process of its own: just enough for half of the work, or not enough for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.facts import missing
from loopmt.config import Train
from loopmt.errors import ExhaustedError
from loopmt.learn.learner import BatchSplitter
from loopmt.model.out_of_memory import explain_out_of_memory, in_halves, is_out_of_memory
from loopmt.text.batch import Batch, BatchShape

SCRIPT = """
import json, re, resource, sys
from pathlib import Path
import numpy as np, torch
from loopmt.config import Generate, Model, Train
from loopmt.errors import LoopmtError
from loopmt.learn.learner import Learner
from loopmt.translate.decoder import EagerDecoder, generate_each
from loopmt.translate.protocol import DecodeLimits
from loopmt.translate.networks import NetworkStack
from loopmt.path import Hop
from loopmt.distributed import Processes
from loopmt.text.batch import Batch, BatchShape
from loopmt.text.vocab import Vocab

what, limited = sys.argv[2:]
hop = Hop("en", "fr")
model = Model(layers=1, width=64, feed_forward=128, heads=2, dropout=0.0)
translators = NetworkStack(model, Vocab.load(Path(sys.argv[1])), (hop,), torch.device("cpu"))
translators.start_fresh(1)
train = Train(tokens=16384, learning_rate=0.01, warmup=1, adam=(0.9, 0.98, 1e-3))
learner = Learner(translators, train, 1, Processes())

def update(rows):
    ids = np.random.default_rng(1).integers(20, 300, (1, 512, 32))[:, :rows]
    none = np.full((1, rows), -1)
    ones = np.ones(none.shape, np.float32)
    batch = Batch(BatchShape(rows, 32), ids, ids.copy(), none * 0, none, ones, ones * 0)
    (learner.add if rows < 512 else lambda batch: learner.update(batch, 1, 0.01))(batch)

def decode(rows):
    sources = np.random.default_rng(2).integers(20, 300, (512, 24))[:rows].tolist()
    found = generate_each(translators.decoder(hop), sources, Generate(how="greedy"), DecodeLimits())
    return [output.ids for output in found]

decode_batch, decoded = EagerDecoder.decode, []

def counted(self, sources, *others):
    decoded.append(len(sources))
    return decode_batch(self, sources, *others)

EagerDecoder.decode = counted

def memory(which):
    return int(re.search(which + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

def limit(more):
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + more, -1))

work = {"update": update, "decode": decode}[what]
work(8)
more = 2**23
while limited in ("half", "quarter"):
    limit(more)
    try:
        work(256)
        break
    except (RuntimeError, MemoryError):
        more = more * 5 // 4
spare = 2**21  # for the rows and the result themselves
if limited == "half":
    limit(more + spare)
elif limited == "quarter":
    limit(more // 4 + spare)
elif limited.isdigit():
    limit(int(limited))
learner.gradient.zero_()
learner.tokens.zero_()
decoded.clear()
Path("/proc/self/clear_refs").write_text("5")  # reset the peak
resident = memory("VmRSS")
outputs, refusal = None, None
try:
    outputs = work(512)
except LoopmtError as error:
    refusal = str(error)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print(json.dumps({
    "halved": len(learner.splitting.halved),
    "needed": memory("VmHWM") - resident,
    "decoded": decoded,
    "outputs": outputs,
    "error": refusal,
    "weights": translators.live[0].tolist(),
}))
"""


def limited(vocab: Path, what: str, how: str) -> dict[str, Any]:
    """One update or one decoding of 512 rows: with all memory, what half or a quarter of it needs, or so many bytes."""
    # Large blocks go back to the system at once, so that a limit means the same before and after.
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "0",
    }
    command = [sys.executable, "-c", SCRIPT, str(vocab), what, how]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


linux = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS and /proc")


@linux
def test_an_update_that_does_not_fit_is_made_in_halves(tiny_run: Path) -> None:
    free, tight = (limited(tiny_run / "vocab", "update", how) for how in ("no", "half"))
    assert (free["halved"], tight["halved"]) == (0, 1)
    assert np.allclose(free["weights"], tight["weights"], atol=1e-6)


@linux
def test_the_error_of_an_update_whose_halves_do_not_fit_names_the_settings(tiny_run: Path) -> None:
    error = limited(tiny_run / "vocab", "update", "quarter")["error"]
    assert not missing(error, "512 rows of 32 tokens", "train.accumulate = 4", "train.tokens = 4096")


@linux
def test_decoding_splits_batches(tiny_run: Path) -> None:
    """The limit is the largest that is not enough: numpy crashes where no small array fits."""
    free = limited(tiny_run / "vocab", "decode", "no")
    assert free["needed"] > 2**24 and free["decoded"] == [512]
    limits = (str(free["needed"] // share) for share in (2, 4, 8))
    tight = next(
        found for found in (limited(tiny_run / "vocab", "decode", how) for how in limits) if found["decoded"][1:]
    )
    assert free["outputs"] == tight["outputs"]


# -- the parts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError("std::bad_alloc"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
            True,
        ),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_out_of_memory_errors_are_recognized(error: Exception, is_it: bool) -> None:
    assert is_out_of_memory(error) is is_it


def test_rows_are_halved_down_to_one() -> None:
    tried = []

    def work(rows: Sequence[int]) -> list[int]:
        tried.append(len(rows))
        if len(rows) > 2 or 9 in rows:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return [row * row for row in rows]

    assert in_halves(work, range(7)) == [0, 1, 4, 9, 16, 25, 36]
    assert tried == [7, 3, 1, 2, 4, 2, 2]
    with pytest.raises(torch.OutOfMemoryError):
        in_halves(work, [1, 9])


def test_out_of_memory_is_an_error_with_fixes() -> None:
    with (
        pytest.raises(ExhaustedError, match=r"\(CUDA out of memory\)\. The last checkpoint is kept.*--jobs"),
        explain_out_of_memory(),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 14.00 MiB. GPU 0 has")
    with pytest.raises(RuntimeError, match="shapes"), explain_out_of_memory():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def batch(rows: int, groups: list[int]) -> Batch:
    ids = np.ones((1, rows, 4), dtype=np.int64)
    paths, ones = np.zeros((1, rows), np.int64), np.ones((1, rows), np.float32)
    return Batch(BatchShape(rows, 4), ids, ids, paths, np.array([groups]), ones, ones * 0)


@pytest.mark.parametrize(
    ("rows", "groups", "shard"),
    [(1, [-1], False), (4, [5, 5, 5, 5], False), (4, [-1, -1, -1, -1], True)],
    ids=["one row", "one group", "sharded"],
)
def test_a_batch_that_must_not_be_split_is_one_error(rows: int, groups: list[int], shard: bool) -> None:
    def add(given: Batch) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    largest = len([group for group in groups if group >= 0]) or 1
    splitting = BatchSplitter(Train(shard=shard, accumulate=2, tokens=100), largest)
    with pytest.raises(ExhaustedError, match=r"train\.accumulate = 8 .* train\.tokens = 25 "):
        splitting.add(batch(rows, groups), add)
    assert not splitting.halved


def test_a_shape_that_failed_once_is_always_split() -> None:
    tried = []

    def add(given: Batch) -> None:
        tried.append(given.shape.rows)
        if given.shape.rows > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    splitting = BatchSplitter(Train())
    for _ in range(2):
        splitting.add(batch(4, [5, 5, 6, 6]), add)
    assert tried == [4, 2, 2, 2, 2]


def test_other_errors_pass() -> None:
    def add(given: Batch) -> None:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        BatchSplitter(Train()).add(batch(4, [-1] * 4), add)


def test_a_batch_with_an_odd_number_of_rows_is_split_with_a_padding_row() -> None:
    shapes = []

    def add(given: Batch) -> None:
        shapes.append((given.shape.rows, int((given.paths_NB >= 0).sum())))
        if given.shape.rows > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    BatchSplitter(Train()).add(batch(3, [-1, -1, -1]), add)
    assert shapes == [(3, 3), (2, 2), (2, 1)]
