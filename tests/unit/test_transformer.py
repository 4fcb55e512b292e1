"""The network: equal to Marian and Pegasus of `transformers`, and equal in all its implementations."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from loopmt.config import Model
from loopmt.model.transformer import NO_DROPOUT, Dropout, Transformer, drop, positions
from loopmt.model.weights import Layout
from loopmt.text.ragged import EOS, PAD

SIZE = 37


def model(**settings: Any) -> Model:
    small = {"layers": 2, "decoder_layers": 3, "width": 16, "feed_forward": 24, "heads": 4, "dropout": 0.0}
    return Model.model_validate({**small, **settings})


def layout(settings: Model, joint: bool = True, source_size: int = SIZE) -> Layout:
    return Layout(settings, source_size if not joint else SIZE, SIZE, joint)


def stirred(plan: Layout, rows: int = 1) -> Tensor:
    """Weights without zeros and ones, so that a misplaced bias or norm changes the result."""
    flat = plan.initial(*((1, "network", row) for row in range(rows)))
    return flat + 0.1 * torch.randn(flat.shape, generator=torch.Generator().manual_seed(5))


def ids(*shape: int, seed: int = 3) -> Tensor:
    """Random sentences with EOS and padding."""
    table = torch.randint(3, SIZE, shape, generator=torch.Generator().manual_seed(seed))
    for row, sentence in enumerate(table.view(-1, shape[-1])):
        length = 2 + row % (shape[-1] - 1)
        sentence[length - 1] = EOS
        sentence[length:] = PAD
    return table


def logits(
    settings: Model, flat: Tensor, source: Tensor, inputs: Tensor, joint: bool = True, dropout: Dropout = NO_DROPOUT
) -> Tensor:
    network, weights = Transformer(settings, joint), layout(settings, joint).unpack(flat)
    states = network.encode(weights, source, dropout)
    memory = network.memory(weights, states, source)
    return network.logits(weights, network.decode(weights, memory, inputs, dropout))


# -- parity with `transformers` ----------------------------------------------------------------------------------


def peer(settings: Model, weights: dict[str, Tensor]) -> Any:
    transformers = pytest.importorskip("transformers", reason="parity needs the package `transformers`")
    kind, config = {
        "post": (transformers.MarianMTModel, transformers.MarianConfig),
        "pre": (transformers.PegasusForConditionalGeneration, transformers.PegasusConfig),
    }[settings.norm]
    described = config(
        vocab_size=SIZE,
        d_model=settings.width,
        encoder_layers=settings.layers,
        decoder_layers=settings.num_decoder_layers,
        encoder_attention_heads=settings.heads,
        decoder_attention_heads=settings.heads,
        encoder_ffn_dim=settings.feed_forward,
        decoder_ffn_dim=settings.feed_forward,
        max_position_embeddings=128,
        activation_function=settings.activation,
        dropout=0.0,
        attention_dropout=0.0,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = kind(described).eval()
    missing, unexpected = other.load_state_dict(theirs(settings, weights), strict=False)
    assert not unexpected
    assert all("embed" in name or "lm_head" in name for name in missing), missing
    return other


def theirs(settings: Model, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights of one network under the names of `transformers`."""
    found = {"model.shared.weight": weights["embed"][0], "final_logits_bias": weights["output_bias"]}
    found["model.encoder.embed_tokens.weight"] = found["model.decoder.embed_tokens.weight"] = weights["embed"][0]
    found["lm_head.weight"] = weights["embed"][0]
    for name, weight in weights.items():
        if name.startswith(("encoder.", "decoder.")):
            found |= _renamed(name, weight[0])
    return found


