"""A cache of a stage's translations under RUN/analysis, so that no text is decoded twice.

RUN/analysis/DIGEST-beam4/en-fr.json     translations by source; the digest names the stage's weights
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from loopmt.config import Generate
from loopmt.distributed import device_of_this_process
from loopmt.errors import DamagedError
from loopmt.files.documents import read_checked, with_checksum
from loopmt.files.regular import has_file, make_subfolder, subfolder
from loopmt.path import Hop, LanguagePath
from loopmt.planning.round_trips import HeldOutText, RoundTrip, translate_round_trips
from loopmt.progress import Progress
from loopmt.run import Run, write_json
from loopmt.text.ragged import Ints
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key, Sentences, TranslationModel, Translations
from loopmt.workflow.models import check_unchanged, for_text, result_of, text_limits
from loopmt.workflow.translate import search


@dataclass
class CachedTranslator:
    """A translation model of text with a cache: it asks another model only for missing translations, by one search."""

    load: Callable[[], tuple[TranslationModel, DecodeLimits]]
    how: Generate
    folder: Path | None = None
    _known: dict[Hop, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, stage: str, beam: int, keep: bool = True) -> CachedTranslator:
        digest = run.stage(stage).result_digest()
        folder = subfolder(run.folder, "analysis", f"{digest[:16]}-beam{beam}") if keep else None
        return cls(lambda: _load(run, stage, digest), search(beam), folder)

    def round_trips(
        self, starts: Sequence[HeldOutText], loops: Sequence[LanguagePath], progress: Progress, name: str
    ) -> list[RoundTrip]:
        """Translate the starts along the loops."""
        pairs = ((start, loop) for start in starts for loop in loops if loop.hops[0] == start.hop)
        with progress.track(name, sum(len(start.sources) * len(loop.hops) for start, loop in pairs)) as advance:
            return translate_round_trips(self, self.how, starts, loops, advance)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")  # where its answers lie

    @property
    def hops(self) -> Sequence[Hop]:
        return self._loaded[0].hops

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        """Translate each distinct source once."""
        texts: dict[Hop, list[str]] = {}
        for one in inputs:
            texts.setdefault(one.hop, []).extend(one.sources.texts)
        for hop, sources in texts.items():
            self._learn(hop, sources, key)
        return [_translations(one.hop, [self._of(one.hop)[text] for text in one.sources.texts]) for one in inputs]

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        return self._loaded[0].score(hop, sources, targets, as_generated)

    def _learn(self, hop: Hop, sources: Iterable[str], key: Key) -> None:
        known = self._of(hop)
        new = [text for text in dict.fromkeys(sources) if text not in known]
        if new:
            model, limits = self._loaded
            (found,) = model.generate([HopInput(hop, Sentences(None, hop.source, texts=new))], self.how, limits, key)
            known.update(zip(new, found.sentences.texts, strict=True))
            self._keep(hop)

    @cached_property
    def _loaded(self) -> tuple[TranslationModel, DecodeLimits]:
        return self.load()

    def _of(self, hop: Hop) -> dict[str, str]:
        if hop not in self._known:
            self._known[hop] = self._read(hop)
        return self._known[hop]

    def _read(self, hop: Hop) -> dict[str, str]:
        """The cached translations; nothing, with a warning, if the file was edited or damaged."""
        if self.folder is None or not has_file(file := self.folder / f"{hop.pair}.json"):
            return {}
        try:
            kept = read_checked(file, "It is not used: the text is translated again.")
        except DamagedError as error:
            warnings.warn(str(error), stacklevel=2)
            return {}
        # An older version kept the translations without a checksum.
        found: dict[str, str] = kept["translations"] if isinstance(kept.get("translations"), dict) else kept
        return found

    def _keep(self, hop: Hop) -> None:
        """Add to the cache, together with what another process has added meanwhile."""
        if self.folder:
            make_subfolder(self.folder.parent, self.folder.name)
            known = self._read(hop) | self._known[hop]
            write_json(self.folder / f"{hop.pair}.json", with_checksum({"translations": known}))


def _translations(hop: Hop, texts: Sequence[str]) -> Translations:
    count = len(texts)
    scores, ended = np.full(count, np.nan), np.ones(count, dtype=np.bool_)
    return Translations(Sentences(None, hop.target, texts=texts), scores, ended, np.ones(count, dtype=np.int64))


def _load(run: Run, stage: str, digest: str) -> tuple[TranslationModel, DecodeLimits]:
    experiment, device = run.experiment(), device_of_this_process()
    chosen = experiment.stage(stage)
    longest = experiment.training(chosen).max_length
    networks = result_of(run, experiment, chosen, device)
    check_unchanged(run, stage, digest)
    return for_text(networks, networks.vocab, longest), text_limits(device, longest)
