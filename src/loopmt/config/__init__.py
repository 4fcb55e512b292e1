"""Experiment files: their keys (`schema`, `experiment`), reading them (`load`), checks across keys (`check`).

`comparison` says which comparisons of stages are fair.
"""

from loopmt.config.check import available_hops, expansions, taught_hops
from loopmt.config.comparison import (
    ComparedDirections,
    by_reason,
    compared_directions,
    is_fair,
    setting_differences,
    supervised_shares,
    tuned,
)
from loopmt.config.experiment import Experiment
from loopmt.config.load import load, loads, validated
from loopmt.config.schema import (
    Auto,
    Baseline,
    Clean,
    Compare,
    Data,
    Evaluate,
    Fuse,
    Generate,
    Guards,
    Imported,
    Lora,
    MetricEntry,
    MixEntry,
    Model,
    Noise,
    Stage,
    Train,
    VocabConfig,
    WorldData,
    is_translator,
)

__all__ = [
    "Auto",
    "Baseline",
    "Clean",
    "Compare",
    "ComparedDirections",
    "Data",
    "Evaluate",
    "Experiment",
    "Fuse",
    "Generate",
    "Guards",
    "Imported",
    "Lora",
    "MetricEntry",
    "MixEntry",
    "Model",
    "Noise",
    "Stage",
    "Train",
    "VocabConfig",
    "WorldData",
    "available_hops",
    "by_reason",
    "compared_directions",
    "expansions",
    "is_fair",
    "is_translator",
    "load",
    "loads",
    "setting_differences",
    "supervised_shares",
    "taught_hops",
    "tuned",
    "validated",
]
