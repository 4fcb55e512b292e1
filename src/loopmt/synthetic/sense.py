"""Which meanings are sensible in a world: who can do what to whom, and which constructions its size has.

The grammar checks syntax, this module semantics. The meanings of a world are exactly the sensible ones; a sentence
without a sensible meaning is not a sentence of the world.
"""

from __future__ import annotations

from math import prod

from loopmt.synthetic.lexicon import COUNTS, MODALS, PERSONS, POSSESSIVES, SIZES, Lexicon, Verb, Word, genders
from loopmt.synthetic.meaning import Clause, Meaning, NounPhrase, Relative

THINGS = ("it", "those")
DEFINITE = ("the", "this", "that", *POSSESSIVES)
PLACED_EVENTS = ("find", "lose", "see", "buy", "sell", "meet", "forget")
UNPLACED = ("travel", "laugh", "smile", "build")
PLACES_OF = {"swim": "water", "buy": "shop", "sell": "shop", "cook": "stove", "prepare": "stove"}
LEVELS = {
    "small": {"object pronoun", "modal", "manner", "place", "recipient"},
    "full": {"never", "pair", "relative", "asked", "trade", "content", "reason"},
}
COMMONNESS = {
    "a": 0.7, "this": 0.4, "that": 0.4, "two": 0.25, "three": 0.25, "many": 0.25, "we": 0.25,
    **dict.fromkeys(POSSESSIVES, 0.35),
}  # fmt: skip
FIRST, SECOND, THIRD = ("I", "we"), ("thou", "you", "ye"), ("he", "she", "it", "they", "those")


def constructions(clause: Clause) -> set[str]:
    """The constructions that a clause uses, beyond those that every size has."""
    parts = (clause.subject, clause.object, clause.recipient)
    heads = {part.head for part in parts if part is not None}
    marks = {
        "object pronoun": clause.object is not None and clause.object.head in PERSONS,
        "modal": clause.modal is not None,
        "manner": clause.manner is not None,
        "place": clause.place is not None,
        "recipient": clause.recipient is not None,
        "never": clause.polarity == "never",
        "pair": "and" in heads,
        "relative": clause.subject.relative is not None,
        "asked": bool(heads & {"who", "what"}) or clause.time == "when" or (clause.place or "").endswith("where"),
        "trade": clause.verb == "be" and clause.object is not None,
        "content": clause.content is not None,
        "reason": clause.reason is not None,
    }
    return {name for name, present in marks.items() if present}


def person_of(head: str) -> str:
    return head.partition("_")[0]


def same_party(one: NounPhrase, other: NounPhrase | None) -> bool:
    """Whether both are the same person, which needs a reflexive pronoun; he and him are different persons."""
    if other is None or person_of(other.head) in THIRD:
        return False
    a, b = person_of(one.head), person_of(other.head)
    heads = {one.head} if one.head != "and" else {part.head for part in (one.first, one.second) if part}
    return other.head in heads or {a, b} <= set(FIRST) or {a, b} <= set(SECOND)


def commonness(clause: Clause) -> float:
    """How likely a drawn meaning is to be kept, so that what is rare in speech is rare in text."""
    heads = [part for part in (clause.subject, clause.object, clause.recipient) if part is not None]
    words = [COMMONNESS.get(part.determiner or person_of(part.head), 1.0) for part in heads]
    return prod(words) * (0.4 if clause.tense == "future" and clause.time is None else 1.0)


