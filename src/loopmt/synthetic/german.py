"""German: cases, the verb second in main and last in subordinate clauses, separable prefixes, nicht and kein."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopmt.synthetic.german_words import leaves
from loopmt.synthetic.grammar import Features, Grammar, Slot, Words
from loopmt.synthetic.language import Language, capitalised, either_case, phrases
from loopmt.synthetic.lexicon import Lexicon
from loopmt.synthetic.meaning import NounPhrase

OBJECT = {"self": "object", "case": "governs"}
DATIVE: Features = {"case": "dative"}
SLOTS = {
    "PRON": Slot("PRONOUN"), "NAME": Slot("NAME"), "NOUN": Slot("NOUN"), "DET": Slot("DETERMINER"),
    "ADJ": Slot("ADJECTIVE"), "PADJ": Slot("PREDICATE"), "MANNER": Slot("MANNER"), "PLACE": Slot("PLACE"),
    "TIME": Slot("TIME"), "TRADE": Slot("TRADE"), "NEVER": Slot("NEVER"), "WHO": Slot("WHO"),
    "FIN": Slot("FINITE", None, {"separable": False}), "FINSEP": Slot("FINITE", None, {"separable": True}),
    "PREFIX": Slot("PREFIX"), "LAST": Slot("LAST"), "AUX": Slot("AUXILIARY"), "REST": Slot("REST"),
    "FIRST": Slot("SIMPLE", {"self": "first", "case": "case"}, {"pronoun": False}),
    "SECOND": Slot("SIMPLE", {"self": "second", "case": "case"}, {"pronoun": False}),
    "REL": Slot("RELATIVE", {"self": "relative", "agreement": "agreement", "gender": "gender", "number": "number"}),
    "SUBJ": Slot("NP", {"self": "subject", "agreement": "agreement"}, {"case": "nominative", "scope": "positive"}),
    "OBJ": Slot("NP", OBJECT, {"pronoun": False, "scope": "positive"}),
    "OBJD": Slot("NP", OBJECT, {"pronoun": False, "indefinite": False}),
    "OBJI": Slot("NP", OBJECT, {"pronoun": False, "indefinite": True, "scope": "positive", "some": False}),
    "OBJK": Slot("NP", OBJECT, {"pronoun": False, "indefinite": True, "scope": "negative"}),
    "ACC": Slot("NP", OBJECT, {"pronoun": True}),
    "RECIP": Slot("NP", {"self": "recipient"}, {**DATIVE, "pronoun": False, "scope": "positive"}),
    "DAT": Slot("NP", {"self": "recipient"}, {**DATIVE, "pronoun": True}),
    "CONTENT": Slot("CLAUSE", {"self": "content"}),
    "REASON": Slot("CLAUSE", {"self": "reason"}),
}  # fmt: skip

# what stands between the finite verb and the end
POSITIVE = (
    "TIME?", "TIME? OBJ", "OBJD TIME", "ACC TIME?", "TIME? RECIP OBJ", "RECIP TIME OBJ", "DAT TIME? OBJ",
    "ACC TIME? RECIP", "ACC DAT TIME?",
)  # fmt: skip
NEGATIVE = (
    "TIME? nicht", "TIME? OBJD nicht", "OBJD TIME nicht", "TIME? OBJK", "ACC TIME? nicht",
    "TIME? RECIP OBJD nicht", "TIME? RECIP OBJK", "DAT TIME? OBJD nicht", "DAT TIME? OBJK",
    "ACC TIME? RECIP nicht", "ACC DAT TIME? nicht",
)  # fmt: skip
NEVER = (
    "NEVER", "OBJD NEVER", "NEVER OBJI", "ACC NEVER", "RECIP NEVER OBJI", "RECIP OBJD NEVER", "DAT NEVER OBJI",
    "DAT OBJD NEVER", "ACC RECIP NEVER", "ACC DAT NEVER",
)  # fmt: skip
COMPLEMENTS: tuple[tuple[str, Features], ...] = (
    ("TIME? {}", {}), ("TIME? nicht {}", {"polarity": "not"}), ("NEVER {}", {}),
)  # fmt: skip
END = "MANNER? PLACE?"


def _noun_phrases(grammar: Grammar) -> None:
    for phrase in ("SIMPLE", "NP"):
        grammar.add(phrase, "PRON", pronoun=True, indefinite=False)
        grammar.add(phrase, "NAME", number="singular", agreement="3s", pronoun=False, indefinite=False)
        grammar.add(phrase, "DET ADJ? NOUN", pronoun=False)
    grammar.add("NP", "DET NOUN , REL ,", pronoun=False)
    grammar.add("NP", "FIRST und SECOND", head="and", number="plural", agreement="3p", pronoun=False)
    for objects in ("OBJ?", "ACC"):
        grammar.add("RELATIVE", f"WHO {objects} LAST", modal=None, copula=False)
        grammar.add("RELATIVE", f"WHO {objects} REST AUX", modal=None, copula=False, tense="past")


def _middles() -> Iterator[tuple[str, Features]]:
    """The middle of a clause, up to the verbs at its end."""
    for middles, features in ((POSITIVE, {}), (NEGATIVE, {"polarity": "not"}), (NEVER, {})):
        for middle in middles:
            yield f"{middle} {END}", {**features, "copula": False}
    for pattern, features in COMPLEMENTS:
        for complement in ("PADJ", "PLACE"):
            yield pattern.format(complement), {**features, "copula": True}
    yield "TIME? TRADE", {"copula": True, "scope": "positive"}
    yield "TIME? TRADE", {"copula": True, "scope": "negative", "polarity": "not"}
    yield "NEVER TRADE", {"copula": True, "scope": "positive"}


def _timed(text: str) -> Features:
    """The present tense expresses the future only with an adverb of time."""
    return {} if "TIME" in text else {"timed": False}


def _clauses(opening: str, middle: str) -> Iterator[str]:
    """Clauses whose verb comes second or first; `{}` in `opening` marks its place."""
    for finite, last in (("FIN", ""), ("FINSEP", "PREFIX"), ("AUX", "REST")):
        yield f"{opening.format(finite)} {middle} {last}"


def _expand(text: str) -> Iterator[str]:
    """The rule with and without the adverb of time, since `timed` differs."""
    if "TIME?" in text:
        yield text.replace("TIME?", "")
        yield text.replace("TIME?", "TIME")
    else:
        yield text


def _asked() -> Iterator[tuple[str, Features]]:
    what: Features = {"object": NounPhrase("what", "singular"), "governs": "accusative"}
    whom: Features = {"object": NounPhrase("who", "singular")}
    who: Features = {"subject": NounPhrase("who", "singular"), "agreement": "3s"}
    rows: list[tuple[str, str, Features]] = [
        ("was {} SUBJ", "TIME? PLACE?", what), ("wen {} SUBJ", "TIME? PLACE?", {**whom, "governs": "accusative"}),
        ("wem {} SUBJ", "TIME? PLACE?", {**whom, "governs": "dative"}),
        ("wohin {} SUBJ", "TIME?", {"place": "to where"}),
        ("wo {} SUBJ", "TIME?", {"place": "at where"}), ("wo {} SUBJ", "TIME? OBJ", {"place": "at where"}),
        ("wann {} SUBJ", "PLACE?", {"time": "when"}), ("wann {} SUBJ", "OBJ PLACE?", {"time": "when"}),
        ("wer {}", "TIME? MANNER? PLACE?", who), ("wer {}", "TIME? OBJ PLACE?", who),
        ("wer {}", "ACC TIME? PLACE?", who),
    ]  # fmt: skip
    for opening, middle, features in rows:
        for text in _clauses(opening, middle):
            yield text, {"copula": False, **features}
    yield "wo FIN SUBJ", {"place": "at where", "copula": True}


def build(lexicon: Lexicon) -> Language:
    """German with the words of the lexicon."""
    grammar = Grammar(
        leaves(lexicon),
        phrases("agreement case pronoun scope indefinite some gender number", "agreement gender number"),
        SLOTS,
    )
    _noun_phrases(grammar)
    for middle, features in _middles():
        for text in _expand(middle):
            for last in ("LAST", "REST AUX"):
                grammar.add("CLAUSE", f"SUBJ {text} {last}", **features, **_timed(text))
            for body in _clauses("SUBJ {}", text):
                grammar.add("SENTENCE", f"{body} .", **features, **_timed(text))
            for body in _clauses("{} SUBJ", text):
                grammar.add("SENTENCE", f"{body} ?", question=True, **features, **_timed(text))
            if "TIME" not in text and "NEVER" not in text:
                for body in _clauses("TIME {} SUBJ", text):
                    grammar.add("SENTENCE", f"{body} .", **features)
    for body, features in _asked():
        for text in _expand(body):
            grammar.add("SENTENCE", f"{text} ?", question=True, **features, **_timed(text))
    for middle in ("OBJ?", "ACC", "PADJ"):
        for body in _clauses("SUBJ {}", middle):
            kind = {"copula": middle == "PADJ", "timed": False}
            grammar.add("SENTENCE", f"{body} , weil REASON .", **kind)
    grammar.add("SENTENCE", "SUBJ FIN , dass CONTENT .", timed=False)
    return Language(grammar, spell, tokens)


def spell(words: Words) -> str:
    return capitalised(re.sub(r" ([.,?])", r"\1", " ".join(words)))


def tokens(sentence: str) -> list[Words]:
    first, *rest = re.sub(r"([.,?])", r" \1", sentence).split() or [""]
    return [either_case(first), *((word,) for word in rest)]
