"""References to secrets in a job's target, and masking of secret values in output.

`${secret:NAME}` is allowed in the headers and body of a request or message, in the address of a broker, in the
environment of a command and in the arguments of a Python function, alone or within other text. It is not allowed in a
command, which every process of the machine can see, or in the URL of a request, which logs and proxies store. Only a
job's own document is searched. The arguments of a single run are plain text, because a user who may run a job may not
be allowed to read secrets.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cronflow.domain.errors import InvalidInput, Problem

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SHORTEST, LONGEST = 4, 64 * 1024
HIDDEN = "***"

_BEGIN = "${secret:"
_REFERENCE = re.compile(r"\$\{secret:([^}]*)\}?")


def check_secret_name(name: str) -> str:
    """Returns the name or raises InvalidInput."""
    if not NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is not a secret name; use 1 to 100 letters, digits, '.', '_' and '-'")
    return name


def check_secret_value(value: str) -> str:
    """Returns the value or raises InvalidInput. Masking a very short value would mask half of every log."""
    if not SHORTEST <= len(value) <= LONGEST:
        raise InvalidInput(f"a secret has {SHORTEST} to {LONGEST:,} characters, this one has {len(value):,}")
    if "\0" in value:
        raise InvalidInput("a secret cannot contain a NUL character")
    if _BEGIN in value:
        raise InvalidInput(f"a secret cannot contain {_BEGIN}, which would refer to another one")
    return value


def check_references(value: object, place: str) -> None:
    """Raises InvalidInput for a malformed reference."""
    for text in _texts(value):
        for found in _REFERENCE.finditer(text):
            if not NAME.fullmatch(found[1]) or not found[0].endswith("}"):
                what = f"{found[0][:60]!r} is not a reference to a secret"
                raise InvalidInput(Problem("", f"{place}: {what}", "write ${secret:NAME}"))


def refuse_references(value: object, place: str, remedy: str) -> None:
    """Raises InvalidInput for a reference in a place where others could read the secret."""
    if any(_BEGIN in text for text in _texts(value)):
        raise InvalidInput(Problem("", f"a secret in {place} would be visible to others", remedy))


def referenced(value: Any) -> set[str]:
    """The names of the secrets that a plain value or a dataclass of plain values refers to."""
    return {found[1] for text in _texts(value) for found in _REFERENCE.finditer(text)}


def filled(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with each reference replaced. `secrets` must have every name."""
    return _mapped(value, lambda text: _REFERENCE.sub(lambda found: secrets[found[1]], text))


class Mask:
    """Replaces secrets by `***` in plain values: each secret, each longer line of it, and its Python and JSON forms.
    Derived values, for example a hash or base64, are not recognized.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        # The longest first, because one secret may be a prefix of another.
        ordered = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)

    def value(self, value: Any) -> Any:
        """Masks the keys of mappings too."""
        return _mapped(value, self.text, keys=True)


def _forms(secret: str) -> Iterable[str]:
    lines = [line.strip() for line in secret.splitlines()]
    for part in (secret, secret.strip(), *lines):
        if len(part) >= SHORTEST:
            yield from (part, repr(part)[1:-1], json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1])


def _texts(value: Any) -> list[str]:
    found: list[str] = []
    _collect(value, found)
    return found


def _collect(value: Any, found: list[str]) -> None:
    # Every job that is read comes through here, so the common kinds are first.
    if isinstance(value, str):
        found.append(value)
    elif value is None or isinstance(value, int | float):
        return
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, found)
    elif isinstance(value, Mapping):
        for item in value.values():
            _collect(item, found)
    elif dataclasses.is_dataclass(value):
        for name in value.__dataclass_fields__:
            _collect(getattr(value, name), found)


def _mapped(value: Any, change: Callable[[str], str], *, keys: bool = False) -> Any:
    match value:
        case str():
            return change(value)
        case Mapping():
            return {
                change(key) if keys and isinstance(key, str) else key: _mapped(item, change, keys=keys)
                for key, item in value.items()
            }
        case list() | tuple():
            return type(value)(_mapped(item, change, keys=keys) for item in value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changed = {
                field.name: _mapped(getattr(value, field.name), change, keys=keys)
                for field in dataclasses.fields(value)
            }
            return dataclasses.replace(value, **changed)
    return value
