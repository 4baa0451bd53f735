"""Which jobs a change deletes because they are gone from the files of their owner.

Everything is checked before the first job is written, and the owner of
a stored job again with the compare-and-set that changes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import SYSTEM_PREFIX, Job, JobRecord
from cronflow.domain.ownership import OWNER, Prune
from cronflow.ports import Backends

PAGE = 500
MOST_SHOWN = 5


async def pruned_by(
    backends: Backends, jobs: Mapping[str, Job], prune: Prune, stored: Mapping[str, JobRecord]
) -> list[JobRecord]:
    """The stored jobs that the change deletes, followers before the jobs that they follow. `jobs` are those of the
    change by place, and `stored` those of the same names.

    Raises InvalidInput if the change has no jobs, if a job of the change has another owner, now or in the cluster, or
    if a job that stays follows one that is deleted; and what `permit` raises.
    """
    _refuse_others(jobs, prune.owner, stored)
    if not jobs:
        what = f"there are no jobs, so all jobs of {prune.owner} would be deleted"
        raise InvalidInput(Problem("prune", what, "name the jobs to delete: cronflow jobs delete NAME"))
    kept = {job.name for job in jobs.values()}
    found = [record for record in await _owned(backends, prune.owner) if record.name not in kept]
    if not found:
        return []
    prune.permit([record.name for record in found])
    gone = {record.name for record in found}
    await _refuse_followed(backends, jobs, gone)
    return _followers_first(found, gone)


async def _owned(backends: Backends, owner: str) -> list[JobRecord]:
    found: list[JobRecord] = []
    after = ""
    while True:
        page = await backends.jobs.find(after=after, limit=PAGE)
        found += [
            record
            for record in page
            if record.job.labels.get(OWNER) == owner and not record.name.startswith(SYSTEM_PREFIX)
        ]
        if len(page) < PAGE:
            return found
        after = page[-1].name


def _refuse_others(jobs: Mapping[str, Job], owner: str, stored: Mapping[str, JobRecord]) -> None:
    if not owner:
        raise InvalidInput(Problem("prune", "has no owner", "name the owner of the jobs, as in their label owner"))
    problems = []
    for place, job in jobs.items():
        record = stored.get(job.name)
        theirs = None if record is None else record.job.labels.get(OWNER)
        where = f"{place}.labels.{OWNER}" if place else f"labels.{OWNER}"
        if job.labels.get(OWNER) != owner:
            own = job.labels.get(OWNER)
            what = f"{job.name} has no owner" if own is None else f"the owner of {job.name} is {own!r}, not {owner!r}"
            problems.append(Problem(where, what, f"add the label {OWNER}: {owner}, or apply it without prune"))
        elif theirs not in (None, owner):
            what = f"{job.name} exists and belongs to {theirs!r}, not {owner!r}"
            problems.append(Problem(where, what, "choose another name, or let its owner give it up first"))
    if problems:
        raise InvalidInput(problems)


async def _refuse_followed(backends: Backends, jobs: Mapping[str, Job], gone: Collection[str]) -> None:
    """Jobs that stay must not follow a job that is deleted. The change may have removed such a link."""
    after = {record.name: record.job.after for record in await backends.chains.followers(gone)}
    after = {name: links for name, links in after.items() if name not in gone}
    places = {job.name: place for place, job in jobs.items()}
    after |= {job.name: job.after for job in jobs.values()}
    problems = [
        Problem(
            (f"{places[name]}.after" if places[name] else "after") if name in places else "prune",
            f"{name} follows {link.job}, which would be deleted",
            f"change after of {name}, or keep {link.job}",
        )
        for name, links in after.items()
        for link in links
        if link.job in gone
    ]
    if problems:
        raise InvalidInput(problems)


def _followers_first(records: Sequence[JobRecord], gone: Collection[str]) -> list[JobRecord]:
    """A job that others follow cannot be deleted. There are no cycles."""
    left = {record.name: record for record in records}
    ordered: list[JobRecord] = []
    while left:
        followed = {link.job for record in left.values() for link in record.job.after if link.job in gone}
        free = [record for record in left.values() if record.name not in followed]
        # Stored links could only form a cycle after a concurrent change; the deletion then reports the conflict.
        ordered += [left.pop(record.name) for record in free or list(left.values())]
    return ordered
