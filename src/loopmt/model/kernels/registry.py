"""The registry of CUDA kernels: each is registered with the reference function that it replaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])
_KERNELS: dict[Callable[..., Any], str] = {}
KERNELS: Mapping[Callable[..., Any], str] = MappingProxyType(_KERNELS)


def has_kernel(place: str) -> Callable[[Function], Function]:
    """Register the kernel of a function as "module:name". The module needs triton and is imported at first use."""

    def register(function: Function) -> Function:
        _KERNELS[function] = place
        return function

    return register


def kernel_of(function: Function) -> Function:
    """The registered kernel of `function`. A function without one is an error; there is no silent fallback."""
    if function not in _KERNELS:
        raise LookupError(f"{function.__module__}.{function.__qualname__} has no registered kernel")
    return cast(Function, _loaded(_KERNELS[function]))


@cache
def _loaded(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    return cast(Callable[..., Any], getattr(import_module(module), name))
