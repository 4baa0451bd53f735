"""Reads limit files, YAML or JSON, into limits, or reports all their problems with file, line and path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cronflow.documents.limits import parse_limits
from cronflow.documents.values import got
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.permits import NamedLimit
from cronflow.files.yaml_source import text_of, yaml_documents


def read_limit_files(paths: Sequence[Path]) -> list[NamedLimit]:
    """The limits of all files, in order. A file has a mapping of names under `limits`. Raises InvalidInput with the
    problems of all files.
    """
    limits: dict[str, NamedLimit] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            for document in yaml_documents(path, text_of(path), "limits"):
                problems += document.problems
                try:
                    for limit in _limits(document.value):
                        if limit.name in limits:
                            what = f"the limit {limit.name!r} is defined twice"
                            raise InvalidInput(Problem(f"limits.{limit.name}", what, "remove one of the two"))
                        limits[limit.name] = limit
                except InvalidInput as error:
                    problems += map(document.located, error.problems)
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return list(limits.values())


def _limits(value: object) -> list[NamedLimit]:
    remedy = "write limits: and the limits by name below it"
    if not isinstance(value, Mapping):
        raise InvalidInput(Problem("", f"expected a mapping, got {got(value)}", remedy))
    if "limits" not in value:
        raise InvalidInput(Problem("", "has no limits", remedy))
    others = [str(key) for key in value if key != "limits"]
    if others:
        raise InvalidInput([Problem(key, "unknown key next to limits", "remove it") for key in others])
    return parse_limits(value["limits"])
