"""The shapes of meanings: everything about a meaning but its words, with how often each is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

SUBJECTS = {
    "tiny": {"pronoun": 3.0, "name": 1.0, "noun": 3.0, "adjective": 2.0},
    "small": {"pronoun": 3.0, "name": 1.0, "noun": 3.0, "adjective": 2.0},
    "full": {"pronoun": 3.0, "name": 1.0, "noun": 3.0, "adjective": 2.0, "pair": 0.7, "relative": 0.7},
}
OBJECTS = {
    "tiny": {"noun": 4.0, "adjective": 3.0, "name": 0.5},
    "small": {"noun": 4.0, "adjective": 2.5, "name": 0.5, "pronoun": 2.0},
    "full": {"noun": 4.0, "adjective": 2.5, "name": 0.5, "pronoun": 2.0},
}
RECIPIENTS = {"pronoun": 2.0, "name": 1.0, "noun": 2.0}
POLARITIES = {
    "tiny": {"positive": 8.0, "not": 2.0},
    "small": {"positive": 8.0, "not": 2.0},
    "full": {"positive": 8.0, "not": 2.0, "never": 0.6},
}
EXTRAS = {
    "tiny": {"": 5.0, "time": 4.0},
    "small": {"": 4.0, "time": 4.0, "place": 2.0, "modal": 2.0, "manner": 1.0, "time place": 1.0},
    "full": {"": 4.0, "time": 4.0, "place": 2.0, "modal": 2.0, "manner": 1.0, "time place": 1.0},
}
FRAMES = {
    "tiny": {"transitive": 5.0, "intransitive": 2.0, "quality": 1.5},
    "small": {"transitive": 5.0, "intransitive": 2.0, "quality": 1.5, "ditransitive": 1.5, "goal": 0.7, "location": 0.5},
    "full": {
        "transitive": 5.0, "intransitive": 2.0, "quality": 1.5, "ditransitive": 1.5, "goal": 0.7, "location": 0.5,
        "home": 0.3, "trade": 0.4,
    },
}  # fmt: skip
NEEDED = {"goal": "place", "home": "place", "location": "place"}
SIMPLE = ("pronoun", "name", "noun", "adjective")


@dataclass(frozen=True)
class Shape:
    """What a meaning is made of. Empty strings mean that a part is absent."""

    frame: str
    subject: str
    object: str = ""
    recipient: str = ""
    polarity: str = "positive"
    question: bool = False
    extras: frozenset[str] = frozenset()
    asked: str = ""
    link: str = ""
    inner: Shape | None = None


Weighted = Iterator[tuple[Shape, float]]


def shapes(size: str) -> Weighted:
    """Every shape that a size knows, with its weight."""
    for shape, weight in _clauses(size):
        for polarity, share in POLARITIES[size].items():
            yield replace(shape, polarity=polarity), weight * share * 0.08
            if polarity != "never":
                yield replace(shape, polarity=polarity, question=True), weight * share * 0.02
    if size == "full":
        yield from _asking()
        yield from _linked()


def _clauses(size: str) -> Weighted:
    for (frame, often), (subject, by), (extras, more) in product(
        FRAMES[size].items(), SUBJECTS[size].items(), EXTRAS[size].items()
    ):
        needed = {NEEDED[frame]} if frame in NEEDED else set()
        shape = Shape(frame, subject, extras=frozenset(extras.split()) | needed)
        weight = often * by * more
        if frame in ("transitive", "ditransitive"):
            for thing, share in OBJECTS[size].items():
                for recipient, part in RECIPIENTS.items() if frame == "ditransitive" else (("", 1.0),):
                    if not (frame == "ditransitive" and thing == "name"):
                        yield replace(shape, object=thing, recipient=recipient), weight * share / 8 * part / 5
        elif needed or "place" not in extras or frame == "intransitive":
            yield shape, weight


def _asking() -> Weighted:
    """Questions for the subject, the object, the place or the time."""
    for extras in (frozenset[str](), frozenset({"time"}), frozenset({"modal"})):
        for thing, weight in (("noun", 0.4), ("adjective", 0.3), ("pronoun", 0.1)):
            yield Shape("transitive", "who", thing, question=True, extras=extras, asked="who"), weight
        yield Shape("intransitive", "who", question=True, extras=extras, asked="who"), 0.3
        for subject in ("pronoun", "name", "noun"):
            for asked in ("who", "what"):
                yield Shape("transitive", subject, asked, question=True, extras=extras, asked=asked), 0.5
    for subject, thing in product(("pronoun", "name", "noun"), ("noun", "adjective")):
        yield Shape("transitive", subject, thing, question=True, asked="when"), 0.3
        yield Shape("transitive", subject, thing, question=True, asked="where"), 0.3
        yield Shape("location", subject, question=True, asked="where"), 0.1
        yield Shape("goal", subject, question=True, asked="where"), 0.1
        yield Shape("home", subject, question=True, asked="where"), 0.1
        yield Shape("intransitive", subject, question=True, asked="where"), 0.1
        yield Shape("intransitive", subject, question=True, asked="when"), 0.1


def _linked() -> Weighted:
    """She says that ...; she sleeps because she is tired."""
    for subject, inner in product(("pronoun", "name", "noun"), SIMPLE):
        for frame, thing in (("transitive", "noun"), ("transitive", "adjective"), ("transitive", "pronoun"),
                             ("intransitive", ""), ("quality", "")):  # fmt: skip
            for polarity, share in (("positive", 0.8), ("not", 0.2)):
                content = Shape(frame, inner, thing, polarity=polarity)
                yield Shape("content", subject, link="content", inner=content), share * 0.3
        reason = Shape("quality", inner)
        for frame, thing in (("transitive", "noun"), ("transitive", "adjective"), ("intransitive", "")):
            if inner != "adjective":
                yield Shape(frame, subject, thing, link="reason", inner=reason), 0.4
