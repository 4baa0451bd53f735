"""A short way for plain values past typer's checks, which load pydantic: longer than most commands take as a whole.

The rule: it takes what is certain (text for text, a member of an enumeration, a whole number within its bounds, a
path, lists of these, nothing for what may be left out) and leaves the rest, every error included, to typer. Where
typer is of another make, without a description of its types, it does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_UNSURE = object()


def quicken(command: Any) -> None:
    """Let the parameters of a command, and of all below it, take the short way."""
    for param in command.params:
        _quicken(param)
    # The option for help is made when it is first asked for, and kept.
    command.get_help_option = partial(_help_option, command.get_help_option)
    for inner in getattr(command, "commands", {}).values():
        quicken(inner)


def _quicken(param: Any) -> Any:
    if hasattr(param, "type_descriptor") and not isinstance(param.process_value, partial):
        param.process_value = partial(_process, param, param.process_value)
    return param


def _help_option(original: Callable[[Any], Any], ctx: Any) -> Any:
    return _quicken(original(ctx))


def _process(param: Any, original: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    several = param.multiple or param.nargs == -1
    if value is None or (several and not value):
        taken = _UNSURE if param.required else (() if several else None)
    elif several:
        [inner] = get_args(param.type_descriptor.annotation) or [None]
        items = [_taken(param, inner, item) for item in value]
        taken = _UNSURE if any(item is _UNSURE for item in items) else items
    else:
        taken = _taken(param, param.type_descriptor.annotation, value)
    if taken is _UNSURE:
        return original(ctx, value)
    return taken if param.callback is None else param.callback(ctx, param, taken)


def _taken(param: Any, kind: Any, value: Any) -> Any:
    """The value as what the command expects, or `_UNSURE`."""
    if get_origin(kind) is not None or not isinstance(kind, type):
        return _UNSURE
    if kind is int and isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if kind is int and type(value) is int:
        low, high = param.min, param.max
        return value if (low is None or value >= low) and (high is None or value <= high) else _UNSURE
    if kind is str or issubclass(kind, Enum):
        if isinstance(value, kind):
            return value
        return next((member for member in kind if member.value == value), _UNSURE) if kind is not str else _UNSURE
    if kind is Path and isinstance(value, str):
        return Path(value)
    return value if kind is bool and isinstance(value, bool) else _UNSURE
