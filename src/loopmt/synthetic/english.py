"""English: do-support, progressive, contractions, a and an, two ways to give."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopmt.synthetic.english_words import leaves
from loopmt.synthetic.grammar import Features, Grammar, Slot, Words
from loopmt.synthetic.language import Language, capitalised, either_case, phrases
from loopmt.synthetic.lexicon import Lexicon
from loopmt.synthetic.meaning import NounPhrase

SLOTS = {
    "PRON": Slot("PRONOUN"), "NAME": Slot("NAME"), "NOUN": Slot("NOUN"), "DET": Slot("DETERMINER"),
    "ADJ": Slot("ADJECTIVE"), "MAIN": Slot("MAIN"), "AUX": Slot("AUXILIARY"), "REST": Slot("REST"),
    "BE": Slot("COPULA"), "TRADE": Slot("TRADE"), "MANNER": Slot("MANNER"), "PLACE": Slot("PLACE"),
    "TIME": Slot("TIME"), "FREQ": Slot("FREQUENCY"),
    "FIRST": Slot("SIMPLE", {"self": "first", "case": "case"}, {"pronoun": False}),
    "SECOND": Slot("SIMPLE", {"self": "second", "case": "case"}, {"pronoun": False}),
    "REL": Slot("RELATIVE", {"self": "relative", "agreement": "agreement"}),
    "SUBJ": Slot("NP", {"self": "subject", "agreement": "agreement", "pronoun": "pronoun"}, {"case": "subject"}),
    "OBJ": Slot("NP", {"self": "object", "scope": "scope"}, {"case": "object"}),
    "OBJN": Slot("NP", {"self": "object", "scope": "scope"}, {"case": "object", "pronoun": False}),
    "RECIP": Slot("NP", {"self": "recipient"}, {"case": "object"}),
    "CONTENT": Slot("CLAUSE", {"self": "content"}),
    "REASON": Slot("CLAUSE", {"self": "reason"}),
}  # fmt: skip

OBJECTS = ("OBJ?", "RECIP OBJN", "OBJ to RECIP")
COMPLEMENTS = ("ADJ", "TRADE", "PLACE")
END = "MANNER? PLACE? TIME?"
NO: Features = {"polarity": "not", "scope": "negative"}
NEVER: Features = {"polarity": "never", "scope": "negative"}


def _noun_phrases(grammar: Grammar) -> None:
    for phrase in ("SIMPLE", "NP"):
        grammar.add(phrase, "PRON", pronoun=True)
        grammar.add(phrase, "NAME", number="singular", agreement="3s", pronoun=False)
        grammar.add(phrase, "DET ADJ? NOUN", pronoun=False)
    grammar.add("NP", "DET NOUN REL", pronoun=False)
    grammar.add("NP", "FIRST and SECOND", head="and", number="plural", agreement="p", pronoun=False)
    grammar.add("RELATIVE", "who MAIN OBJ?", modal=None, scope="positive")


def _statements() -> Iterator[tuple[str, Features]]:
    """Bodies of statements, main or subordinate."""
    for objects in OBJECTS:
        for group, features in (
            ("SUBJ FREQ? MAIN", {"scope": "positive"}),
            ("SUBJ AUX REST", {"scope": "positive", "support": False, "fused": False}),
            ("SUBJ AUX not REST", {**NO, "fused": False}),
            ("SUBJ AUX REST", {**NO, "fused": True}),
            ("SUBJ never MAIN", NEVER),
            ("SUBJ AUX never REST", {**NEVER, "support": False, "fused": False}),
        ):
            yield f"{group} {objects} {END}", {**features, "copula": False}
    for complement in COMPLEMENTS:
        yield f"SUBJ BE FREQ? {complement} TIME?", {"fused": False}
        yield f"SUBJ BE not {complement} TIME?", {**NO, "fused": False}
        yield f"SUBJ BE {complement} TIME?", {**NO, "fused": True}
        yield f"SUBJ BE never {complement}", {"polarity": "never", "fused": False}
        yield f"SUBJ AUX never REST {complement}", {"copula": True, **NEVER, "support": False, "fused": False}
        yield f"SUBJ AUX REST {complement} TIME?", {"copula": True, "support": False, "fused": False}
        yield f"SUBJ AUX not REST {complement} TIME?", {"copula": True, **NO, "support": False, "fused": False}
        yield f"SUBJ AUX REST {complement} TIME?", {"copula": True, **NO, "support": False, "fused": True}


def _questions() -> Iterator[tuple[str, Features]]:
    """Bodies of yes-no questions."""
    for objects in OBJECTS:
        yield f"AUX SUBJ FREQ? REST {objects} {END}", {"scope": "question", "fused": False, "copula": False}
        yield f"AUX SUBJ REST {objects} {END}", {**NO, "fused": True, "copula": False}
        yield f"AUX SUBJ not REST {objects} {END}", {**NO, "fused": False, "copula": False}
    for complement in COMPLEMENTS:
        yield f"BE SUBJ FREQ? {complement} TIME?", {"fused": False}
        yield f"BE SUBJ {complement} TIME?", {**NO, "fused": True}
        yield f"BE SUBJ not {complement} TIME?", {**NO, "fused": False}
        yield f"AUX SUBJ REST {complement} TIME?", {"copula": True, "support": False, "fused": False}
        yield f"AUX SUBJ REST {complement} TIME?", {"copula": True, **NO, "support": False, "fused": True}
        yield f"AUX SUBJ not REST {complement} TIME?", {"copula": True, **NO, "support": False, "fused": False}


def _asked() -> Iterator[tuple[str, Features]]:
    """Bodies of wh-questions."""
    yield "what AUX SUBJ REST PLACE? TIME?", {"object": NounPhrase("what", "singular"), "copula": False}
    yield "who AUX SUBJ REST PLACE? TIME?", {"object": NounPhrase("who", "singular"), "copula": False}
    yield "where AUX SUBJ REST OBJ? TIME?", {"place": "at where", "copula": False}
    yield "where AUX SUBJ REST TIME?", {"place": "to where", "copula": False}
    yield "when AUX SUBJ REST OBJ? PLACE?", {"time": "when", "copula": False}
    yield "where BE SUBJ", {"place": "at where"}
    who: Features = {"subject": NounPhrase("who", "singular"), "agreement": "3s", "scope": "positive"}
    yield f"who MAIN OBJ? {END}", who
    yield f"who AUX REST OBJ? {END}", {**who, "support": False, "copula": False}


def build(lexicon: Lexicon) -> Language:
    """English with the words of the lexicon."""
    grammar = Grammar(leaves(lexicon), phrases("agreement case pronoun scope"), SLOTS)
    _noun_phrases(grammar)
    for body, features in _statements():
        grammar.add("CLAUSE", body, **features)
        grammar.add("SENTENCE", f"TIME? {body} .", **features)
        if "TIME?" in body:
            grammar.add("SENTENCE", f"TIME , {body} .", **features)
    for verb in ("MAIN OBJ?", "AUX REST OBJ?", "BE ADJ"):
        features = {"scope": "positive", "fused": False} | ({"support": False} if "AUX" in verb else {})
        grammar.add("SENTENCE", f"SUBJ {verb} because REASON .", **features)
    grammar.add("SENTENCE", "SUBJ MAIN that? CONTENT .")
    for body, features in _questions():
        grammar.add("SENTENCE", f"{body} ?", question=True, short=False, **features)
    for body, features in _asked():
        asked = {"scope": "question", "short": False, "fused": False, **features}
        grammar.add("SENTENCE", f"{body} ?", question=True, **asked)
    return Language(grammar, spell, tokens)


def spell(words: Words) -> str:
    text = " ".join(words)
    text = re.sub(r" ([.,?])", r"\1", text).replace(" '", "'").replace("can not", "cannot")
    return capitalised(re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", text))


def tokens(sentence: str) -> list[Words]:
    text = re.sub(r"([.,?])", r" \1", sentence).replace("cannot", "can not")
    text = re.sub(r"(?<=[a-zA-Z])'(m|s|re|ll)\b", r" '\1", text)
    first, *rest = ["a" if word == "an" else word for word in text.split()] or [""]
    return [tuple("a" if w == "an" else w for w in either_case(first)), *((word,) for word in rest)]
