"""The targets of fuzzing: the verbs, with files in a folder, and a server process."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import httpx

from stress.checks import CONTROL, CommandResult, run_in_process, run_verb, violation
from stress.inputs import Records, raw

_GOOD = "The cat sleeps.\nA dog sees the bird.\nThe king likes the fish.\n"
_OTHER = "Le chat dort.\nUn chien voit l'oiseau.\nLe roi aime le poisson.\n"
_EXPERIMENT = """
languages = ["en", "fr"]
vocab = { size = 400 }
stage = [{ name = "one", mix = ["X>Y"], updates = 1 }]
[data]
bitext = { "en-fr" = "%s" }
mono = { en = "mono" }
valid = "valid"
"""


def typed(word: str) -> str:
    """A word as a shell passes it: without NUL; lone surrogates become bytes that are not UTF-8."""
    return raw(word.replace("\0", "")).decode("utf-8", "surrogateescape")


class Verbs:
    """Each method runs one case and returns the violation, or None."""

    def __init__(self, folder: Path, run: Path) -> None:
        self._folder = folder
        self._run = run

    def _place(self) -> Path:
        """Create an empty folder."""
        place = self._folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def experiment(self, text: str) -> str | None:
        place = self._place()
        (place / "exp.toml").write_bytes(raw(text))
        return violation(run_verb(["train", str(place / "exp.toml"), "--run", str(place / "run"), "--dry-run"]))

    def override(self, case: tuple[str, str]) -> str | None:
        file, place = self._folder / "world.toml", self._place()
        override = typed("=".join(case))
        return violation(run_verb(["train", str(file), "--run", str(place), "--dry-run", "--set", override]))

    def pattern(self, case: tuple[str, str, str | None]) -> str | None:
        pattern, languages, bitext = case
        words = ["paths", typed(pattern), "--languages", typed(languages)]
        return violation(run_verb(words if bitext is None else [*words, "--bitext", typed(bitext)]))

    def corpus(self, case: tuple[bytes, bytes, bytes, str]) -> str | None:
        english, french, mono, name = case
        place = self._place()
        for file, content in {"bi.en": english, "bi.fr": french, "mono.en": mono, "bi.tsv": english}.items():
            (place / file).write_bytes(content)
        (place / "bi.tmx").write_bytes(b"<tmx><body>" + english + b"</body></tmx>")
        return violation(self._prepared(place, name))

    def odd_corpus(self, rows: Sequence[tuple[str, str]]) -> str | None:
        """Odd rows among good ones must be prepared, not refused."""
        place = self._place()
        for side, (file, good) in enumerate((("bi.en", _GOOD), ("bi.fr", _OTHER))):
            (place / file).write_bytes(raw(good + "".join(row[side] + "\n" for row in rows)))
        (place / "mono.en").write_bytes(raw("".join(f"{one}\n{other}\n" for one, other in rows) + _GOOD))
        end = self._prepared(place, "bi")
        return violation(end) or (f"refused: {end.err}" if end.code else None)

    def packed_corpus(self, case: tuple[bytes, str]) -> str | None:
        content, ending = case
        place = self._place()
        (place / "bi.en").write_text(_GOOD)
        (place / "bi.fr").write_text(_OTHER)
        (place / f"mono.en{ending}").write_bytes(content)
        return violation(self._prepared(place, "bi"))

    def records(self, case: tuple[Records, str]) -> str | None:
        """Rows with named columns."""
        found, ending = case
        place = self._place()
        (place / f"bi.{ending}").write_bytes(found.packed(ending))
        (place / "mono.en").write_text(_GOOD)
        return violation(self._prepared(place, f"bi.{ending}"))

    def _prepared(self, place: Path, name: str) -> CommandResult:
        for language in ("en", "fr"):
            (place / f"valid.{language}").write_text("One.\nTwo.\n")
        (place / "exp.toml").write_text(_EXPERIMENT % name)
        return run_verb(["prepare", str(place / "exp.toml"), "--run", str(place / "run")])

    def translate(self, case: tuple[bytes, str]) -> str | None:
        """One output line per input line; at a line that is not UTF-8 it ends, after complete lines."""
        text, path = case
        end = run_verb(["translate", str(self._run), typed(path), "--beam", "1"], text)
        wanted, given = _num_lines(text), end.out.count(b"\n")
        if end.code == 0 and (given != wanted or len(end.out.decode().splitlines()) != given):
            return f"{wanted} lines in, {given} out"
        if end.code == 2 and (given > wanted or (not end.out.endswith(b"\n") and end.out)):
            return f"an error after {given} of {wanted} lines"
        return violation(CommandResult(end.code, b"" if end.code else end.out, end.err))

    def score(self, case: tuple[bytes, bytes, str, str]) -> str | None:
        hypotheses, references, ending, language = case
        place = self._place()
        (place / f"hyp{ending}").write_bytes(hypotheses)
        (place / f"ref{ending}").write_bytes(references)
        words = ["score", str(place / f"hyp{ending}"), str(place / f"ref{ending}")]
        alike = ["score", words[1], words[1], "--language", typed(language), "--against", words[2], "--samples", "2"]
        return violation(run_verb(words)) or violation(run_verb(alike)) or violation(run_verb([*alike, "--json"]))

    def theory(self, document: bytes) -> str | None:
        file = self._place() / "cases.json"
        file.write_bytes(document)
        return violation(run_verb(["theory", str(file)])) or violation(run_verb(["theory", "-"], document))

    def damaged_run(self, case: tuple[str, Any]) -> str | None:
        """A run in which one file is replaced."""
        name, content = case
        copy = self._place() / "run"
        shutil.copytree(self._run, copy)
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(content if isinstance(content, bytes) else raw(json.dumps(content)))
        return violation(run_verb(["show", str(copy)])) or violation(
            run_verb(["translate", str(copy), "en>fr"], b"Hello.\n")
        )

    def process(self, case: tuple[str, Sequence[str], bytes]) -> str | None:
        verb, words, content = case
        file = self._place() / "file"
        file.write_bytes(content)
        first = (
            [str(self._run)] if verb == "translate" else [str(file)] * (verb in ("prepare", "theory", "score", "show"))
        )
        return violation(run_in_process([verb, *first, *map(typed, words)], content))


class Server:
    """A process of `loopmt serve`."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._client = httpx.Client()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the server; at the end its queue must be empty and it must stop cleanly."""
        command = [sys.executable, "-m", "loopmt", "serve", str(self._run), "--port", "0", "--backend", "loopmt"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        with process:
            address = _address(process.stderr)
            with httpx.Client(base_url=address, timeout=15, trust_env=False) as self._client:
                yield
                assert self._client.get("/health").json()["waiting"] == 0
            process.terminate()
            log = process.stderr.read()
        assert process.returncode == 0 and "Traceback" not in log, log[-2000:]

    def request(self, case: tuple[str, str, bytes]) -> str | None:
        method, address, body = case
        answer = self._client.request(method, address, content=body, headers={"content-type": "application/json"})
        if answer.status_code >= 500:
            return f"status {answer.status_code}: {answer.text[:200]}"
        found = answer.json()
        if answer.status_code >= 400:
            return None if isinstance(found.get("error"), str) else f"status {answer.status_code} without a message"
        translations = found.get("translations", [])
        asked = json.loads(body)["texts"] if translations else []
        if len(translations) != len(asked):
            return f"{len(asked)} texts in, {len(translations)} out"
        odd = [one["text"] for one in translations if CONTROL.search(one["text"]) or len(one["text"].splitlines()) > 1]
        return f"a translation is {odd[0]!r}" if odd else None


def _num_lines(text: bytes) -> int:
    """The number of lines, without a byte order mark; the last line may lack its end."""
    content = text.removeprefix(b"\xef\xbb\xbf")
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


def _address(stream: IO[str]) -> str:
    for line in stream:
        if found := re.search(r"at (http://\S+)", line):
            return found[1]
    raise AssertionError("the server did not start")
