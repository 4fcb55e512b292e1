"""The built-in languages: generated sentences parse to their meanings, and other text is rejected."""

from __future__ import annotations

import time
from itertools import islice, permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.facts import refused
from loopmt.errors import DataError
from loopmt.rng import numpy_generator
from loopmt.synthetic import LANGUAGES, SIZES, Clause, Meaning, NounPhrase, Relative, World, english, write_corpora
from loopmt.synthetic.families import Words
from loopmt.synthetic.lexicon import Lexicon
from loopmt.synthetic.sense import Sense
from loopmt.synthetic.space import Space

WORLDS = {size: World(size) for size in SIZES}
FULL = WORLDS["full"]
ONE, MANY = "singular", "plural"

seeds = st.integers(min_value=0, max_value=10**9)
unhurried = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def noun(head: str, determiner: str = "the", number: str = ONE, adjective: str | None = None) -> NounPhrase:
    return NounPhrase(head, number, determiner, adjective)


def who(head: str, number: str = ONE) -> NounPhrase:
    return NounPhrase(head, number)


EMMA_AND_DOG = NounPhrase("and", MANY, first=who("Emma"), second=noun("dog"))
SELLER = NounPhrase("man", ONE, "the", relative=Relative("sell", "past", noun("bench")))
FLOWERS = noun("flower", "a", MANY, "beautiful")
HE_OPENED = Clause(who("he"), "open", "past", object=noun("window"))
I_WAS_ILL = Clause(who("I_f"), "be", "past", adjective="ill")

