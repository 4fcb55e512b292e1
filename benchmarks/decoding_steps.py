"""How many rows of a decoding step are unused: batches of sorted sentences that shrink, and finished rows replaced.

    python -m benchmarks.decoding_steps RUN [--out steps.json]

RUN is a prepared run with bitext. A round decodes the sources of pairs, and an output is as long as the other side of
its pair. The batches and the moves to smaller shapes are those of `CapturedDecoder`, whose graphs only count here; the
replacement of finished rows is a simulation. No network is computed, so a CPU is enough.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from benchmarks.machine import describe
from benchmarks.timing import Json, Plan

from loopmt.config import Generate, Model
from loopmt.model.transformer import Cache, Memory, Transformer
from loopmt.model.weights import Layout
from loopmt.rng import numpy_generator
from loopmt.run import write_json
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Store
from loopmt.translate import beam_search, captured_decoder
from loopmt.translate.captured_decoder import CapturedDecoder, _Shape, cache_elements
from loopmt.translate.decoder import Decoder, generate
from loopmt.translate.protocol import DecodeLimits

_FIRST = 3  # the lowest id of text
_HOW = Generate(how="greedy")
_BYTES = 2  # of bfloat16


@dataclass
class Tally:
    """What was computed."""

    steps: int = 0
    row_steps: int = 0
    moves: int = 0
    cache_bytes: int = 0  # of the largest shape
    shapes: set[tuple[int, ...]] = field(default_factory=set)


class CountingDecoder(CapturedDecoder):
    """Its outputs end after as many tokens as the first id of the source says; its graphs count rows."""

    def __init__(self, model: Model, size: int, tally: Tally) -> None:
        layout = Layout(model, size, size, True)
        super().__init__(Transformer(model, True), layout, torch.float32, torch.device("cpu"), _Graph)
        self.model, self.tally = model, tally

    def _load(self, flat_NP: torch.Tensor, logit_mask_NV: torch.Tensor, used: Ints) -> None:
        """There are no weights."""

    def _move(self, *given: object) -> _Shape:
        self.tally.moves += 1
        return super()._move(*given)  # type: ignore[arg-type]

    def _capture(self, networks: int, rows: int, source_length: int, length: int, how: Generate, opens: bool) -> _Shape:
        source = torch.zeros(rows, source_length, dtype=torch.long)
        hypotheses = beam_search.start_search([length] * rows, how, source.device)
        assert isinstance(hypotheses, beam_search.SingleHypothesis)
        first = {name: tensor.clone() for name, tensor in beam_search.search_state(hypotheses).items()}
        first["longest"].fill_(1)
        first["rows"].fill_(-1)
        position, ends = torch.zeros((), dtype=torch.long), torch.zeros(rows, dtype=torch.long)
        memory = Memory([ends], [], torch.ones(rows, 1, 1, 1, dtype=torch.bool))
        tally, elements = self.tally, cache_elements(self.model, rows, source_length, rows, length)
        tally.cache_bytes = max(tally.cache_bytes, _BYTES * elements)
        tally.shapes.add((rows, source_length, length))

        def read() -> None:
            ends.copy_(source[:, 0])

        def step() -> None:
            tally.steps, tally.row_steps = tally.steps + 1, tally.row_steps + rows
            hypotheses.ended |= (ends <= position + 1) | (hypotheses.longest <= position + 1)
            position.add_(1)

        graphs = _Graph(read), _Graph(step)
        cache = Cache([torch.zeros(rows, 1, length, 0)], [])
        return _Shape(networks, source, first, hypotheses, memory, cache, position, *graphs)


@dataclass
class _Graph:
    replay: Callable[[], None]


@dataclass(frozen=True)
class Round:
    """The sentences of a round: tokens of sources and outputs without ends, and the network of each."""

    sources: Ints
    outputs: Ints
    networks: Ints

    def take(self, rows: Ints) -> Round:
        return Round(self.sources[rows], self.outputs[rows], self.networks[rows])

    @property
    def needed(self) -> int:
        """Steps of a row, summed: tokens and the end."""
        return int((self.outputs + 1).sum())


def rounds(store: Store, pairs: Sequence[tuple[str, str]], rows: int, count: int) -> Iterator[Round]:
    """Rounds of as many pairs in each direction."""
    hops = [hop for one, other in pairs for hop in ((one, other), (other, one))]
    for number in range(count):
        columns = []
        for network, hop in enumerate(hops):
            sides = [side.lengths() for side in store.bitext(*hop)]
            taken = numpy_generator("steps", number, *hop).permutation(len(sides[0]))[:rows]
            columns.append((sides[0][taken], sides[1][taken], np.full(rows, network)))
        yield Round(*(np.concatenate(column).astype(np.int64) for column in zip(*columns, strict=True)))


# -- batches of sorted sentences, by the decoder itself ------------------------------------------------------------


def batched(one: Round, model: Model, limits: DecodeLimits, together: bool) -> Tally:
    """Decode the networks together, or one after another."""
    tally = Tally()
    most = int(max(one.sources.max(), one.outputs.max())) + 2
    captured = CountingDecoder(model, _FIRST + most, tally)
    networks = int(one.networks.max()) + 1
    decoder = Decoder(
        captured.transformer, captured.layout, torch.zeros(networks, 0), torch.zeros(1), torch.float32, captured
    )
    parts = [one] if together else [one.take(np.flatnonzero(one.networks == network)) for network in range(networks)]
    for part in parts:
        generate(decoder, _coded(part), _HOW, limits, networks=part.networks)
    return tally


def _coded(one: Round) -> Ragged:
    """Sources whose first id says after how many tokens, with the end, the output ends."""
    lengths = np.maximum(one.sources, 1)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.full(int(offsets[-1]), _FIRST)
    flat[offsets[:-1]] = one.outputs + 1
    return Ragged(flat, offsets)


# -- finished rows replaced ----------------------------------------------------------------------------------------


def replaced(one: Round, model: Model, slots: int, every: int) -> Tally:
    """Longest sources first; every `every` steps finished rows are replaced, and at the end shapes shrink as now."""
    networks = int(one.networks.max()) + 1
    each = captured_decoder._rows_each(networks, slots // networks)
    queues = [np.flatnonzero(one.networks == network) for network in range(networks)]
    queues = [(one.outputs + 1)[queue[np.argsort(-one.sources[queue], kind="stable")]] for queue in queues]
    left, tally = np.zeros((networks, each), dtype=np.int64), Tally()
    width = captured_decoder._up(int(one.sources.max()) + 1, captured_decoder._LENGTHS)
    tally.cache_bytes = _BYTES * cache_elements(model, each * networks, width, each * networks, 2 * width)
    places = [0] * networks
    while True:
        for network, queue in enumerate(queues):
            free = np.flatnonzero(left[network] <= 0)[: len(queue) - places[network]]
            left[network, free] = queue[places[network] : places[network] + len(free)]
            places[network] += len(free)
        most = int((left > 0).sum(1).max())
        if not most:
            return tally
        emptied = all(place == len(queue) for place, queue in zip(places, queues, strict=True))
        rows = networks * (captured_decoder._rows_each(networks, most) if emptied else each)
        tally.steps, tally.row_steps = tally.steps + every, tally.row_steps + every * rows
        left -= every


# -- the comparison ------------------------------------------------------------------------------------------------


def compare(one: Round, model: Model) -> list[Json]:
    """All policies on one round."""
    now = DecodeLimits.on(torch.device("cuda"), 128)
    rows = {"networks one after another": batched(one, model, now, together=False)}
    rows["all networks together (now)"] = batched(one, model, now, together=True)
    for factor in (2, 4):
        limits = replace(now, batch_rows=now.batch_rows * factor, batch_tokens=now.batch_tokens * factor)
        ladder = (*captured_decoder._ROWS, *range(5120, 4096 * factor + 1, 1024))
        with patch.object(captured_decoder, "_ROWS", ladder):
            rows[f"batches {factor} times as large"] = batched(one, model, limits, together=True)
    for slots in (1024, 2048, 4096):
        rows[f"finished rows replaced, {slots} rows"] = replaced(one, model, slots, 8)
    return [_record(name, tally, one) for name, tally in rows.items()]


def _record(name: str, tally: Tally, one: Round) -> Json:
    return {
        "policy": name,
        "steps": tally.steps,
        "row_steps": tally.row_steps,
        "needed": one.needed,
        "unused": 1 - one.needed / tally.row_steps,
        "moves": tally.moves,
        "shapes": len(tally.shapes),
        "cache_bytes": tally.cache_bytes,
    }


def mean(found: Sequence[Sequence[Json]]) -> list[Json]:
    """The mean of each policy over rounds."""
    return [
        {key: rows[0][key] if key == "policy" else float(np.mean([row[key] for row in rows])) for key in rows[0]}
        for rows in zip(*found, strict=True)
    ]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--pairs", nargs="+", default=["en-fr", "en-es", "fr-es"])
    parser.add_argument("--rows", type=int, default=2300, help="generated rows of a direction in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(words)
    store = Store.open(options.run / "store")
    pairs = [(pair.split("-")[0], pair.split("-")[1]) for pair in options.pairs]
    model = Model.model_validate({"preset": "small"})
    table = mean([compare(one, model) for one in rounds(store, pairs, options.rows, options.rounds)])
    for row in table:
        print(
            f"{row['policy']:32} {row['steps']:6.0f} steps {row['row_steps'] / 1000:7.0f}k row-steps "
            f"{100 * row['unused']:5.1f}% unused {row['moves']:5.1f} moves {row['cache_bytes'] / 2**30:5.2f} GiB"
        )
    if options.out:
        machine = describe(Plan(torch.device("cpu")), "benchmarks.decoding_steps")
        write_json(options.out, {"machine": machine, "rows": options.rows, "rounds": options.rounds, "policies": table})


if __name__ == "__main__":
    main()
