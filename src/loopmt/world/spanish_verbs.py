"""How Spanish verbs are conjugated."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
