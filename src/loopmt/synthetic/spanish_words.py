"""Spanish words in all their forms, before spelling contracts them (see `spanish`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from loopmt.synthetic.grammar import Features, Leaf
from loopmt.synthetic.lexicon import PERSONS, Lexicon, Verb, Word, genders, number
from loopmt.synthetic.meaning import NounPhrase

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


def _dropped_subjects() -> Entries:
    """Subjects that only the verb form expresses."""
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
    """Infinitives with features; "be" is two verbs, and "have" does not take the "a" of persons."""
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
    """Forms before an infinitive or a gerund: va a, está, quiere, puede, tiene que."""
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
        "SILENT": Leaf("subject", _dropped_subjects(), is_head=True),
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


AGREEMENTS = ("1s", "2s", "3s", "1p", "2p", "3p")
PRESENT = {"ar": "o as a amos áis an", "er": "o es e emos éis en", "ir": "o es e imos ís en"}
PRETERITE = {"ar": "é aste ó amos asteis aron"} | dict.fromkeys(("er", "ir"), "í iste ió imos isteis ieron")
IMPERFECT = {"ar": "aba abas aba ábamos abais aban"} | dict.fromkeys(("er", "ir"), "ía ías ía íamos íais ían")

PRESENTS = {
    "ser": "soy eres es somos sois son",
    "estar": "estoy estás está estamos estáis están",
    "ir": "voy vas va vamos vais van",
    "dar": "doy das da damos dais dan",
    "ver": "veo ves ve vemos veis ven",
    "tener": "tengo tienes tiene tenemos tenéis tienen",
    "venir": "vengo vienes viene venimos venís vienen",
    "decir": "digo dices dice decimos decís dicen",
    "oír": "oigo oyes oye oímos oís oyen",
    "reír": "río ríes ríe reímos reís ríen",
    "sonreír": "sonrío sonríes sonríe sonreímos sonreís sonríen",
    "jugar": "juego juegas juega jugamos jugáis juegan",
    "construir": "construyo construyes construye construimos construís construyen",
    "enviar": "envío envías envía enviamos enviáis envían",
    "querer": "quiero quieres quiere queremos queréis quieren",
    "poder": "puedo puedes puede podemos podéis pueden",
}
FIRST_PERSONS = {"salir": "salgo", "caer": "caigo", "traer": "traigo", "conocer": "conozco", "saber": "sé"}
PRETERITES = {
    "ser": "fui fuiste fue fuimos fuisteis fueron",
    "ir": "fui fuiste fue fuimos fuisteis fueron",
    "dar": "di diste dio dimos disteis dieron",
    "ver": "vi viste vio vimos visteis vieron",
    "venir": "vine viniste vino vinimos vinisteis vinieron",
    "traer": "traje trajiste trajo trajimos trajisteis trajeron",
    "decir": "dije dijiste dijo dijimos dijisteis dijeron",
    "reír": "reí reíste rio reímos reísteis rieron",
    "sonreír": "sonreí sonreíste sonrió sonreímos sonreísteis sonrieron",
    "construir": "construí construiste construyó construimos construisteis construyeron",
}
IMPERFECTS = {"ser": "era eras era éramos erais eran", "ir": "iba ibas iba íbamos ibais iban"}
FUTURES = {
    "tener": "tendr", "venir": "vendr", "salir": "saldr", "saber": "sabr", "decir": "dir", "querer": "querr",
    "oír": "oir", "reír": "reir", "sonreír": "sonreir",
}  # fmt: skip
GERUNDS = {
    "ir": "yendo", "oír": "oyendo", "reír": "riendo", "sonreír": "sonriendo", "caer": "cayendo",
    "traer": "trayendo", "leer": "leyendo", "creer": "creyendo", "construir": "construyendo", "venir": "viniendo",
    "decir": "diciendo",
}  # fmt: skip


@dataclass(frozen=True)
class SpanishConjugation:
    infinitive: str
    present: tuple[str, ...]
    preterite: tuple[str, ...]
    imperfect: tuple[str, ...]
    future: tuple[str, ...]
    gerund: str


def conjugate(spec: str) -> SpanishConjugation:
    """All forms of "comer", "dormir ue" (duermo), "pedir i"."""
    verb, _, change = spec.partition(" ")
    stem, group = verb[:-2], verb[-2:].replace("í", "i")
    imperfect = IMPERFECTS.get(verb) or _join("ve" if verb == "ver" else stem, IMPERFECT[group])
    weak = _shift(stem, {"ue": "u", "ie": "i", "i": "i"}.get(change, "")) if group == "ir" else stem
    return SpanishConjugation(
        verb,
        _present(verb, stem, group, change),
        _preterite(verb, stem, weak, group),
        tuple(imperfect.split()),
        tuple(FUTURES.get(verb, verb) + ending for ending in ["é", "ás", "á", "emos", "éis", "án"]),
        GERUNDS.get(verb) or weak + ("ando" if group == "ar" else "iendo"),
    )


def _join(stem: str, endings: str) -> str:
    return " ".join(stem + ending for ending in endings.split())


def _shift(stem: str, vowel: str) -> str:
    """The last vowel of the stem changed: perd to pierd, segu to sigu."""
    if not vowel:
        return stem
    return re.sub(r"[eo](?=[^aeio]*$)", vowel, stem)


def _present(verb: str, stem: str, group: str, change: str) -> tuple[str, ...]:
    if verb in PRESENTS:
        return tuple(PRESENTS[verb].split())
    strong = _shift(stem, change)
    endings = PRESENT[group].split()
    forms = [(stem if i in (3, 4) else strong) + ending for i, ending in enumerate(endings)]
    if verb.endswith(("ger", "gir")):
        forms[0] = strong[:-1] + "jo"
    if verb.endswith("guir"):
        forms[0] = strong[:-1] + "o"
    return (FIRST_PERSONS.get(verb, forms[0]), *forms[1:])


def _preterite(verb: str, stem: str, weak: str, group: str) -> tuple[str, ...]:
    if verb in PRETERITES:
        return tuple(PRETERITES[verb].split())
    forms = [(weak if i in (2, 5) else stem) + ending for i, ending in enumerate(PRETERITE[group].split())]
    if verb[-3:] in ("car", "gar", "zar"):
        forms[0] = stem[:-1] + {"c": "qu", "g": "gu", "z": "c"}[stem[-1]] + "é"
    if verb in ("leer", "creer", "caer", "oír"):
        return tuple(stem + ending for ending in ["í", "íste", "yó", "ímos", "ísteis", "yeron"])
    return tuple(forms)
