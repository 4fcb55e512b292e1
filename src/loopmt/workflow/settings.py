"""The settings that a stage's weights depend on, and what happens when they differ from the recorded ones."""

from __future__ import annotations

import hashlib
import json

from loopmt.config import Experiment, Stage
from loopmt.config.recorded import VERSION, refuse
from loopmt.rng import DRAWS
from loopmt.run import Json, Run, StageFolder
from loopmt.text.manifest import Manifest
from loopmt.workflow.generators import generator_digests
from loopmt.workflow.importing import import_digests

FILTERING = {"filters", "ratio", "slack", "margin", "fewest_subwords", "repetition"}  # of [guards]


def stage_settings(experiment: Experiment, run: Run, fingerprint: str, stage: Stage) -> Json:
    """The effective value of every key that affects the stage's weights."""
    parent = run.stage(stage.from_) if stage.from_ else None
    elsewhere = {"train"} if stage.mix == "auto" else {"train", "auto"}  # `train` is part of training(), `auto` unused
    return {
        "version": VERSION,
        "draws": DRAWS,
        "stage": stage.model_dump(mode="json", by_alias=True, exclude=elsewhere),
        "train": experiment.training(stage).model_dump(mode="json", exclude={"continued"}),
        "model": experiment.model.model_dump(mode="json"),
        "guards": experiment.guards.model_dump(mode="json", include=FILTERING) if stage.generates else None,
        "languages": experiment.languages,
        "seed": experiment.seed,
        "data": fingerprint,
        "parent": parent.result_digest() if parent and parent.finished else None,
        **import_digests(experiment, run),
        **generator_digests(run, stage),
    }


def fingerprint_of(manifest: Manifest) -> str:
    """A digest of the prepared data: its settings, its files and its vocabulary."""
    parts = [manifest.settings, [file.sha256 for file in manifest.files], manifest.vocab.sha256]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def refuse_changes(experiment: Experiment, run: Run, manifest: Manifest) -> list[str]:
    """Refuse changed settings of stages that were begun, before anything is written. Return notices for the user."""
    fingerprint = fingerprint_of(manifest)
    stages = [
        run.stage(stage.name).compare(stage_settings(experiment, run, fingerprint, stage))
        for stage in experiment.stages
        if run.stage(stage.name).begun
    ]
    refuse(stages)
    without: dict[str, list[str]] = {}
    for stage in stages:
        for change in stage.changes:
            without.setdefault(str(change), []).append(stage.name)
    return [f"{', '.join(names)}: trained before a setting existed; {setting}" for setting, names in without.items()]


def notice_of_draws(folder: StageFolder) -> Json | None:
    """A notice that a resumed stage was begun with other random draws."""
    begun = folder.begun_with().get("draws", 1) if folder.updates() else DRAWS
    if begun == DRAWS:
        return None
    text = (
        f"this stage was begun by a version of loopmt with other random draws (draws version {begun}; "
        f"this one has {DRAWS}). Training goes on, but not with the bits of an uninterrupted run."
    )
    return {"kind": "notice", "update": max(folder.updates()), "text": text}
