"""Every table that a page may name."""

from __future__ import annotations

from benchmarks.pages import (
    built_in,
    equal_bitext,
    exploring,
    other_corpora,
    parameters,
    poor_pair,
    predictions,
    predictor,
    scale,
    speed,
    summary,
)
from benchmarks.pages.blocks import Table

_MODULES = (
    summary,
    equal_bitext,
    poor_pair,
    other_corpora,
    built_in,
    parameters,
    predictions,
    predictor,
    exploring,
    speed,
    scale,
)
TABLES: dict[str, Table] = {name: made for module in _MODULES for name, made in module.TABLES.items()}
