"""Validation during training on held-out pairs: loss, BLEU, and exact accuracy if there is a judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from loopmt.config import Evaluate, Generate
from loopmt.evaluation.choice import chosen_metric
from loopmt.evaluation.metric import Agree as Agree
from loopmt.evaluation.metric import Metric, MetricInput
from loopmt.evaluation.metrics import METRICS
from loopmt.evaluation.outputs import OutputStatistics, output_statistics
from loopmt.path import Hop
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.filters import RepetitionLimits
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences, TranslationModel

BLEU = "sacrebleu"
LOSS = "loss"


@dataclass(frozen=True)
class HeldOut:
    """Held-out pairs of one direction."""

    hop: Hop
    sources: Sentences
    references: Sentences


def held_out(store: Store, hops: Iterable[Hop], vocab: Vocab, name: str, most: int | None = None) -> list[HeldOut]:
    """The pairs of a set, for each direction that has pairs."""
    found = []
    for hop in hops:
        pair = store.pair_texts(name, hop.source, hop.target)
        if pair is not None:
            sources, references = pair[0][:most], pair[1][:most]
            if vocab.form.lowercase:  # outputs are lower-cased, so references must be lower-cased, too
                references = [reference.lower() for reference in references]
            sides = Sentences(vocab, hop.source, texts=sources), Sentences(vocab, hop.target, texts=references)
            found.append(HeldOut(hop, *sides))
    return found


def translate_hops(model: TranslationModel, inputs: Sequence[HopInput], how: Generate) -> list[list[str]]:
    """Translations of each hop as text, in one call of the model, by a search without random draws."""
    found = model.generate(inputs, how, DecodeLimits.on(model.device), ("translate",))
    return [translations.best().sentences.texts for translations in found]


@dataclass(frozen=True)
class ValidationScores:
    """Validation scores by direction. The mean of one metric selects the best checkpoint and stops training."""

    loss: Mapping[str, float]
    bleu: Mapping[str, float]
    accuracy: Mapping[str, float] = field(default_factory=dict)  # exact, if there is a judge
    untaught: Sequence[str] = ()  # zero-shot scores are noisy, so they are left out of the mean
    select_by: str = BLEU
    selected: Mapping[str, float] = field(default_factory=dict)  # by `select_by`, if that is not BLEU
    higher_is_better: bool = True
    outputs: Mapping[str, OutputStatistics] = field(default_factory=dict)

    @property
    def mean_bleu(self) -> float:
        return self._mean(self.bleu)

    @property
    def mean_accuracy(self) -> float | None:
        return self._mean(self.accuracy) if self.accuracy else None

    @property
    def mean_selected(self) -> float:
        return self._mean(self.selected or self.bleu)

    @property
    def quality(self) -> float:
        """The mean of the selection metric, negated if lower is better."""
        return self.mean_selected if self.higher_is_better else -self.mean_selected

    def _mean(self, scores: Mapping[str, float]) -> float:
        taught = [score for hop, score in scores.items() if hop not in self.untaught]
        counted = taught or list(scores.values())
        return sum(counted) / len(counted)


@dataclass(frozen=True)
class Validator:
    """Translates the validation set and scores it."""

    model: TranslationModel
    sets: Sequence[HeldOut]
    how: Generate
    limits: RepetitionLimits
    metric: Metric = field(default_factory=lambda: METRICS.find(BLEU))
    """The selection metric; for `LOSS` only the name is used."""
    texts: MetricInput = field(default_factory=lambda: MetricInput((), ()))
    """The inputs of metrics other than texts: judge, checkpoint, time limit."""
    untaught: Sequence[str] = ()

    def __call__(self) -> ValidationScores:
        outputs = translate_hops(self.model, [HopInput(pairs.hop, pairs.sources) for pairs in self.sets], self.how)
        loss = loss_by_hop(self.model, self.sets)
        own = self.metric.name not in (BLEU, LOSS)
        return ValidationScores(
            loss,
            self._scores(METRICS.find(BLEU), outputs),
            self._scores(METRICS.find("accuracy"), outputs) if self.texts.agree else {},
            self.untaught,
            self.metric.name,
            self._scores(self.metric, outputs) if own else loss if self.metric.name == LOSS else {},
            self.metric.higher_is_better,
            dict(zip(map(_name, self.sets), map(self._statistics, self.sets, outputs), strict=True)),
        )

    def _scores(self, metric: Metric, outputs: Sequence[Sequence[str]]) -> dict[str, float]:
        inputs = [self._input(pairs, texts) for pairs, texts in zip(self.sets, outputs, strict=True)]
        return {_name(pairs): metric.measure(texts).score() for pairs, texts in zip(self.sets, inputs, strict=True)}

    def _input(self, pairs: HeldOut, outputs: Sequence[str]) -> MetricInput:
        return replace(
            self.texts,
            hypotheses=outputs,
            references=pairs.references.texts,
            sources=pairs.sources.texts,
            language=pairs.hop.target.partition("_")[0],
            hop=pairs.hop,
        )

    def _statistics(self, pairs: HeldOut, outputs: Sequence[str]) -> OutputStatistics:
        assert pairs.references.codec is not None
        return output_statistics(outputs, pairs.references.texts, pairs.hop.target, pairs.references.codec, self.limits)


def _name(pairs: HeldOut) -> str:
    return str(pairs.hop)


def selecting_metric(settings: Evaluate, name: str) -> Metric:
    """The metric of `train.select_by`: an entry of the experiment, a metric by name, or the loss."""
    if name == LOSS:
        return Metric(LOSS, lambda texts: [], higher_is_better=False)
    return chosen_metric(settings.entry(name))


def loss_by_hop(model: TranslationModel, sets: Sequence[HeldOut]) -> dict[str, float]:
    """The mean loss per target token, without label smoothing and dropout."""
    return {str(pairs.hop): _loss(model, pairs) for pairs in sets}


def _loss(model: TranslationModel, pairs: HeldOut) -> float:
    losses, tokens = model.score(pairs.hop, pairs.sources, pairs.references)
    return float(losses.sum() / max(tokens.sum(), 1))
