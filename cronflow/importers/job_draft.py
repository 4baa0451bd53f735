"""A job while an importer reads it: its document and notes grow together, so that no decision is left without one.

`Refused` ends the reading of one entry; the others continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cronflow.domain.errors import InvalidInput
from cronflow.importers.imported import NO_RETRIES, ImportedJob, ImportNote, ImportRefusal, job_name

LONG_TIMEOUT = "1d"
"""The `timeout` of a job whose source has none. A job of CronFlow always has one, 1h by default."""


class Refused(Exception):
    """An entry cannot be imported: why, and what to do instead."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy

    def refusal(self, place: str, text: str) -> ImportRefusal:
        return ImportRefusal(place, text, self.reason, self.remedy)


def refused(error: InvalidInput) -> Refused:
    """The first problem of invalid input, as the refusal of an entry."""
    first = error.problems[0]
    reason = f"{first.place}: {first.what}" if first.place else first.what
    return Refused(reason, first.remedy or "write the job yourself")


class JobDraft:
    def __init__(self, place: str, original: str, whole: str = "") -> None:
        self.place, self.original, self.whole = place, original, whole
        self.document: dict[str, Any] = {}
        self._notes: list[ImportNote] = []

    def set(self, key: str, value: Any, *notes: str) -> None:
        """Set a key of the job, with the notes that belong to it."""
        self.document[key] = value
        for text in notes:
            self.note(text, key)

    def note(self, text: str, *path: str) -> None:
        """Without a path, the note belongs to the whole job."""
        self._notes.append(ImportNote(path, text))

    def no_retries(self, text: str) -> None:
        self.set("retry", NO_RETRIES, text)

    def left_out(self, what: str, keys: Iterable[str]) -> None:
        """A note that names keys of the source that have no counterpart."""
        names = sorted(keys)
        if names:
            self.note(f"{what}: {', '.join(names)}.")

    def imported(self, name: str) -> ImportedJob:
        return ImportedJob(
            job_name(name), dict(self.document), tuple(self._notes), self.place, self.original, self.whole
        )


def mapping(value: object, what: str) -> Mapping[str, Any]:
    """A mapping of the source; empty if it is left out. Raises Refused for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Refused(f"{what} is not a mapping", "correct it")
    return value


def mappings(value: object, what: str) -> list[Mapping[str, Any]]:
    """A list of mappings of the source; empty if it is left out. Raises Refused for anything else."""
    return [mapping(one, what) for one in listed(value, what)]


def listed(value: object, what: str) -> list[Any]:
    """A list of the source; empty if it is left out. Raises Refused for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refused(f"{what} is not a list", "correct it")
    return value


def text_labels(labels: object) -> dict[str, str]:
    """The labels of a source as text. Empty values are kept as `true`, since labels of CronFlow have a value."""
    if not isinstance(labels, Mapping):
        return {}
    return {str(key): str(value) if value not in (None, "") else "true" for key, value in labels.items()}
