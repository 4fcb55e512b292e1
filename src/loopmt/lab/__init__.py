"""A laboratory for the theory: small languages with exact verdicts, where Algorithms 1 and 2 take seconds."""

from __future__ import annotations

from loopmt.lab.experiments import run_lab
from loopmt.lab.languages import LabSettings
from loopmt.lab.pictures import draw, require_matplotlib

__all__ = ["LabSettings", "draw", "require_matplotlib", "run_lab"]
