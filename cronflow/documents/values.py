"""The kinds of values in a plain document: one strict reader each.

A reader takes a value as a YAML or JSON loader left it and returns it in the domain's type, or raises InvalidInput
whose places are relative to the value; each level above puts its own key in front. So a valid document costs no paths,
and an error has everything that is wrong. Nothing is converted by guessing: the number 8080 is not text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeVar

from cronflow.domain.durations import format_duration, parse_duration
from cronflow.domain.errors import MOST_PROBLEMS, InvalidInput, Problem

Choice = TypeVar("Choice", bound=Enum)
Reader = Callable[[Any], object]

DEEPEST = 50
LONGEST_WORD = 64
"""A longer word is not compared with known ones: that would take long, and none is meant."""


def under(place: str, problems: Iterable[Problem]) -> list[Problem]:
    """The same problems, with places below `place`."""
    return [Problem(joined(place, problem.place), problem.what, problem.remedy) for problem in problems]


def joined(place: str, rest: str) -> str:
    """A path, and what follows it: `jobs[0]` and `schedule`, or `jobs` and `[0]`."""
    return f"{place}.{rest}" if place and rest and not rest.startswith("[") else place + rest


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably intended, or None."""
    if len(word) > LONGEST_WORD:
        return None
    close = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def too_large(value: object) -> bool:
    """Whether it is a whole number of more than 64 bits, which neither the store nor a float could hold."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def got(value: object) -> str:
    """A value in the words of an error: a list, the number 5, nothing."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number that is too large" if too_large(value) else f"the number {value}"
        case str():
            return f"the text {value!r}" if len(value) <= 40 else f"the text {value[:37]!r}…"
        case datetime():
            return "a date with a time"
        case date():
            return "a date"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return f"a value of the type {type(value).__name__}"


def text(value: object) -> str:
    """Text that UTF-8 can carry."""
    if not isinstance(value, str):
        remedy = "put it in quotes" if isinstance(value, bool | int | float | date) else ""
        raise InvalidInput(Problem("", f"expected text, got {got(value)}", remedy))
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput("is not valid Unicode: it contains half of a surrogate pair") from None
    return value


def key_text(value: object) -> str:
    """A key: text without NUL, which the store could not keep."""
    if not isinstance(value, str):
        raise InvalidInput(Problem("", f"expected text as a key, got {got(value)}", "put the key in quotes"))
    if "\0" in value:
        raise InvalidInput("a key contains a NUL character")
    return text(value)


def flag(value: object) -> bool:
    """True or false; not 1 or "true"."""
    if not isinstance(value, bool):
        raise InvalidInput(f"expected true or false, got {got(value)}")
    return value


def whole(value: object) -> int:
    """A whole number of at most 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or too_large(value):
        raise InvalidInput(f"expected a whole number, got {got(value)}")
    return value


def number(value: object) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or too_large(value):
        raise InvalidInput(f"expected a number, got {got(value)}")
    return float(value)


def written_duration(value: object) -> str | int | float:
    """A duration as it was written, for classes that parse it and quote it in their errors."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or too_large(value):
        raise InvalidInput(f"expected a duration such as 30s, got {got(value)}")
    return value


def duration_text(value: timedelta) -> str | float:
    """In the largest unit that divides it; below a millisecond there is none, and it is a number of seconds."""
    written = format_duration(value)
    return written if parse_duration(written) == value else value.total_seconds()


