"""A checkpoint in the shape of NLLB-600M with random weights: loopmt's transformer beside Hugging Face, in one run.

    python -m benchmarks.pretrained --work FOLDER --out pretrained.json [--tiny] [--stages full]

FOLDER gets the checkpoint and the runs of the stages with loops; it must be new. All systems have the same weights,
sources and forced output length. On CUDA they compute in bfloat16. `--tiny` checks on a CPU that everything runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import sentencepiece
import torch
import torch.nn.functional as F
from benchmarks.machine import describe
from benchmarks.timing import Json, Measurement, Plan, Systems, compare
from torch import Tensor

from loopmt.config import Generate, Train
from loopmt.distributed import Processes
from loopmt.learn.captured import CapturedLearner
from loopmt.learn.learner import Learner
from loopmt.model.transformer import NO_DROPOUT
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import load_pretrained, load_tokenizer, transformers
from loopmt.pretrained.native import native_form
from loopmt.pretrained.native_stack import NativeStack
from loopmt.pretrained.tokens import ModelTokens
from loopmt.progress import Silent
from loopmt.synthetic import World
from loopmt.text.batch import Batch, Rows, make_shapes
from loopmt.text.packing import pack
from loopmt.text.ragged import EOS, PAD, Ints, Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.decoder import generate, padded
from loopmt.translate.protocol import DecodeLimits
from loopmt.translate.scoring import decoder_states
from loopmt.workflow.train import TrainOptions, train

HOP = Hop("en", "fr")
LANGUAGES = ("en", "fr", "es")
LARGE = {"width": 1024, "inner": 4096, "heads": 16, "layers": 12, "vocabulary": 256_206}
TINY = {"width": 32, "inner": 64, "heads": 2, "layers": 1, "vocabulary": 600}
EXPERIMENT = """
languages = ["en", "fr", "es"]
seed = 1

[data.world]
pairs = {{ "en-fr" = {rows}, "en-es" = {rows} }}
mono = {{ en = {rows}, fr = {rows}, es = {rows} }}
valid = 50
test = 50

[model]
pretrained = {folder}
adapt = "{adapt}"

[train]
tokens = {tokens}
max_length = 60
shapes = 2
round = 2
validate_every = {updates}
validate_sentences = 8

