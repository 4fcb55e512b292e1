"""The JSON of `POST /translate`: request and response."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from loopmt.text.vocab import replace_surrogates
from loopmt.text.word_diff import Kind

# Responses may quote a text and cannot encode lone surrogates.
Text = Annotated[str, AfterValidator(replace_surrogates)]


class TranslateRequest(BaseModel):
    """Texts and their path."""

    model_config = ConfigDict(extra="forbid")

    path: Annotated[str, Field(max_length=200)] = Field(description="Languages joined by '>', as in en>fr>es.")
    texts: Annotated[list[Text], Field(min_length=1)] = Field(description="One sentence or short passage each.")
    nbest: Annotated[int, Field(ge=1, le=8)] = Field(1, description="How many translations of each text.")
    loops: bool = Field(False, description="Also translate back, and through other languages, and compare.")


class CandidateMessage(BaseModel):
    text: str
    score: float = Field(description="Log-probability, summed over all hops.")


class StepMessage(BaseModel):
    """The text after one hop."""

    language: str
    text: str


class DifferenceMessage(BaseModel):
    """A piece of two lines: in both (same), only in the first (lost) or only in the second (new)."""

    kind: Kind
    text: str


class RoundTripMessage(BaseModel):
    """A translation back, compared with the text, or one through other languages, compared with the translation."""

    path: str
    steps: list[StepMessage]
    differences: list[DifferenceMessage]
    likeness: float = Field(description="Share of common words in order: 0 to 1.")


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
    """An error."""

    error: str