# meaning, and some sentences of it in English, French, Spanish and German, checked by hand
SAID: list[tuple[Meaning, list[str], list[str], list[str], list[str]]] = [
    (
        Clause(noun("cat", adjective="old"), "see", "past", object=noun("bird", "a", MANY)),
        ["The old cat saw birds.", "The old cat saw some birds."],
        ["Le vieux chat a vu des oiseaux."],
        ["El gato viejo vio pájaros.", "El gato viejo vio unos pájaros."],
        ["Die alte Katze sah Vögel.", "Die alte Katze hat einige Vögel gesehen."],
    ),
    (
        Clause(who("she"), "eat", "progressive", "not", object=noun("apple", "a")),
        ["She is not eating an apple.", "She isn't eating an apple.", "She's not eating an apple."],
        ["Elle ne mange pas de pomme."],
        ["No come ninguna manzana.", "Ella no está comiendo una manzana."],
        ["Sie isst keinen Apfel."],
    ),
    (
        Clause(noun("woman"), "drink", "past", object=noun("water", "a")),
        ["The woman drank water.", "The woman drank some water."],
        ["La femme a bu de l'eau."],
        ["La mujer bebió agua."],
        ["Die Frau trank Wasser.", "Die Frau hat Wasser getrunken."],
    ),
    (
        Clause(who("he"), "give", "past", object=who("it"), recipient=who("she")),
        ["He gave it to her."],
        ["Il le lui a donné.", "Il la lui a donnée."],
        ["Se lo dio.", "Él se la dio."],
        ["Er gab es ihr.", "Er hat ihn ihr gegeben."],
    ),
    (
        Clause(noun("boy"), "give", "future", object=FLOWERS, recipient=noun("teacher_f")),
        ["The boy will give the teacher beautiful flowers.", "The boy will give beautiful flowers to the teacher."],
        ["Le garçon donnera de belles fleurs à la professeure."],
        ["El niño le dará flores hermosas a la profesora.", "El chico va a dar unas hermosas flores a la profesora."],
        ["Der Junge wird der Lehrerin schöne Blumen geben."],
    ),
    (
        Clause(who("thou_f"), "arrive", "past", question=True),
        ["Did you arrive?"],
        ["Tu es arrivée ?", "Es-tu arrivée ?", "Est-ce que tu es arrivée ?"],
        ["¿Llegaste?", "¿Llegaste tú?"],
        ["Bist du angekommen?"],
    ),
    (
        Clause(noun("friend_f", "my", MANY), "be", "present", "not", adjective="tired", time="today"),
        ["My friends aren't tired today.", "Today, my friends are not tired."],
        ["Mes amies ne sont pas fatiguées aujourd'hui.", "Aujourd'hui, mes amies ne sont pas fatiguées."],
        ["Mis amigas no están cansadas hoy."],
        ["Heute sind meine Freundinnen nicht müde.", "Meine Freundinnen sind heute nicht müde."],
    ),
    (
        Clause(who("you_m"), "be", "present", question=True, object=noun("doctor_m", "a")),
        ["Are you a doctor?"],
        ["Êtes-vous médecin ?", "Vous êtes médecin ?"],
        ["¿Es usted médico?", "¿Es médico?"],
        ["Sind Sie Arzt?"],
    ),
    (
        Clause(SELLER, "sleep", "past"),
        ["The man who sold the bench slept."],
        ["L'homme qui a vendu le banc a dormi."],
        ["El hombre que vendió el banco durmió."],
        ["Der Mann, der die Bank verkauft hat, schlief."],
    ),
    (
        Clause(who("Emma"), "think", "present", content=HE_OPENED),
        ["Emma thinks that he opened the window.", "Emma thinks he opened the window."],
        ["Emma pense qu'il a ouvert la fenêtre."],
        ["Emma piensa que abrió la ventana."],
        ["Emma denkt, dass er das Fenster geöffnet hat.", "Emma denkt, dass er das Fenster aufmachte."],
    ),
    (
        Clause(who("I_f"), "sleep", "past", reason=I_WAS_ILL),
        ["I slept because I was ill.", "I slept because I was sick."],
        ["J'ai dormi parce que j'étais malade."],
        ["Dormí porque estaba enferma."],
        ["Ich schlief, weil ich krank war."],
    ),
    (
        Clause(who("who"), "look_for", "past", question=True, object=noun("key", "my", MANY)),
        ["Who looked for my keys?"],
        ["Qui a cherché mes clés ?", "Qui a cherché mes clefs ?"],
        ["¿Quién buscó mis llaves?"],
        ["Wer hat meine Schlüssel gesucht?", "Wer suchte meine Schlüssel?"],
    ),
    (
        Clause(who("they_f", MANY), "go", "present", question=True, place="to where"),
        ["Where do they go?"],
        ["Où vont-elles ?", "Où est-ce qu'elles vont ?"],
        ["¿Adónde van ellas?", "¿Adónde van?"],
        ["Wohin gehen sie?"],
    ),
    (
        Clause(who("we_m", MANY), "read", "present", modal="want", object=noun("book", "this", ONE, "new")),
        ["We want to read this new book."],
        ["Nous voulons lire ce nouveau livre."],
        ["Queremos leer este libro nuevo.", "Nosotros queremos leer este libro nuevo."],
        ["Wir wollen dieses neue Buch lesen.", "Wir möchten dieses neue Buch lesen."],
    ),
    (
        Clause(EMMA_AND_DOG, "sleep", "past", place="at garden", time="yesterday"),
        ["Yesterday, Emma and the dog slept in the garden.", "Emma and the dog slept in the garden yesterday."],
        ["Emma et le chien ont dormi dans le jardin hier."],
        ["Ayer Emma y el perro durmieron en el jardín."],
        ["Gestern haben Emma und der Hund im Garten geschlafen."],
    ),
    (
        Clause(noun("child", "the", MANY), "dance", "past", "not", manner="well"),
        ["The children did not dance well.", "The children didn't dance well."],
        ["Les enfants n'ont pas bien dansé."],
        ["Los niños no bailaron bien."],
        ["Die Kinder haben nicht gut getanzt.", "Die Kinder tanzten nicht gut."],
    ),
    (
        Clause(noun("man", "two", MANY, "old"), "help", "present", object=noun("girl"), time="often"),
        ["Two old men often help the girl."],
        ["Deux vieux hommes aident souvent la fille."],
        ["Dos hombres viejos ayudan a menudo a la niña."],
        ["Zwei alte Männer helfen dem Mädchen oft.", "Oft helfen zwei alte Männer dem Mädchen."],
    ),
    (
        Clause(who("ye_m", MANY), "see", "past", "never", object=noun("wolf", "a")),
        ["You never saw a wolf."],
        ["Vous n'avez jamais vu de loup."],
        ["Nunca visteis un lobo.", "No visteis nunca a ningún lobo."],
        ["Ihr habt nie einen Wolf gesehen."],
    ),
    (
        Clause(who("thou_m"), "carry", "present", "not", modal="can", object=who("it")),
        ["You can't carry it.", "You cannot carry it."],
        ["Tu ne peux pas le porter.", "Tu ne peux pas la porter."],
        ["No puedes llevarlo.", "No la puedes llevar."],
        ["Du kannst es nicht tragen."],
    ),
]  # fmt: skip