[[stage]]
name = "loops"
mix = ["X>Y", {{ path = "X>Y>X", weight = 2 }}]
updates = {updates}
"""


# -- the checkpoint ----------------------------------------------------------------------------------------------


def make_checkpoint(folder: Path, tiny: bool) -> None:
    """Random weights, and a real tokenizer of few subwords; the other places of the vocabulary belong to no token."""
    library, shape = transformers(), TINY if tiny else LARGE
    folder.mkdir(parents=True)
    names = ["<s>", "<pad>", "</s>", "<unk>", *_subwords(folder / "sentencepiece.bpe.model")]
    (folder / "vocab.json").write_text(json.dumps({name: one for one, name in enumerate(names)}), encoding="utf-8")
    tokenizer = library.M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"))
    tokenizer.save_pretrained(folder)
    config = library.M2M100Config(
        vocab_size=shape["vocabulary"],
        d_model=shape["width"],
        encoder_layers=shape["layers"],
        decoder_layers=shape["layers"],
        encoder_ffn_dim=shape["inner"],
        decoder_ffn_dim=shape["inner"],
        encoder_attention_heads=shape["heads"],
        decoder_attention_heads=shape["heads"],
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        decoder_start_token_id=2,
    )
    torch.manual_seed(1)
    library.M2M100ForConditionalGeneration(config).save_pretrained(folder)


def _subwords(file: Path) -> list[str]:
    """Learn a small subword model from the built-in languages."""
    world, draw = World("tiny", LANGUAGES), np.random.default_rng(1)
    meanings = world.draw_meanings(500, "benchmark")
    text = file.with_name("text")
    lines = [world.sentence(one, language, draw) for language in LANGUAGES for one in meanings]
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    learn: Any = sentencepiece.SentencePieceTrainer.train
    learn(input=str(text), model_prefix=str(file), vocab_size=300, hard_vocab_limit=False, minloglevel=2)
    file.with_name(f"{file.name}.model").rename(file)
    for unused in (text, file.with_name(f"{file.name}.vocab")):
        unused.unlink()
    found = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [found.id_to_piece(one) for one in range(3, found.get_piece_size())]


@dataclass(frozen=True)
class Checkpoint:
    """The same checkpoint as both compute it."""

    folder: Path
    plan: Plan

    def native(self, dtype: torch.dtype) -> NativeStack:
        tokens = ModelTokens(self.folder, load_tokenizer(self.folder))
        forms, vocab = {"all": native_form(self.folder, tokens)}, cast(Vocab, None)  # no text of a run is read
        return NativeStack.of(forms, {"all": self.folder}, (HOP,), vocab, self.plan.device, dtype, "kernels", "")

    def module(self, dtype: torch.dtype) -> Any:
        return load_pretrained(self.folder, 0.1).to(device=self.plan.device, dtype=dtype)


# -- generation --------------------------------------------------------------------------------------------------


def generation(checkpoint: Checkpoint, how: Generate, sentences: int) -> Measurement:
    plan = checkpoint.plan
    length = plan.pick(32, 16, 8)
    draw = np.random.default_rng(1)
    sources = Ragged.of([draw.integers(3, 250, size) for size in draw.integers(8, plan.pick(40, 20, 12), sentences)])
    systems: dict[str, Callable[[], Callable[[], object]]] = {
        "loopmt": lambda: _ours(checkpoint, sources, how, length),
        "hugging face": lambda: _theirs(checkpoint, sources, how, length),
    }
    if plan.cuda:
        systems["hugging face, static cache, compiled"] = lambda: _theirs(checkpoint, sources, how, length, static=True)
    name = f"beam {how.beam}" if how.how == "beam" else how.how
    shape = f"{sentences} sentences, {length} tokens each"
    return compare(Measurement(f"generate, {name}", "sentences/s", sentences, shape), systems, plan)


def _ours(checkpoint: Checkpoint, sources: Ragged, how: Generate, length: int) -> Callable[[], object]:
    stack = checkpoint.native(checkpoint.plan.precision)
    decoder = stack.decoder(HOP)
    mask = decoder.logit_mask.clone()
    mask[EOS] = -torch.inf  # the forced length
    endless = replace(decoder, logit_mask=mask)
    limits = DecodeLimits(growth=0, extra=length, batch_tokens=2**20, batch_rows=4096)
    return lambda: generate(endless, sources, how, limits)


def _theirs(
    checkpoint: Checkpoint, sources: Ragged, how: Generate, length: int, static: bool = False
) -> Callable[[], object]:
    model, plan = checkpoint.module(checkpoint.plan.precision).eval(), checkpoint.plan
    form = checkpoint.native(torch.float32).forms["all"]
    ids, mask = _as_theirs(padded(sources.rows(), plan.device), form.numbering.theirs)
    settings = {
        "max_length": None,
        "max_new_tokens": length,
        "min_new_tokens": length,
        "do_sample": False,
        "num_beams": how.beam if how.how == "beam" else 1,
        **form.tokens.forced(HOP),
        **({"cache_implementation": "static"} if static else {}),
    }

    @torch.no_grad()
    def work() -> Tensor:
        return cast(Tensor, model.generate(input_ids=ids, attention_mask=mask, **settings))

    return work


def _as_theirs(rows: Tensor, theirs: Ints) -> tuple[Tensor, Tensor]:
    """Rows in the checkpoint's ids, with their attention mask."""
    table = torch.from_numpy(theirs).to(rows.device)
    return table[rows], (rows != PAD).long()


# -- training ----------------------------------------------------------------------------------------------------


def training(checkpoint: Checkpoint) -> Measurement:
    plan = checkpoint.plan
    rows, length = plan.pick(128, 16, 8), plan.pick(40, 20, 12)
    batch = _batch(rows, length)
    systems: dict[str, Callable[[], Callable[[], object]]] = {
        "loopmt": lambda: _our_update(checkpoint, batch),
        "hugging face": lambda: _their_update(checkpoint, batch),
    }
    if plan.cuda:
        systems["hugging face, compiled"] = lambda: _their_update(checkpoint, batch, compiled=True)
    tokens = int(batch.target_tokens.sum())
    return compare(Measurement("train", "target tokens/s", tokens, f"{rows} x {length}"), cast(Systems, systems), plan)


