"""A server with a fixed cost of translation: `python -m stress.paced --microseconds 50`.

It is `loopmt serve` with other translators, which return the text after using the given processor time for each byte,
without holding Python's lock, like a decoder. The limits are those of a public server.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loopmt.path import Hop, LanguagePath
from loopmt.run import Run
from loopmt.serve.access import Access
from loopmt.serve.app import Service
from loopmt.serve.limits import RequestLimits, default_rate
from loopmt.serve.server import address, listen, run
from loopmt.serve.watch import Watcher
from loopmt.workflow.translate import Candidate

_BLOCK = bytes(2**16)  # hashed in some tens of microseconds


@dataclass(frozen=True)
class PacedTranslators:
    """An engine with a known cost."""

    seconds: float  # of processor time for each byte of text
    backend: str = "a fixed time for each byte"
    stage: str = "none"
    hops: Sequence[Hop] = (Hop("en", "fr"), Hop("fr", "en"))

    def parse_path(self, path: str) -> LanguagePath:
        return LanguagePath.parse(path)

    def translate(self, texts: Sequence[str], hop: Hop, n: int) -> list[list[Candidate]]:
        end = time.thread_time() + self.seconds * sum(len(text.encode()) for text in texts)
        while time.thread_time() < end:
            hashlib.sha256(_BLOCK)
        return [[Candidate(text, -1.0)] * n for text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--microseconds", type=float, default=50, help="of processor time for each byte of text")
    arguments = parser.parse_args()
    limits = RequestLimits(rate=default_rate(local=False))
    listening = listen("127.0.0.1", 0)
    nothing = Watcher(Run(Path("nowhere")), lambda stage: None)
    engine = PacedTranslators(arguments.microseconds / 1e6)
    service = Service("paced", ["en", "fr"], engine, lambda: None, nothing, limits)
    print(address(listening), flush=True)
    if not run(service, listening, Access("127.0.0.1")):
        os._exit(0)


if __name__ == "__main__":
    main()