# sentences and how many meanings they have, where another language decides
AMBIGUOUS = [
    ("en", "You are tired.", 6),  # familiar, polite or several; men or women
    ("en", "The friend laughed.", 2),  # ami or amie
    ("en", "The sheep slept.", 2),  # one or several
    ("en", "I read the letter.", 4),  # now or then; a man or a woman
    ("fr", "Elle voit son chien.", 2),  # his or her dog
    ("fr", "Il porte un manteau.", 4),  # carries or wears; now or always
    ("fr", "Je la vois.", 4),  # her or it
    ("fr", "La soupe est chaude.", 2),  # hot or warm
    ("es", "Estaba cansado.", 3),  # I, he or you
    ("es", "Abrimos la puerta.", 4),  # now or then
    ("es", "El niño ríe.", 4),  # the boy or the child
    ("es", "Ve su perro.", 16),  # who, and whose
    ("de", "Sie sieht die Uhr.", 2),  # the clock or the watch
    ("de", "Das Buch ist schwer.", 2),  # heavy or difficult
    ("de", "Das Schloss ist alt.", 2),  # the castle or the lock
    ("de", "Ihre Katze schläft.", 6),  # her, their or your cat
    ("de", "Wir hören das Lied.", 6),  # hear, or listen to
    ("en", "She sees the clock.", 1),
    ("fr", "Elle a vu la montre.", 1),
    ("es", "La niña bebió agua.", 1),
    ("de", "Der Lehrer sah den Wolf.", 1),
]

NOT_SENTENCES = {
    "en": [
        "She eat the bread.", "She eats bread the.", "He sleep not.", "A apple is red.", "An book is red.",
        "The cats sleeps.", "Does she sleeps?", "She sleeps", "she sleeps.", "She  sleeps.", "She sleeps?",
        "The table drinks the milk.", "I sees him.", "Him sees I.", "She don't sleep.", "The childs sleep.",
        "She is knowing him.", "Yesterday she will sleep.", "Her aunts will be some teachers.", "Sleeps.", "", "?",
    ],
    "fr": [
        "Le femme dort.", "La homme dort.", "Le homme dort.", "Je ai dormi.", "Elle est arrivé.", "Elle a arrivée.",
        "Elle mange pas le pain.", "Elle ne mange le pain.", "Il a vu la.", "Il le voit pas.", "Les femme dorment.",
        "Les femmes dort.", "Elle dort?", "Mange-elle le pain ?", "Il va à le marché.", "Il boit de le lait.",
        "Elle voit un rouge chapeau.", "Elle a vu un vieux arbre.", "Elle ne mange pas une pomme.", "Ma amie dort.",
        "Il est un médecin.", "Elle les a vu.",
    ],
    "es": [
        "La hombre duerme.", "El mujer duerme.", "Las mujeres duerme.", "Ella no come ningún manzana.", "Come?",
        "Ella ve la mujer.", "Ella ve a la puerta.", "Ella es cansada.", "Ella está alta.", "Ve lo.",
        "Lo ve él el libro.", "Va a el mercado.", "Duerme el gato.", "La agua es fría.", "Ella duerme no.",
        "¿Duerme ella.", "Ella duermes.", "Le lo da.", "Él tiene a un perro.", "Yo dormo.",
    ],
    "de": [
        "Die Mann schläft.", "Der Mann sieht der Hund.", "Der Mann helft dem Kind.", "Der Mann hilft das Kind.",
        "Heute der Mann schläft.", "Der Mann hat gesehen den Hund.", "Er denkt, dass sie schläft heute.",
        "Er denkt dass sie schläft.", "Er aufmacht die Tür.", "Er macht die Tür.", "Sie sieht ein Hund.",
        "Der alter Mann schläft.", "Ein alte Mann schläft.", "Er sieht nicht einen Hund.", "Er hat gegangen.",
        "er schläft.", "Er Schläft.", "Der mann schläft.", "Ich sehe den Junge.", "Er ist in die Schule.",
        "Schläft er.",
    ],
}  # fmt: skip


