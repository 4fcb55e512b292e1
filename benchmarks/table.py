"""Measured speeds as tables in Markdown."""

from __future__ import annotations

import json
import textwrap
from typing import Any

Json = dict[str, Any]
_HEAD = "| work | unit | loopmt | others (loopmt is so many times as fast) |\n|---|---|---:|---|"


def table(content: Json, title: bool = True) -> str:
    """One machine's figures: medians of interleaved runs."""
    machine, measurements = content["machine"], content["measurements"]
    packages = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    threads = "" if machine["cuda"] else f", {machine['threads']} threads"
    device = f"{machine['device']}{threads}"
    about = f"{device}, {machine['precision']}, Python {machine['python']}, {packages}."
    commands = "\n".join(machine["command"].strip("`").split("`, `"))
    rows = "\n".join(f"| {' | '.join(row(one))} |" for one in measurements)
    notes = "\n".join(wrapped(f"- {one['name']}: {one['shape']}{_note(one)}.", "  ") for one in measurements)
    head = f"### {device}\n\n" if title else ""
    return f"{head}{wrapped(about)}\n\n```\n{commands}\n```\n\n{_HEAD}\n{rows}\n\n{notes}\n"


def merged(contents: list[Json]) -> list[Json]:
    """Runs of a part of the measurements on one machine become one; what was measured again counts as it was last."""
    found: dict[str, Json] = {}
    for content in sorted(contents, key=lambda content: str(content["machine"]["began"])):
        machine = content["machine"]
        key = json.dumps([machine[name] for name in ("device", "threads", "precision", "versions")])
        earlier = found.get(key)
        before = earlier["measurements"] if earlier else []
        commands = [earlier["machine"]["command"]] if earlier else []
        again = {one["name"] for one in content["measurements"]}
        kept = [one for one in before if one["name"] not in again]
        together = {**machine, "command": "`, `".join([*commands, machine["command"]])}
        found[key] = {"machine": together, "measurements": [*kept, *content["measurements"]]}
    return list(found.values())


def line(one: Json) -> str:
    """A measurement in a line, for a terminal."""
    systems = "; ".join(f"{name} {_rate(system)}" for name, system in one["systems"].items())
    return f"{one['name']} [{one['unit']}]: {systems}{_note(one)}"


def row(one: Json) -> list[str]:
    own = one["systems"].get("loopmt", {})
    others = [f"{name} {_rate(system)}{_ratio(own, system)}" for name, system in _others(one)]
    return [one["name"], one["unit"], _rate(own), ", ".join(others)]


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 100, subsequent_indent=indent)


def _others(one: Json) -> list[tuple[str, Json]]:
    return [(name, system) for name, system in one["systems"].items() if name != "loopmt"]


def _rate(system: Json) -> str:
    if "rate" not in system:
        return "failed" if "failed" in system else "-"
    rate = system["rate"]
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _ratio(own: Json, system: Json) -> str:
    return f" ({own['rate'] / system['rate']:.2f}x)" if "rate" in own and "rate" in system else ""


def _note(one: Json) -> str:
    notes = []
    if "peak" in one:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in one["peak"]["shares"].items())
        notes.append(
            f"share of the measured matrix peak of {one['peak']['matrix']['rate'] / 1e12:.3g} TFLOP/s: {shares}"
        )
    if "gathering_share" in one:
        notes.append(f"reading, generating and filtering take {one['gathering_share']:.0%} of a round")
    return "".join(f"; {note}" for note in notes)
