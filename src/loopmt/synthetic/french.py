"""French: gender, elision, object pronouns before the verb, ne ... pas, participles that agree, three ways to ask.

Spelling works on underlying words: the article contracts (de le: du) and elides (le eau: l'eau); the pronouns
"le*", "la*", "les*" elide but do not contract.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopmt.synthetic.french_words import leaves
from loopmt.synthetic.grammar import Features, Grammar, Slot, Words
from loopmt.synthetic.language import Language, capitalised, either_case, phrases
from loopmt.synthetic.lexicon import Lexicon
from loopmt.synthetic.meaning import NounPhrase

SUBJECT_AGREES = {"gender": "sgender", "number": "snumber"}
SUBJECT = {"self": "subject", "agreement": "agreement", **SUBJECT_AGREES}
PARTICIPLE = {"verb": "verb", "auxiliary": "auxiliary"}
SLOTS = {
    "PRON": Slot("PRONOUN"), "NAME": Slot("NAME"), "NOUN": Slot("NOUN"), "DET": Slot("DETERMINER"),
    "ADJ": Slot("ADJECTIVE"), "FIN": Slot("FINITE"), "AUX": Slot("AUXILIARY"), "CHAIN": Slot("CHAIN"),
    "INF": Slot("INFINITIVE"), "NEG": Slot("NEGATION"), "MANNER": Slot("MANNER"), "SHORT": Slot("SHORT"),
    "PLACE": Slot("PLACE"), "TIME": Slot("TIME"), "FREQ": Slot("FREQUENCY"), "TRADE": Slot("TRADE"),
    "INV": Slot("INVERTED"), "ECHO": Slot("ECHO"), "ACC": Slot("ACCUSATIVE"), "DAT": Slot("DATIVE"),
    "NEAR": Slot("DATIVE", None, {"near": True}), "FAR": Slot("DATIVE", None, {"near": False}),
    "PADJ": Slot("ADJECTIVE", {"adjective": "adjective", **SUBJECT_AGREES}),
    "PART": Slot("PARTICIPLE", PARTICIPLE, {"auxiliary": "avoir", "gender": "m", "number": "singular"}),
    "PARTO": Slot("PARTICIPLE", {**PARTICIPLE, "gender": "ogender", "number": "onumber"}, {"auxiliary": "avoir"}),
    "PARTS": Slot("PARTICIPLE", {**PARTICIPLE, **SUBJECT_AGREES}, {"auxiliary": "être"}),
    "FIRST": Slot("SIMPLE", {"self": "first", "gender": "gender1"}, {"pronoun": False, "scope": "positive"}),
    "SECOND": Slot("SIMPLE", {"self": "second", "gender": "gender2"}, {"pronoun": False, "scope": "positive"}),
    "REL": Slot("RELATIVE", {"self": "relative", "agreement": "agreement", "sgender": "gender", "snumber": "number"}),
    "SUBJ": Slot("NP", SUBJECT, {"scope": "positive"}),
    "SUBJN": Slot("NP", SUBJECT, {"scope": "positive", "pronoun": False}),
    "OBJ": Slot("NP", {"self": "object", "scope": "scope"}, {"pronoun": False}),
    "RECIP": Slot("NP", {"self": "recipient"}, {"pronoun": False, "scope": "positive"}),
    "CONTENT": Slot("CLAUSE", {"self": "content"}),
    "REASON": Slot("CLAUSE", {"self": "reason"}),
}  # fmt: skip

# object pronouns before the verb, and what follows it
OBJECTS = (
    ("", "OBJ?"), ("ACC", ""), ("", "OBJ à RECIP"), ("DAT", "OBJ"), ("ACC", "à RECIP"), ("NEAR ACC", ""),
    ("ACC FAR", ""),
)  # fmt: skip
COMPLEMENTS = ("PADJ", "TRADE", "PLACE")
END = "MANNER? PLACE? TIME?"
YES: Features = {"scope": "positive", "copula": False}
NO: Features = {"scope": "negative", "copula": False}
IS: Features = {"copula": True}


def _noun_phrases(grammar: Grammar) -> None:
    for phrase in ("SIMPLE", "NP"):
        grammar.add(phrase, "PRON", pronoun=True)
        grammar.add(phrase, "NAME", number="singular", agreement="3s", pronoun=False)
        grammar.add(phrase, "DET ADJ NOUN", pronoun=False, before=True)
        grammar.add(phrase, "DET NOUN ADJ?", pronoun=False, before=False)
    grammar.add("NP", "DET NOUN REL", pronoun=False, before=False)
    for one, two in ("mm", "mf", "fm", "ff"):
        gender = "f" if one + two == "ff" else "m"
        features = {"gender1": one, "gender2": two, "gender": gender, "number": "plural", "agreement": "3p"}
        grammar.add("NP", "FIRST et SECOND", head="and", pronoun=False, **features)
    grammar.add("RELATIVE", "qui FIN OBJ?", modal=None, scope="positive", copula=False)
    grammar.add("RELATIVE", "qui AUX PART OBJ?", modal=None, scope="positive")
    grammar.add("RELATIVE", "qui AUX PARTS", modal=None)


def _groups(subject: str, inverted: str) -> Iterator[tuple[str, Features]]:
    """Verb groups with objects; `inverted` comes after the finite verb in a question."""
    for before, after in OBJECTS:
        part = "PARTO" if "ACC" in before else "PART"
        yield f"{subject} {before} FIN {inverted} FREQ? SHORT? {after} {END}", YES
        yield f"{subject} ne {before} FIN {inverted} NEG SHORT? {after} {END}", NO
        yield f"{subject} {before} AUX {inverted} SHORT? {part} {after} {END}", YES
        yield f"{subject} ne {before} AUX {inverted} NEG SHORT? {part} {after} {END}", NO
        yield f"{subject} CHAIN {inverted} SHORT? {before} INF {after} {END}", YES
        yield f"{subject} ne CHAIN {inverted} NEG SHORT? {before} INF {after} {END}", NO
    yield f"{subject} AUX {inverted} SHORT? PARTS {END}", YES
    yield f"{subject} ne AUX {inverted} NEG SHORT? PARTS {END}", NO
    for complement in COMPLEMENTS:
        yield f"{subject} FIN {inverted} FREQ? {complement} TIME?", IS
        yield f"{subject} ne FIN {inverted} NEG {complement} TIME?", IS
        yield f"{subject} CHAIN {inverted} INF {complement} TIME?", IS
        yield f"{subject} ne CHAIN {inverted} NEG INF {complement} TIME?", IS


def _asked() -> Iterator[tuple[str, Features]]:
    """Wh-questions: with the verb before the pronoun, or with est-ce que."""
    what = {"object": NounPhrase("what", "singular")}
    whom = {"object": NounPhrase("who", "singular")}
    who: Features = {"subject": NounPhrase("who", "singular"), "agreement": "3s", "sgender": "m", "snumber": "singular"}
    for word, rest, features in (
        ("que", "PLACE? TIME?", what), ("qui", "PLACE? TIME?", whom),
        ("où", "OBJ? TIME?", {"place": "at where"}), ("où", "TIME?", {"place": "to where"}),
        ("quand", "OBJ? PLACE?", {"time": "when"}),
    ):  # fmt: skip
        for order in ("FIN INV", "AUX INV PART", "CHAIN INV INF"):
            yield f"{word} {order} {rest}", {**features, "copula": False}
        for order in ("FIN", "AUX PART", "CHAIN INF"):
            yield f"{word} est-ce que SUBJ {order} {rest}", {**features, "copula": False}
        yield f"{word} AUX INV PARTS {rest.removeprefix('OBJ? ')}", features
        yield f"{word} est-ce que SUBJ AUX PARTS {rest.removeprefix('OBJ? ')}", features
    for order in ("FIN INV", "FIN SUBJN", "est-ce que SUBJ FIN"):
        yield f"où {order}", {"place": "at where", "copula": True}
    for order in ("FIN OBJ?", "AUX PART OBJ?", "CHAIN INF OBJ?", "AUX PARTS"):
        yield f"qui {order} {END}", who
    for order in ("ACC FIN", "ACC AUX PARTO", "CHAIN ACC INF"):
        yield f"qui {order} {END}", {**who, "copula": False}


def build(lexicon: Lexicon) -> Language:
    """French with the words of the lexicon."""
    grammar = Grammar(
        leaves(lexicon), phrases("agreement gender number pronoun scope", "agreement sgender snumber"), SLOTS
    )
    _noun_phrases(grammar)
    for body, features in _groups("SUBJ", ""):
        grammar.add("CLAUSE", body, **features)
        grammar.add("SENTENCE", f"TIME? {body} .", **features)
        grammar.add("SENTENCE", f"TIME , {body} .", **features)
        grammar.add("SENTENCE", f"{body} ?", question=True, **features)
        grammar.add("SENTENCE", f"est-ce que {body} ?", question=True, **features)
    for body, features in (*_groups("", "INV"), *_groups("SUBJN", "ECHO")):
        grammar.add("SENTENCE", f"{body} ?", question=True, **features)
    for body, features in _asked():
        grammar.add("SENTENCE", f"{body} ?", question=True, scope="positive", **features)
    for verb in ("FIN OBJ?", "FIN PADJ", "AUX PART OBJ?", "AUX PARTS", "CHAIN INF OBJ?"):
        grammar.add("SENTENCE", f"SUBJ {verb} parce que REASON .", scope="positive")
    grammar.add("SENTENCE", "SUBJ FIN que CONTENT .")
    return Language(grammar, spell, tokens)


VOWEL = "[aeiouâàéèêîôœhE]"
ELIDED = {
    "l'": ("l'", "le", "la", "le*", "la*"), "j'": ("je",), "n'": ("ne",), "d'": ("de",), "qu'": ("que",),
    "m'": ("me",), "t'": ("te",), "le": ("le", "le*"), "la": ("la", "la*"), "les": ("les", "les*"),
    "mon": ("mon", "ma"), "ton": ("ton", "ta"), "son": ("son", "sa"), "cet": ("ce",),
    "bel": ("beau",), "nouvel": ("nouveau",), "vieil": ("vieux",), "vieux": ("vieux", "vieux*"),
}  # fmt: skip
BEFORE_VOWEL = {
    "ma": "mon", "ta": "ton", "sa": "son", "ce": "cet", "beau": "bel", "nouveau": "nouvel", "vieux": "vieil",
}  # fmt: skip
CONTRACTED = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


EXPANDED = {short: long.split() for long, short in CONTRACTED.items()}


def spell(words: Words) -> str:
    text = " ".join(words)
    text = re.sub(rf"\b(l|j|n|d|qu|m|t)(?:(?<![mt])a\*?|e\*?) (?={VOWEL})", r"\1'", text)
    text = re.sub(rf"\b({'|'.join(BEFORE_VOWEL)}) (?={VOWEL})", lambda m: f"{BEFORE_VOWEL[m[1]]} ", text)
    text = re.sub(rf"(?<!\S)({'|'.join(CONTRACTED)})(?= )", lambda m: CONTRACTED[m[1]], text)
    text = re.sub(r"([ae]) -(il|elle)\b", r"\1-t-\2", text).replace(" -", "-").replace("*", "")
    return capitalised(re.sub(r" ([.,])", r"\1", text).replace("' ", "'"))


def tokens(sentence: str) -> list[Words]:
    text = re.sub(r"([.,])", r" \1", sentence)
    text = re.sub(r"(?:-t)?(-(?:tu|ils?|elles?|nous|vous))\b", r" \1", text)
    text = re.sub(r"\b(l|j|n|d|m|t|qu)'", r"\1' ", text, flags=re.IGNORECASE)
    first, *rest = text.split() or [""]
    start = [word for form in either_case(first) for word in ELIDED.get(form, (form,))]
    small = either_case(first)[-1]
    pieces = [(word,) for word in EXPANDED[small]] if small in EXPANDED else [tuple(start)]
    return pieces + [ELIDED.get(part, (part,)) for word in rest for part in EXPANDED.get(word, (word,))]
