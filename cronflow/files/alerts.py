"""Reads alert files, YAML or JSON, into alerts, or reports all their problems with file, line and path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cronflow.documents.alerts import parse_alert
from cronflow.documents.values import got
from cronflow.domain.alerts import Alert
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.files.yaml_source import YamlDocument, text_of, yaml_documents

_OF_AN_ALERT = {"name", "on", "webhook"}


def read_alert_files(paths: Sequence[Path]) -> list[Alert]:
    """The alerts of all files, in order. A file has a list under `alerts`, or is a single alert. Raises InvalidInput
    with the problems of all files.
    """
    alerts: list[Alert] = []
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    for path in paths:
        try:
            for document in yaml_documents(path, text_of(path), "alerts"):
                problems += document.problems
                for place, entry in _entries(document, problems):
                    try:
                        alert = parse_alert(entry, place)
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


def _entries(document: YamlDocument, problems: list[Problem]) -> list[tuple[str, object]]:
    def refuse(place: str, what: str, remedy: str) -> list[tuple[str, object]]:
        problems.append(document.located(Problem(place, what, remedy)))
        return []

    value = document.value
    if not isinstance(value, Mapping):
        return refuse("", f"expected a mapping, got {got(value)}", "write alerts: and a list of alerts below it")
    if "alerts" not in value:
        if value.keys() & _OF_AN_ALERT:
            return [("", value)]
        return refuse("", "has neither alerts nor the keys of an alert", "write alerts: and a list of alerts below it")
    for key in value:
        if key != "alerts":
            refuse(str(key), "unknown key beside alerts", "move it into the alerts, or remove it")
    entries = value["alerts"]
    if not isinstance(entries, list):
        return refuse("alerts", f"expected a list of alerts, got {got(entries)}", "begin each alert with a dash")
    return [(f"alerts[{n}]", entry) for n, entry in enumerate(entries)]
