"""Runs that train small checkpoints, and what Hugging Face alone makes of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from helpers.pretrained import transformers
from loopmt.config import Generate
from loopmt.path import Hop
from loopmt.pretrained.module_stack import ModuleStack
from loopmt.pretrained.native_stack import NativeStack
from loopmt.run import Run
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences, TranslationModel
from loopmt.workflow.models import result_of
from loopmt.workflow.pretrained import modules_of
from loopmt.workflow.train import TrainOptions

EN_FR, CPU = Hop("en", "fr"), torch.device("cpu")
GREEDY = Generate(how="greedy")
LIMITS = DecodeLimits(growth=0, extra=20)
TEXTS = ["The red cat sees the old dog today.", "Never.", "The small bird likes the kind king often."]
LOOPS = '["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }]'
Make = Callable[..., TrainOptions]


def stack_in(request: TrainOptions, stage: str = "pretrained") -> ModuleStack | NativeStack:
    run = Run(request.run or Path())
    found = result_of(run, run.experiment(), run.experiment().stage(stage), CPU)
    assert isinstance(found, ModuleStack | NativeStack)
    return found


def modules_in(request: TrainOptions, stage: str = "pretrained") -> ModuleStack:
    """The same stage, computed by Hugging Face's module."""
    run = Run(request.run or Path())
    return modules_of(run, run.experiment(), run.experiment().stage(stage))


def translated(stack: TranslationModel, hop: Hop, texts: list[str], how: Generate = GREEDY, n: int = 1) -> list[str]:
    inputs = [HopInput(hop, Sentences(None, hop.source, texts=texts))]
    return stack.generate(inputs, how, LIMITS, ("test",), n)[0].sentences.texts


def plainly(folder: Path, texts: list[str], codes: tuple[str, str] | None = None, **settings: Any) -> list[str]:
    """What Hugging Face alone generates."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    told = {}
    if codes:
        tokenizer.src_lang = codes[0]
        told = {"forced_bos_token_id": tokenizer.get_lang_id(codes[1])}
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    how = {"num_beams": 1, "do_sample": False, "max_new_tokens": 20, "max_length": None, **settings}
    ids = model.generate(**batch, **how, **told)
    said: list[str] = tokenizer.batch_decode(ids, skip_special_tokens=True)
    return [re.sub(r"__[a-z]+__ ?", "", text).strip() for text in said]
