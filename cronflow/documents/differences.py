"""Compares documents key by key: which paths have another value, and where a document that is new has its values."""

from __future__ import annotations

from collections.abc import Mapping

Difference = tuple[str, object, object]
"""A path such as `schedule.cron`, the value before and the value after; None where there is none."""


def differences(before: object, after: object) -> list[Difference]:
    """Each path whose value differs, in the order of the documents; None is an empty document."""
    old, new = flat(before), flat(after)
    return [(path, old.get(path), new.get(path)) for path in {**old, **new} if old.get(path) != new.get(path)]


def flat(document: object, place: str = "") -> dict[str, object]:
    """The values of a document by path. Lists and empty mappings are values."""
    found: dict[str, object] = {}
    if not isinstance(document, Mapping):
        return found
    for key, value in document.items():
        path = f"{place}.{key}" if place else str(key)
        if isinstance(value, Mapping):
            found.update(flat(value, path))
        else:
            found[path] = value
    return found
