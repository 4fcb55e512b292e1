"""French words in all their forms, before spelling contracts and elides them (see `french`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopmt.world.french_verbs import AGREEMENTS, conjugate
from loopmt.world.grammar import Features, Leaf
from loopmt.world.lexicon import PERSONS, Lexicon, Verb, genders, number
from loopmt.world.meaning import NounPhrase

Entries = Iterator[tuple[str, Features]]

# nominative, accusative, dative, agreement; one form per gender where they differ
PRONOUNS = {
    "I": ("je", "me", "me", "1s"), "thou": ("tu", "te", "te", "2s"), "you": ("vous", "vous", "vous", "2p"),
    "he": ("il", "le*", "lui", "3s"), "she": ("elle", "la*", "lui", "3s"), "it": ("il elle", "le* la*", "lui", "3s"),
    "we": ("nous", "nous", "nous", "1p"), "ye": ("vous", "vous", "vous", "2p"),
    "they": ("ils elles", "les*", "leur", "3p"), "those": ("ils elles", "les*", "leur", "3p"),
}  # fmt: skip
DETERMINERS = {
    "the": "le la les", "this": "ce cette ces", "that": "ce cette ces", "my": "mon ma mes", "thy": "ton ta tes",
    "your": "votre votre vos", "his": "son sa ses", "her": "son sa ses", "our": "notre notre nos",
    "ye's": "votre votre vos", "their": "leur leur leurs",
}  # fmt: skip
COUNTS = {"two": "deux", "three": "trois", "many": "beaucoup de"}
MODALS = {"want": "vouloir", "can": "pouvoir", "must": "devoir"}


def underlying(text: str) -> str:
    """The words of a fixed phrase as the grammar knows them."""
    text = re.sub(r"\bau\b", "à le", text)
    return re.sub(r"\bl'", "l' ", text)


def plural(noun: str) -> str:
    if noun[-1] in "sxz":
        return noun
    return noun + "x" if re.search("(eau|eu)$", noun) and noun != "bleu" else noun + "s"


def inflect(spec: str) -> dict[tuple[str, str], str]:
    """The four forms of an adjective from "grand", "beau belle", or all four."""
    words = spec.removeprefix("<").split()
    if len(words) < 4:
        masculine = words[0]
        feminine = words[-1] if len(words) == 2 or masculine.endswith("e") else masculine + "e"
        words = [masculine, feminine, plural(masculine), feminine + "s"]
    cells = (("m", "singular"), ("f", "singular"), ("m", "plural"), ("f", "plural"))
    return {cell: word.replace("_", " ") for cell, word in zip(cells, words, strict=True)}


def _pronouns() -> Entries:
    for person in PERSONS:
        forms, _, _, agreement = PRONOUNS[person.partition("_")[0]]
        for gender in genders(person):
            form = forms.split()[-1 if gender == "f" else 0]
            yield form, {"head": person, "number": number(person), "agreement": agreement, "gender": gender}


def _inverted(as_subject: bool) -> Entries:
    """-t-elle: the subject itself, or the echo of a noun before the verb."""
    for form, features in _pronouns():
        head, agreement = str(features["head"]), features["agreement"]
        if as_subject and not head.startswith("I_"):
            subject = NounPhrase(head, str(features["number"]))
            agree = {"agreement": agreement, "sgender": features["gender"], "snumber": features["number"]}
            yield f"-{form}", {"subject": subject, **agree}
        elif not as_subject and head in ("he", "she", "they_m", "they_f"):
            yield f"-{form}", {"agreement": agreement, "sgender": features["gender"]}


def _accusatives() -> Entries:
    for person in PERSONS:
        for gender in genders(person):
            forms = PRONOUNS[person.partition("_")[0]][1].split()
            features = {"object": NounPhrase(person, number(person)), "ogender": gender, "onumber": number(person)}
            yield forms[-1 if gender == "f" else 0], features


def _datives() -> Entries:
    for person in PERSONS:
        _, _, form, agreement = PRONOUNS[person.partition("_")[0]]
        yield form, {"recipient": NounPhrase(person, number(person)), "near": agreement[0] != "3"}


def _nouns(lexicon: Lexicon) -> Entries:
    for noun in lexicon.nouns.values():
        for spec in noun.forms["fr"]:
            one, gender, *rest = spec.split()
            features = {"head": noun.concept, "gender": gender, "mass": noun.is_a("mass")}
            yield one.replace("_", " "), {**features, "number": "singular", "agreement": "3s"}
            if not noun.is_a("mass"):
                many = rest[0] if rest else plural(one)
                yield many.replace("_", " "), {**features, "number": "plural", "agreement": "3p"}


def _determiners() -> Entries:
    for determiner, forms in DETERMINERS.items():
        masculine, feminine, many = forms.split()
        yield masculine, {"determiner": determiner, "number": "singular", "gender": "m"}
        yield feminine, {"determiner": determiner, "number": "singular", "gender": "f"}
        yield many, {"determiner": determiner, "number": "plural"}
    for determiner, form in COUNTS.items():
        yield form, {"determiner": determiner, "number": "plural"}
    for gender, one, some in (("m", "un", "de le"), ("f", "une", "de la")):
        features = {"determiner": "a", "number": "singular", "gender": gender, "scope": "positive"}
        yield one, {**features, "mass": False}
        yield some, {**features, "mass": True}
    yield "de les", {"determiner": "a", "number": "plural", "scope": "positive", "before": False}
    yield "de", {"determiner": "a", "number": "plural", "scope": "positive", "before": True}
    yield "de", {"determiner": "a", "scope": "negative"}


def _adjectives(lexicon: Lexicon) -> Entries:
    for adjective in lexicon.adjectives.values():
        for spec in adjective.forms["fr"]:
            for (gender, num), form in inflect(spec).items():
                features = {"adjective": adjective.concept, "gender": gender, "number": num}
                yield form, {**features, "before": spec.startswith("<")}


def _finites(verb: Verb) -> Entries:
    for infinitive in verb.forms["fr"]:
        table = conjugate(infinitive)
        past = table.imperfect if verb.aspect == "state" else ()
        tenses = {"present": table.present, "progressive": table.present, "past": past, "future": table.future}
        for tense, forms in tenses.items():
            for agreement, form in zip(AGREEMENTS, forms, strict=False):
                features = {"verb": verb.concept, "tense": tense, "agreement": agreement, "modal": None}
                yield form, {**features, "copula": verb.concept == "be"}


def _is(verb: Verb) -> Features:
    return {"verb": verb.concept, "copula": verb.concept == "be"}


def _auxiliaries() -> Entries:
    for auxiliary in ("avoir", "être"):
        for agreement, form in zip(AGREEMENTS, conjugate(auxiliary).present, strict=True):
            yield form, {"tense": "past", "agreement": agreement, "auxiliary": auxiliary, "modal": None}


def _participles(verb: Verb) -> Entries:
    for infinitive in verb.forms["fr"] if verb.aspect != "state" else ():
        table = conjugate(infinitive)
        for (gender, num), form in inflect(table.participle).items():
            features = {"verb": verb.concept, "gender": gender, "number": num}
            yield form, {**features, "auxiliary": table.auxiliary}


def _chains() -> Entries:
    """What an infinitive follows: va, veut, peut, doit."""
    for agreement, form in zip(AGREEMENTS, conjugate("aller").present, strict=True):
        yield form, {"tense": "future", "modal": None, "agreement": agreement}
    for modal, infinitive in MODALS.items():
        table = conjugate(infinitive)
        for tense, forms in (("present", table.present), ("past", table.imperfect)):
            for agreement, form in zip(AGREEMENTS, forms, strict=True):
                yield form, {"tense": tense, "modal": modal, "agreement": agreement}


def _trades(lexicon: Lexicon) -> Entries:
    for noun in lexicon.nouns.values():
        for spec in noun.forms["fr"] if noun.is_a("trade") else ():
            form = spec.split()[0]
            yield form, {"object": NounPhrase(noun.concept, "singular", "a")}
            yield plural(form), {"object": NounPhrase(noun.concept, "plural", "a")}


def leaves(lexicon: Lexicon) -> dict[str, Leaf]:
    """The tables of French forms."""
    verbs = lexicon.verbs.values()
    manners = list(lexicon.manner_forms("fr"))
    names = ((name, {"head": name, "gender": word.kinds[0][0]}) for name, word in lexicon.names.items())
    return {
        "TIME": Leaf("time", ((underlying(f), {"time": t}) for f, t in lexicon.time_forms("fr", False))),
        "FREQUENCY": Leaf("time", ((f, {"time": t}) for f, t in lexicon.time_forms("fr", True))),
        "MANNER": Leaf("manner", ((f, {"manner": c}) for f, c in manners if f[0] != "!")),
        "SHORT": Leaf("manner", ((f[1:], {"manner": c}) for f, c in manners if f[0] == "!")),
        "PLACE": Leaf("place", ((underlying(f), {"place": p}) for f, p in lexicon.place_forms("fr"))),
        "PRONOUN": Leaf("head", _pronouns(), is_head=True),
        "INVERTED": Leaf("subject", _inverted(True), is_head=True),
        "ECHO": Leaf("agreement", _inverted(False)),
        "ACCUSATIVE": Leaf("object", _accusatives(), is_head=True),
        "DATIVE": Leaf("recipient", _datives()),
        "NAME": Leaf("head", names, is_head=True),
        "NOUN": Leaf("head", _nouns(lexicon), is_head=True),
        "DETERMINER": Leaf("determiner", _determiners()),
        "ADJECTIVE": Leaf("adjective", _adjectives(lexicon)),
        "FINITE": Leaf("verb", (entry for verb in verbs for entry in _finites(verb))),
        "INFINITIVE": Leaf("verb", ((form, _is(v)) for v in verbs for form in v.forms["fr"])),
        "PARTICIPLE": Leaf("verb", (entry for verb in verbs for entry in _participles(verb))),
        "AUXILIARY": Leaf("tense", _auxiliaries()),
        "CHAIN": Leaf("tense", _chains()),
        "NEGATION": Leaf("polarity", (("pas", {"polarity": "not"}), ("jamais", {"polarity": "never"}))),
        "TRADE": Leaf("object", _trades(lexicon)),
    }
