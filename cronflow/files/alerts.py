"""Reads alert files, YAML or JSON, into alerts, or reports all their problems with file, line and path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cronflow.documents.alerts import parse_alert
from cronflow.domain.alerts import Alert
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.files.yaml_source import entries_of, text_of, yaml_documents

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
                for place, entry in entries_of(document, "alerts", "an alert", _OF_AN_ALERT, problems):
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
