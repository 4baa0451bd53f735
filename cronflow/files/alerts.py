"""Reads alert files, YAML or JSON, into alerts, or reports all their problems with file, line and path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cronflow.documents.alerts import parse_alert
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import Alert
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.files.yaml_source import entries_of, text_of, yaml_documents

_OF_AN_ALERT = {"name", "on", "webhook"}
_RECEIVER_KEYS = ("name", "webhook", "email", "enabled")


def read_receiver_file(path: Path) -> list[Alert]:
    """The enabled receivers of a file, which has a list of them under `receivers`: alerts that have only a name, and
    `webhook` or `email`. Raises InvalidInput.
    """
    found = _read([path], _parse_receiver, "receivers", "a receiver")
    return [alert for alert in found if alert.enabled]


def read_alert_files(paths: Sequence[Path]) -> list[Alert]:
    """The alerts of all files, in order. A file has a list under `alerts`, or is a single alert. Raises InvalidInput
    with the problems of all files.
    """
    return _read(paths, parse_alert, "alerts", "an alert")


def _parse_receiver(entry: object, place: str) -> Alert:
    if not isinstance(entry, Mapping):
        return parse_alert(entry, place)
    remedy = f"leave it out: a watcher sends every finding to every receiver, which has {', '.join(_RECEIVER_KEYS)}"
    problems = [
        Problem(f"{place}.{key}" if place else str(key), "has no effect for a watcher", remedy)
        for key in entry
        if key not in _RECEIVER_KEYS
    ]
    if problems:
        raise InvalidInput(problems)
    return parse_alert({**entry, "on": [AlertKind.HEARTBEAT]}, place)


def _read(paths: Sequence[Path], parse: Callable[[object, str], Alert], plural: str, one: str) -> list[Alert]:
    alerts: list[Alert] = []
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    for path in paths:
        try:
            for document in yaml_documents(path, text_of(path), plural):
                problems += document.problems
                for place, entry in entries_of(document, plural, one, _OF_AN_ALERT, problems):
                    try:
                        alert = parse(entry, place)
                    except InvalidInput as error:
                        problems += map(document.located, error.problems)
                        continue
                    here = document.located(Problem(place, "")).place
                    if (first := seen.setdefault(alert.name, here)) != here:
                        what = f"the name {alert.name!r} is taken by {first}"
                        problems.append(document.located(Problem(place, what, "rename one of the two")))
                    alerts.append(alert)
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return alerts
