"""Kernels compared with the eager operations that they replace, each in a captured graph, on CUDA; under a minute.

`python -m benchmarks.kernels [FILE.json]` prints a table and JSON. A kernel that fails is recorded with the last line
of its error. `difference` is the largest difference of the outputs, relative to the largest output.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.config import Generate, Model
from loopmt.model.transformer import Dropout, Transformer
from loopmt.model.weights import Layout
from loopmt.translate.scoring import shifted

DTYPE = torch.bfloat16
Json = dict[str, Any]
_SECONDS = 55  # after which no further case is started


@dataclass
class Case:
    """Gradients of `inputs` are computed if they require any; `amount` is the least number of bytes to move."""

    name: str
    shape: str
    kernel: Callable[..., Tensor]
    eager: Callable[..., Tensor]
    inputs: list[Tensor]
    amount: float

    def work(self, function: Callable[..., Tensor]) -> Callable[[], object]:
        leaves = [tensor for tensor in self.inputs if tensor.requires_grad]
        if not leaves:
            return lambda: function(*self.inputs)
        slope = torch.ones_like(function(*self.inputs))
        return lambda: torch.autograd.grad(function(*self.inputs), leaves, slope)

    def difference(self) -> float:
        """Compute it before timing, because the loss overwrites its logits."""
        with torch.no_grad():
            one, other = self.kernel(*self.inputs).float(), self.eager(*self.inputs).float()
        return float((one - other).abs().max() / other.abs().max())


def numbers(*shape: int, gradient: bool = True) -> Tensor:
    return torch.randn(shape, device="cuda", dtype=DTYPE).requires_grad_(gradient)


def split(packed: Tensor, parts: int, heads: int) -> list[Tensor]:
    """(R, T, parts*D) to views (R, H, T, K)."""
    return [part.view(*part.shape[:2], heads, -1).transpose(1, 2) for part in packed.chunk(parts, -1)]


def losses() -> Iterator[Case]:
    from loopmt.model.kernels.loss import cross_entropy

    for networks, rows, size in ((6, 4096, 8000), (1, 16_384, 32_000)):
        target = torch.randint(1, size, (networks * rows,), device="cuda")

        def kernel(logits: Tensor, bias: Tensor, target: Tensor = target) -> Tensor:
            return cross_entropy(logits.flatten(0, 1), target, 0.1, bias)

        def eager(logits: Tensor, bias: Tensor, target: Tensor = target) -> Tensor:
            logits = (logits + bias[:, None]).flatten(0, 1).float()
            return F.cross_entropy(logits, target, reduction="none", label_smoothing=0.1)

        inputs = [numbers(networks, rows, size), numbers(networks, size)]
        yield Case("loss", f"{networks}x{rows}x{size}", kernel, eager, inputs, 6.0 * networks * rows * size)


def attentions() -> Iterator[Case]:
    from loopmt.model.kernels.attend import attend_self

    shapes = ((768, 4, 32, 32), (768, 4, 32, 64), (512, 8, 32, 64), (256, 8, 64, 64), (128, 8, 128, 64))
    for rows, heads, length, size in shapes:
        for causal in (True, False):
            mask = None if causal else torch.arange(length, device="cuda").expand(rows, 1, 1, -1) < length - 3

            def kernel(packed: Tensor, heads: int = heads, mask: Tensor | None = mask) -> Tensor:
                return attend_self(packed, heads, mask, causal=mask is None)

            def eager(packed: Tensor, heads: int = heads, mask: Tensor | None = mask) -> Tensor:
                query, key, value = split(packed, 3, heads)
                out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None)
                return out.transpose(1, 2).flatten(2)

            shape = f"{rows}x{heads}x{length}x{size}"
            inputs = [numbers(rows, length, 3 * heads * size)]
            amount = 2.0 * rows * heads * length * size * (3 + 1 + 3 + 1 + 3)
            yield Case("causal" if causal else "attention", shape, kernel, eager, inputs, amount)


def blocks() -> Iterator[Case]:
    from loopmt.model.kernels.activate import bias_act
    from loopmt.model.kernels.residual import residual_norm

    def joined(x: Tensor, out: Tensor, bias: Tensor, scale: Tensor, shift: Tensor, rate: float) -> Tensor:
        y = F.layer_norm(x + F.dropout(out + bias[:, None], rate), x.shape[-1:])
        return y * scale[:, None] + shift[:, None]

    for networks, rows, width in ((6, 4096, 256), (1, 16_384, 512)):
        for rate in (0.0, 0.1):

            def kernel(x: Tensor, out: Tensor, b: Tensor, scale: Tensor, shift: Tensor, rate: float = rate) -> Tensor:
                return residual_norm(x, out, b, (scale, shift), rate)

            def eager(x: Tensor, out: Tensor, b: Tensor, scale: Tensor, shift: Tensor, rate: float = rate) -> Tensor:
                return joined(x, out, b, scale, shift, rate)

            inputs = [numbers(networks, rows, width) for _ in range(2)] + [numbers(networks, width) for _ in range(3)]
            shape, amount = f"{networks}x{rows}x{width}", (8 if rate else 7) * 2.0 * networks * rows * width
            yield Case(f"residual {rate}", shape, kernel, eager, inputs, amount)
        inputs = [numbers(networks, rows, 4 * width), numbers(networks, 4 * width)]
        yield Case(
            "bias+relu", f"{networks}x{rows}x{4 * width}", lambda x, bias: bias_act(x, bias, "relu"),
            lambda x, bias: F.relu(x + bias[:, None]), inputs, 10.0 * networks * rows * 4 * width,
        )  # fmt: skip


def decoding(heads: int = 8, length: int = 64, size: int = 64) -> Iterator[Case]:
    from loopmt.model.kernels.attend import attend_cross
    from loopmt.model.kernels.decode import attend_past, attend_source
    from loopmt.model.transformer import attention, extend

    def kernel(packed: Tensor, keys: Tensor, values: Tensor, position: Tensor) -> Tensor:
        query, key, value = split(packed, 3, heads)
        return attend_past(query, key, value, keys, values, position)

    def eager(packed: Tensor, keys: Tensor, values: Tensor, position: Tensor) -> Tensor:
        query, key, value = split(packed, 3, heads)
        return attention(query, *extend(keys, values, key, value, position))

    def beams(packed: Tensor, keys: Tensor, values: Tensor, position: Tensor, table: Tensor, _: Tensor) -> Tensor:
        query, key, value = split(packed, 3, heads)
        return attend_past(query, key, value, keys, values, position, table)

    def moved(packed: Tensor, keys: Tensor, values: Tensor, position: Tensor, _: Tensor, parents: Tensor) -> Tensor:
        keys.copy_(keys[parents])
        values.copy_(values[parents])
        return eager(packed, keys, values, position)

    def together(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        return attention(query, keys, values, mask).transpose(1, 2).flatten(2)

    for rows in (256, 2048, 4096):
        packed = numbers(rows, 1, 3 * heads * size, gradient=False)
        keys, values = (numbers(rows, heads, length, size, gradient=False) for _ in range(2))
        place = f"{rows}x{heads}x{length}x{size}"
        for position in (31, 63):
            inputs = [packed, keys, values, torch.tensor(position, device="cuda")]
            amount = 4.0 * rows * heads * size * (position + 3)
            yield Case("past", f"{place} at {position}", kernel, eager, inputs, amount)
        own = torch.arange(rows, device="cuda")
        inputs = [packed, keys, values, torch.tensor(63, device="cuda"), own.int()[:, None].repeat(1, length) * 0, own]
        yield Case("past of a beam", f"{place} at 63", beams, moved, inputs, amount)
        mask = torch.arange(length, device="cuda").expand(rows, 1, 1, -1) < length // 2
        inputs = [*split(packed[..., : heads * size], 1, heads), keys, values, mask]
        yield Case(
            "source", f"{place}, half real", attend_source, attention, inputs, 2.0 * rows * heads * size * length
        )
        inputs = [
            *split(packed[..., : heads * size].reshape(rows // 4, 4, -1), 1, heads),
            *(part[: rows // 4] for part in inputs[1:]),
        ]
        yield Case(
            "source of a beam", f"{place}, half real", attend_cross, together, inputs, rows * heads * size * length
        )


def choices() -> Iterator[Case]:
    from loopmt.translate import beam_search
    from loopmt.translate.kernels import sampling

    for rows, size in ((256, 32_000), (4096, 32_000), (1024, 8000)):
        inputs = [numbers(rows, size, gradient=False)]
        for name, how in (
            ("greedy", Generate(how="greedy")),
            ("sampled", Generate(how="sample", temperature=1.0, top_k=0)),
            ("top 10", Generate(how="sample", temperature=1.0, top_k=10)),
        ):

            def kernel(logits: Tensor, how: Generate = how) -> Tensor:
                return sampling.pick(logits, how, None)[1]

            def eager(logits: Tensor, how: Generate = how) -> Tensor:
                return beam_search.pick(logits, how, None)[1]

            yield Case(name, f"{rows}x{size}", kernel, eager, inputs, 2.0 * rows * size)
        yield Case(
            "likeliest 8", f"{rows}x{size}", lambda logits: sampling.likeliest(logits, 8)[0],
            lambda logits: beam_search.likeliest(logits, 8)[0], inputs, 2.0 * rows * size,
        )  # fmt: skip


def networks() -> Iterator[Case]:
    """Loss and gradient of whole networks, with dropout."""
    from loopmt.model.accelerated import Accelerated

    for preset, count, rows, size in (("small", 6, 128, 8000), ("base", 1, 512, 32_000)):
        model = Model.model_validate({"preset": preset})
        layout = Layout(model, size, size, True)
        flat = layout.initial(*((number, "w") for number in range(count))).to("cuda", DTYPE).requires_grad_()
        ids = torch.randint(3, size, (2, count, rows, 32), device="cuda")

        def loss(flat: Tensor, kind: type[Transformer], model: Model, layout: Layout, ids: Tensor) -> Tensor:
            transformer, weights, dropout = kind(model, True), layout.unpack(flat), Dropout(0.1)
            memory = transformer.memory(weights, transformer.encode(weights, ids[0], dropout), ids[0])
            states = transformer.decode(weights, memory, shifted(ids[1]), dropout)
            return transformer.losses(weights, states, ids[1], 0.1).sum()

        given: Json = {"model": model, "layout": layout, "ids": ids}
        kernel, eager = (partial(loss, kind=kind, **given) for kind in (Accelerated, Transformer))
        yield Case(f"{preset}, dropout 0.1", f"{count}x{rows}x32, V {size}", kernel, eager, [flat], 0.0)


def microseconds(work: Callable[[], object], repeats: int = 10) -> float:
    """The time of one run, among `repeats` in a captured graph; the best of five replays."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            work()
    times = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(float(begin.elapsed_time(end)) * 1000 / repeats)
    return min(times)


