"""German words in all their forms: three genders, three cases, strong and weak adjectives, separable verbs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopmt.synthetic.grammar import Features, Leaf
from loopmt.synthetic.lexicon import PERSONS, Lexicon, Verb, number
from loopmt.synthetic.meaning import NounPhrase

Entries = Iterator[tuple[str, Features]]

CASES = ("nominative", "accusative", "dative")
AGREEMENTS = ("1s", "2s", "3s", "1p", "2p", "3p")
# nominative, accusative, dative, agreement; a thing may have any of three genders
PRONOUNS = {
    "I": ("ich", "mich", "mir", "1s"), "thou": ("du", "dich", "dir", "2s"), "you": ("Sie", "Sie", "Ihnen", "3p"),
    "he": ("er", "ihn", "ihm", "3s"), "she": ("sie", "sie", "ihr", "3s"),
    "it": ("er sie es", "ihn sie es", "ihm ihr ihm", "3s"),
    "we": ("wir", "uns", "uns", "1p"), "ye": ("ihr", "euch", "euch", "2p"), "they": ("sie", "sie", "ihnen", "3p"),
    "those": ("sie", "sie", "ihnen", "3p"),
}  # fmt: skip
POSSESSIVES = {
    "my": "mein", "thy": "dein", "your": "Ihr", "his": "sein", "her": "ihr", "our": "unser", "ye's": "euer",
    "their": "ihr",
}  # fmt: skip
# endings by case (nominative, accusative, dative): masculine, feminine, neuter, plural
DER_ENDINGS = {"m": "er en em", "f": "e e er", "n": "es es em", "plural": "e e en"}
EIN_ENDINGS = {"m": "- en em", "f": "e e er", "n": "- - em", "plural": "e e en"}
ARTICLES = {"m": "der den dem", "f": "die die der", "n": "das das dem", "plural": "die die den"}
ADJECTIVE_ENDINGS = {
    "weak": {"m": "e en en", "f": "e e en", "n": "e e en", "plural": "en en en"},
    "mixed": {"m": "er en en", "f": "e e en", "n": "es es en", "plural": "en en en"},
    "strong": {"m": "er en em", "f": "e e er", "n": "es es em", "plural": "e e en"},
}
MODALS = {
    "want": ("will willst will wollen wollt wollen", "möchte möchtest möchte möchten möchtet möchten", "woll"),
    "can": ("kann kannst kann können könnt können", "", "konn"),
    "must": ("muss musst muss müssen müsst müssen", "", "muss"),
}
INDEFINITE: Features = {"determiner": "a", "indefinite": True, "declension": "strong"}
MIXED: Features = {"declension": "mixed"}
INSEPARABLE = ("be", "ver", "er", "ent", "zer")


@dataclass(frozen=True)
class GermanConjugation:
    """`present` and `past` are without a separable prefix, the rest with it."""

    prefix: str
    present: tuple[str, ...]
    past: tuple[str, ...]
    infinitive: str
    participle: str
    auxiliary: str


IRREGULAR = {
    "sein": ("bin bist ist sind seid sind", "war warst war waren wart waren"),
    "haben": ("habe hast hat haben habt haben", "hatte hattest hatte hatten hattet hatten"),
    "wissen": ("weiß weißt weiß wissen wisst wissen", "wusste wusstest wusste wussten wusstet wussten"),
}
HABEN = IRREGULAR["haben"][0].split()
SEIN = IRREGULAR["sein"][0].split()
WERDEN = ["werde", "wirst", "wird", "werden", "werdet", "werden"]


def conjugate(spec: str) -> GermanConjugation:
    """All forms of "kaufen", "an+rufen ruft rief gerufen", "gehen geht ging gegangen s"."""
    infinitive, *parts = spec.split()
    prefix, _, verb = infinitive.rpartition("+")
    stem = verb.removesuffix("n").removesuffix("e") if not verb.endswith(("eln", "ern")) else verb[:-1]
    link = "e" if stem.endswith(("t", "d", "ffn", "chn")) else ""
    third = parts[0] if parts else stem + link + "t"
    past = _past(parts[1]) if parts else _past(stem + link + "te")
    participle = parts[2] if parts else _weak_participle(verb, stem + link)
    if verb in IRREGULAR:
        present, past = (tuple(row.split()) for row in IRREGULAR[verb])
    else:
        present = _present(verb, stem, link, third)
    auxiliary = "sein" if spec.endswith(" s") else "haben"
    return GermanConjugation(prefix, present, past, prefix + verb, prefix + participle, auxiliary)


def _present(verb: str, stem: str, link: str, third: str) -> tuple[str, ...]:
    first = stem[:-2] + "le" if verb.endswith("eln") else stem + "e"
    base = third.removesuffix("t")
    second = third if base.endswith(("s", "ß", "z")) else base + "st"
    return (first, second, third, verb, stem + link + "t", verb)


def _past(first: str) -> tuple[str, ...]:
    """The past in the persons that do not prefer the perfect in speech; weak ones end in -e."""
    plural = first + "n" if first.endswith("e") else first + "en"
    return (first, "", first, plural, "", plural)


def _weak_participle(verb: str, stem: str) -> str:
    bare = verb.startswith(INSEPARABLE) or verb.endswith("ieren")
    return ("" if bare else "ge") + stem + "t"


def _endings(table: dict[str, str]) -> Iterator[tuple[str, Features]]:
    for column, row in table.items():
        for case, ending in zip(CASES, row.split(), strict=True):
            features = {"number": "plural"} if column == "plural" else {"number": "singular", "gender": column}
            yield ending.replace("-", ""), {**features, "case": case}


def _pronouns() -> Entries:
    for person in PERSONS:
        *cases, agreement = PRONOUNS[person.partition("_")[0]]
        for case, forms in zip(CASES, cases, strict=True):
            for form in dict.fromkeys(forms.split()):
                yield form, {"head": person, "number": number(person), "agreement": agreement, "case": case}


def _nouns(lexicon: Lexicon) -> Entries:
    for noun in lexicon.nouns.values():
        for spec in noun.forms["de"]:
            one, gender, *plural = spec.split()
            features = {"head": noun.concept, "gender": gender[0], "mass": noun.is_a("mass")}
            for case in CASES:
                single = plural[0] if gender.endswith("!") and case != "nominative" else one
                yield single, {**features, "number": "singular", "agreement": "3s", "case": case}
                for many in plural:
                    form = many + "n" if case == "dative" and many[-1] not in "ns" else many
                    yield form, {**features, "number": "plural", "agreement": "3p", "case": case}


def _determiners() -> Entries:
    definite = {"indefinite": False}
    for form, features in _endings(ARTICLES):
        yield form, {"determiner": "the", "declension": "weak", **definite, **features}
    for ending, features in _endings(DER_ENDINGS):
        for determiner in ("this", "that"):
            yield "dies" + ending, {"determiner": determiner, "declension": "weak", **definite, **features}
        if features["number"] == "plural":
            yield "viel" + ending, {"determiner": "many", "declension": "strong", "indefinite": True, **features}
            yield "einig" + ending, {**INDEFINITE, "scope": "positive", "some": True, **features}
    for ending, features in _endings(EIN_ENDINGS):
        for determiner, stem in POSSESSIVES.items():
            form = "eur" + ending if stem == "euer" and ending else stem + ending
            yield form, {"determiner": determiner, "declension": "mixed", **definite, **features}
        yield "kein" + ending, {**INDEFINITE, **MIXED, "scope": "negative", **features}
        if features["number"] == "singular":
            yield "ein" + ending, {**INDEFINITE, **MIXED, "mass": False, "scope": "positive", **features}
    for determiner, form in (("two", "zwei"), ("three", "drei")):
        yield form, {"determiner": determiner, "declension": "strong", "number": "plural", "indefinite": True}
    yield "", {**INDEFINITE, "number": "plural", "scope": "positive"}
    yield "", {**INDEFINITE, "number": "singular", "mass": True, "scope": "positive"}


def _adjectives(lexicon: Lexicon) -> Entries:
    for adjective in lexicon.adjectives.values():
        for spec in adjective.forms["de"]:
            stem = spec.split()[-1].removesuffix("e")
            for declension, table in ADJECTIVE_ENDINGS.items():
                for ending, features in _endings(table):
                    yield stem + ending, {"adjective": adjective.concept, "declension": declension, **features}


def _predicates(lexicon: Lexicon) -> Entries:
    for adjective in lexicon.adjectives.values():
        for spec in adjective.forms["de"]:
            yield spec.split()[0], {"adjective": adjective.concept}


def _is(verb: Verb, spec: str) -> Features:
    governs = "dative" if verb.concept == "help" else "accusative"
    return {"verb": verb.concept, "stem": spec, "copula": verb.concept == "be", "governs": governs}


def _finites(verb: Verb, joined: bool) -> Entries:
    """Finite forms, with the prefix where it stands at the end of a subordinate clause.

    The present speaks of the future where an adverb says so (`timed`).
    """
    for spec in verb.forms["de"]:
        table = conjugate(spec)
        prefix = table.prefix if joined else ""
        features: Features = {**_is(verb, spec), "modal": None, "separable": bool(table.prefix) and not joined}
        tenses = {"present": table.present, "progressive": table.present, "past": table.past, "future": table.present}
        for tense, forms in tenses.items():
            timed = {"timed": True} if tense == "future" else {}
            for agreement, form in zip(AGREEMENTS, forms, strict=True):
                if form:
                    yield prefix + form, {**features, **timed, "tense": tense, "agreement": agreement}


def _rests(verb: Verb) -> Entries:
    for spec in verb.forms["de"]:
        table = conjugate(spec)
        yield table.infinitive, {**_is(verb, spec), "form": "infinitive"}
        if verb.concept not in ("be", "have"):
            yield table.participle, {**_is(verb, spec), "form": table.auxiliary}


def _auxiliaries() -> Entries:
    rows: list[tuple[str, str | None, str, list[str]]] = [
        ("past", None, "haben", HABEN), ("past", None, "sein", SEIN), ("future", None, "infinitive", WERDEN),
    ]  # fmt: skip
    for modal, (present, polite, stem) in MODALS.items():
        rows += [("present", modal, "infinitive", forms.split()) for forms in (present, polite) if forms]
        rows += [("past", modal, "infinitive", [stem + ending for ending in ["te", "test", "te", "ten", "tet", "ten"]])]
    for tense, chained, form, forms in rows:
        for agreement, finite in zip(AGREEMENTS, forms, strict=True):
            yield finite, {"tense": tense, "modal": chained, "form": form, "agreement": agreement}


def _trades(lexicon: Lexicon) -> Entries:
    for noun in lexicon.nouns.values():
        for spec in noun.forms["de"] if noun.is_a("trade") else ():
            one, gender, many = spec.split()
            for num, form, none in (("singular", one, "keine" if gender == "f" else "kein"), ("plural", many, "keine")):
                features = {"object": NounPhrase(noun.concept, num, "a")}
                yield form, {**features, "scope": "positive"}
                yield f"{none} {form}", {**features, "scope": "negative"}


def _times(lexicon: Lexicon) -> Entries:
    for frequency in (False, True):
        for form, time in lexicon.time_forms("de", frequency):
            yield form, {"time": time, "timed": lexicon.times[time].kinds == ("future",)}


def _relatives() -> Entries:
    for column, row in ARTICLES.items():
        yield row.split()[0], {"number": "plural"} if column == "plural" else {"number": "singular", "gender": column}


def leaves(lexicon: Lexicon) -> dict[str, Leaf]:
    """The tables of German forms."""
    verbs = lexicon.verbs.values()
    prefixes = ((conjugate(s).prefix, {"verb": v.concept, "stem": s}) for v in verbs for s in v.forms["de"])
    return {
        "TIME": Leaf("time", _times(lexicon)),
        "MANNER": Leaf("manner", ((form, {"manner": m}) for form, m in lexicon.manner_forms("de"))),
        "PLACE": Leaf("place", ((form, {"place": p}) for form, p in lexicon.place_forms("de"))),
        "PRONOUN": Leaf("head", _pronouns(), is_head=True),
        "NAME": Leaf("head", ((name, {"head": name}) for name in lexicon.names), is_head=True),
        "NOUN": Leaf("head", _nouns(lexicon), is_head=True),
        "DETERMINER": Leaf("determiner", _determiners()),
        "ADJECTIVE": Leaf("adjective", _adjectives(lexicon)),
        "PREDICATE": Leaf("adjective", _predicates(lexicon)),
        "FINITE": Leaf("verb", (entry for verb in verbs for entry in _finites(verb, False)), is_head=True),
        "LAST": Leaf("verb", (entry for verb in verbs for entry in _finites(verb, True)), is_head=True),
        "PREFIX": Leaf("verb", ((form, features) for form, features in prefixes if form)),
        "REST": Leaf("verb", (entry for verb in verbs for entry in _rests(verb)), is_head=True),
        "AUXILIARY": Leaf("tense", _auxiliaries()),
        "NEVER": Leaf("polarity", (("nie", {"polarity": "never"}), ("niemals", {"polarity": "never"}))),
        "TRADE": Leaf("object", _trades(lexicon)),
        "WHO": Leaf("number", _relatives()),
    }
