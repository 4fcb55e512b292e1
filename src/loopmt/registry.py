"""Functions that an experiment chooses by name: metrics, filters of generated text, alarms.

A name is a registered one, `module:function`, which is imported, or `command:PROGRAM ARGS...`, which is run
(see `loopmt.external`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from loopmt.errors import ConfigError
from loopmt.external import Command, explained, imported, is_command, is_external

Entry = TypeVar("Entry")
AnyFunction = Callable[..., Any]
Function = TypeVar("Function", bound=AnyFunction)


class Registry(Generic[Entry]):
    """Functions of one kind by name, in the order in which they were registered, with facts about each."""

    def __init__(
        self,
        kind: str,
        make: Callable[..., Entry],
        from_command: Callable[[Command], AnyFunction] | None = None,
    ) -> None:
        """`make(name, function, **facts)` creates an entry; `from_command` wraps a program as a function."""
        self.kind = kind
        self._make = make
        self._from_command = from_command
        self._known: dict[str, tuple[AnyFunction, Mapping[str, Any]]] = {}

    def register(self, name: str, **facts: Any) -> Callable[[Function], Function]:
        """A decorator that registers a function under this name."""

        def decorate(function: Function) -> Function:
            self._check_new(name, function)
            self._known[name] = function, facts
            return function

        return decorate

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def find(self, name: str) -> Entry:
        """The entry of a name. An external function is imported; an external program must exist."""
        self.check(name)
        if name in self._known:
            return self._registered(name)
        return self._make(name, self._of_command(name)) if is_command(name) else self._imported(name)

    def check(self, name: str) -> None:
        """Raise an error if a name is unknown; nothing is imported."""
        if name in self._known or is_external(name):
            return
        near = difflib.get_close_matches(name, self._known, n=1, cutoff=0.4)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        others = ' or "command:PROGRAM ARGS..."' if self._from_command else ""
        raise ConfigError(
            f'there is no {self.kind} "{name}".{hint} There are: {", ".join(self)}. '
            f'Write your own as "module:function"{others}.'
        )

    def _registered(self, name: str) -> Entry:
        function, facts = self._known[name]
        ours = function.__module__.startswith("loopmt.")
        return self._make(name, function if ours else explained(function, f'{self.kind} "{name}"'), **facts)

    def _imported(self, reference: str) -> Entry:
        function = imported(reference, self.kind)
        for name, (known, _) in self._known.items():
            if known is function:  # the module registered it, with facts that the reference lacks
                return self._registered(name)
        return self._make(reference, explained(function, f'{self.kind} "{reference}"'))

    def _of_command(self, reference: str) -> AnyFunction:
        if self._from_command is None:
            raise ConfigError(f'{self.kind} "{reference}": a {self.kind} cannot be a program. Write "module:function".')
        return self._from_command(Command.parse(reference))

    def _check_new(self, name: str, function: AnyFunction) -> None:
        if is_external(name):
            raise ConfigError(f'{self.kind} "{name}" cannot be registered: remove the colon from its name.')
        if name in self._known and (before := _origin(self._known[name][0])) != _origin(function):
            raise ConfigError(
                f'{self.kind} "{name}" is registered by {before} and by {_origin(function)}. Choose another name.'
            )


def _origin(function: AnyFunction) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"
