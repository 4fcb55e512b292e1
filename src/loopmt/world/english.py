"""English: do-support, progressive, contractions, a and an, two ways to give."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopmt.world.grammar import Features, Grammar, Leaf, Phrase, Slot, Words
from loopmt.world.language import Language, capitalised, either_case
from loopmt.world.lexicon import PERSONS, Lexicon, Verb
from loopmt.world.meaning import Clause, NounPhrase, Relative

Entries = Iterator[tuple[str, Features]]

PRONOUNS = {
    "I": ("I", "me", "my"), "thou": ("you", "you", "your"), "you": ("you", "you", "your"),
    "he": ("he", "him", "his"), "she": ("she", "her", "her"), "it": ("it", "it", "its"),
    "we": ("we", "us", "our"), "ye": ("you", "you", "your"), "they": ("they", "them", "their"),
    "those": ("they", "them", "their"),
}  # fmt: skip
DETERMINERS = {
    "the": ("the", "the"), "this": ("this", "these"), "that": ("that", "those"), "my": ("my", "my"),
    "thy": ("your", "your"), "your": ("your", "your"), "his": ("his", "his"), "her": ("her", "her"),
    "our": ("our", "our"), "ye's": ("your", "your"), "their": ("their", "their"),
    "two": ("", "two"), "three": ("", "three"), "many": ("", "many"),
}  # fmt: skip
BE = {"present": {"1s": "am", "3s": "is", "p": "are"}, "past": {"1s": "was", "3s": "was", "p": "were"}}
SHORT_BE = {"1s": "'m", "3s": "'s", "p": "'re"}
NOT_BE = {"present": {"3s": "isn't", "p": "aren't"}, "past": {"1s": "wasn't", "3s": "wasn't", "p": "weren't"}}
SHORT: Features = {"fused": False, "short": True, "pronoun": True}
AGREEMENTS = ("1s", "3s", "p")
DOUBLING = {"cut", "shut", "run", "swim", "win", "get", "forget", "travel"}


def plural(noun: str) -> str:
    if re.search("(s|x|ch|sh)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search("[^aeiou]y$", noun) else noun + "s"


def conjugate(form: str) -> dict[str, str]:
    """Base, third person, past and -ing form of "look_for" or "read read"; a particle stays behind."""
    base, *rest = form.split()
    verb, _, particle = base.partition("_")
    tail = f" {particle}" if particle else ""
    double = verb + verb[-1] if verb in DOUBLING else verb
    stem = verb[:-1] if re.search("[^e]e$", verb) else double
    third = {"have": "has", "go": "goes"}.get(verb, plural(verb))
    past = rest[0].partition("_")[0] if rest else verb[:-1] + "ied" if third.endswith("ies") else stem + "ed"
    ing = "being" if verb == "be" else stem + "ing"
    return {"base": verb + tail, "third": third + tail, "past": past + tail, "ing": ing + tail}


def _pronouns() -> Entries:
    for person in PERSONS:
        forms = PRONOUNS[person.partition("_")[0]]
        number = "singular" if person.partition("_")[0] in ("I", "thou", "you", "he", "she", "it") else "plural"
        agreement = {"I": "1s", "he": "3s", "she": "3s", "it": "3s"}.get(person.partition("_")[0], "p")
        for case, form in zip(("subject", "object"), forms, strict=False):
            yield form, {"head": person, "number": number, "agreement": agreement, "case": case}


def _nouns(lexicon: Lexicon) -> Entries:
    for noun in lexicon.nouns.values():
        mass = noun.is_a("mass")
        for spec in noun.forms["en"]:
            one, *rest = spec.split()
            many = rest[0] if rest else plural(one)
            features = {"head": noun.concept, "mass": mass}
            yield one.replace("_", " "), {**features, "number": "singular", "agreement": "3s"}
            if not mass:
                yield many.replace("_", " "), {**features, "number": "plural", "agreement": "p"}


def _determiners() -> Entries:
    for determiner, (one, many) in DETERMINERS.items():
        if one:
            yield one, {"determiner": determiner, "number": "singular"}
        yield many, {"determiner": determiner, "number": "plural"}
    yield "a", {"determiner": "a", "number": "singular", "mass": False}
    for features in ({"number": "plural"}, {"number": "singular", "mass": True}):
        indefinite: Features = {"determiner": "a", **features}
        yield "some", {**indefinite, "scope": "positive"}
        yield "some", {**indefinite, "scope": "question"}
        for scope in ("positive", "question", "negative"):
            yield "", {**indefinite, "scope": scope, "case": "object"}
        for scope in ("question", "negative"):
            yield "any", {**indefinite, "scope": scope, "case": "object"}


def _mains(verb: Verb) -> Entries:
    """Finite forms of a full verb: she reads, wants to read, has to read; she read."""
    for form in verb.forms["en"]:
        forms = conjugate(form)
        for agreement in AGREEMENTS:
            features: Features = {"verb": verb.concept, "agreement": agreement}
            third = agreement == "3s"
            if verb.concept != "be":
                yield forms["third" if third else "base"], {**features, "tense": "present", "modal": None}
                yield forms["past"], {**features, "tense": "past", "modal": None}
            for modal, now, past in (("want", "wants", "wanted"), ("must", "has", "had")):
                present = now if third else {"wants": "want", "has": "have"}[now]
                yield f"{present} to {forms['base']}", {**features, "tense": "present", "modal": modal}
                yield f"{past} to {forms['base']}", {**features, "tense": "past", "modal": modal}


def _rests(verb: Verb) -> Entries:
    """What follows an auxiliary."""
    for form in verb.forms["en"]:
        forms = conjugate(form)
        plain: Features = {"verb": verb.concept, "modal": None}
        yield forms["base"], {**plain, "form": "base"}
        yield forms["ing"], {**plain, "form": "ing"}
        yield f"going to {forms['base']}", {**plain, "form": "going"}
        yield forms["base"], {"verb": verb.concept, "modal": "can", "form": "can"}
        yield f"want to {forms['base']}", {"verb": verb.concept, "modal": "want", "form": "base"}
        yield forms["base"], {"verb": verb.concept, "modal": "must", "form": "must"}
        yield f"have to {forms['base']}", {"verb": verb.concept, "modal": "must", "form": "base"}


def _auxiliaries() -> Entries:
    """First words of a verb group: does, will, is, can, must; short after pronouns; with and without n't."""
    for agreement in AGREEMENTS:
        agree = {"agreement": agreement}
        do = "does" if agreement == "3s" else "do"
        bare = {**agree, "form": "base"}
        yield from _plain_and_not(do, do + "n't", {**bare, "tense": "present", "support": True})
        yield from _plain_and_not("did", "didn't", {**bare, "tense": "past", "support": True})
        yield from _plain_and_not("will", "won't", {**bare, "tense": "future", "support": False, "modal": None})
        can = {**agree, "form": "can", "support": False}
        yield from _plain_and_not("can", "can't", {**can, "tense": "present"})
        yield from _plain_and_not("could", "couldn't", {**can, "tense": "past"})
        yield "must", {**agree, "form": "must", "support": False, "tense": "present", "fused": False, "short": False}
        yield "'ll", {**bare, "tense": "future", "support": False, "modal": None, "scope": "positive", **SHORT}
        for tense, form in (("progressive", "ing"), ("future", "going")):
            being: Features = {**agree, "tense": tense, "form": form, "support": False, "modal": None}
            yield from _plain_and_not(BE["present"][agreement], NOT_BE["present"].get(agreement), being)
            yield SHORT_BE[agreement], {**being, **SHORT}


