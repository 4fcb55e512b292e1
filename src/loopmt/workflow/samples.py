"""Sample translations by the newest weights of a stage, which another process trains."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from loopmt.errors import DamagedError
from loopmt.path import Hop
from loopmt.run import Json, Run, StageFolder
from loopmt.text.store import Store
from loopmt.workflow.models import model_with
from loopmt.workflow.translate import Translator, text_translator

_MOST = 12  # directions shown
_FINISHED = -1


class Samples:
    """Translates a validation sentence of each direction; for one thread."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._told: dict[str, tuple[int, Json]] = {}

    def __call__(self, stage: str) -> Json | None:
        """The translations by the stage's newest weights; None if it has none yet."""
        folder = self._run.stage(stage)
        newest = _newest(folder)
        if newest is None:
            return None
        if stage not in self._told or self._told[stage][0] != newest:
            try:
                self._told[stage] = (newest, self._ask(stage, folder, newest))
            except DamagedError:  # training went on meanwhile and took the checkpoint away
                return None
        return self._told[stage][1]

    def _ask(self, stage: str, folder: StageFolder, newest: int) -> Json:
        experiment, store = self._run.experiment(), Store.open(self._run.folder / "store")
        update, weights = _weights(folder, newest)
        chosen, cpu = experiment.stage(stage), torch.device("cpu")  # an accelerator is for training
        networks = model_with(self._run, experiment, chosen, weights, cpu, torch.float32)
        translator = text_translator(networks, experiment.training(chosen).max_length)
        hops = networks.hops
        rows = [row for hop in hops[:_MOST] if (row := _sample(translator, store, hop))]
        return {"update": update, "rows": rows}


def _newest(folder: StageFolder) -> int | None:
    if folder.finished:
        return _FINISHED
    updates = folder.updates()
    return updates[-1] if updates else None


def _weights(folder: StageFolder, newest: int) -> tuple[int, Mapping[str, Tensor]]:
    if newest != _FINISHED:
        return newest, folder.weights(newest)
    result = folder.result()
    return result.update, result.tensors["weights"]


def _sample(translator: Translator, store: Store, hop: Hop) -> Json | None:
    pair = store.pair_texts("valid", hop.source, hop.target)
    if not pair or not pair[0]:
        return None
    source, reference = pair[0][0], pair[1][0]
    (said,) = translator.translate([source], str(hop), beam=1)
    return {"direction": str(hop), "source": source, "said": said, "reference": reference}