def measured(case: Case) -> Json:
    row: Json = {"kernel": case.name, "shape": case.shape}
    try:
        if not any(word in case.name for word in (" 0.1", "sampled", "top 10")):  # their random draws differ
            row["difference"] = case.difference()
        row["eager_us"] = microseconds(case.work(case.eager))
        row["kernel_us"] = microseconds(case.work(case.kernel))
        row["gb_per_s"] = case.amount / row["kernel_us"] / 1000
    except Exception as error:
        row["failed"] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}"[:300]
    return row


def line(row: Json) -> str:
    start = f"{row['kernel']:18s} {row['shape']:26s}"
    if "failed" in row:
        return f"{start} {row['failed']}"
    ratio = row["eager_us"] / row["kernel_us"]
    numbers = f"{row['eager_us']:10.1f} {row['kernel_us']:10.1f} {ratio:6.2f} {row['gb_per_s']:8.0f}"
    return f"{start} {numbers}  {row.get('difference', float('nan')):.1e}"


def main() -> None:
    print(f"{'kernel':18s} {'shape':26s} {'eager us':>10s} {'kernel us':>10s} {'ratio':>6s} {'GB/s':>8s}  difference")
    rows, began = [], time.perf_counter()
    for cases in (losses, choices, decoding, networks, attentions, blocks):
        for case in cases():
            if time.perf_counter() - began > _SECONDS:
                break
            row = measured(case)
            print(line(row), flush=True)
            rows.append(row)
    text = json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows})
    print(text)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
