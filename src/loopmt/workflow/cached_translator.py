"""What the translators of a stage have said before, kept under RUN/analysis, so that no text is decoded twice.

RUN/analysis/DIGEST-beam4/en-fr.json     translations by source; the digest names the stage's weights
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from loopmt.errors import DamagedError
from loopmt.path import Hop, LanguagePath
from loopmt.planning.round_trips import HeldOutText, RoundTrip, translate_round_trips
from loopmt.progress import Progress
from loopmt.run import Run, read_json, write_json
from loopmt.workflow.translate import Translator, load


@dataclass
class CachedTranslator:
    """A stage's translators, asked only for what they have not said."""

    translators: Callable[[], Translator]
    beam: int
    folder: Path | None = None
    _said: dict[Hop, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, stage: str, beam: int, keep: bool = True) -> CachedTranslator:
        digest = run.stage(stage).result_digest()[:16]
        folder = run.folder / "analysis" / f"{digest}-beam{beam}" if keep else None
        return cls(lambda: load(run.folder, stage), beam, folder)

    def say(self, hop: Hop, texts: Sequence[str]) -> list[str]:
        known = self._known(hop)
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, self._translator.translate(new, str(hop), self.beam), strict=True))
            self._keep(hop)
        return [known[text] for text in texts]

    def walk(
        self, starts: Sequence[HeldOutText], loops: Sequence[LanguagePath], progress: Progress, name: str
    ) -> list[RoundTrip]:
        """Send the starts round the loops."""
        round_trips = ((start, loop) for start in starts for loop in loops if loop.hops[0] == start.hop)
        with progress.track(name, sum(len(start.sources) * len(loop.hops) for start, loop in round_trips)) as advance:
            return translate_round_trips(self.say, starts, loops, advance)

    @cached_property
    def _translator(self) -> Translator:
        return self.translators()

    def _known(self, hop: Hop) -> dict[str, str]:
        if hop not in self._said:
            self._said[hop] = {}
            if self.folder:
                with contextlib.suppress(DamagedError):  # missing or cut off: it is said again
                    self._said[hop] = read_json(self.folder / f"{hop.pair}.json")
        return self._said[hop]

    def _keep(self, hop: Hop) -> None:
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / f"{hop.pair}.json", self._said[hop])
