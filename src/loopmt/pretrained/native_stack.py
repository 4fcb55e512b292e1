"""Pretrained checkpoints as networks of our own: flat weights, kernels and captured decoding.

Each keeps its tokenizer and vocabulary. Names in files are those of the checkpoint's tensors, so a stage can continue
with the other backend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from loopmt.config import Fuse, Generate
from loopmt.errors import DataError, PathError, RunError
from loopmt.model.backend import transformer_kind
from loopmt.model.transformer import Transformer
from loopmt.model.weights import Layout
from loopmt.path import Hop
from loopmt.pretrained.module_stack import UNMODIFIED
from loopmt.pretrained.native import NativeForm
from loopmt.pretrained.rows import TokenizedRows
from loopmt.pretrained.tensors import checkpoint_tensors, embeddings_of
from loopmt.pretrained.tokens import ModelTokens
from loopmt.pretrained.weight_names import EMBEDDINGS, OUTPUT_BIAS, from_hugging_face, to_hugging_face
from loopmt.text.ragged import Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import DecodeLimits, HopInput, Key, Sentences, Translations

_BIAS = "output_bias"  # not trained: checkpoints have none, or a fixed one


@dataclass
class NativeStack(TokenizedRows, NetworkStack):
    """The checkpoints of an experiment, which all have the same shape."""

    forms: Mapping[str, NativeForm] = field(kw_only=True)
    digest: str = field(kw_only=True)  # of the original checkpoints

    @classmethod
    def of(
        cls,
        forms: Mapping[str, NativeForm],
        folders: Mapping[str, Path],
        hops: tuple[Hop, ...],
        vocab: Vocab,
        device: torch.device,
        precision: torch.dtype,
        fuse: Fuse,
        digest: str,
    ) -> NativeStack:
        """The original checkpoints in these folders, by network."""
        sharing = {"sharing": "all" if list(forms) == ["all"] else "none"}
        model = next(iter(forms.values())).model.model_copy(update=sharing)
        stack = cls(model, vocab, hops, device, fuse, precision=precision, forms=forms, digest=digest)
        stack.read(folders)
        return stack

    @classmethod
    def alone(cls, form: NativeForm, folder: Path, hops: tuple[Hop, ...]) -> NativeStack:
        """One checkpoint on the CPU, outside of a run and without its vocabulary, as it reads no stored text."""
        vocab, device = cast(Vocab, None), torch.device("cpu")
        return cls.of({"all": form}, {"all": folder}, hops, vocab, device, torch.float32, "no", "")

    # -- which network ---------------------------------------------------------------------------------------

    def form(self, hop: Hop) -> NativeForm:
        return self.forms[self.names()[self.network(hop)]]

    def tokens_of(self, hop: Hop) -> ModelTokens:
        return self.form(hop).tokens

    @cached_property
    def layout(self) -> Layout:
        size = next(iter(self.forms.values())).size
        return Layout(self.model, size, size, True, frozenset({_BIAS}))

    @cached_property
    def transformer(self) -> Transformer:
        conventions = next(iter(self.forms.values())).conventions
        return transformer_kind(self.model, self.device, self.fuse)(self.model, True, conventions)

    # -- weights ---------------------------------------------------------------------------------------------

    def start_fresh(self, seed: int) -> None:
        """Nothing to do: the weights come from files."""

    def read(self, folders: Mapping[str, Path]) -> None:
        """Load the weights of the original checkpoints."""
        for name, folder in folders.items():
            tensors = checkpoint_tensors(folder)
            try:
                source, target = embeddings_of(tensors)
                self._fill(name, {**tensors, EMBEDDINGS["embed"]: target})
            except (KeyError, RuntimeError) as error:
                raise DataError(f"{folder}: its tensors are not those of its config.json: {error}.") from None
            if source is not target:
                raise DataError(f"{folder} has an embedding table for each side.")
            if OUTPUT_BIAS in tensors:
                self._views(name)[_BIAS].copy_(self.forms[name].numbering.to_ours(tensors[OUTPUT_BIAS][0]))

    def named(self, flat_NP: Tensor | None = None) -> dict[str, Tensor]:
        """The trained tensors of every checkpoint under the name `network/tensor`."""
        found: dict[str, Tensor] = {}
        for name in self.names():
            tensors = to_hugging_face(self.model, self._views(name, flat_NP))
            table = EMBEDDINGS["embed"]
            tensors[table] = self.forms[name].numbering.to_theirs(tensors[table])
            found |= {f"{name}/{key}": tensor for key, tensor in tensors.items() if key != OUTPUT_BIAS}
        return found

    def load(self, tensors: Mapping[str, Tensor], strict: bool = True) -> list[str]:
        """Load weights by name. The stage `pretrained` stores none, but its checkpoint must be the same."""
        if UNMODIFIED in tensors:
            if bytes(tensors[UNMODIFIED].tolist()).hex() != self.digest:
                raise RunError("the checkpoint differs from the one of the stage `pretrained`. Restore its files.")
            return []
        missing = []
        for name in self.names():
            own = {key.partition("/")[2]: one for key, one in tensors.items() if key.startswith(f"{name}/")}
            if own:
                self._fill(name, own)
            else:
                missing.append(name)
        if strict and missing:
            raise PathError(f"the checkpoint has no weights for {', '.join(missing)}.")
        return missing

    def _fill(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        found = from_hugging_face(self.model, tensors)
        found["embed"] = self.forms[name].numbering.to_ours(tensors[EMBEDDINGS["embed"]])
        views = self._views(name)
        for key, tensor in found.items():
            views[key].copy_(tensor)

    def _views(self, name: str, flat_NP: Tensor | None = None) -> dict[str, Tensor]:
        row = self.names().index(name)
        views = self.layout.unpack(self.live if flat_NP is None else flat_NP)
        return {key: view[row] for key, view in views.items()}

    def parameter_counts(self) -> tuple[int, int]:
        trained = self.num_networks * self.layout.num_trained
        return trained, trained

    # -- translation -----------------------------------------------------------------------------------------

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        """Decode together the inputs whose outputs begin with the same token. EOS counts as part of a source."""
        forms = [self.form(one.hop) for one in inputs]
        forced = any(form.forces_end for form in forms)
        extra = limits.extra + math.ceil(limits.growth) - forced
        limits = replace(limits, extra=extra, longest=limits.longest - forced)
        found: dict[int, Translations] = {}
        openings = [self.opening(one.hop) for one in inputs]
        for opening in dict.fromkeys(openings):
            numbers = [number for number, other in enumerate(openings) if other == opening]
            own_key = key if opening is None else (*key, opening)
            batch = [inputs[number] for number in numbers]
            found |= zip(numbers, super().generate(batch, how, limits, own_key, n), strict=True)
        return [found[number] for number in range(len(inputs))]

    def opening(self, hop: Hop) -> int | None:
        form = self.form(hop)
        return form.opening_of(form.tokens.forced(hop).get("forced_bos_token_id"))

    def mask_of(self, hop: Hop) -> Tensor:
        name = self.names()[self.network(hop)]
        if name not in self._masks:
            mask = torch.zeros(self.layout.target_size)
            mask[list(self.forms[name].never)] = -torch.inf
            self._masks[name] = mask.to(self.device)
        return self._masks[name]

    @cached_property
    def _masks(self) -> dict[str, Tensor]:
        return {}

    def sentences(self, rows: Ragged, hop: Hop) -> Sentences:
        return Sentences(self.vocab, hop.target, texts=self.tokens_of(hop).decoded(rows))
