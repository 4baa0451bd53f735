"""Comparing a job with what is stored: what an edit would do, without doing it.

The rule it protects: it foretells exactly what `editing` does at the same moment. It reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from cronflow.documents import job_document
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.planning import first_fire
from cronflow.usecases.edit import Result, consumed

Difference = tuple[str, object, object]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became, or would become, of a job. `differences`, the path, old and new value of each part that differs, are
    known beforehand alone.
    """

    record: JobRecord
    result: Result
    differences: Sequence[Difference] = ()


def compare(stored: JobRecord | None, job: Job, now: datetime) -> Comparison:
    """What an edit at this moment would do. `stored` is None for a job that does not exist, or was deleted."""
    if stored is None:
        new = JobRecord(job=job, next_fire=first_fire(job, now), created_at=now, updated_at=now)
        return Comparison(new, "created")
    if stored.job == job:
        return Comparison(stored, "unchanged")
    planned = replace(stored, job=job)
    if (stored.job.schedule, stored.job.enabled) != (job.schedule, job.enabled):
        # As the editor will do it: the cursor begins anew, behind what is covered.
        planned = replace(planned, next_fire=first_fire(job, now, consumed(stored, now)))
    return Comparison(planned, "changed", _differences(stored.job, job))


def _differences(before: Job, after: Job) -> list[Difference]:
    old, new = _flat(job_document(before)), _flat(job_document(after))
    return [(path, old.get(path), new.get(path)) for path in {**old, **new} if old.get(path) != new.get(path)]


def _flat(document: object, place: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in cast("Mapping[str, object]", document).items():
        path = f"{place}.{key}" if place else key
        if isinstance(value, Mapping):
            flat.update(_flat(value, path))
        else:
            flat[path] = value
    return flat
