"""The log of every process, on stderr: lines for people, or JSON.

The rules: one event, one line: an ISO time in UTC, the level, what happened, then `key=value`. Lines of libraries that
use Python's own logging look the same. A process that runs (`cronflow node`, `cronflow api`) writes for people on a
terminal and JSON elsewhere, unless LOG_FORMAT says it. JSON has the role and the name of the process in each line;
people see them. Secrets are masked, see `masking`. Colours are for terminals alone.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Collection, Mapping, MutableMapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from cronflow.cli.masking import Masking
from cronflow.cli.words import clean

if TYPE_CHECKING:
    from cronflow.config import Settings

SUCCESS = 25

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_SHOWN = {"warning": "WARN", "critical": "ERROR"}
_COLOURS = {"DEBUG": "90", "INFO": "36", "SUCCESS": "32", "WARN": "33", "ERROR": "31"}

Event = MutableMapping[str, Any]


class LogFormat(StrEnum):
    """For whom the log is."""

    TEXT = "text"
    JSON = "json"


def log_of(settings: Settings, *, otherwise: LogFormat | None = None, level: str | None = None, **about: str) -> None:
    """As the settings say; where they do not, in the form `otherwise`, or as suits stderr. `about` is what JSON says of
    this process in each line.
    """
    from cronflow.config.credentials import secrets_of

    form = LogFormat(settings.log_format) if settings.log_format is not None else otherwise
    if form is None:
        form = LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON
    configure(level or settings.log_level, form, about=about, secrets=secrets_of(settings))


def configure(
    level: str, form: LogFormat, *, about: Mapping[str, str] | None = None, secrets: Collection[str] = ()
) -> None:
    """From now on, whatever this process logs at or above the level goes to stderr in this form."""
    least = _LEVELS[level]
    render = Json(about or {}) if form is LogFormat.JSON else People(colour=_is_coloured())
    before: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.format_exc_info,
        # Behind all that adds something.
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
    """Writes lines; the one of structlog does not know the level SUCCESS."""

    success = structlog.PrintLogger.msg


def _logger(least: int) -> type:
    """The logger of structlog, and between INFO and WARN the level SUCCESS."""
    filtering: Any = structlog.make_filtering_bound_logger(least)

    def success(self: Any, event: str, **fields: object) -> Any:
        return self._proxy_to_logger("success", event, **fields) if least <= SUCCESS else None

    return type("Logger", (filtering,), {"success": success})


class Json:
    """One object a line: at, level, event, what it is about, and the fields."""

    def __init__(self, about: Mapping[str, str]) -> None:
        self._about = about

    def __call__(self, _logger: object, _method: str, event: Event) -> str:
        """Render an event."""
        ordered = {
            "at": event.pop("at", None),
            "level": _level(event).lower(),
            "event": str(event.pop("event", "")),
            **self._about,
            **event,
        }
        return orjson.dumps(ordered, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class People:
    """One line an event; a traceback follows on lines of its own."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def __call__(self, _logger: object, _method: str, event: Event) -> str:
        """Render an event."""
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
