"""How well initial weights from a checkpoint with another vocabulary translate: said once, before training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopmt.config import Generate, Stage, available_hops
from loopmt.evaluation.metrics import sacre_bleu
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import ImportedCheckpoint
from loopmt.pretrained.generator import HuggingFaceGenerator
from loopmt.pretrained.start import vocabulary_overlap
from loopmt.progress import Progress
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences, TranslationModel
from loopmt.workflow.importing import opened
from loopmt.workflow.stages import TrainingContext, starting_point

_SENTENCES = 100
_LOST = 1.0  # BLEU; a smaller loss is not worth a warning
_GREEDY = Generate(how="greedy")


@dataclass(frozen=True)
class StartQuality:
    """A direction before and after its weights were put into a network of loopmt."""

    hop: Hop
    vocabulary: float  # share of our subwords that the checkpoint has
    text: float  # the same, of the subwords in the validation text
    sentences: int
    before: float  # BLEU of the checkpoint
    after: float  # BLEU of the initial weights

    def __str__(self) -> str:
        lost = self.before - self.after
        found = (
            f"{self.hop} starts from its import: the checkpoint has {self.vocabulary:.0%} of the run's subwords, "
            f"{self.text:.0%} of those in the validation text; BLEU on {self.sentences} validation sentences is "
            f"{self.before:.1f} by the checkpoint and {self.after:.1f} by the initial weights"
        )
        return f"warning: {found}. {self._advice()}" if lost > _LOST else found

    def _advice(self) -> str:
        return (
            "Training restores little of this. Keep the checkpoint's own vocabulary: remove this [[imported]] entry "
            "and set [model] pretrained to the checkpoint (docs/pretrained.md). Or choose a vocabulary that is more "
            'like it (vocab.kind = "unigram", a larger vocab.size, vocab.sharing = "language") and prepare again.'
        )


def report_starts(context: TrainingContext, stages: Sequence[Stage], progress: Progress) -> None:
    """Say what became of the imports from which stages are about to begin."""
    wanted = context.experiment.imports("start")
    for stage in stages if wanted else ():
        if stage.from_ is None and not context.run.stage(stage.name).begun:
            hops = wanted & available_hops(context.experiment, stage.name)
            for found in start_qualities(context, stage, sorted(hops)):
                progress.say(str(found))
            wanted = wanted - hops


def start_qualities(context: TrainingContext, stage: Stage, hops: Sequence[Hop]) -> Iterator[StartQuality]:
    networks = starting_point(context, stage)
    for hop in hops:
        imported = opened(context.run, hop)
        pair = context.store.pair_texts("valid", hop.source, hop.target)
        if pair:
            yield _quality(context, networks, imported, hop, [side[:_SENTENCES] for side in pair])


def _quality(
    context: TrainingContext,
    networks: TranslationModel,
    imported: ImportedCheckpoint,
    hop: Hop,
    pair: Sequence[list[str]],
) -> StartQuality:
    sources = Sentences(context.vocab, hop.source, texts=pair[0])
    checkpoint = HuggingFaceGenerator(imported, context.device, context.vocab)
    before, after = (_bleu(model, HopInput(hop, sources), pair[1]) for model in (checkpoint, networks))
    share = vocabulary_overlap(imported, context.vocab, hop, pair)
    return StartQuality(hop, *share, len(pair[0]), before, after)


def _bleu(model: TranslationModel, sources: HopInput, references: Sequence[str]) -> float:
    (found,) = model.generate([sources], _GREEDY, DecodeLimits(), ("start",))
    return sacre_bleu(found.sentences.texts, references).score
