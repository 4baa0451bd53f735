"""Masks secrets in what is logged, whatever field they stand in.

The rule it protects: no line of the log shows the value of a secret setting, a password within an address, what an
`Authorization` header carries, an API key or an access token, nor the value of a field that is named as secrets are.
What is no text becomes text first, because it would when it is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, MutableMapping
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any

from cronflow.auth.texts import KEY_PREFIX
from cronflow.config.values import masked_within

MASK = "***"
SHORTEST = 4
"""A shorter secret would be found within words that are none; in an address it is masked all the same."""
DEEPEST = 8

_NAMED = re.compile(r"passw|secret|token|authorization|api_?key|cookie|credential", re.IGNORECASE)
_SHAPED = (
    (re.compile(r"\b(authorization['\"]?\s*[:=]\s*b?['\"]?)[^'\",}\n]+", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {MASK}"),
    (re.compile(rf"{re.escape(KEY_PREFIX)}[\w-]+\.[\w.-]+"), f"{KEY_PREFIX}{MASK}"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), MASK),
)


class Masking:
    """A processor of structlog. `secrets` are values that must not be shown wherever they stand."""

    def __init__(self, secrets: Collection[str]) -> None:
        # The longest first: one may be part of another.
        known = sorted((secret for secret in secrets if len(secret) >= SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Mask an event."""
        for name, value in event.items():
            # What begins with an underscore is the formatter's own and is not rendered.
            if not name.startswith("_"):
                event[name] = self._field(name, value, DEEPEST)
        return event

    def _field(self, name: object, value: object, depth: int) -> object:
        if isinstance(name, str) and _NAMED.search(name) and not isinstance(value, bool | int | float | None):
            return MASK
        return self._masked(value, depth)

    def _masked(self, value: object, depth: int) -> object:
        match value:
            case None | bool() | int() | float() | datetime() | date() | timedelta():
                return value
            case str():
                return self._text(value.value if isinstance(value, Enum) else value)
            case Mapping() if depth:
                return {self._masked(name, 0): self._field(name, inner, depth - 1) for name, inner in value.items()}
            case list() | tuple() | set() | frozenset() if depth:
                return [self._masked(inner, depth - 1) for inner in value]
            case _:
                return self._text(str(value))

    def _text(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = masked_within(text)
        for shape, instead in _SHAPED:
            text = shape.sub(instead, text)
        return text
