"""Three toy languages of a few words, each with its own word order, and one tiny experiment on them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from loopmt.rng import numpy_generator

WORDS = {  # nouns, adjectives, verbs, article and full stop, adverbs
    "en": "cat dog bird fish child king | red old small kind | sees hears likes finds | the . | today often never",
    "fr": "chat chien oiseau poisson enfant roi | rouge vieux petit gentil | voit entend aime trouve | le . | "
    "aujourd'hui souvent jamais",
    "es": "gato perro pájaro pez niño rey | rojo viejo pequeño amable | ve oye quiere encuentra | el . | "
    "hoy siempre nunca",
}
ORDERS = {  # of article 0, subject 1, its adjective 2, verb 3, object 4, its adjective 5, adverb 6
    "en": (0, 2, 1, 3, 0, 5, 4, 6),
    "fr": (0, 1, 2, 6, 3, 0, 4, 5),
    "es": (6, 3, 0, 1, 2, 0, 4, 5),
}
EXPERIMENT = """
languages = ["en", "fr", "es"]
seed = 1

[data]
root = "text"
bitext = { "en-fr" = "bi.en-fr", "en-es" = "bi.en-es", "fr-es" = "bi.fr-es" }
mono = { en = "mono", fr = "mono", es = "mono" }
valid = "valid"
test = "test"

[vocab]
size = 360

[model]
preset = "tiny"
layers = 1
width = 32
feed_forward = 64
heads = 2
dropout = 0.0

[train]
tokens = 512
max_length = 40
shapes = 2
round = 8
learning_rate = 0.01
warmup = 20
validate_every = 60
validate_sentences = 16
log_every = 20
continued = { learning_rate = 1e-3, warmup = 4 }

[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 120

[[stage]]
name = "vanilla-longer"
from = "vanilla"
mix = ["X>Y"]
updates = 16

[[stage]]
name = "dual"
from = "vanilla"
mix = ["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }]
updates = 16

[[compare]]
of = "dual"
against = "vanilla-longer"
"""

Meaning = tuple[int, ...]


def say(meaning: Meaning, language: str) -> str:
    """A sentence of a toy language: word by word, in the language's order."""
    nouns, adjectives, verbs, fixed, adverbs = (kind.split() for kind in WORDS[language].split("|"))
    subject, adjective, verb, thing, other, adverb = meaning
    places = [fixed[0], nouns[subject], adjectives[adjective], verbs[verb], nouns[thing], adjectives[other]]
    words = [*places, adverbs[adverb]]
    sentence = " ".join(words[place] for place in ORDERS[language])
    return sentence[0].upper() + sentence[1:] + fixed[1]


def draw_meanings(count: int) -> list[Meaning]:
    everything = list(itertools.product(range(6), range(4), range(4), range(6), range(4), range(3)))
    order = numpy_generator("toy", "meanings").permutation(len(everything))
    return [everything[place] for place in order[:count]]


def write_side(folder: Path, name: str, language: str, meanings: Sequence[Meaning]) -> None:
    text = "".join(say(meaning, language) + "\n" for meaning in meanings)
    (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def write_corpora(folder: Path) -> None:
    folder.mkdir(parents=True)
    meanings = iter(draw_meanings(2000))
    for pair in ("en-fr", "en-es", "fr-es"):
        own = list(itertools.islice(meanings, 240))
        for language in pair.split("-"):
            write_side(folder, f"bi.{pair}", language, own)
    for language in WORDS:
        write_side(folder, "mono", language, list(itertools.islice(meanings, 240)))
    for name in ("valid", "test"):
        own = list(itertools.islice(meanings, 40))
        for language in WORDS:
            write_side(folder, name, language, own)
