"""English words in all their forms."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopmt.synthetic.grammar import Features, Leaf
from loopmt.synthetic.lexicon import PERSONS, Lexicon, Verb
from loopmt.synthetic.meaning import NounPhrase

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
    """Base, third person, past and -ing form of "look_for" or "read read"; a particle follows unchanged."""
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
    """Verb forms after an auxiliary."""
    for form in verb.forms["en"]:
        forms = conjugate(form)
        plain: Features = {"verb": verb.concept, "modal": None, "copula": verb.concept == "be"}
        yield forms["base"], {**plain, "form": "base"}
        yield forms["ing"], {**plain, "form": "ing"}
        yield f"going to {forms['base']}", {**plain, "form": "going"}
        yield forms["base"], {**plain, "modal": "can", "form": "can"}
        yield f"want to {forms['base']}", {**plain, "modal": "want", "form": "base"}
        yield forms["base"], {**plain, "modal": "must", "form": "must"}
        yield f"have to {forms['base']}", {**plain, "modal": "must", "form": "base"}


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


def leaves(lexicon: Lexicon) -> dict[str, Leaf]:
    """The tables of English forms."""
    verbs = lexicon.verbs.values()
    adjectives = ((form, {"adjective": w.concept}) for w in lexicon.adjectives.values() for form in w.forms["en"])
    return {
        "TIME": Leaf("time", ((form, {"time": t}) for form, t in lexicon.time_forms("en", False))),
        "FREQUENCY": Leaf("time", ((form, {"time": t}) for form, t in lexicon.time_forms("en", True))),
        "MANNER": Leaf("manner", ((form, {"manner": m}) for form, m in lexicon.manner_forms("en"))),
        "PLACE": Leaf("place", ((form, {"place": p}) for form, p in lexicon.place_forms("en"))),
        "PRONOUN": Leaf("head", _pronouns(), is_head=True),
        "NAME": Leaf("head", ((name, {"head": name}) for name in lexicon.names), is_head=True),
        "NOUN": Leaf("head", _nouns(lexicon), is_head=True),
        "DETERMINER": Leaf("determiner", _determiners()),
        "ADJECTIVE": Leaf("adjective", adjectives),
        "MAIN": Leaf("verb", (entry for verb in verbs for entry in _mains(verb))),
        "REST": Leaf("verb", (entry for verb in verbs for entry in _rests(verb))),
        "AUXILIARY": Leaf("tense", _auxiliaries()),
        "COPULA": Leaf("tense", _copulas()),
        "TRADE": Leaf("object", _trades(lexicon)),
    }