def _batch(rows: int, length: int) -> Batch:
    draw = np.random.default_rng(2)
    source, target = (
        Ragged.of([draw.integers(3, 250, size) for size in draw.integers(length // 2, length, rows)]) for _ in range(2)
    )
    paths: Ints = np.zeros(rows, dtype=np.int64)
    shapes = make_shapes([length], rows * length)
    return pack([Rows.of(source, target, paths)], shapes, 1, "benchmark").batches[0]


def _our_update(checkpoint: Checkpoint, batch: Batch) -> Callable[[], object]:
    learn = CapturedLearner if checkpoint.plan.cuda else Learner
    learner = learn(checkpoint.native(checkpoint.plan.precision), Train(dropout=0.1), 1, Processes())
    return lambda: learner.update(batch, 1, 1e-5)


def _their_update(checkpoint: Checkpoint, batch: Batch, compiled: bool = False) -> Callable[[], object]:
    plan = checkpoint.plan
    model = checkpoint.module(torch.float32).train()
    theirs = checkpoint.native(torch.float32).forms["all"].numbering.theirs
    adam = torch.optim.AdamW(model.parameters(), 1e-5, (0.9, 0.98), fused=plan.cuda)
    loss_of: Callable[..., Tensor] = torch.compile(_loss) if compiled else _loss

    def update() -> None:
        source, mask = _as_theirs(torch.from_numpy(batch.source_NBL[0]).to(plan.device), theirs)
        target, real = _as_theirs(torch.from_numpy(batch.target_NBL[0]).to(plan.device), theirs)
        context: AbstractContextManager[Any] = torch.autocast("cuda", torch.bfloat16) if plan.cuda else nullcontext()
        with context:
            loss = loss_of(model, source, mask, target.masked_fill(real == 0, -100))
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad(set_to_none=True)

    return update


def _loss(model: Any, source: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """The same loss as ours: label smoothing 0.1 in float32."""
    logits = model(input_ids=source, attention_mask=mask, labels=labels, use_cache=False).logits
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), label_smoothing=0.1)


def loss_difference(checkpoint: Checkpoint) -> float:
    """The largest difference of a sentence's loss per token, in float32 on the device."""
    stack, model = checkpoint.native(torch.float32), checkpoint.module(torch.float32).eval()
    batch = _batch(8, 12)
    source, target = (
        torch.from_numpy(side).to(checkpoint.plan.device) for side in (batch.source_NBL, batch.target_NBL)
    )
    weights, transformer = stack.layout.unpack(stack.live), stack.transformer

    with torch.no_grad():
        states = decoder_states(weights, transformer, source, target, NO_DROPOUT)
        ours = transformer.losses(weights, states, target, 0.0)[0]
        theirs = stack.forms["all"].numbering.theirs
        ids, mask = _as_theirs(source[0], theirs)
        labels = _as_theirs(target[0], theirs)[0].masked_fill(target[0] == PAD, -100)
        logits = model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).logits
        other = F.cross_entropy(logits.transpose(1, 2).float(), labels, reduction="none")
    tokens = (target[0] != PAD).sum(1).clamp_min(1)
    return float(((ours - other).sum(1).abs() / tokens).max())


# -- memory of a stage with loops --------------------------------------------------------------------------------


def loop_stage(checkpoint: Checkpoint, adapt: str, work: Path) -> Json:
    """Train a stage with loops. On CUDA also the most memory that torch had."""
    plan = checkpoint.plan
    updates, tokens, rows = plan.pick(20, 4, 2), plan.pick(4096, 512, 256), plan.pick(2000, 200, 60)
    file = work / f"{adapt}.toml"
    sizes = {"updates": updates, "tokens": tokens, "rows": rows, "adapt": adapt}
    file.write_text(EXPERIMENT.format(folder=json.dumps(str(checkpoint.folder.absolute())), **sizes), encoding="utf-8")
    if plan.cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    train(TrainOptions(file, work / adapt), Silent())
    notes = json.loads((work / adapt / "pretrained" / "pretrained.json").read_text(encoding="utf-8"))
    peak = torch.cuda.max_memory_allocated() / 2**30 if plan.cuda else None
    return {"adapt": adapt, "backend": "module" if adapt == "lora" else notes["backend"], "peak_gib": peak, **sizes}


# -- command line ------------------------------------------------------------------------------------------------


def measure(work: Path, tiny: bool, stages: Sequence[str]) -> Json:
    plan = Plan(torch.device("cuda" if torch.cuda.is_available() else "cpu"), 1 if tiny else 5, tiny)
    checkpoint = Checkpoint(work / "checkpoint", plan)
    make_checkpoint(checkpoint.folder, tiny or not plan.cuda)
    sentences = plan.pick(256, 32, 8)
    found: Json = {"machine": describe(plan, "benchmarks.pretrained"), "loss_difference": loss_difference(checkpoint)}
    searches = [Generate(how="greedy"), Generate(how="beam", beam=4)]
    timings = [generation(checkpoint, how, sentences) for how in searches] + [training(checkpoint)]
    found["timings"] = [one.as_json() for one in timings]
    found["stages"] = [loop_stage(checkpoint, adapt, work) for adapt in stages]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--stages", nargs="*", choices=("full", "lora"), default=("full", "lora"))
    options = parser.parse_args(arguments)
    if options.work.exists():
        parser.error(f"--work: {options.work} exists. Name a new folder.")
    found = measure(options.work, options.tiny, options.stages)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for one in found["timings"]:
        rates = {name: system.get("rate") for name, system in one["systems"].items()}
        print(f"{one['name']} ({one['unit']}): {rates}")


if __name__ == "__main__":
    main()
