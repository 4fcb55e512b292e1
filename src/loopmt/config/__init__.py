"""Experiment files: what may be said (`schema`, `experiment`), how it is read (`load`), what must agree (`check`)."""

from loopmt.config.check import expansions, spoken_hops, supervised_shares, taught_hops, tuned
from loopmt.config.experiment import Experiment
from loopmt.config.load import load, loads, validated
from loopmt.config.schema import (
    Auto,
    Clean,
    Compare,
    Data,
    Fuse,
    Generate,
    Imported,
    MixEntry,
    Model,
    Stage,
    Train,
    Vocab,
    WorldData,
)

__all__ = [
    "Auto",
    "Clean",
    "Compare",
    "Data",
    "Experiment",
    "Fuse",
    "Generate",
    "Imported",
    "MixEntry",
    "Model",
    "Stage",
    "Train",
    "Vocab",
    "WorldData",
    "expansions",
    "load",
    "loads",
    "spoken_hops",
    "supervised_shares",
    "taught_hops",
    "tuned",
    "validated",
]
