"""Spanish words in all their forms, before spelling contracts them (see `spanish`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopmt.world.grammar import Features, Leaf
from loopmt.world.lexicon import PERSONS, Lexicon, Verb, Word, genders, number
from loopmt.world.meaning import NounPhrase
from loopmt.world.spanish_verbs import AGREEMENTS, conjugate

Entries = Iterator[tuple[str, Features]]

# nominative, accusative (masculine, then feminine where it differs), dative, agreement
PRONOUNS = {
    "I": ("yo", "me", "me", "1s"), "thou": ("tú", "te", "te", "2s"), "you": ("usted", "lo la", "le", "3s"),
    "he": ("él", "lo", "le", "3s"), "she": ("ella", "la", "le", "3s"), "it": ("", "lo la", "le", "3s"),
    "we": ("nosotros nosotras", "nos", "nos", "1p"), "ye": ("vosotros vosotras", "os", "os", "2p"),
    "they": ("ellos ellas", "los las", "les", "3p"), "those": ("", "los las", "les", "3p"),
}  # fmt: skip
DETERMINERS = {
    "the": ("el la los las",), "this": ("este esta estos estas",),
    "that": ("ese esa esos esas", "aquel aquella aquellos aquellas"),
    "my": ("mi mi mis mis",), "thy": ("tu tu tus tus",), "your": ("su su sus sus",), "his": ("su su sus sus",),
    "her": ("su su sus sus",), "their": ("su su sus sus",), "our": ("nuestro nuestra nuestros nuestras",),
    "ye's": ("vuestro vuestra vuestros vuestras",),
}  # fmt: skip
COUNTS = {"two": "dos dos", "three": "tres tres", "many": "muchos muchas"}
CELLS = (("m", "singular"), ("f", "singular"), ("m", "plural"), ("f", "plural"))
MODALS = {"want": ("querer", ""), "can": ("poder", ""), "must": ("tener", "que")}


def plural(noun: str) -> str:
    if noun[-1] in "aeiouáéó":
        return noun + "s"
    if noun.endswith("z"):
        return noun[:-1] + "ces"
    accented = re.fullmatch("(.*)([áéíóú])n", noun)
    return accented[1] + "aeiou"["áéíóú".index(accented[2])] + "nes" if accented else noun + "es"


def inflect(adjective: str) -> dict[tuple[str, str], str]:
    """The four forms from "rojo", "verde", or "joven jóvenes"."""
    one, *rest = adjective.split()
    feminine = one[:-1] + "a" if one.endswith("o") else one
    many = rest[0] if rest else plural(one)
    forms = (one, feminine, many, feminine + "s" if one.endswith("o") else many)
    return dict(zip(CELLS, forms, strict=True))


def _persons(column: int) -> Iterator[tuple[str, str, str, str]]:
    """Form, person, gender and agreement of the pronouns of a column."""
    for person in PERSONS:
        row = PRONOUNS[person.partition("_")[0]]
        for gender in genders(person):
            forms = row[column].split() or [""]
            yield forms[-1 if gender == "f" else 0], person, gender, row[3]


def _pronouns() -> Entries:
    for form, person, gender, agreement in _persons(0):
        if form:
            yield form, {"head": person, "number": number(person), "gender": gender, "agreement": agreement}


def _silent() -> Entries:
    """The subject that only the verb shows."""
    for _, person, gender, agreement in _persons(0):
        subject = NounPhrase(person, number(person))
        agree = {"agreement": agreement, "sgender": gender, "snumber": number(person)}
        yield "", {"subject": subject, **agree}


def _objects(prefix: str) -> Entries:
    for form, person, _, _ in _persons(1):
        yield prefix + form, {"object": NounPhrase(person, number(person))}


def _recipients(prefix: str) -> Entries:
    for form, person, _, agreement in _persons(2):
        near = agreement[0] != "3"
        recipient = NounPhrase(person, number(person))
        yield prefix + form, {"recipient": recipient, "near": near, "before_object": False}
        yield (prefix + form if near else "se"), {"recipient": recipient, "near": near, "before_object": True}


def _humanity(noun: Word) -> Features:
    """Persons as objects take "a", animals may, things do not."""
    return {} if noun.is_a("animal") else {"human": noun.is_a("person")}


def _nouns(lexicon: Lexicon) -> Entries:
    for noun in lexicon.nouns.values():
        for spec in noun.forms["es"]:
            one, gender, *rest = spec.split()
            features = {"head": noun.concept, "gender": gender, "mass": noun.is_a("mass"), **_humanity(noun)}
            yield one, {**features, "number": "singular", "agreement": "3s"}
            if not noun.is_a("mass"):
                yield rest[0] if rest else plural(one), {**features, "number": "plural", "agreement": "3p"}


def _determiners() -> Entries:
    for determiner, rows in DETERMINERS.items():
        for row in rows:
            for (gender, num), form in zip(CELLS, row.split(), strict=True):
                yield form, {"determiner": determiner, "gender": gender, "number": num}
    for determiner, row in COUNTS.items():
        for gender, form in zip("mf", row.split(), strict=True):
            yield form, {"determiner": determiner, "gender": gender, "number": "plural"}
    for gender, one, none, some in (("m", "un", "ningún", "unos"), ("f", "una", "ninguna", "unas")):
        indefinite: Features = {"determiner": "a", "gender": gender}
        yield one, {**indefinite, "number": "singular", "mass": False}
        yield none, {**indefinite, "number": "singular", "mass": False, "scope": "negative"}
        yield some, {**indefinite, "number": "plural", "scope": "positive"}
    yield "", {"determiner": "a", "number": "plural", "bare": True, "human": False}
    yield "", {"determiner": "a", "number": "singular", "mass": True, "bare": True}


def _adjectives(lexicon: Lexicon) -> Entries:
    for adjective in lexicon.adjectives.values():
        state = adjective.is_a("~")
        for spec in adjective.forms["es"]:
            form, _, copula = spec.removeprefix("<").partition(":")
            copula = copula or ("estar" if state else "ser")
            for (gender, num), inflected in inflect(form).items():
                features = {"adjective": adjective.concept, "gender": gender, "number": num, "copula": copula}
                yield inflected, {**features, "before": False}
                if spec.startswith("<"):
                    yield inflected, {**features, "before": True}


def _stems(verb: Verb) -> Iterator[tuple[str, Features]]:
    """Infinitives with what they are; to be is two verbs. To have does not know the "a" of persons."""
    for spec in ("ser", "estar") if verb.concept == "be" else verb.forms["es"]:
        features: Features = {"verb": verb.concept, "copula": spec if verb.concept == "be" else "no"}
        yield spec, features | ({"human": False} if verb.concept == "have" else {})


def _finites(verb: Verb) -> Entries:
    for spec, features in _stems(verb):
        table = conjugate(spec)
        past = table.imperfect if verb.aspect == "state" else table.preterite
        tenses = {"present": table.present, "progressive": table.present, "past": past, "future": table.future}
        for tense, forms in tenses.items():
            for agreement, form in zip(AGREEMENTS, forms, strict=True):
                yield form, {**features, "tense": tense, "agreement": agreement, "modal": None}


def _rests(verb: Verb) -> Entries:
    for spec, features in _stems(verb):
        table = conjugate(spec)
        yield table.infinitive, {**features, "form": "infinitive"}
        if table.infinitive != "ir":
            yield table.gerund, {**features, "form": "gerund"}


def _chains() -> Entries:
    """What an infinitive or a gerund follows: va a, está, quiere, puede, tiene que."""
    rows: list[tuple[str, str | None, str, tuple[str, ...], str]] = [
        ("future", None, "infinitive", conjugate("ir").present, " a"),
        ("progressive", None, "gerund", conjugate("estar").present, ""),
    ]
    for modal, (infinitive, link) in MODALS.items():
        table = conjugate(infinitive)
        rows += [("present", modal, "infinitive", table.present, f" {link}")]
        rows += [("past", modal, "infinitive", table.imperfect, f" {link}")]
    for tense, chained, form, forms, link in rows:
        for agreement, finite in zip(AGREEMENTS, forms, strict=True):
            yield finite + link, {"tense": tense, "modal": chained, "form": form, "agreement": agreement}


def _trades(lexicon: Lexicon) -> Entries:
    for noun in lexicon.nouns.values():
        for spec in noun.forms["es"] if noun.is_a("trade") else ():
            one = spec.split()[0]
            yield one, {"object": NounPhrase(noun.concept, "singular", "a")}
            yield plural(one), {"object": NounPhrase(noun.concept, "plural", "a")}


def leaves(lexicon: Lexicon) -> dict[str, Leaf]:
    """The tables of Spanish forms."""
    verbs = lexicon.verbs.values()
    names = ((n, {"head": n, "gender": w.kinds[0][0], "human": True}) for n, w in lexicon.names.items())
    return {
        "TIME": Leaf("time", ((form, {"time": t}) for form, t in lexicon.time_forms("es", False))),
        "FREQUENCY": Leaf("time", ((form, {"time": t}) for form, t in lexicon.time_forms("es", True))),
        "MANNER": Leaf("manner", ((form, {"manner": m}) for form, m in lexicon.manner_forms("es"))),
        "PLACE": Leaf("place", ((re.sub(r"\bal\b", "a el", f), {"place": p}) for f, p in lexicon.place_forms("es"))),
        "PRONOUN": Leaf("head", _pronouns(), is_head=True),
        "SILENT": Leaf("subject", _silent(), is_head=True),
        "ACCUSATIVE": Leaf("object", _objects("")),
        "ENCLITIC": Leaf("object", _objects("+")),
        "DATIVE": Leaf("recipient", _recipients("")),
        "DATIVE_ENCLITIC": Leaf("recipient", _recipients("+")),
        "DOUBLE": Leaf("rnumber", (("le", {"rnumber": "singular"}), ("les", {"rnumber": "plural"}))),
        "NAME": Leaf("head", names, is_head=True),
        "NOUN": Leaf("head", _nouns(lexicon), is_head=True),
        "DETERMINER": Leaf("determiner", _determiners()),
        "ADJECTIVE": Leaf("adjective", _adjectives(lexicon)),
        "FINITE": Leaf("verb", (entry for verb in verbs for entry in _finites(verb))),
        "REST": Leaf("verb", (entry for verb in verbs for entry in _rests(verb))),
        "CHAIN": Leaf("tense", _chains()),
        "TRADE": Leaf("object", _trades(lexicon)),
    }