def _renamed(name: str, weight: Tensor) -> dict[str, Tensor]:
    side, number, *rest = name.split(".")
    if number == "norm":
        return {f"model.{side}.layer_norm.{rest[0]}": weight}
    block, part, kind = rest
    place = f"model.{side}.layers.{number}"
    if block == "ffn":
        inner = {"up": "fc1", "down": "fc2", "norm": "final_layer_norm"}[part]
        return {f"{place}.{inner}.{kind}": weight}
    attention = {"self": "self_attn", "cross": "encoder_attn"}[block]
    if part == "norm":
        return {f"{place}.{attention}_layer_norm.{kind}": weight}
    parts = {"qkv": ("q_proj", "k_proj", "v_proj"), "kv": ("k_proj", "v_proj"), "q": ("q_proj",), "out": ("out_proj",)}
    names = parts[part]
    return {
        f"{place}.{attention}.{own}.{kind}": chunk for own, chunk in zip(names, weight.chunk(len(names)), strict=True)
    }


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_logits_equal_those_of_transformers(norm: str, activation: str) -> None:
    settings = model(norm=norm, activation=activation)
    flat = stirred(layout(settings))
    other = peer(settings, layout(settings).unpack(flat))
    source, inputs = ids(5, 9), ids(5, 7, seed=4)
    with torch.no_grad():
        expected = other(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=inputs).logits
        assert (logits(settings, flat, source[None], inputs[None])[0] - expected).abs().max() < 1e-4


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_greedy_translations_equal_those_of_transformers(norm: str) -> None:
    settings = model(norm=norm)
    flat = stirred(layout(settings))
    other = peer(settings, layout(settings).unpack(flat))
    source, length = ids(8, 9), 12
    expected = other.generate(
        input_ids=source, attention_mask=(source != PAD).long(), max_new_tokens=length, num_beams=1, do_sample=False
    )
    said = greedy(settings, flat, source, length)
    assert said[:, : expected.shape[1] - 1].tolist() == expected[:, 1:].tolist()


@torch.no_grad()
def greedy(settings: Model, flat: Tensor, source: Tensor, length: int) -> Tensor:
    """Greedy search with a cache, step by step."""
    network, weights = Transformer(settings, True), layout(settings).unpack(flat)
    memory = network.memory(weights, network.encode(weights, source[None]), source[None])
    cache = network.new_cache(len(source), length, memory.keys[0].new_zeros)
    tokens, said = torch.full((len(source),), PAD), []
    ended = torch.zeros(len(source), dtype=torch.bool)
    for position in range(length):
        tokens = network.step(weights, memory, cache, tokens[None], position)[0].argmax(-1)
        said.append(tokens.masked_fill(ended, PAD))
        ended |= tokens == EOS
    return torch.stack(said, 1)


# -- the same, however it is computed ----------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_stack_is_its_networks_one_by_one(norm: str, joint: bool) -> None:
    settings = model(norm=norm)
    flat = stirred(layout(settings, joint), rows=3)
    source, inputs = ids(3, 5, 9), ids(3, 5, 7, seed=4)
    together = logits(settings, flat, source, inputs, joint)
    for row in range(3):
        alone = logits(settings, flat[row : row + 1], source[row : row + 1], inputs[row : row + 1], joint)
        assert torch.allclose(together[row], alone[0], atol=1e-5)


@pytest.mark.parametrize("networks", [1, 2])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("fixed", [False, True], ids=["int position", "tensor position"])
@torch.no_grad()
def test_steps_with_a_cache_are_the_whole(networks: int, norm: str, fixed: bool) -> None:
    settings = model(norm=norm)
    flat = stirred(layout(settings), networks)
    source, inputs = (
        ids(networks, 4, 9),
        torch.randint(3, SIZE, (networks, 4, 6), generator=torch.Generator().manual_seed(1)),
    )
    network, weights = Transformer(settings, True), layout(settings).unpack(flat)
    memory = network.memory(weights, network.encode(weights, source), source)
    whole = network.logits(weights, network.decode(weights, memory, inputs))
    cache = network.new_cache(networks * 4, 10, memory.keys[0].new_zeros)
    for position in range(inputs.shape[-1]):
        place = torch.tensor(position) if fixed else position
        step = network.step(weights, memory, cache, inputs[..., position], place)
        assert torch.allclose(step, whole[..., position, :], atol=1e-5)


def test_padding_changes_nothing() -> None:
    settings = model()
    flat = stirred(layout(settings))
    source, inputs = ids(1, 4, 6), ids(1, 4, 5, seed=9)
    padded = torch.nn.functional.pad(source, (0, 7), value=PAD)
    assert torch.allclose(logits(settings, flat, source, inputs), logits(settings, flat, padded, inputs), atol=1e-5)


def test_the_decoder_does_not_look_ahead() -> None:
    settings = model()
    flat = stirred(layout(settings))
    source, inputs = ids(1, 4, 6), torch.randint(3, SIZE, (1, 4, 6))
    changed = inputs.clone()
    changed[..., 4:] = 5
    one, other = logits(settings, flat, source, inputs), logits(settings, flat, source, changed)
    assert torch.equal(one[..., :4, :], other[..., :4, :])
    assert not torch.allclose(one[..., 4:, :], other[..., 4:, :])