def _plain_and_not(plain: str, fused: str | None, features: Features) -> Entries:
    yield plain, {**features, "fused": False, "short": False}
    if fused:
        yield fused, {**features, "fused": True, "short": False}


def _copulas() -> Entries:
    for tense, forms in BE.items():
        for agreement, form in forms.items():
            features = {"verb": "be", "tense": tense, "agreement": agreement, "modal": None}
            yield from _plain_and_not(form, NOT_BE[tense].get(agreement), features)
            if tense == "present":
                yield SHORT_BE[agreement], {**features, **SHORT}


def _trades(lexicon: Lexicon) -> Entries:
    for noun in lexicon.nouns.values():
        if noun.is_a("trade"):
            for form in noun.forms["en"]:
                yield f"a {form}", {"object": NounPhrase(noun.concept, "singular", "a")}
                yield plural(form), {"object": NounPhrase(noun.concept, "plural", "a")}


def _places(lexicon: Lexicon) -> Entries:
    for place in lexicon.places.values():
        for relation, cell in zip(("at", "to"), " / ".join(place.forms["en"]).split(" > "), strict=False):
            for form in cell.split(" / "):
                yield form, {"place": f"{relation} {place.concept}"}


def leaves(lexicon: Lexicon) -> dict[str, Leaf]:
    verbs = lexicon.verbs.values()
    simple = {"ADJECTIVE": ("adjective", lexicon.adjectives), "MANNER": ("manner", lexicon.manners)}
    tables = {
        name: Leaf(key, ((f.replace("_", " "), {key: w.concept}) for w in words.values() for f in w.forms["en"]))
        for name, (key, words) in simple.items()
    }
    times = [(f.replace("_", " "), w) for w in lexicon.times.values() for f in w.forms["en"]]
    return tables | {
        "TIME": Leaf("time", ((f, {"time": w.concept}) for f, w in times if not w.is_a("frequency"))),
        "FREQUENCY": Leaf("time", ((f, {"time": w.concept}) for f, w in times if w.is_a("frequency"))),
        "PLACE": Leaf("place", _places(lexicon)),
        "PRONOUN": Leaf("head", _pronouns(), is_head=True),
        "NAME": Leaf("head", ((name, {"head": name}) for name in lexicon.names), is_head=True),
        "NOUN": Leaf("head", _nouns(lexicon), is_head=True),
        "DETERMINER": Leaf("determiner", _determiners()),
        "MAIN": Leaf("verb", (entry for verb in verbs for entry in _mains(verb))),
        "REST": Leaf("verb", (entry for verb in verbs for entry in _rests(verb))),
        "AUXILIARY": Leaf("tense", _auxiliaries()),
        "COPULA": Leaf("tense", _copulas()),
        "TRADE": Leaf("object", _trades(lexicon)),
    }


