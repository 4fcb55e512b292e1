"""What an experiment file may say about pretrained translators of single directions (`[[imported]]`)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from loopmt.config.schema import Generate, Imported
from loopmt.errors import ConfigError, PathError
from loopmt.path import Hop, LanguagePath

if TYPE_CHECKING:
    from loopmt.config.experiment import Experiment

_EXAMPLE = '"Translate {source_language} to {target_language}: {text}"'
_OURS = {"messages": "prompt", "model": "model", "stream": "", "n": "", "seed": "seed"}
_SECRETS = ("key", "token", "authorization", "secret", "password")


def check_imported_entries(experiment: Experiment) -> None:
    languages = experiment.languages
    for imported in experiment.imported:
        try:
            places = LanguagePath.parse(imported.direction).languages
        except PathError as error:
            raise ConfigError(f"imported: {error}") from None
        if len(places) != 2 or not set(places) <= set(languages):
            raise ConfigError(
                f'imported "{imported.direction}": write one direction of the languages {", ".join(languages)}, '
                'as in "en>fr".'
            )
        _check_endpoint(imported)
    _check_once(experiment)
    if experiment.model.sharing == "all" and experiment.imports("start"):
        raise ConfigError(
            "imported: a network that all directions share cannot start from a translator of one. "
            'Set use = "generator", or model.sharing = "none".'
        )


def _check_once(experiment: Experiment) -> None:
    seen: set[tuple[Hop, str]] = set()
    for imported in experiment.imported:
        if (imported.hop, imported.use) in seen:
            raise ConfigError(
                f'imported names {imported.hop} with use = "{imported.use}" twice. Remove one of the two entries.'
            )
        seen.add((imported.hop, imported.use))


def _check_endpoint(imported: Imported) -> None:
    where = f'imported "{imported.direction}"'
    given = [key for key in ("model", "prompt", "names", "options") if getattr(imported, key)]
    if imported.url is None:
        if given:
            raise ConfigError(f"{where}: {given[0]} is for an endpoint. Set url, too, or remove {given[0]}.")
        return
    if imported.use != "generator":
        raise ConfigError(f'{where}: an endpoint gives no weights to start from. Set use = "generator".')
    _check_url(where, imported.url)
    if not imported.model:
        raise ConfigError(f"{where}: set model, the name under which the endpoint serves the model.")
    if "{text}" not in (imported.prompt or ""):
        raise ConfigError(f"{where}: set prompt, with {{text}} where the sentence goes, as in {_EXAMPLE}.")
    _check_options(where, imported)


def _check_url(where: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f'{where}: url = "{url}" is not an address: {error}.') from None
    if parts.username or parts.password or parts.query or parts.fragment:  # it may hold a key, and is written down
        raise ConfigError(
            f"{where}: url holds a user, a password or parameters. Write the address alone, as in "
            '"http://localhost:8000/v1"; the key comes from the environment variable LOOPMT_API_KEY.'
        )
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f'{where}: url = "{url}": write an address, as in "http://localhost:8000/v1".')


def _check_options(where: str, imported: Imported) -> None:
    for name in imported.options:
        if name in _OURS:
            own = f"; set {_OURS[name]}" if _OURS[name] in ("prompt", "model") else ""
            raise ConfigError(f"{where}: options.{name} is set by loopmt{own}. Remove it from options.")
        if any(word in name.lower() for word in _SECRETS) and isinstance(imported.options[name], str):
            raise ConfigError(
                f"{where}: options.{name} may be a key, and would be written to disk. Set the environment variable "
                "LOOPMT_API_KEY instead."
            )


def check_endpoint_search(experiment: Experiment, where: str, hop: Hop, how: Generate) -> None:
    """An endpoint samples or decodes greedily."""
    endpoints = {imported.hop for imported in experiment.imported if imported.url is not None}
    if hop in endpoints and "frozen" in how.generators and how.how == "beam":
        raise ConfigError(f'{where}: the endpoint for {hop} has no beam search. Set how = "greedy" or how = "sample".')
