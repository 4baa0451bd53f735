"""Reads calendar files, YAML or JSON, into calendars, or reports all their problems with file, line and path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cronflow.documents.calendars import parse_calendars
from cronflow.documents.values import got
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.calendar import Calendar
from cronflow.files.yaml_source import text_of, yaml_documents

REMEDY = "write calendars: and the calendars by name below it"


def read_calendar_files(paths: Sequence[Path]) -> list[Calendar]:
    """The calendars of all files, in order. A file has a mapping of names under `calendars`. Raises InvalidInput with
    the problems of all files.
    """
    calendars: dict[str, Calendar] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            for document in yaml_documents(path, text_of(path), "calendars"):
                problems += document.problems
                try:
                    for calendar in _calendars(document.value):
                        if calendar.name in calendars:
                            what = f"the calendar {calendar.name!r} is defined twice"
                            raise InvalidInput(Problem(f"calendars.{calendar.name}", what, "remove one of the two"))
                        calendars[calendar.name] = calendar
                except InvalidInput as error:
                    problems += map(document.located, error.problems)
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return list(calendars.values())


def _calendars(value: object) -> list[Calendar]:
    if not isinstance(value, Mapping):
        raise InvalidInput(Problem("", f"expected a mapping, got {got(value)}", REMEDY))
    if "calendars" not in value:
        raise InvalidInput(Problem("", "has no calendars", REMEDY))
    others = [str(key) for key in value if key != "calendars"]
    if others:
        raise InvalidInput([Problem(key, "unknown key next to calendars", "remove it") for key in others])
    return parse_calendars(value["calendars"])