def test_a_row_of_padding_gives_finite_logits_and_gradients() -> None:
    """Networks with fewer rows than others in an update have padding rows."""
    settings = model()
    flat = stirred(layout(settings)).requires_grad_()
    source = ids(1, 3, 6)
    source[0, 1] = PAD
    out = logits(settings, flat, source, ids(1, 3, 5))
    (gradient,) = torch.autograd.grad(out[0, 0].sum() + 0 * out.sum(), flat)
    assert out.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("kind", ["state", "attention", "activation"])
def test_dropout_is_applied_only_if_requested(kind: str) -> None:
    settings = model(dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)
    flat = stirred(layout(settings))
    source, inputs = ids(1, 4, 6), ids(1, 4, 5)
    assert torch.equal(logits(settings, flat, source, inputs), logits(settings, flat, source, inputs))
    torch.manual_seed(1)
    once, again = (logits(settings, flat, source, inputs, dropout=Dropout(**{kind: 0.5})) for _ in range(2))
    assert not torch.allclose(once, again)
    torch.manual_seed(1)
    assert torch.equal(once, logits(settings, flat, source, inputs, dropout=Dropout(**{kind: 0.5})))


def test_a_vocabulary_for_each_side() -> None:
    settings = model()
    plan = layout(settings, joint=False, source_size=50)
    assert plan.shapes["source_embed"] == (50, 16)
    assert plan.shapes["target_embed"] == (SIZE, 16)
    assert "embed" not in plan.shapes
    flat = stirred(plan)
    network, weights = Transformer(settings, False), plan.unpack(flat)
    source = torch.full((1, 1, 3), 49)
    memory = network.memory(weights, network.encode(weights, source), source)
    out = network.logits(weights, network.decode(weights, memory, torch.full((1, 1, 2), SIZE - 1)))
    assert out.shape == (1, 1, 2, SIZE)


# -- layout ------------------------------------------------------------------------------------------------------


def test_weights_are_views_of_the_row_and_do_not_overlap() -> None:
    plan = layout(model(norm="pre"))
    flat = torch.zeros(2, plan.num_places)
    views = plan.unpack(flat)
    for number, view in enumerate(views.values(), 1):
        view[1] = number
    assert (flat[0] == 0).all()
    assert sum(math.prod(shape) for shape in plan.shapes.values()) == plan.num_parameters
    assert all((view[1] == number).all() for number, view in enumerate(views.values(), 1))
    assert (flat[1] != 0).sum() == plan.num_parameters


def test_fresh_weights_depend_on_their_key_alone() -> None:
    plan = layout(model())
    one = plan.initial((1, "en>fr"), (1, "fr>en"))
    other = plan.initial((1, "fr>en"))
    assert torch.equal(one[1], other[0])
    assert not torch.equal(one[0], one[1])
    assert plan.unpack(one)["embed"][0, PAD].abs().max() == 0
    assert plan.unpack(one)["encoder.0.ffn.norm.weight"].tolist() == [[1.0] * 16] * 2


def test_sinusoids() -> None:
    like = torch.zeros(1, 8)
    table = positions(0, 5, like)
    assert table[3, 1] == pytest.approx(math.sin(3 / 10000 ** (2 / 8)))
    assert table[3, 5] == pytest.approx(math.cos(3 / 10000 ** (2 / 8)))
    assert torch.equal(positions(300, 2, like), positions(0, 302, like)[300:])
    assert torch.equal(positions(torch.tensor(300), 1, like), positions(300, 1, like))


@pytest.mark.parametrize("rate", [0.1, 0.3])
@pytest.mark.parametrize("shape", [(3,), (7, 501), (2, 3, 64, 32)])
def test_dropout_keeps_its_share_and_the_mean(rate: float, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    x = torch.ones(shape, requires_grad=True)
    many = torch.stack([drop(x, rate) for _ in range(40_000 // x.numel() + 1)])
    kept = many.detach() != 0
    assert torch.allclose(many[kept], torch.tensor(1 / (1 - rate)), rtol=1e-4)
    assert float(kept.float().mean()) == pytest.approx(1 - rate, abs=0.01)
    quarters = kept.flatten()[:40_000].view(-1, 4).float().mean(0)  # four places come from one number
    assert quarters.tolist() == pytest.approx([1 - rate] * 4, abs=0.02)
    (slope,) = torch.autograd.grad(many[0].sum(), x)
    assert torch.equal(slope, many[0].detach())
