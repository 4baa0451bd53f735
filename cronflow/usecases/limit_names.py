"""Checks that jobs name limits that exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cronflow.documents import nearest
from cronflow.domain.concurrency import named_id
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job
from cronflow.ports import LimitStore


async def refuse_absent_limits(limits: LimitStore, jobs: Mapping[str, Job]) -> None:
    """Raises InvalidInput if a job names a limit that does not exist. The keys of `jobs` are their places."""
    names = {name for job in jobs.values() for name in _names(job)}
    if not names:
        return
    found = {state.name for state in await limits.get([named_id(name) for name in names])}
    if names <= found:
        return
    known = [state.name for state in await limits.named()]
    problems = []
    for place, job in jobs.items():
        for name in _names(job):
            if name not in found:
                near = nearest(name, known)
                remedy = "define it first: cronflow limits apply -f FILE"
                remedy = f"did you mean {near}? Otherwise {remedy}" if near else remedy
                where = f"{place}.concurrency" if place else "concurrency"
                problems.append(Problem(where, f"there is no limit {name!r}", remedy))
    raise InvalidInput(problems)


def _names(job: Job) -> Iterable[str]:
    return (one for one in job.concurrency if isinstance(one, str))
