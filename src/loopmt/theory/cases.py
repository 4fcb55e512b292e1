"""Fill a document of cases: {"cases": [{"id", "kind", "in"}, ...]} gains an "out" in every case.

Undefined values are null, infinite ones "inf" and "-inf". One invalid case makes the document invalid; the error names
the id of the case.
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from loopmt.errors import TheoryError
from loopmt.theory.dual import exact_accuracy, identified_set, joint2, proportional, theorem1
from loopmt.theory.estimate import estimate_latent, estimate_observed, estimate_triangle
from loopmt.theory.exact import Out
from loopmt.theory.loops import jensen, loop, loop_joint, uniform_confusion
from loopmt.theory.triangle import joint3, theorem2, triangle_ratio
from loopmt.theory.world import world2

KINDS: Mapping[str, Callable[..., Out]] = {
    "joint2": joint2,
    "thm1": theorem1,
    "exact_accuracy": exact_accuracy,
    "accdual": proportional,
    "joint3": joint3,
    "thm2": theorem2,
    "triangle_M": triangle_ratio,
    "loopK": loop,
    "loopK_joint": loop_joint,
    "uniform_confusion": uniform_confusion,
    "jensen": jensen,
    "identified_set": identified_set,
    "estimate_observed": estimate_observed,
    "estimate_latent": estimate_latent,
    "estimate_triangle": estimate_triangle,
    "world2": world2,
}

ARGUMENTS = {"lambda": "lam", "lambda1": "lam1", "lambda2": "lam2"}
"""Document fields whose argument has another name, because Python reserves the field's name or ours is shorter."""

FIELDS = {argument: field for field, argument in ARGUMENTS.items()}


def fill(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same document with an `out` in every case."""
    if not isinstance(document, Mapping) or not isinstance(document.get("cases"), list):
        raise TheoryError('The document must be a JSON object with a list under "cases".')
    return {**document, "cases": [_fill_numbered(i, case) for i, case in enumerate(document["cases"])]}


def _fill_numbered(index: int, case: Any) -> dict[str, Any]:
    if not isinstance(case, Mapping) or not isinstance(case.get("id"), str):
        raise TheoryError(f'case number {index}: every case must be an object with a text under "id".')
    return fill_case(case)


def fill_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """The same case with its `out`."""
    try:
        function, arguments = _reading(case)
        return {**case, "out": jsonable(function(**arguments))}
    except TheoryError as error:
        raise TheoryError(f"case {case.get('id', '(without id)')}: {error}") from None


def _reading(case: Mapping[str, Any]) -> tuple[Callable[..., Out], dict[str, Any]]:
    """The function that answers a case, and its arguments."""
    kind, given = case.get("kind"), case.get("in")
    if not isinstance(kind, str) or kind not in KINDS:
        guess = _nearest(str(kind), KINDS)
        raise TheoryError(f"kind {kind!r} is unknown{guess}. The kinds are {', '.join(KINDS)}.")
    if not isinstance(given, Mapping):
        raise TheoryError(f'"in" is {given!r}; it must be an object with the numbers of kind {kind}.')
    wanted = [FIELDS.get(name, name) for name in inspect.signature(KINDS[kind]).parameters]
    for field in given:
        if field not in wanted:
            guess = _nearest(str(field), wanted)
            raise TheoryError(f"kind {kind} has no field {field!r}{guess}; it has {', '.join(wanted)}.")
    missing = [field for field in wanted if field not in given]
    if missing:
        raise TheoryError(f"kind {kind} needs {', '.join(missing)}; its fields are {', '.join(wanted)}.")
    return KINDS[kind], {_argument(field): given[field] for field in wanted}


def _argument(field: str) -> str:
    return ARGUMENTS.get(field, field)


def _nearest(word: str, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(words), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def jsonable(value: Any) -> Any:
    """Convert infinities to text and NaN to null; other values do not change."""
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
