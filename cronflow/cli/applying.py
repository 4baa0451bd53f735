"""Sends the jobs of `jobs apply` to the cluster: to the servers at once, through the API in as many requests as needed.

The rule: all jobs are checked before the first is changed. If a request fails nevertheless, the error says which jobs
are applied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cronflow.cli.terminal.drawing import counted
from cronflow.documents import complete_document
from cronflow.domain.errors import Conflict, CronFlowError, InvalidInput, Problem
from cronflow.domain.ownership import Prune

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.client.aio import AsyncClient
    from cronflow.client.local import LocalClient
    from cronflow.domain.job import Job
    from cronflow.schemas.jobs import AppliedSchema

MOST_JOBS = 1000
MOST_BYTES = 900_000
"""Jobs in one request: below the API's limit, with room for the rest of the body."""
MOST_NAMED = 5

Document = Mapping[str, object]
Implicit = Mapping[str, str]
"""`implicit_misfires` of the jobs, with file and line."""


class WantedJobs(NamedTuple):
    """The jobs to apply, their `implicit_misfires`, and the owner whose other jobs are deleted."""

    jobs: Sequence[Job]
    implicit: Implicit
    prune: str | None = None


class Sender(Protocol):
    """Sends jobs to one kind of cluster."""

    parts: Sequence[Sequence[Job]]
    """The jobs of each request."""

    async def plan(self, jobs: Sequence[Job], days: int) -> Sequence[AppliedSchema]:
        """What applying them would change, also of the runs in so many days."""

    async def apply(self, jobs: Sequence[Job], days: int, done: Callable[[int], None]) -> Sequence[AppliedSchema]:
        """Apply them; `done` gets the number of jobs after each step."""


async def plan(cluster: Cluster, wanted: WantedJobs, days: int) -> Sequence[AppliedSchema]:
    """What applying the jobs would change, also of the runs in so many days."""
    sender = _sender(cluster, wanted)
    return [one for part in sender.parts for one in await sender.plan(part, days)]


async def apply(cluster: Cluster, wanted: WantedJobs, days: int) -> Sequence[AppliedSchema]:
    """Apply the jobs. `days` as for `plan`."""
    sender, jobs = _sender(cluster, wanted), wanted.jobs
    if len(sender.parts) > 1:
        # A request checks only its own jobs.
        for part in sender.parts:
            await sender.plan(part, 0)
    applied: list[AppliedSchema] = []
    with counted(len(jobs), "applying") as done:
        for part in sender.parts:
            try:
                applied += await sender.apply(part, days, done)
            except CronFlowError as error:
                several = len(sender.parts) > 1 or (len(jobs) > MOST_JOBS and not isinstance(error, InvalidInput))
                if several or isinstance(error, Conflict):
                    error.add_note(await _progress(sender, jobs, part, len(applied)))
                raise
    return applied


async def _progress(sender: Sender, wanted: Sequence[Job], failed: Sequence[Job], done: int) -> str:
    """How much of `wanted` is applied, after `done` jobs were and the request with `failed` was not answered."""
    again = "it is safe to apply all of them again"
    try:
        left = [one["name"] for one in await sender.plan(failed, 0) if one["result"] != "unchanged"]
    except CronFlowError:
        some = f"some of {failed[0].name} to {failed[-1].name} may have been"
        return f"{done} of {len(wanted)} jobs were applied; {some}, and later ones were not; {again}"
    left += [job.name for job in wanted[done + len(failed) :]]
    if not left:
        return f"all {len(wanted)} jobs were applied; {again}"
    named = ", ".join(left[:MOST_NAMED]) + (f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else "")
    return f"{len(wanted) - len(left)} of {len(wanted)} jobs were applied, but not {named}; {again}"


def _sender(cluster: Cluster, wanted: WantedJobs) -> Sender:
    """Raises InvalidInput if the jobs would take several requests, and others are to be deleted: none of them could
    see what the others contain.
    """
    from cronflow.client.local import LocalClient

    if isinstance(cluster, LocalClient):
        return _ToServers(cluster, wanted)
    sender = _ToApi(cluster, wanted)
    if wanted.prune is not None and len(sender.parts) > 1:
        what = f"{len(wanted.jobs):,} jobs do not fit into one request, of at most {MOST_JOBS:,} jobs and 900 kB"
        raise InvalidInput(Problem("--prune", what, "give parts of them owners of their own"))
    return sender


class _ToServers:
    """One part: all jobs are checked before any is written."""

    def __init__(self, cluster: LocalClient, wanted: WantedJobs) -> None:
        self._jobs, self._by = cluster.service.jobs, cluster.by
        self._implicit = wanted.implicit
        self._prune = None if wanted.prune is None else Prune(wanted.prune)
        self.parts: Sequence[Sequence[Job]] = [wanted.jobs]

    async def plan(self, jobs: Sequence[Job], days: int) -> Sequence[AppliedSchema]:
        from cronflow.schemas.jobs import comparison_schema

        found = await self._jobs.compare(jobs, self._implicit, days=days, prune=self._prune)
        return [comparison_schema(one) for one in found]

    async def apply(self, jobs: Sequence[Job], days: int, done: Callable[[int], None]) -> Sequence[AppliedSchema]:
        from cronflow.schemas.jobs import comparison_schema

        applied = await self._jobs.applied(
            jobs,
            by=self._by,
            each=lambda: done(1),
            implicit_misfires=self._implicit,
            days=days,
            prune=self._prune,
        )
        return [comparison_schema(one) for one in applied]


class _ToApi:
    """Parts within the limits of a request."""

    def __init__(self, cluster: AsyncClient, wanted: WantedJobs) -> None:
        self._cluster = cluster
        self._implicit = wanted.implicit
        self._prune = wanted.prune
        self._documents = {
            job.name: complete_document(job, with_misfire=job.name not in wanted.implicit) for job in wanted.jobs
        }
        self.parts: Sequence[Sequence[Job]] = list(self._split(wanted.jobs))

    async def plan(self, jobs: Sequence[Job], days: int) -> Sequence[AppliedSchema]:
        return await self._sent(partial(self._cluster.jobs.plan, days=days, prune=self._prune), jobs)

    async def apply(self, jobs: Sequence[Job], days: int, done: Callable[[int], None]) -> Sequence[AppliedSchema]:
        applied = await self._sent(partial(self._cluster.jobs.apply, days=days, prune=self._prune), jobs)
        done(len(jobs))
        return applied

    def _split(self, jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
        import orjson

        first = size = 0
        for place, job in enumerate(jobs):
            more = len(orjson.dumps(self._documents[job.name]))
            if place > first and (size + more > MOST_BYTES or place - first == MOST_JOBS):
                yield jobs[first:place]
                first, size = place, 0
            size += more + 1
        yield jobs[first:]

    async def _sent(
        self, send: Callable[[Sequence[Document]], Awaitable[Sequence[AppliedSchema]]], jobs: Sequence[Job]
    ) -> Sequence[AppliedSchema]:
        """Send the jobs; a problem of an `at` gets the file and line that it comes from."""
        try:
            return await send([self._documents[job.name] for job in jobs])
        except InvalidInput as error:
            names = {f"jobs[{n}].schedule.at": job.name for n, job in enumerate(jobs)}
            places = {place: self._implicit[name] for place, name in names.items() if name in self._implicit}
            problems = [replace(one, place=places.get(one.place, one.place)) for one in error.problems]
            raise InvalidInput(problems) from None