SLOTS = {
    "PRON": Slot("PRONOUN"), "NAME": Slot("NAME"), "NOUN": Slot("NOUN"), "DET": Slot("DETERMINER"),
    "ADJ": Slot("ADJECTIVE"), "MAIN": Slot("MAIN"), "AUX": Slot("AUXILIARY"), "REST": Slot("REST"),
    "BE": Slot("COPULA"), "TRADE": Slot("TRADE"), "MANNER": Slot("MANNER"), "PLACE": Slot("PLACE"),
    "TIME": Slot("TIME"), "FREQ": Slot("FREQUENCY"),
    "FIRST": Slot("SIMPLE", {"self": "first", "case": "case", "pronoun": "pronoun"}),
    "SECOND": Slot("SIMPLE", {"self": "second", "case": "case", "pronoun": "pronoun"}),
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
            yield f"{group} {objects} {END}", features
    for complement in COMPLEMENTS:
        yield f"SUBJ BE FREQ? {complement} TIME?", {"fused": False}
        yield f"SUBJ BE not {complement} TIME?", {**NO, "fused": False}
        yield f"SUBJ BE {complement} TIME?", {**NO, "fused": True}
        yield f"SUBJ BE never {complement}", {"polarity": "never", "fused": False}
        yield f"SUBJ AUX REST {complement} TIME?", {"support": False, "fused": False}
        yield f"SUBJ AUX not REST {complement} TIME?", {**NO, "fused": False}
        yield f"SUBJ AUX REST {complement} TIME?", {**NO, "fused": True}


def _questions() -> Iterator[tuple[str, Features]]:
    """Bodies of questions that yes or no answers."""
    for objects in OBJECTS:
        yield f"AUX SUBJ FREQ? REST {objects} {END}", {"scope": "question", "fused": False}
        yield f"AUX SUBJ REST {objects} {END}", {**NO, "fused": True}
        yield f"AUX SUBJ not REST {objects} {END}", {**NO, "fused": False}
    for complement in COMPLEMENTS:
        yield f"BE SUBJ FREQ? {complement} TIME?", {"fused": False}
        yield f"BE SUBJ {complement} TIME?", {**NO, "fused": True}
        yield f"BE SUBJ not {complement} TIME?", {**NO, "fused": False}
        yield f"AUX SUBJ REST {complement} TIME?", {"fused": False}


def _asked() -> Iterator[tuple[str, Features]]:
    """Bodies of questions that ask for a part."""
    yield "what AUX SUBJ REST PLACE? TIME?", {"object": NounPhrase("what", "singular")}
    yield "who AUX SUBJ REST PLACE? TIME?", {"object": NounPhrase("who", "singular")}
    yield "where AUX SUBJ REST OBJ? TIME?", {"place": "where"}
    yield "when AUX SUBJ REST OBJ? PLACE?", {"time": "when"}
    yield "where BE SUBJ", {"place": "where"}
    who: Features = {"subject": NounPhrase("who", "singular"), "agreement": "3s"}
    yield f"who MAIN OBJ? {END}", who
    yield f"who AUX REST OBJ? {END}", {**who, "support": False}


def build(lexicon: Lexicon) -> Language:
    """English with the words of the lexicon."""
    exports = "agreement case pronoun scope"
    phrases = {
        "SIMPLE": Phrase(NounPhrase, exports), "NP": Phrase(NounPhrase, exports),
        "RELATIVE": Phrase(Relative, "agreement"), "CLAUSE": Phrase(Clause), "SENTENCE": Phrase(Clause),
    }  # fmt: skip
    grammar = Grammar(leaves(lexicon), phrases, SLOTS)
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
        grammar.add("SENTENCE", f"{body} ?", question=True, short=False, fused=False, scope="question", **features)
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
