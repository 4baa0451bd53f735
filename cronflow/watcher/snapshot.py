"""The snapshot of a watcher: one private file with the schedules, the calendars that they are bound to, and the
findings. It is replaced as a whole, so a reader finds the old or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from cronflow.documents.calendars import calendar_document, parse_calendar
from cronflow.documents.schedules import parse_schedule, write_schedule
from cronflow.documents.tables import DocumentTable
from cronflow.documents.values import instant, instant_text
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.kinds import Schedule, bound, named
from cronflow.domain.schedule.pins import book_of, pin_of
from cronflow.domain.schedule.zones import SECOND
from cronflow.domain.watch import WatchFinding, WatchKind
from cronflow.watcher.schedules import LOOK_BACK, WatchedJob

FORMAT = 1
SCHEDULES_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class WatchSnapshot:
    """What was known at an instant: the jobs, and the findings that have not ended."""

    at: datetime
    jobs: Sequence[WatchedJob] = ()
    findings: Sequence[WatchFinding] = field(default=())


class SnapshotFile:
    """Raises InvalidInput for a file that is no snapshot of this cluster, or cannot be read or written."""

    def __init__(self, path: Path, namespace: str) -> None:
        self._path, self._namespace = path, namespace

    def read(self, now: datetime) -> WatchSnapshot | None:
        """None if there is no file yet. Instants of long ago are left out."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._problem(f"cannot be read: {error.strerror}", "correct its rights") from None
        try:
            document = orjson.loads(content)
            namespace = document["namespace"] if document["format"] == FORMAT else None
            if namespace == self._namespace:
                return _snapshot(document, now)
        except (InvalidInput, KeyError, TypeError, ValueError):
            raise self._problem("is not a snapshot of this version", "delete it, and start again") from None
        if namespace is None:
            raise self._problem("is a snapshot of another version", "delete it, and start again")
        raise self._problem(f"is a snapshot of the cluster {namespace!r}", "give each cluster its own file")

    def check(self) -> None:
        """Raises InvalidInput if it could not be written."""
        if not os.access(self._path.parent, os.W_OK | os.X_OK):
            raise self._problem("cannot be written", f"create {self._path.parent}, writable by this user")

    def write(self, snapshot: WatchSnapshot) -> None:
        """Replace it on disk. Raises OSError."""
        content = orjson.dumps({"format": FORMAT, "namespace": self._namespace, **_document(snapshot)})
        new = self._path.with_name(f".{self._path.name}.new")
        new.unlink(missing_ok=True)
        with open(new, "xb", opener=_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)

    def _problem(self, what: str, remedy: str) -> InvalidInput:
        return InvalidInput(Problem(f"--snapshot {self._path}", what, remedy))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _document(snapshot: WatchSnapshot) -> dict[str, Any]:
    calendars: dict[str, Any] = {}
    jobs = []
    for job in snapshot.jobs:
        pins = [pin_of(calendar) for calendar in book_of(job.schedule)]
        for pin, calendar in zip(pins, book_of(job.schedule), strict=True):
            if pin not in calendars:
                calendars[pin] = calendar_document(calendar)
        row: dict[str, Any] = {"name": job.name, "ver": job.ver}
        if job.schedule is not None:
            row["schedule"] = write_schedule(job.schedule, DocumentTable.shorten)
        if pins:
            row["calendars"] = pins
        row |= {name: instant_text(at) for name in ("since", "next") if (at := getattr(job, name)) is not None}
        jobs.append(row)
    findings = [
        {
            "kind": one.kind.value,
            "text": one.text,
            **{name: instant_text(at) for name in _TIMES if (at := getattr(one, name)) is not None},
        }
        for one in snapshot.findings
    ]
    return {"at": instant_text(snapshot.at), "calendars": calendars, "jobs": jobs, "findings": findings}


_TIMES = ("since", "opened_at", "told_at")


def _snapshot(document: Mapping[str, Any], now: datetime) -> WatchSnapshot:
    calendars = {
        pin: replace(parse_calendar(one), rev=int(pin.rpartition("@")[2])) for pin, one in document["calendars"].items()
    }
    findings = [
        WatchFinding(
            kind=WatchKind(one["kind"]),
            text=one["text"],
            **{name: instant(one[name]) for name in _TIMES if name in one},
        )
        for one in document["findings"]
    ]
    jobs = [_job(row, calendars, now) for row in document["jobs"]]
    return WatchSnapshot(instant(document["at"]), jobs, findings)


def _job(row: Mapping[str, Any], calendars: Mapping[str, Calendar], now: datetime) -> WatchedJob:
    since, following = (instant(row[name]) if name in row else None for name in ("since", "next"))
    schedule = None
    if "schedule" in row:
        schedule = named(_parsed(orjson.dumps(row["schedule"])), row["name"])
        if "calendars" in row:
            schedule = bound(schedule, [calendars[pin] for pin in row["calendars"]])
    job = WatchedJob(row["name"], row["ver"], schedule, since, following)
    if job.next is not None and job.next < now - LOOK_BACK:
        job.pass_over(now - LOOK_BACK - SECOND)
    return job


@lru_cache(maxsize=SCHEDULES_KEPT)
def _parsed(text: bytes) -> Schedule:
    """Most jobs share their schedule with others."""
    return parse_schedule(orjson.loads(text))
