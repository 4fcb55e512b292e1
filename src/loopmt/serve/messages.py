"""What is asked of `POST /translate` and what it answers: the JSON of the interface."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from loopmt.serve.word_diff import Kind
from loopmt.text.vocab import replace_surrogates

# An answer may quote a text, and no answer can spell half a character.
Text = Annotated[str, AfterValidator(replace_surrogates)]


class TranslateRequest(BaseModel):
    """Texts and the path they are to take."""

    model_config = ConfigDict(extra="forbid")

    path: Annotated[str, Field(max_length=200)] = Field(description="Languages joined by '>', as in en>fr>es.")
    texts: Annotated[list[Text], Field(min_length=1)] = Field(description="One sentence or short passage each.")
    nbest: Annotated[int, Field(ge=1, le=8)] = Field(1, description="How many translations of each text.")
    loops: bool = Field(False, description="Also translate back, and through other languages, and compare.")


class CandidateMessage(BaseModel):
    text: str
    score: float = Field(description="Log-probability of all that was said on the way.")


class StepMessage(BaseModel):
    """The text after one hop."""

    language: str
    text: str


class DifferenceMessage(BaseModel):
    """A piece of two lines: in both (same), in the first alone (lost) or in the second alone (new)."""

    kind: Kind
    text: str


class RoundTripMessage(BaseModel):
    """A translation back, compared with the text, or one through other languages, compared with the translation."""

    path: str
    steps: list[StepMessage]
    differences: list[DifferenceMessage]
    likeness: float = Field(description="Share of words in common, in order: 0 to 1.")


class TranslationMessage(BaseModel):
    text: str
    score: float
    steps: list[StepMessage]
    nbest: list[CandidateMessage]
    loops: list[RoundTripMessage] | None = Field(
        None, description="Translations back to the source language, if `loops` is set."
    )
    ways: list[RoundTripMessage] | None = Field(None, description="Translations to the same language by other paths.")
    confidence: float | None = Field(
        None, description="Mean likeness of the translation to those by other paths: 0 to 1; not a probability."
    )


class TranslateResponse(BaseModel):
    path: str
    translations: list[TranslationMessage]


class ErrorMessage(BaseModel):
    """Why there is no answer."""

    error: str
