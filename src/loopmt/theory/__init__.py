"""The theory of loop training, corrected: closed forms, estimators, and worlds that can be enumerated.

All functions are pure. Names that begin with `printed_` are the paper's formulas as printed; all others are corrected.
docs/theory.md lists the errata by number.
"""

from __future__ import annotations

from loopmt.theory.cases import KINDS, fill, fill_case
from loopmt.theory.dual import exact_accuracy, identified_set, joint2, proportional, theorem1
from loopmt.theory.estimate import estimate_latent, estimate_observed, estimate_triangle, wilson
from loopmt.theory.loops import jensen, loop, loop_joint, uniform_confusion
from loopmt.theory.partition import Partition
from loopmt.theory.triangle import joint3, theorem2, triangle_ratio
from loopmt.theory.world import world2

__all__ = [
    "KINDS",
    "Partition",
    "estimate_latent",
    "estimate_observed",
    "estimate_triangle",
    "exact_accuracy",
    "fill",
    "fill_case",
    "identified_set",
    "jensen",
    "joint2",
    "joint3",
    "loop",
    "loop_joint",
    "proportional",
    "theorem1",
    "theorem2",
    "triangle_ratio",
    "uniform_confusion",
    "wilson",
    "world2",
]
