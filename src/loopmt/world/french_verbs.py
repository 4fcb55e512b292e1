"""How French verbs are conjugated."""

from __future__ import annotations

from dataclasses import dataclass

AGREEMENTS = ("1s", "2s", "3s", "1p", "2p", "3p")
ETRE_VERBS = {"aller", "arriver", "venir", "partir", "tomber", "entrer", "retourner", "rester"}

# je, tu, il, nous, vous, ils of the verbs that follow no rule
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