def instant_text(value: datetime) -> str:
    """`2026-11-21T12:00:00Z`."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def duration(value: object) -> timedelta:
    """A duration: 500ms, 30s, 5m, 2h, 1d, or seconds as a number."""
    return parse_duration(written_duration(value))


def instant(value: object) -> datetime:
    """An instant in UTC, from ISO 8601 text or from the datetime that a YAML loader made of it."""
    read = value
    if isinstance(value, str):
        try:
            read = datetime.fromisoformat(value.strip())
        except ValueError:
            remedy = "write it like 2026-12-24T18:00:00Z or 2026-12-24T18:00:00+01:00"
            raise InvalidInput(Problem("", f"{value!r} is not a date with a time", remedy)) from None
    if not isinstance(read, datetime):
        remedy = "write it like 2026-12-24T18:00:00Z"
        raise InvalidInput(Problem("", f"expected a date with a time, got {got(value)}", remedy))
    if read.utcoffset() is None:
        what = f"{read.isoformat()} has no time zone"
        raise InvalidInput(Problem("", what, "add Z for UTC, or an offset such as +01:00"))
    try:
        return read.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{read.isoformat()} is outside the years 1 to 9999 in UTC") from None


def choice(kind: type[Choice]) -> Callable[[object], Choice]:
    """One of the words of an enumeration."""
    words: dict[object, Choice] = {member.value: member for member in kind}
    *most, last = (str(word) for word in words)
    expected = f"{', '.join(most)} or {last}"

    def read(value: object) -> Choice:
        found = words.get(value) if isinstance(value, str) else None
        if found is not None:
            return found
        near = nearest(value, (str(word) for word in words)) if isinstance(value, str) else None
        remedy = f"did you mean {near}?" if near else ""
        raise InvalidInput(Problem("", f"expected {expected}, got {got(value)}", remedy))

    return read


def optional(convert: Reader) -> Reader:
    """The same for a value that may be null."""
    return lambda value: None if value is None else convert(value)


def list_of(reader: Reader, what: str) -> Callable[[object], tuple[Any, ...]]:
    """A list, as a tuple; `what` names its items in the plural."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"expected a list of {what}, got {got(value)}")
        return tuple(_each(value, reader, _position))

    return read


def texts_by_key(value: object) -> dict[str, str]:
    """A mapping of text to text, such as labels or environment variables."""
    return dict(zip(*_keys_and_items(value, text), strict=True))


def json_mapping(value: object) -> dict[str, object]:
    """A mapping of JSON values, as new dicts and lists."""
    return dict(zip(*_keys_and_items(value, lambda item: json_value(item, 1)), strict=True))


def json_value(value: object, depth: int) -> object:
    """A JSON value at this depth, as new dicts and lists; numbers are finite and have at most 64 bits."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int):
        return whole(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"expected a finite number, got {value}")
        return value
    if depth >= DEEPEST:
        raise InvalidInput(f"nested more than {DEEPEST} levels deep")
    if isinstance(value, Mapping):
        return dict(zip(*_keys_and_items(value, lambda item: json_value(item, depth + 1)), strict=True))
    if isinstance(value, list | tuple):
        return _each(value, lambda item: json_value(item, depth + 1), _position)
    remedy = "put it in quotes" if isinstance(value, date) else ""
    raise InvalidInput(Problem("", f"expected a JSON value, got {got(value)}", remedy))


def _keys_and_items(value: object, reader: Reader) -> tuple[list[str], list[Any]]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"expected a mapping, got {got(value)}")
    keys = _each(value, key_text, lambda n: shown_key(list(value)[n]))
    return keys, _each(value.values(), reader, lambda n: list(value)[n])


def _each(items: Iterable[Any], reader: Reader, place: Callable[[int], str]) -> list[Any]:
    """Every item read, or the first problems; `place` is that of the n-th item, made only for a problem."""
    read: list[Any] = []
    problems: list[Problem] = []
    for n, item in enumerate(items):
        try:
            read.append(reader(item))
        except InvalidInput as error:
            problems += under(place(n), error.problems)
            if len(problems) > MOST_PROBLEMS:
                break
    if problems:
        raise InvalidInput(problems)
    return read


def _position(n: int) -> str:
    return f"[{n}]"


def shown_key(key: object) -> str:
    """A key as part of a place, even if it is not text."""
    return key if isinstance(key, str) else repr(key)
