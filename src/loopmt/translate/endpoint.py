"""A model behind an OpenAI-compatible endpoint as a frozen translator of one direction."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from loopmt.config import Generate
from loopmt.config.schema import Imported
from loopmt.errors import ConfigError
from loopmt.path import Hop
from loopmt.rng import keyed_seed
from loopmt.text.ragged import Ints
from loopmt.translate.answers import Answer, AnswerFile
from loopmt.translate.chat import ChatClient
from loopmt.translate.protocol import Codec, DecodeLimits, Floats, HopInput, Key, Sentences, Translations

_FEWEST_TOKENS = 64
_SEEDS = 2**31  # accepted by all servers

Body = Mapping[str, Any]


@dataclass(frozen=True)
class EndpointTranslator:
    """Sends each sentence as a chat of one message, with several requests at the same time."""

    settings: Imported
    answers: AnswerFile
    codec: Codec | None
    device: torch.device
    client: ChatClient = field(repr=False)

    @classmethod
    def of(
        cls, settings: Imported, answers: AnswerFile, codec: Codec | None, device: torch.device
    ) -> EndpointTranslator:
        client = ChatClient(settings.url or "", settings.timeout, settings.retries)
        return cls(settings, answers, codec, device, client)

    @property
    def hops(self) -> Sequence[Hop]:
        return [self.settings.hop]

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        """Greedy decoding is temperature 0, with one hypothesis. Scores are NaN: the server's tokens are not ours."""
        return [self._translate(one, how, key, n if how.how == "sample" else 1) for one in inputs]

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        raise ConfigError(f'imported "{hop}": an endpoint translates, but does not score translations.')

    def _translate(self, one: HopInput, how: Generate, key: Key, n: int) -> Translations:
        drawn = (*key, str(one.hop), how.draw_key())
        texts = [text for text in one.sources.texts for _ in range(n)]
        bodies = [self._body(text, how, (*drawn, place)) for place, text in enumerate(texts)]
        found = self._answered(bodies)
        sentences = Sentences(self.codec, one.hop.target, texts=[answer.text for answer in found])
        ended = np.array([answer.ended for answer in found], dtype=np.bool_)
        return Translations(sentences, np.full(len(found), np.nan), ended, np.full(len(one.sources), n, dtype=np.int64))

    def _body(self, text: str, how: Generate, key: Key) -> Body:
        """The request. Greedy requests for equal sentences are equal; sampling requests differ."""
        options = self.settings.options
        lasting = {} if "max_completion_tokens" in options else {"max_tokens": _FEWEST_TOKENS + len(text.encode())}
        warmth: dict[str, Any] = {"temperature": 0}
        if how.how == "sample":
            warmth = {"temperature": how.temperature, "top_p": how.top_p, "seed": keyed_seed(*key) % _SEEDS}
        messages = [{"role": "user", "content": self._prompt(text)}]
        return {"model": self.settings.model, "messages": messages, **warmth, **lasting, **options}

    def _prompt(self, text: str) -> str:
        hop, names = self.settings.hop, self.settings.names
        values = {"source_language": names.get(hop.source, hop.source), "text": text}
        values["target_language"] = names.get(hop.target, hop.target)
        return re.sub(
            r"\{(source_language|target_language|text)\}", lambda found: values[found[1]], self.settings.prompt or ""
        )

    def _answered(self, bodies: Sequence[Body]) -> list[Answer]:
        keys = [_digest(body) for body in bodies]
        known = self.answers.find(keys)
        asked = {key: body for key, body in zip(keys, bodies, strict=True) if key not in known}
        if asked:
            self._ask(asked)
            known = self.answers.find(keys)
        return [known[key] for key in keys]

    def _ask(self, asked: Mapping[str, Body]) -> None:
        """Send the requests. Each answer is stored as soon as it arrives; the first failure cancels the rest."""
        self.client.stopping.clear()
        with ThreadPoolExecutor(self.settings.parallel) as pool:
            waiting = {pool.submit(self.client.ask, body): key for key, body in asked.items()}
            try:
                for future in as_completed(waiting):
                    self.answers.add(waiting[future], future.result())
                self.answers.sync()
            except BaseException:
                self.client.stopping.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _digest(body: Body) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]
