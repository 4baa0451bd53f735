"""Compares the jobs that this node's Apps define with the stored jobs of the same functions.

A difference means that the code was deployed and not applied, or applied and not deployed here. It is reported with the
heartbeat once two looks in a row have found it, so that a deployment of a few minutes reports nothing. Nothing else
depends on it: runs use the stored job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import orjson

from cronflow.documents import job_document
from cronflow.documents.differences import Difference, differences
from cronflow.domain.job import Job, PythonTarget
from cronflow.node.role_loop import Wake
from cronflow.ports import JobStore

LOOK_S = 120.0
IDLE_S = 3600.0
MOST_REPORTED = 20
MOST_KEYS = 5
OWNER = "labels.owner"
"""`jobs apply --owner` adds it to what the code says."""


class DefinitionWatch:
    """`current` has the keys that differ and a digest of the difference, by job. May be read from any thread."""

    def __init__(self, jobs: JobStore, defined: Sequence[Job]) -> None:
        self._jobs = jobs
        self._defined = {job.name: job for job in defined}
        self._seen: Mapping[str, tuple[str, str]] = {}
        self.current: Mapping[str, tuple[str, str]] = {}
        self.wake = Wake()

    async def step(self) -> float:
        if not self._defined:
            return IDLE_S
        found: dict[str, tuple[str, str]] = {}
        for record in await self._jobs.get(self._defined):
            job = self._defined[record.name]
            if (
                record.deleted_at is None
                and _same_function(record.job, job)
                and (differ := _differences(record.job, job))
            ):
                found[record.name] = _keys(differ), _digest(differ)
        lasting = {name: found[name] for name in sorted(found) if self._seen.get(name) == found[name]}
        self._seen = found
        self.current = dict(list(lasting.items())[:MOST_REPORTED])
        return LOOK_S


def _same_function(stored: Job, defined: Job) -> bool:
    """Whether the stored job came from this code. A file may define a job of the same name for something else."""
    return (
        isinstance(stored.target, PythonTarget)
        and isinstance(defined.target, PythonTarget)
        and stored.target.ref == defined.target.ref
    )


def _differences(stored: Job, defined: Job) -> list[Difference]:
    found = differences(job_document(stored), job_document(defined))
    return [one for one in found if one[0] != OWNER or one[2] is not None]


def _keys(found: Sequence[Difference]) -> str:
    names = [path for path, _, _ in found]
    more = f" and {len(names) - MOST_KEYS} more" if len(names) > MOST_KEYS else ""
    return f"{', '.join(names[:MOST_KEYS])}{more}"


def _digest(found: Sequence[Difference]) -> str:
    text = orjson.dumps(found, option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(text).hexdigest()[:12]
