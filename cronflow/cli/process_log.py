"""The log of every process, on stderr, as text or JSON.

The rules: each event is one line with an ISO time in UTC, the level, the event and `key=value` fields, also for
libraries that use Python's logging. Without LOG_FORMAT, `cronflow node` and `cronflow api` write text to a terminal and
JSON elsewhere; JSON lines include the role and name of the process. No line contains the value of a secret setting, a
password in a URL, an `Authorization` header, an API key, an access token, or a field named like a secret.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Collection, Mapping, MutableMapping
from datetime import date, datetime, timedelta
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from cronflow.cli.terminal.formatting import clean
from cronflow.config.values import masked_within
from cronflow.domain.access import KEY_PREFIX

if TYPE_CHECKING:
    from cronflow.config import Settings

SUCCESS = 25
MASK = "***"
SHORTEST = 4
"""Shorter secrets would match inside ordinary words; in a URL they are still masked."""
DEEPEST = 8

_NAMED = re.compile(r"passw|secret|token|authorization|api_?key|cookie|credential", re.IGNORECASE)
_SHAPED = (
    (re.compile(r"\b(authorization['\"]?\s*[:=]\s*b?['\"]?)[^'\",}\n]+", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {MASK}"),
    (re.compile(rf"{re.escape(KEY_PREFIX)}[\w-]+\.[\w.-]+"), f"{KEY_PREFIX}{MASK}"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), MASK),
)

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_SHOWN = {"warning": "WARN", "critical": "ERROR"}
_COLOURS = {"DEBUG": "90", "INFO": "36", "SUCCESS": "32", "WARN": "33", "ERROR": "31"}

Event = MutableMapping[str, Any]


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def log_of(settings: Settings, *, otherwise: LogFormat | None = None, level: str | None = None, **about: str) -> None:
    """Configure the log. `otherwise` is the default of LOG_FORMAT; JSON lines include `about`."""
    from cronflow.config.settings import secrets_of

    form = LogFormat(settings.log_format) if settings.log_format is not None else otherwise
    if form is None:
        form = LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON
    configure(level or settings.log_level, form, about=about, secrets=secrets_of(settings))


def configure(
    level: str, form: LogFormat, *, about: Mapping[str, str] | None = None, secrets: Collection[str] = ()
) -> None:
    """Log to stderr in this format, at this level or above."""
    least = _LEVELS[level]
    render = Json(about or {}) if form is LogFormat.JSON else People(colour=_is_coloured())
    before: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.format_exc_info,
        # Last, because it masks the fields that the others add.
        Masking(secrets),
    ]
    structlog.configure(
        processors=[*before, render],
        wrapper_class=_logger(least),
        logger_factory=lambda *_: _Printer(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render]
        )
    )
    logging.basicConfig(level=least, handlers=[handler], force=True)


class _Printer(structlog.PrintLogger):
    """Writes lines; structlog's own has no level SUCCESS."""

    success = structlog.PrintLogger.msg


def _logger(least: int) -> type:
    """structlog's logger with the level SUCCESS between INFO and WARN."""
    filtering: Any = structlog.make_filtering_bound_logger(least)

    def success(self: Any, event: str, **fields: object) -> Any:
        return self._proxy_to_logger("success", event, **fields) if least <= SUCCESS else None

    return type("Logger", (filtering,), {"success": success})


class Json:
    """One object per line: at, level, event, about, and the fields."""

    def __init__(self, about: Mapping[str, str]) -> None:
        self._about = about

    def __call__(self, _logger: object, _method: str, event: Event) -> str:
        ordered = {
            "at": event.pop("at", None),
            "level": _level(event).lower(),
            "event": str(event.pop("event", "")),
            **self._about,
            **event,
        }
        return orjson.dumps(ordered, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class People:
    """One line per event; a traceback follows on lines of its own."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def __call__(self, _logger: object, _method: str, event: Event) -> str:
        at = str(event.pop("at", ""))
        level = _level(event)
        trace = str(event.pop("exception", "") or "")
        text = clean(str(event.pop("event", "")))
        fields = " ".join(f"{key}={_value(value)}" for key, value in event.items() if value is not None)
        line = f"{self._paint('90', at)} {self._paint(_COLOURS.get(level, '0'), f'{level:<7}')} {text}"
        if fields:
            line += f"  {self._paint('90', fields)}"
        return f"{line}\n{trace}" if trace else line

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


def _level(event: Event) -> str:
    name = str(event.pop("level", "info"))
    return _SHOWN.get(name, name.upper())


def _value(value: object) -> str:
    """One word: quoted when it is empty or has a space, a quote or an equals sign."""
    text = str(value)
    if text and clean(text) == text and not any(letter.isspace() or letter in '"=' for letter in text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _is_coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


class Masking:
    """A processor of structlog. `secrets` are values that must never be shown."""

    def __init__(self, secrets: Collection[str]) -> None:
        # The longest first: one may be part of another.
        known = sorted((secret for secret in secrets if len(secret) >= SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for name, value in event.items():
            # Fields that begin with an underscore belong to the formatter and are not rendered.
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