@pytest.mark.parametrize("meaning, en, fr, es, de", SAID)
def test_hand_checked_sentences(meaning: Meaning, en: list[str], fr: list[str], es: list[str], de: list[str]) -> None:
    for code, expected in zip(LANGUAGES, (en, fr, es, de), strict=True):
        assert set(expected) <= set(FULL.sentences(meaning, code))
        assert all(meaning in FULL.meanings(sentence, code) for sentence in expected)


@pytest.mark.parametrize("code, sentence, count", AMBIGUOUS)
def test_ambiguous_sentences(code: str, sentence: str, count: int) -> None:
    assert len(FULL.meanings(sentence, code)) == count


@pytest.mark.parametrize("code, sentence", [(code, s) for code, rows in NOT_SENTENCES.items() for s in rows])
def test_what_is_not_a_sentence_has_no_meaning(code: str, sentence: str) -> None:
    assert FULL.meanings(sentence, code) == frozenset()


@pytest.mark.parametrize(
    "source, translation, right",
    [
        (("en", "You are tired."), ("fr", "Tu es fatiguée."), True),
        (("en", "You are tired."), ("de", "Ihr seid müde."), True),
        (("fr", "Tu es fatiguée."), ("es", "Está cansada."), False),
        (("fr", "Elle porte un manteau."), ("en", "She is wearing a coat."), True),
        (("fr", "Elle porte un manteau."), ("en", "She carries a coat."), True),
        (("en", "She is wearing a coat."), ("en", "She carries a coat."), False),
        (("de", "Sie schlafen."), ("es", "Ellas duermen."), True),
        (("de", "Sie schlafen."), ("es", "Ella duerme."), False),
        (("en", "She sleeps."), ("fr", "Elle dort pas."), False),
        (("en", "Nonsense."), ("en", "Nonsense."), False),
    ],
)
def test_agreement(source: tuple[str, str], translation: tuple[str, str], right: bool) -> None:
    assert FULL.agree(source[1], source[0], translation[1], translation[0]) is right


@pytest.mark.parametrize("size", SIZES)
def test_every_sentence_of_a_meaning_parses_to_it(size: str) -> None:
    world = WORLDS[size]
    for meaning in world.draw_meanings(40, 11):
        for code in LANGUAGES:
            cluster = world.sentences(meaning, code)
            assert cluster, (meaning, code)
            assert all(meaning in world.meanings(sentence, code) for sentence in cluster), (cluster, code)


@pytest.mark.parametrize("size", SIZES)
def test_every_meaning_of_a_sentence_generates_it(size: str) -> None:
    world, choices = WORLDS[size], numpy_generator(3, "sound")
    for meaning in world.draw_meanings(25, 12):
        for code in LANGUAGES:
            sentence = world.sentence(meaning, code, choices)
            assert all(sentence in world.sentences(other, code) for other in world.meanings(sentence, code))


@unhurried
@given(seed=seeds, size=st.sampled_from(SIZES))
def test_translations_agree_in_all_directions(seed: int, size: str) -> None:
    world, choices = WORLDS[size], numpy_generator(seed)
    for meaning in world.draw_meanings(2, seed):
        said = {code: world.sentence(meaning, code, choices) for code in LANGUAGES}
        for source, target in permutations(LANGUAGES, 2):
            assert world.agree(said[source], source, said[target], target)


