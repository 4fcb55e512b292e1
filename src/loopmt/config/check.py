"""Checks that involve several keys: languages, pairs, the tree of stages. `comparison` checks comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from loopmt.config.experiment import Experiment
from loopmt.config.imported import check_endpoint_search, check_imported_entries
from loopmt.config.pretrained import PRETRAINED, check_pretrained, check_taught, pretrained_hops
from loopmt.config.schema import Generate, MixEntry, Stage
from loopmt.errors import ConfigError, PathError
from loopmt.languages import meant_language
from loopmt.path import Expansion, Hop, Pattern, check_language, expand_fed


def check(experiment: Experiment) -> None:
    _check_languages(experiment)
    check_pretrained(experiment)
    _check_names(experiment)
    check_imported_entries(experiment)
    for stage in experiment.stages:
        expansions(experiment, stage)
    for compare in experiment.compare:
        experiment.stage(compare.of), experiment.stage(compare.against)


def _check_languages(experiment: Experiment) -> None:
    languages = experiment.languages
    for language in languages:
        check_language(language)
    if len(set(languages)) < len(languages):
        raise ConfigError(f"languages: {', '.join(languages)} names one twice.")
    data = experiment.data
    if not (data.bitext or data.mono or data.world):
        raise ConfigError("data has no text: give data.bitext and data.mono, or data.world.")
    if data.world and (data.bitext or data.mono or data.valid or data.test):
        raise ConfigError("data.world draws all text itself: remove data.bitext, data.mono, data.valid and data.test.")
    pairs = dict.fromkeys(_pairs(experiment))
    for where, pair in pairs:
        one, hyphen, other = pair.partition("-")
        if one == other or not hyphen:
            example = f', as in "{"-".join(languages[:2])}"' if len(languages) > 1 else ""
            raise ConfigError(f'{where} "{pair}": write two of the languages {", ".join(languages)}{example}.')
        _check_listed(f'{where} "{pair}"', (one, other), languages)
        if (where, f"{other}-{one}") in pairs:
            raise ConfigError(f'{where} has both "{pair}" and "{other}-{one}", which are one pair: join them.')
    for language in data.monolingual():
        _check_listed(f"data.{'world.' if data.world else ''}mono.{language}", (language,), languages)
    for language in data.keys:
        _check_listed("data.keys", (language,), languages)
    if not data.world and data.valid is None:
        raise ConfigError("data.valid is missing: the best checkpoint is chosen on it.")
    _check_sharing(experiment)


def _check_listed(where: str, codes: tuple[str, ...], languages: list[str]) -> None:
    for code in codes:
        if code not in languages:
            near = meant_language(code, languages)
            known = f"{code} is not in `languages`, which has {', '.join(languages)}"
            hint = f"Did you mean {near}? If not, add" if near else "Correct it, or add"
            raise ConfigError(f"{where}: {known}. {hint} it there.")


def _pairs(experiment: Experiment) -> Iterator[tuple[str, str]]:
    data = experiment.data
    if data.world:
        yield from (("data.world.pairs", pair) for pair in data.world.pairs)
    yield from (("data.bitext", pair) for pair in data.bitext)
    sets = {"data.valid": data.valid} | {f"data.test.{name}": prefix for name, prefix in data.tests().items()}
    for where, prefix in sets.items():
        if isinstance(prefix, dict):
            yield from ((where, pair) for pair in prefix)


def _check_sharing(experiment: Experiment) -> None:
    if experiment.model.sharing == "all" and experiment.vocab.sharing == "language":
        raise ConfigError('model.sharing = "all" needs one vocabulary for all languages: set vocab.sharing = "joint".')
    sharded = [stage.name for stage in experiment.stages if experiment.training(stage).shard]
    if sharded and not experiment.shared and experiment.model.pretrained is None:
        raise ConfigError(
            f'stage "{sharded[0]}": train.shard spreads one network over the processes, but there is one for each '
            'direction. Set model.sharing = "all", or train.shard = false: every process then learns on its own rows.'
        )


def _check_names(experiment: Experiment) -> None:
    seen = [stage.name for stage in experiment.all_stages if stage not in experiment.stages]
    for stage in experiment.stages:
        if stage.name in seen:
            raise ConfigError(f'two stages are called "{stage.name}".')
        if stage.from_ is not None and stage.from_ not in seen:
            before = ", ".join(seen) or "none"
            raise ConfigError(
                f'stage "{stage.name}": from = "{stage.from_}" is not a stage before it; before it there are: {before}.'
            )
        seen.append(stage.name)


def expansions(experiment: Experiment, stage: Stage) -> list[tuple[MixEntry, Expansion]]:
    """A stage's mix on the experiment's data: each entry with the paths that it stands for."""
    return _expanded(experiment, stage, available_hops(experiment, stage.from_))


def _expanded(experiment: Experiment, stage: Stage, trained: frozenset[Hop]) -> list[tuple[MixEntry, Expansion]]:
    if stage.name == PRETRAINED and not stage.mix:
        return []
    generators = frozenset() if stage.mix == "auto" else experiment.imports("generator")
    try:
        entries = stage.entries() or _auto_entries(experiment, stage)
        patterns = [Pattern.parse(entry.path) for entry in entries]
        expanded = expand_fed(patterns, experiment.languages, experiment.data.supply(), trained | generators)
    except PathError as error:
        raise ConfigError(f'stage "{stage.name}": {error}') from None
    if all(entry.from_update for entry in entries):
        raise ConfigError(f'stage "{stage.name}": every path joins the mix later; give one of them from_update = 0.')
    pairs = list(zip(entries, expanded, strict=True))
    if stage.mix == "auto":
        pairs += _teachers(experiment, stage, trained | {path.taught for one in expanded for path in one.paths})
    taught = frozenset(path.taught for expansion in expanded for path in expansion.paths)
    check_taught(experiment, stage, taught)
    for entry, expansion in pairs:
        if stage.mix != "auto":  # which filters where it can
            _check_utilities(stage, entry, expansion, trained | taught)
        _check_entry(experiment, stage, entry, expansion, trained | generators)
        _check_generated(stage, entry, expansion)
        _check_reward(stage, entry, expansion, trained)
        _check_own(stage, entry, expansion, trained | taught)
        _check_stages(experiment, stage, entry, expansion)
    _check_consistency(stage, pairs)
    return pairs


def _auto_entries(experiment: Experiment, stage: Stage) -> list[MixEntry]:
    """The candidates of `mix = "auto"`, without patterns that need more languages than there are."""
    patterns = [Pattern.parse(text) for text in stage.auto.candidates]
    for pattern in patterns:
        _check_candidate(stage, pattern)
    fits = [one for one in patterns if len(one.variables) + len(one.named) <= len(experiment.languages)]
    loops = [MixEntry(path=str(one), generate=stage.auto.generate, keep=stage.auto.keep) for one in fits]
    return [MixEntry(path="X>Y"), *loops]


def _teachers(experiment: Experiment, stage: Stage, trained: frozenset[Hop]) -> list[tuple[MixEntry, Expansion]]:
    """The teacher paths of `mix = "auto"` for directions without bitext, as far as the data feeds them."""
    supply, found = experiment.data.supply(), []
    for pattern in map(Pattern.parse, stage.auto.teachers):
        _check_teacher(stage, pattern)
        fed = [path for path in pattern.expand(experiment.languages) if supply.lack(path) is None]
        paths = [path for path in fed if path.taught not in supply.bitext and trained.issuperset(path.generating)]
        if paths:
            how = stage.auto.teach or Generate(how="greedy")
            entry = MixEntry(path=str(pattern), generate=how, keep=stage.auto.keep)
            found.append((entry, Expansion(tuple(paths), ())))
    return found


def _check_teacher(stage: Stage, pattern: Pattern) -> None:
    """A teacher translates a real sentence through other languages."""
    if pattern.backward and pattern.places[0] == pattern.places[-1] and len(pattern.places) > 3:
        return
    raise ConfigError(
        f'stage "{stage.name}": auto.teachers: {pattern} is no teacher path, which translates a real sentence through '
        "another language and ends with an arrow back to it. Write X>Z>Y<X or, to name the pivot, X>en>Y<X; loops "
        "belong into auto.candidates."
    )


def _check_candidate(stage: Stage, pattern: Pattern) -> None:
    """The quality of a route is measured on its generated text, so a candidate must return to its first language."""
    start, end = pattern.places[0], pattern.places[-1]
    if start == end and not pattern.backward:
        return
    home = pattern.places if start == end else (*pattern.places, start)
    why = "has an arrow back" if pattern.backward else f"starts in {start} and ends in {end}"
    raise ConfigError(
        f'stage "{stage.name}": auto.candidates must return to their first language; {pattern} {why}. '
        f"Write {Pattern(home)}, or list it in a `mix` with a weight of its own."
    )


def taught_hops(experiment: Experiment, name: str | None) -> frozenset[Hop]:
    """Every direction that a stage and its ancestors teach or start from a pretrained translator."""
    if name is None:
        return experiment.imports("start")
    if name == PRETRAINED and experiment.model.pretrained is not None:
        return pretrained_hops(experiment)
    stage = experiment.stage(name)
    before = taught_hops(experiment, stage.from_)
    expanded = _expanded(experiment, stage, _with_untaught(experiment, before))
    return before | {path.taught for _, expansion in expanded for path in expansion.paths}


def available_hops(experiment: Experiment, name: str | None) -> frozenset[Hop]:
    """Every direction that a stage has a translator for, taught or not."""
    return _with_untaught(experiment, taught_hops(experiment, name))


def _with_untaught(experiment: Experiment, taught: frozenset[Hop]) -> frozenset[Hop]:
    """A shared network also translates, untaught, from every language that it reads into every other that it writes."""
    if experiment.model.sharing == "none":
        return taught
    written = {hop.target for hop in taught}
    return frozenset(Hop(one.source, other) for one in taught for other in written if other != one.source)


def _check_entry(
    experiment: Experiment, stage: Stage, entry: MixEntry, expansion: Expansion, trained: frozenset[Hop]
) -> None:
    settings = entry.hop_settings(len(expansion.paths[0].generating))
    for path in expansion.paths if any("frozen" in setting.generators for setting in settings) else ():
        for hop, setting in zip(path.generating, settings, strict=True):
            if "frozen" in setting.generators and hop not in trained:
                raise ConfigError(
                    f'stage "{stage.name}": path {path} asks for a frozen {hop}, but no stage before trains {hop}. '
                    f'Start the stage `from` one that does, or use by = "live".'
                )
            check_endpoint_search(experiment, f'stage "{stage.name}", path {path}', hop, setting)
    if entry.combine == "logmeanexp" and entry.samples < 2:
        raise ConfigError(f'stage "{stage.name}", path {entry.path}: combine = "logmeanexp" needs samples = 2 or more.')
    if entry.combine == "logmeanexp" and expansion.paths[0].backward:
        raise ConfigError(
            f'stage "{stage.name}", path {entry.path}: with an arrow back the targets are generated, and '
            'combine = "logmeanexp" is of one real target. Use combine = "mean".'
        )


def _check_utilities(stage: Stage, entry: MixEntry, expansion: Expansion, own: frozenset[Hop]) -> None:
    """A utility that scores with the reverse translator needs one."""
    chosen = {
        "candidates": entry.choose if entry.candidates > 1 else "",
        "keep": entry.keep_by if entry.keep < 1 else "",
    }
    for key, name in [*chosen.items(), *(("reward", name) for name in entry.rewards)]:
        if name and not expansion.paths[0].generating:
            raise ConfigError(f'stage "{stage.name}", path {entry.path} generates nothing, so `{key}` cannot be set.')
        for path in expansion.paths if name in ("dual", "round-trip") else ():
            needed = [path.taught.reverse] if name == "dual" or path.backward else []
            if any(hop not in own for hop in needed):
                raise ConfigError(
                    f'stage "{stage.name}", path {path}: `{key}` with the utility "{name}" needs a translator '
                    f"{needed[0]}, which nothing trains. Leave `{key}` out, teach that direction, too, or choose "
                    "another utility."
                )


def _check_generated(stage: Stage, entry: MixEntry, expansion: Expansion) -> None:
    """Refuse settings about generated sentences on a path that generates none."""
    path, where = expansion.paths[0], f'stage "{stage.name}", path {entry.path}'
    if entry.noise is not None and (path.backward or not path.generating):
        raise ConfigError(f"{where}: noise is put on generated sources, and here the sources are real. Leave it out.")
    settings = entry.hop_settings(len(path.generating))
    if entry.candidates > 1 and all(setting.how != "sample" for setting in settings):
        raise ConfigError(
            f"{where}: candidates = {entry.candidates} would all be the same, since no hop samples. Set "
            'generate = { how = "sample" }, or leave candidates out.'
        )


def _check_consistency(stage: Stage, pairs: Sequence[tuple[MixEntry, Expansion]]) -> None:
    """Rows of one real sentence from several routes need the same real sentences, and several routes."""
    rows = Counter[tuple[str, ...]]()
    compared = [(entry, expansion) for entry, expansion in pairs if entry.consistency is not None]
    for entry, expansion in compared:
        where = f'stage "{stage.name}", path {entry.path}: consistency'
        if not entry.same_rows or expansion.paths[0].backward:
            what = "needs real targets that the routes share" if entry.same_rows else "needs same_rows = true"
            raise ConfigError(f"{where} {what}. Set it on loops that share their text, or leave consistency out.")
        if entry.combine == "logmeanexp":
            raise ConfigError(f'{where} and combine = "logmeanexp" group rows differently. Use one of them.')
        for path in expansion.paths:
            rows[*path.ends, str(path.taught)] += entry.samples
    if compared and max(rows.values()) < 2:
        raise ConfigError(
            f'stage "{stage.name}": consistency compares several rows of a real sentence, and every direction has one. '
            "Set it on a second entry of the direction, such as X>Z>Y>X beside X>Y>X, or set samples = 2."
        )


def _check_reward(stage: Stage, entry: MixEntry, expansion: Expansion, trained: frozenset[Hop]) -> None:
    """What a reward needs, and what it excludes."""
    path, where = expansion.paths[0], f'stage "{stage.name}", path {entry.path}'
    if not entry.rewards:
        unused = [
            key for key in ("credit", "kl", "likelihood") if getattr(entry, key) != MixEntry.model_fields[key].default
        ]
        if unused:
            raise ConfigError(f'{where}: {unused[0]} needs a reward. Set reward = "likelihood", or leave it out.')
        return
    if path.backward:
        raise ConfigError(f"{where}: with an arrow back nothing comes home, so there is no reward. Leave it out.")
    if "consensus" in entry.rewards:
        raise ConfigError(f'{where}: "consensus" compares candidates, and is no reward. Use another utility.')
    if entry.credit == "all":
        _check_credit(where, entry, expansion, trained)
    elif entry.kl is not None or entry.likelihood != 1:
        raise ConfigError(f'{where}: kl and likelihood are for credit = "all". Set it, or leave them out.')


def _check_credit(where: str, entry: MixEntry, expansion: Expansion, trained: frozenset[Hop]) -> None:
    hops = entry.rewarded_hops(len(expansion.paths[0].generating))
    if not hops:
        raise ConfigError(
            f'{where}: credit = "all" teaches hops that sample with live weights, and none does. '
            'Set generate = { by = "live", how = "sample" }, or credit = "last".'
        )
    if entry.candidates > 1:
        raise ConfigError(f'{where}: credit = "all" needs all that is drawn. Use samples instead of candidates.')
    if entry.baseline != "none" and entry.samples < 2:
        raise ConfigError(
            f'{where}: baseline = "{entry.baseline}" compares samples of a sentence. Set samples = 2 or more, '
            'or baseline = "none".'
        )
    for path in expansion.paths if entry.kl else ():
        for hop in (path.generating[number] for number in hops):
            if hop not in trained:
                raise ConfigError(
                    f"{where}: kl measures the divergence of {hop} from the start of the stage, and no stage before "
                    "trains it. Start the stage `from` one that does, or leave kl out."
                )


def _check_stages(experiment: Experiment, stage: Stage, entry: MixEntry, expansion: Expansion) -> None:
    """A stage that generates for another one must be trained before it and must translate the hops."""
    names = [one.name for one in experiment.all_stages]
    before = names[: names.index(stage.name)]
    settings = entry.hop_settings(len(expansion.paths[0].generating))
    for path in expansion.paths:
        for hop, setting in zip(path.generating, settings, strict=True):
            for name in (one.partition(":")[2] for one in setting.generators if one.startswith("stage:")):
                if name not in before:
                    raise ConfigError(
                        f'stage "{stage.name}", path {entry.path}: by = "stage:{name}" names no stage before this one. '
                        f"Stages before it: {', '.join(before) or 'none'}."
                    )
                if hop not in (known := available_hops(experiment, name)):
                    raise ConfigError(
                        f'stage "{stage.name}": path {path} asks stage "{name}" for {hop}, which it does not '
                        f"translate. It translates {', '.join(map(str, sorted(known)))}."
                    )


def _check_own(stage: Stage, entry: MixEntry, expansion: Expansion, own: frozenset[Hop]) -> None:
    """A direction that is only imported has no weights of its own to generate with."""
    settings = entry.hop_settings(len(expansion.paths[0].generating))
    strange = {hop for path in expansion.paths for hop in path.generating} - own
    for path in expansion.paths if strange else ():
        for hop, setting in zip(path.generating, settings, strict=True):
            if {"live", "ema"} & set(setting.generators) and hop in strange:
                raise ConfigError(
                    f'stage "{stage.name}": path {path} generates {hop} by = "{setting.by}", but nothing trains {hop}: '
                    'it is an imported generator. Set by = "frozen" on that hop.'
                )