class Sense:
    """The judgement of one lexicon."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        level = SIZES.index(lexicon.size)
        self.allowed = {name for size in SIZES[: level + 1] for name in LEVELS.get(size, ())}

    def sensible(self, meaning: Meaning) -> bool:
        """Whether the meaning belongs to the world."""
        if not constructions(meaning) <= self.allowed:
            return False
        if meaning.content is not None:
            return self._content(meaning, meaning.content)
        if meaning.reason is not None:
            return self._reason(meaning, meaning.reason)
        return self._clause(meaning)

    def _clause(self, clause: Clause) -> bool:
        verb = self.lexicon.verbs[clause.verb]
        return (
            self._subject(clause, verb)
            and self._frame(clause, verb)
            and self._timing(clause, verb)
            and self._manner(clause)
            and self._place(clause, verb)
            and self._polarity(clause)
        )

    # who

    def kinds(self, head: str) -> tuple[str, ...]:
        """The kinds of a noun, a name or a pronoun."""
        if head in self.lexicon.nouns:
            return (head, *self.lexicon.nouns[head].kinds)
        return () if head in THINGS else ("person",)

    def is_a(self, phrase: NounPhrase, kinds: tuple[str, ...]) -> bool:
        if phrase.head == "and":
            return all(part is not None and self.is_a(part, kinds) for part in (phrase.first, phrase.second))
        return any(kind in kinds for kind in self.kinds(phrase.head))

    def noun_phrase(self, phrase: NounPhrase) -> bool:
        """Whether the parts of the phrase are compatible."""
        if phrase.head not in self.lexicon.nouns:
            return True
        noun = self.lexicon.nouns[phrase.head]
        if phrase.determiner not in self.lexicon.determiners or phrase.determiner in self._odd_with(noun):
            return False
        if phrase.determiner in COUNTS and phrase.number == "singular":
            return False
        if phrase.determiner in POSSESSIVES and phrase.number == "plural" and noun.is_a("sole"):
            return False
        return phrase.adjective is None or noun.is_a(*self.lexicon.adjectives[phrase.adjective].kinds)

    def _odd_with(self, noun: Word) -> tuple[str, ...]:
        """Determiners that do not occur before the noun: my king, two breads, a mother, our husband."""
        if noun.is_a("spouse"):
            return ("a", *COUNTS, "our", "their", "ye's")
        if noun.is_a("stranger"):
            return POSSESSIVES
        return COUNTS if noun.is_a("mass") else ("a", *COUNTS) if noun.is_a("kin") else ()

    def _subject(self, clause: Clause, verb: Verb) -> bool:
        subject = clause.subject
        if subject.head == "who":
            return clause.question and clause.polarity == "positive" and "person" in verb.subjects
        if subject.head == "what" or (subject.head in THINGS and clause.adjective is None):
            return False
        vague = subject.determiner == "a" and (
            clause.question or clause.polarity != "positive" or self.is_a(subject, ("mass",))
        )
        vague = vague or self._idle(clause)
        fits = subject.head in THINGS or self.is_a(subject, verb.subjects)
        return fits and not vague and self.noun_phrase(subject) and self._pair(subject) and self._relative(clause)

    def _idle(self, clause: Clause) -> bool:
        """Whether the clause is a pointless question about one's own current action."""
        mine = person_of(clause.subject.head) in FIRST and clause.question
        return mine and clause.modal in (None, "want") and clause.tense in ("present", "progressive")

    def _pair(self, phrase: NounPhrase) -> bool:
        if phrase.head != "and":
            return True
        parts = [part for part in (phrase.first, phrase.second) if part is not None]
        plain = all(
            part.head != "and" and part.adjective is None and part.relative is None
            and part.number == "singular" and part.determiner in (None, *DEFINITE) and self.noun_phrase(part)
            for part in parts
        )  # fmt: skip
        friendly = self.is_a(phrase, ("person", "pet"))
        return plain and friendly and parts[0].head != parts[1].head

    def _relative(self, clause: Clause) -> bool:
        subject, relative = clause.subject, clause.subject.relative
        if relative is None:
            return True
        pointing = subject.determiner in ("the", "this", "that")
        plain = pointing and subject.adjective is None and "person" in self.kinds(subject.head)
        bare = not clause.question and clause.polarity == "positive" and clause.time is None and clause.modal is None
        return plain and bare and relative.verb != clause.verb and self._relative_clause(subject, relative)

    def _relative_clause(self, subject: NounPhrase, relative: Relative) -> bool:
        inner = Clause(NounPhrase("he", "singular"), relative.verb, relative.tense, object=relative.object)
        simple = relative.object is not None and (
            relative.object.head in self.lexicon.names
            or (relative.object.adjective is None and relative.object.determiner in (*DEFINITE, "a"))
        )
        dynamic = self.lexicon.verbs[relative.verb].aspect != "state"
        return simple and dynamic and relative.tense in ("present", "past") and self._clause(inner)

    # what to whom

    def _frame(self, clause: Clause, verb: Verb) -> bool:
        """Whether the verb has exactly the arguments of its frame."""
        has = (clause.object is not None, clause.recipient is not None, clause.adjective is not None)
        if verb.frame == "transitive":
            return has == (True, False, False) and self._object(clause, verb)
        if verb.frame == "ditransitive":
            return has == (True, True, False) and self._object(clause, verb) and self._recipient(clause)
        if verb.frame == "be":
            return self._complement(clause, has)
        needs_place = verb.frame in ("goal", "home")
        return not any(has) and verb.frame != "content" and (clause.place is not None or not needs_place)

    def _object(self, clause: Clause, verb: Verb) -> bool:
        thing = clause.object
        if thing is None or thing.relative is not None or thing.head == "and" or same_party(clause.subject, thing):
            return False
        impersonal = any(kind != "person" for kind in verb.objects)
        if thing.head in ("who", "what"):
            fits = ("person" in verb.objects) if thing.head == "who" else impersonal
            return fits and clause.question and clause.polarity == "positive" and clause.recipient is None
        if thing.head in THINGS:
            return impersonal and (thing.head, verb.concept) != ("those", "drink")
        several = thing.determiner == "a" and thing.number == "plural"
        vague = several and verb.aspect == "state" and verb.concept != "have"
        people = several and self.is_a(thing, ("person",))
        counted = (people or thing.determiner in COUNTS) and clause.polarity != "positive"
        kinds = ("person", "animal") if self.is_a(clause.subject, ("animal",)) else verb.objects
        fits = self.is_a(thing, verb.objects) and self.is_a(thing, kinds)
        return fits and self.noun_phrase(thing) and not vague and not counted

    def _recipient(self, clause: Clause) -> bool:
        who, what = clause.recipient, clause.object
        if who is None or what is None or who.head in ("and", "who", "what", *THINGS) or who.relative is not None:
            return False
        plain = who.adjective is None and (who.determiner != "a" or who.number == "singular")
        fits = plain and self.is_a(who, ("person",)) and self.noun_phrase(who)
        return fits and not same_party(clause.subject, who) and who.determiner not in COUNTS

    def _complement(self, clause: Clause, has: tuple[bool, bool, bool]) -> bool:
        if has == (False, False, True):
            return self._quality(clause) and clause.place is None
        if has == (True, False, False):
            return self._trade(clause) and clause.place is None
        placed = clause.subject.head not in THINGS and self.is_a(clause.subject, ("person", "animal"))
        return has == (False, False, False) and clause.place is not None and placed

    def _quality(self, clause: Clause) -> bool:
        """Whether the subject can have the quality."""
        subject, adjective = clause.subject, self.lexicon.adjectives[clause.adjective or ""]
        if subject.adjective is not None or subject.determiner == "a" or subject.head == "who":
            return False
        if subject.head in THINGS:
            return any(kind not in ("person", "animal", "~") for kind in adjective.kinds)
        return self.is_a(subject, adjective.kinds)

    def _trade(self, clause: Clause) -> bool:
        """Whether a person of that gender and number can have the trade."""
        subject, trade = clause.subject, clause.object
        if trade is None or trade.head not in self.lexicon.nouns or trade.adjective or trade.relative:
            return False
        noun = self.lexicon.nouns[trade.head]
        kinds = self.kinds(subject.head)
        if subject.head in self.lexicon.names:
            kinds = self.lexicon.names[subject.head].kinds
        elif subject.head in PERSONS:
            kinds = ("male",) if genders(subject.head) == "m" else ("female",)
        plain = subject.adjective is None and subject.determiner not in ("a", *COUNTS) and subject.head != "and"
        gender = "male" if noun.is_a("male") else "female"
        agrees = gender in kinds and subject.number == trade.number and not set(kinds) & {"trade", "child", "royal"}
        return plain and agrees and noun.is_a("trade") and trade.determiner == "a" and clause.time is None

    # when, how, where

    def _timing(self, clause: Clause, verb: Verb) -> bool:
        if clause.modal is not None and (
            clause.modal not in MODALS or clause.tense not in ("present", "past") or verb.aspect == "state"
        ):
            return False
        if clause.tense == "progressive" and (verb.aspect != "action" or clause.modal is not None):
            return False
        if clause.time in (None, "when"):
            return clause.time is None or (clause.tense in ("past", "future") and self._asks(clause))
        time = self.lexicon.times[clause.time]
        if time.is_a("frequency") and "asked" in constructions(clause):
            return False
        if verb.aspect == "state":
            return self._passing(clause) and time.is_a("state" if clause.tense == "present" else clause.tense)
        return clause.modal is None and time.is_a(clause.tense)

    def _passing(self, clause: Clause) -> bool:
        """Whether it is a temporary state, which can have a time."""
        if clause.verb != "be" or clause.polarity == "never":
            return False
        return clause.adjective is None or self.lexicon.adjectives[clause.adjective].is_a("~")

    def _asks(self, clause: Clause) -> bool:
        """Whether it can be a wh-question: about one part, positive, and with a definite subject."""
        plain = clause.question and clause.polarity == "positive" and clause.recipient is None
        simple = clause.manner is None and clause.verb != "be" and clause.modal is None
        known = clause.object is None or clause.object.head not in (*PERSONS, "who", "what")
        return plain and simple and known and clause.subject.head != "who"

    def _manner(self, clause: Clause) -> bool:
        if clause.manner is None:
            return True
        fits = self.lexicon.manners[clause.manner].is_a(clause.verb)
        return fits and clause.modal is None and clause.place is None

    def _place(self, clause: Clause, verb: Verb) -> bool:
        if clause.place is None:
            return True
        relation, _, concept = clause.place.partition(" ")
        if (relation == "to") != (verb.frame == "goal"):
            return False
        if concept == "where":
            return self._where(clause, verb)
        place = self.lexicon.places[concept]
        if self.is_a(clause.subject, ("animal",)) and not place.is_a("open"):
            return False
        if verb.frame == "be":
            return place.is_a("at")
        if verb.frame in ("goal", "home"):
            return place.is_a("to" if verb.frame == "goal" else "home")
        if verb.concept in PLACES_OF:
            return place.is_a(PLACES_OF[verb.concept])
        placed = verb.aspect == "action" or verb.concept in PLACED_EVENTS
        return placed and verb.concept not in UNPLACED and verb.frame != "ditransitive" and place.is_a("at")

    def _where(self, clause: Clause, verb: Verb) -> bool:
        if verb.frame == "be":
            calm = clause.time is None and clause.tense in ("present", "past")
            return clause.question and calm and clause.polarity == "positive" and clause.subject.head != "who"
        placed = verb.frame in ("goal", "home") or verb.aspect == "action" or verb.concept in PLACED_EVENTS
        return placed and verb.frame != "ditransitive" and clause.time != "when" and self._asks(clause)

    def _polarity(self, clause: Clause) -> bool:
        if clause.polarity == "positive":
            return True
        if clause.modal == "must" or clause.subject.determiner == "many":
            return False
        regular = clause.time is not None and self.lexicon.times[clause.time].is_a("present")
        if clause.polarity == "not":
            return not regular
        lasting = self.lexicon.verbs[clause.verb].aspect == "state" and (clause.tense == "past" or clause.object)
        timeless = clause.time is None and clause.tense != "progressive" and clause.modal is None
        return timeless and not clause.question and not lasting

    # clauses in clauses

    def _content(self, clause: Clause, content: Clause) -> bool:
        outer = Clause(clause.subject, clause.verb, clause.tense, content=content)
        verb = self.lexicon.verbs[clause.verb]
        matrix = clause == outer and clause.tense == "present" and verb.frame == "content"
        inner = constructions(content) <= self.allowed - {"asked", "relative", "pair", "content", "reason"}
        subject = self._subject(clause, verb) and not constructions(outer) & {"asked", "relative", "pair"}
        return matrix and inner and not content.question and subject and self._clause(content)

    def _reason(self, clause: Clause, reason: Clause) -> bool:
        """A reason is a state of a person: because she is tired."""
        plain = constructions(clause) == {"reason"} and clause.time is None and clause.polarity == "positive"
        outer = Clause(clause.subject, clause.verb, clause.tense, object=clause.object)
        state = Clause(reason.subject, "be", reason.tense, reason.polarity, adjective=reason.adjective)
        calm = reason == state and reason.adjective is not None and self._passing(reason)
        tense = "past" if clause.tense == "past" else "present"
        people = all(self.is_a(subject, ("person",)) for subject in (clause.subject, reason.subject))
        same = reason.tense == tense and people and reason.subject.head != "who"
        inner = not constructions(reason) & {"pair", "relative", "never"}
        return (
            plain
            and clause.verb != "be"
            and not clause.question
            and calm
            and same
            and inner
            and (self._clause(outer) and self._clause(reason))
        )