@settings(unhurried, max_examples=60)
@given(seed=seeds, code=st.sampled_from(LANGUAGES), data=st.data())
def test_a_damaged_sentence_is_judged_exactly(seed: int, code: str, data: st.DataObject) -> None:
    """After words are dropped, doubled or exchanged, a sentence has exactly the meanings that it parses to."""
    words = FULL.sentence(FULL.draw_meanings(1, seed % 50)[0], code, numpy_generator(seed)).split()
    words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.sampled_from([*words, "", "la", "not", "die"]))
    sentence = " ".join(word for word in data.draw(st.permutations(words)) if word)
    for candidate in (sentence, " ".join(word for word in words if word)):
        assert all(candidate in FULL.sentences(meaning, code) for meaning in FULL.meanings(candidate, code))


@settings(unhurried, max_examples=100)
@given(text=st.text(max_size=60), code=st.sampled_from(LANGUAGES))
def test_any_text_can_be_parsed(text: str, code: str) -> None:
    assert all(text in FULL.sentences(meaning, code) for meaning in FULL.meanings(text, code))


@pytest.mark.parametrize("size", SIZES)
def test_most_meanings_have_several_sentences(size: str) -> None:
    world = WORLDS[size]
    clusters = [len(world.sentences(m, code)) for m in world.draw_meanings(60, 13) for code in LANGUAGES]
    assert sum(count > 1 for count in clusters) > 0.6 * len(clusters)


@pytest.mark.parametrize("size", SIZES)
def test_drawn_meanings_share_no_sentence(size: str) -> None:
    world = WORLDS[size]
    owner: dict[tuple[str, str], int] = {}
    for number, meaning in enumerate(world.draw_meanings(150, 14)):
        assert world.sense.sensible(meaning)
        for code in LANGUAGES:
            for sentence in world.sentences(meaning, code):
                assert owner.setdefault((code, sentence), number) == number, sentence


def test_draws_depend_on_the_key_alone() -> None:
    world = WORLDS["small"]
    assert world.draw_meanings(40, 1) == World("small").draw_meanings(60, 1)[:40]
    assert world.draw_meanings(40, 1) != world.draw_meanings(40, 2)
    assert len(set(world.draw_meanings(400, 1))) == 400


def test_sizes_grow() -> None:
    spaces = [len(WORLDS[size].space) for size in SIZES]
    words = [len(WORLDS[size].lexicon.nouns) + len(WORLDS[size].lexicon.verbs) for size in SIZES]
    assert spaces == sorted(spaces) and spaces[0] > 1_000_000
    assert words == sorted(words) and words[0] < 40 and words[2] > 200


def test_a_smaller_world_has_fewer_words() -> None:
    assert FULL.meanings("The wolf sleeps.", "en") and not WORLDS["tiny"].meanings("The wolf sleeps.", "en")
    assert FULL.meanings("She sees him.", "en") and not WORLDS["tiny"].meanings("She sees him.", "en")
    assert WORLDS["tiny"].meanings("The cat sleeps.", "en")


def test_the_judge_is_quick() -> None:
    world, choices = World("full"), numpy_generator(5, "quick")
    said = [(world.sentence(m, code, choices), code) for m in FULL.draw_meanings(50, 15) for code in LANGUAGES]
    began = time.process_time()
    for sentence, code in said:
        world.meanings(sentence, code)
    assert (time.process_time() - began) / len(said) < 0.005


def test_an_exhausted_world_raises_an_error() -> None:
    lexicon = Lexicon("tiny")
    lexicon.nouns = {name: lexicon.nouns[name] for name in ("cat", "man")}
    lexicon.verbs = {name: lexicon.verbs[name] for name in ("sleep",)}
    space = Space(lexicon, Words(lexicon, {"en": english.build(lexicon)}), Sense(lexicon))
    with refused(DataError, "tiny", "meanings"):
        list(islice(space.draw(1), 100_000))


def test_errors_name_the_valid_values(tmp_path: Path) -> None:
    with refused(DataError, '"huge"', "tiny, small, full"):
        World("huge")
    with refused(DataError, '"it"', "en, fr, es, de"):
        World("tiny", ("en", "it"))
    with pytest.raises(DataError, match=r'no language "de".* en, fr'):
        World("tiny", ("en", "fr")).meanings("Die Katze schläft.", "de")
    for name in ("en-it", "en-en", "en-fr-es"):
        with pytest.raises(DataError, match=f'cannot write text for "{name}"'):
            write_corpora(tmp_path, WORLDS["tiny"], 1, {name: 5})
