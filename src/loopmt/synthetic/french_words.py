"""French words in all their forms, before spelling contracts and elides them (see `french`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from loopmt.synthetic.grammar import Features, Leaf
from loopmt.synthetic.lexicon import PERSONS, Lexicon, Verb, genders, number
from loopmt.synthetic.meaning import NounPhrase

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
    """-t-elle: the subject itself, or a repetition of the noun before the verb."""
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
    """Forms before an infinitive: va, veut, peut, doit."""
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


AGREEMENTS = ("1s", "2s", "3s", "1p", "2p", "3p")
ETRE_VERBS = {"aller", "arriver", "venir", "partir", "tomber", "entrer", "retourner", "rester"}

# je, tu, il, nous, vous, ils of irregular verbs
PRESENTS = {
    "être": "suis es est sommes êtes sont",
    "avoir": "ai as a avons avez ont",
    "aller": "vais vas va allons allez vont",
    "dire": "dis dis dit disons dites disent",
    "voir": "vois vois voit voyons voyez voient",
    "croire": "crois crois croit croyons croyez croient",
    "boire": "bois bois boit buvons buvez boivent",
    "lire": "lis lis lit lisons lisez lisent",
    "rire": "ris ris rit rions riez rient",
    "sourire": "souris souris sourit sourions souriez sourient",
    "écrire": "écris écris écrit écrivons écrivez écrivent",
    "savoir": "sais sais sait savons savez savent",
    "venir": "viens viens vient venons venez viennent",
    "partir": "pars pars part partons partez partent",
    "dormir": "dors dors dort dormons dormez dorment",
    "courir": "cours cours court courons courez courent",
    "ouvrir": "ouvre ouvres ouvre ouvrons ouvrez ouvrent",
    "connaître": "connais connais connaît connaissons connaissez connaissent",
    "peindre": "peins peins peint peignons peignez peignent",
    "comprendre": "comprends comprends comprend comprenons comprenez comprennent",
    "apprendre": "apprends apprends apprend apprenons apprenez apprennent",
    "construire": "construis construis construit construisons construisez construisent",
    "poursuivre": "poursuis poursuis poursuit poursuivons poursuivez poursuivent",
    "vouloir": "veux veux veut voulons voulez veulent",
    "pouvoir": "peux peux peut pouvons pouvez peuvent",
    "devoir": "dois dois doit devons devez doivent",
}
FUTURES = {
    "être": "ser", "avoir": "aur", "aller": "ir", "voir": "verr", "savoir": "saur", "venir": "viendr",
    "courir": "courr", "envoyer": "enverr", "acheter": "achèter", "appeler": "appeller",
    "nettoyer": "nettoier", "payer": "paier",
}  # fmt: skip
PARTICIPLES = {
    "être": "été", "avoir": "eu", "dire": "dit", "voir": "vu", "croire": "cru", "boire": "bu", "lire": "lu",
    "rire": "ri", "sourire": "souri", "écrire": "écrit", "savoir": "su", "venir": "venu", "courir": "couru",
    "ouvrir": "ouvert", "connaître": "connu", "peindre": "peint", "comprendre": "compris",
    "apprendre": "appris", "construire": "construit", "poursuivre": "poursuivi",
}  # fmt: skip


@dataclass(frozen=True)
class FrenchConjugation:
    present: tuple[str, ...]
    imperfect: tuple[str, ...]
    future: tuple[str, ...]
    participle: str
    auxiliary: str


def conjugate(infinitive: str) -> FrenchConjugation:
    present = _present(infinitive)
    stem = {"être": "ét"}.get(infinitive, present[3][:-3])
    soft = stem.rstrip("e") if infinitive.endswith("ger") else stem.replace("ç", "c")
    endings = ("ais", "ais", "ait", "ions", "iez", "aient")
    imperfect = [(stem if ending[0] == "a" else soft) + ending for ending in endings]
    future = FUTURES.get(infinitive, infinitive.removesuffix("e"))
    return FrenchConjugation(
        present,
        tuple(imperfect),
        tuple(future + ending for ending in ["ai", "as", "a", "ons", "ez", "ont"]),
        PARTICIPLES.get(infinitive) or _participle(infinitive),
        "être" if infinitive in ETRE_VERBS else "avoir",
    )


def _participle(infinitive: str) -> str:
    return infinitive[:-2] + {"er": "é", "ir": "i", "re": "u"}[infinitive[-2:]]


def _present(infinitive: str) -> tuple[str, ...]:
    """Regular groups, with the spelling changes of manger, lancer, acheter, appeler, nettoyer."""
    if infinitive in PRESENTS:
        return tuple(PRESENTS[infinitive].split())
    stem, group = infinitive[:-2], infinitive[-2:]
    if group == "re":
        return tuple(stem + ending for ending in ("s", "s", "", "ons", "ez", "ent"))
    if group == "ir":
        return tuple(stem + ending for ending in ("is", "is", "it", "issons", "issez", "issent"))
    weak = stem[:-1] + "i" if stem.endswith("y") else {"achet": "achèt", "appel": "appell"}.get(stem, stem)
    nous = stem[:-1] + "ç" if stem.endswith("c") else stem + "e" if stem.endswith("g") else stem
    return (weak + "e", weak + "es", weak + "e", nous + "ons", stem + "ez", weak + "ent")
