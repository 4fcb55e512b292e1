"""Spanish: subjects left out, ser and estar, the "a" of persons, pronouns before and after the verb, ¿ ?"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import partial

from loopmt.synthetic.grammar import Features, Grammar, Slot, Words
from loopmt.synthetic.language import Language, capitalised, either_case, phrases
from loopmt.synthetic.lexicon import Lexicon
from loopmt.synthetic.meaning import NounPhrase
from loopmt.synthetic.spanish_words import leaves

SUBJECT_AGREES = {"gender": "sgender", "number": "snumber"}
OBJECT = {"self": "object", "scope": "scope", "human": "human"}
NOT_BARE: Features = {"bare": False, "scope": "positive"}
SLOTS = {
    "PRON": Slot("PRONOUN"), "NAME": Slot("NAME"), "NOUN": Slot("NOUN"), "DET": Slot("DETERMINER"),
    "ADJ": Slot("ADJECTIVE", {n: n for n in ("adjective", "gender", "number", "before")}),
    "FIN": Slot("FINITE"), "CHAIN": Slot("CHAIN"), "REST": Slot("REST"), "MANNER": Slot("MANNER"),
    "PLACE": Slot("PLACE"), "TIME": Slot("TIME"), "FREQ": Slot("FREQUENCY"), "TRADE": Slot("TRADE"),
    "NONE": Slot("SILENT"), "ACC": Slot("ACCUSATIVE"), "ENC": Slot("ENCLITIC"), "DBL": Slot("DOUBLE"),
    "DAT": Slot("DATIVE", None, {"before_object": False}),
    "DATENC": Slot("DATIVE_ENCLITIC", None, {"before_object": False}),
    "DATACC": Slot("DATIVE", None, {"before_object": True}),
    "PADJ": Slot("ADJECTIVE", {"adjective": "adjective", "copula": "copula", **SUBJECT_AGREES}, {"before": False}),
    "FIRST": Slot("SIMPLE", {"self": "first", "gender": "gender1"}, {"pronoun": False, **NOT_BARE}),
    "SECOND": Slot("SIMPLE", {"self": "second", "gender": "gender2"}, {"pronoun": False, **NOT_BARE}),
    "REL": Slot("RELATIVE", {"self": "relative", "agreement": "agreement"}),
    "SUBJ": Slot("NP", {"self": "subject", "agreement": "agreement", **SUBJECT_AGREES}, NOT_BARE),
    "OBJ": Slot("NP", OBJECT, {"pronoun": False, "human": False}),
    "OBJA": Slot("NP", OBJECT, {"pronoun": False, "human": True, "bare": False}),
    "RECIP": Slot("NP", {"self": "recipient", "number": "rnumber"}, {"pronoun": False, **NOT_BARE}),
    "CONTENT": Slot("CLAUSE", {"self": "content"}),
    "REASON": Slot("CLAUSE", {"self": "reason"}),
}  # fmt: skip

# pronouns before the verb, what follows it, and pronouns after an infinitive
OBJECTS = (
    ("", "OBJ?"), ("", "a OBJA"), ("ACC", ""), ("", "OBJ a RECIP"), ("DBL", "OBJ a RECIP"), ("DAT", "OBJ"),
    ("se ACC", "a RECIP"), ("DATACC ACC", ""),
)  # fmt: skip
BEHIND = (("ENC", ""), ("DATENC", "OBJ"))
COMPLEMENTS: tuple[tuple[str, Features], ...] = (
    ("PADJ", {}), ("TRADE", {"copula": "ser"}), ("PLACE", {"copula": "estar"}),
)  # fmt: skip
END = "MANNER? PLACE? TIME?"
POLARITIES = (
    ("", "", {"scope": "positive"}), ("no", "", {"scope": "negative", "polarity": "not"}),
    ("nunca", "", {"scope": "negative", "polarity": "never"}),
    ("no", "nunca", {"scope": "negative", "polarity": "never"}),
)  # fmt: skip


def _noun_phrases(grammar: Grammar) -> None:
    for phrase in ("SIMPLE", "NP"):
        grammar.add(phrase, "PRON", pronoun=True)
        grammar.add(phrase, "NAME", number="singular", agreement="3s", pronoun=False)
        grammar.add(phrase, "DET ADJ NOUN", pronoun=False, before=True)
        grammar.add(phrase, "DET NOUN ADJ?", pronoun=False, before=False)
    grammar.add("NP", "DET NOUN REL", pronoun=False)
    for one, two in ("mm", "mf", "fm", "ff"):
        gender = "f" if one + two == "ff" else "m"
        features = {"gender1": one, "gender2": two, "gender": gender, "number": "plural", "agreement": "3p"}
        grammar.add("NP", "FIRST y SECOND", head="and", pronoun=False, **features)
    for objects in ("OBJ?", "a OBJA"):
        grammar.add("RELATIVE", f"que FIN {objects}", modal=None, scope="positive", copula="no")


def _groups(first: str, inner: str) -> Iterator[tuple[str, Features]]:
    """Verb groups with objects; the subject stands first, or after the verb in a question."""
    subject, end = inner, END
    if inner:
        inner, end = f"MANNER? {inner}", END.removeprefix("MANNER? ")
    for no, never, features in POLARITIES:
        often = "FREQ?" if not no else never
        for before, after in OBJECTS:
            verb = {**features, "copula": "no"}
            yield f"{first} {no} {before} FIN {inner} {often} {after} {end}", verb
            yield f"{first} {no} {before} CHAIN REST {inner} {never} {after} {end}", verb
        for behind, after in BEHIND:
            infinitive = {**features, "copula": "no", "form": "infinitive"}
            yield f"{first} {no} CHAIN REST {behind} {inner} {never} {after} {end}", infinitive
        for complement, copula in COMPLEMENTS:
            yield f"{first} {no} FIN {subject} {often} {complement} TIME?", {**features, **copula}
            yield f"{first} {no} CHAIN REST {subject} {never} {complement} TIME?", {**features, **copula}


def _asked() -> Iterator[tuple[str, Features]]:
    what = {"object": NounPhrase("what", "singular")}
    whom = {"object": NounPhrase("who", "singular")}
    who: Features = {"subject": NounPhrase("who", "singular"), "agreement": "3s"}
    for subject in ("SUBJ", "NONE"):
        for verb in ("FIN", "CHAIN REST"):
            yield f"qué {verb} {subject} PLACE? TIME?", what
            yield f"a quién {verb} {subject} PLACE? TIME?", whom
            yield f"adónde {verb} {subject} TIME?", {"place": "to where"}
            for objects in ("OBJ?", "a OBJA"):
                yield f"dónde {verb} {subject} {objects} TIME?", {"place": "at where"}
                yield f"cuándo {verb} {subject} {objects} PLACE?", {"time": "when"}
        yield f"dónde FIN {subject}", {"place": "at where", "copula": "estar"}
    for objects in ("OBJ?", "a OBJA"):
        for verb in ("FIN", "CHAIN REST"):
            yield f"quién {verb} {objects} {END}", who
    for verb in ("ACC FIN", "ACC CHAIN REST", "CHAIN REST ENC"):
        yield f"quién {verb} {END}", who | ({"form": "infinitive"} if "ENC" in verb else {})


def build(lexicon: Lexicon) -> Language:
    """Spanish with the words of the lexicon."""
    grammar = Grammar(leaves(lexicon), phrases("agreement gender number pronoun scope bare human"), SLOTS)
    _noun_phrases(grammar)
    for subject in ("SUBJ", "NONE"):
        for body, features in _groups(subject, ""):
            grammar.add("CLAUSE", body, **features)
            grammar.add("SENTENCE", f"TIME? {body} .", **features)
            grammar.add("SENTENCE", f"TIME , {body} .", **features)
            grammar.add("SENTENCE", f"¿ {body} ?", question=True, **features)
        for verb in ("FIN OBJ?", "FIN a OBJA", "FIN PADJ", "CHAIN REST OBJ?", "CHAIN REST a OBJA"):
            kind = {} if verb == "FIN PADJ" else {"copula": "no"}
            grammar.add("SENTENCE", f"{subject} {verb} porque REASON .", scope="positive", **kind)
        grammar.add("SENTENCE", f"{subject} FIN que CONTENT .")
    for body, features in _groups("", "SUBJ"):
        grammar.add("SENTENCE", f"¿ {body} ?", question=True, **features)
    for body, features in _asked():
        kind = {"scope": "positive", "copula": "no", **features}
        grammar.add("SENTENCE", f"¿ {body} ?", question=True, **kind)
    infinitives = frozenset(form.split()[0] for verb in lexicon.verbs.values() for form in verb.forms["es"])
    return Language(grammar, spell, partial(tokens, infinitives))


ENCLITICS = re.compile(r"(\w+[aeií]r)(me|te|l[aeo]s?|n?os)")


def spell(words: Words) -> str:
    text = re.sub(r"\b(a|de) el\b", lambda m: m[1] + "l", " ".join(words).replace(" +", ""))
    text = re.sub(r"\bla agua\b", "el agua", text)
    text = re.sub(r" ([.,?])", r"\1", text)
    return f"¿{capitalised(text[2:])}" if text.startswith("¿ ") else capitalised(text)


def tokens(infinitives: Container[str], sentence: str) -> list[Words]:
    pieces: list[Words] = []
    for word in re.sub(r"([.,?])", r" \1", sentence).replace("¿", "¿ ").split():
        choices = either_case(word) if pieces in ([], [("¿",)]) else (word,)
        joined = ENCLITICS.fullmatch(word)
        if choices[-1] in ("al", "del"):
            pieces += [(choices[-1][:-1],), ("el", "la")]
        elif joined and joined[1] in infinitives:
            pieces += [(joined[1],), (f"+{joined[2]}",)]
        else:
            pieces.append((*choices, "la") if choices[-1] == "el" else choices)
    return pieces
