"""The shapes of meanings (everything except the words), with their sampling weights."""

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
EXTRAS = {"": 4.0, "time": 4.0, "place": 2.0, "modal": 2.0, "manner": 1.0, "time place": 1.0}
FRAMES = {
    "tiny": {"transitive": 5.0, "intransitive": 2.0, "quality": 1.5},
    "small": {
        "transitive": 5.0, "intransitive": 2.0, "quality": 1.5, "ditransitive": 1.5, "goal": 1.0, "location": 0.5,
    },
    "full": {
        "transitive": 5.0, "intransitive": 2.0, "quality": 1.5, "ditransitive": 1.5, "goal": 1.0, "location": 0.5,
        "home": 0.5, "trade": 0.6,
    },
}  # fmt: skip
QUESTIONS = {False: 8.0, True: 2.0}
# optional parts of a frame
ADDED = {
    "transitive": ("", "time", "place", "modal", "time place"),
    "intransitive": ("", "time", "place", "modal", "manner", "time place"),
    "ditransitive": ("", "time", "modal"),
    "goal": ("", "time", "modal"),
    "location": ("", "time"),
    "quality": ("", "time"),
    "home": ("",),
    "trade": ("",),
}
PLACED = ("goal", "home", "location")
SIMPLE = ("pronoun", "name", "noun", "adjective")


@dataclass(frozen=True)
class SentenceShape:
    """The parts of a meaning; an empty string means that a part is absent. `within`: the link to an outer shape."""

    frame: str
    subject: str
    object: str = ""
    recipient: str = ""
    polarity: str = "positive"
    question: bool = False
    extras: frozenset[str] = frozenset()
    asked: str = ""
    link: str = ""
    inner: SentenceShape | None = None
    within: str = ""


Weighted = Iterator[tuple[SentenceShape, float]]


def shapes(size: str) -> Weighted:
    """Every shape of a size, with its weight."""
    for shape, weight in _clauses(size):
        for (polarity, share), (question, part) in product(POLARITIES[size].items(), QUESTIONS.items()):
            variant = replace(shape, polarity=polarity, question=question)
            if shape.subject == "relative":
                variant = replace(
                    variant, link="relative", inner=SentenceShape("transitive", "he", "noun", within="relative")
                )
            if _possible(variant):
                yield variant, weight * share * part / 100
    if size == "full":
        for shape, weight in (*_asking(), *_linked()):
            yield shape, weight * 4


def _possible(shape: SentenceShape) -> bool:
    plain = not shape.question and not shape.extras & {"time", "modal"}
    if shape.frame in ("quality", "trade") and shape.subject not in ("pronoun", "name", "noun"):
        return False
    if shape.subject == "relative" and not (plain and shape.polarity == "positive"):
        return False
    return shape.polarity != "never" or plain


def _clauses(size: str) -> Weighted:
    for (frame, often), (subject, by) in product(FRAMES[size].items(), SUBJECTS[size].items()):
        for extras in ADDED[frame] if size != "tiny" else ("", "time"):
            own = {"place"} if frame in PLACED else set[str]()
            shape = SentenceShape(frame, subject, extras=frozenset(own.union(extras.split())))
            yield from _with_objects(size, shape, often * by * EXTRAS[extras])


def _with_objects(size: str, shape: SentenceShape, weight: float) -> Weighted:
    things = {kind: share / 9 for kind, share in OBJECTS[size].items()}
    if shape.frame == "transitive":
        for thing, share in things.items():
            yield replace(shape, object=thing), weight * share
    elif shape.frame == "ditransitive":
        for thing, recipient in product(("noun", "adjective", "pronoun"), RECIPIENTS):
            yield replace(shape, object=thing, recipient=recipient), weight * things[thing] * RECIPIENTS[recipient] / 5
    else:
        yield shape, weight


def _asking() -> Weighted:
    """Wh-questions about the subject, the object, the place or the time."""
    for extras in (frozenset[str](), frozenset({"time"}), frozenset({"modal"})):
        for thing, weight in (("noun", 0.4), ("adjective", 0.3), ("pronoun", 0.1)):
            yield SentenceShape("transitive", "who", thing, question=True, extras=extras, asked="who"), weight
        yield SentenceShape("intransitive", "who", question=True, extras=extras, asked="who"), 0.3
        for subject in ("pronoun", "name", "noun"):
            for asked in ("who", "what"):
                yield SentenceShape("transitive", subject, asked, question=True, extras=extras, asked=asked), 0.5
    for subject in ("pronoun", "name", "noun"):
        for thing, asked in product(("noun", "adjective"), ("when", "where")):
            yield SentenceShape("transitive", subject, thing, question=True, asked=asked), 0.3
        for frame in ("location", "goal", "home", "intransitive"):
            yield SentenceShape(frame, subject, question=True, asked="where"), 0.2
        yield SentenceShape("intransitive", subject, question=True, asked="when"), 0.2


def _linked() -> Weighted:
    """She says that ...; she sleeps because she is tired."""
    for subject, inner in product(("pronoun", "name", "noun"), SIMPLE):
        for frame, thing in (("transitive", "noun"), ("transitive", "adjective"), ("transitive", "pronoun"),
                             ("intransitive", ""), ("quality", "")):  # fmt: skip
            for polarity, share in (("positive", 0.8), ("not", 0.2)):
                content = SentenceShape(frame, inner, thing, polarity=polarity)
                if _possible(content):
                    yield SentenceShape("content", subject, link="content", inner=content), share * 0.3
        reason = SentenceShape("quality", inner, within="reason")
        for frame, thing in (("transitive", "noun"), ("transitive", "adjective"), ("intransitive", "")):
            if _possible(reason):
                yield SentenceShape(frame, subject, thing, link="reason", inner=reason), 0.4
