"""The graph of jobs that follow others: checks before jobs are changed, and the graph for people to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cronflow.documents import nearest
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.job_graph import JobGraph
from cronflow.ports import ChainStore, JobStore


class JobGraphUseCases:
    def __init__(self, chains: ChainStore, jobs: JobStore) -> None:
        self._chains, self._jobs = chains, jobs

    async def graph(self, job: str = "") -> JobGraph:
        """The whole graph, or the part that leads to a job or follows it. Raises NotFound."""
        graph = _graph_of(await self._chains.following())
        if not job:
            return graph
        if not any(record.deleted_at is None for record in await self._jobs.get([job])):
            raise NotFound("job", job)
        return graph.around(job)

    async def followers(self, records: Sequence[JobRecord]) -> dict[str, list[str]]:
        """The names of the jobs that follow these jobs directly, by job. Jobs without followers are left out. Reads
        nothing unless one of them has been followed.
        """
        names = {record.name for record in records if record.followed}
        if not names:
            return {}
        found: dict[str, list[str]] = {}
        for follower in sorted(await self._chains.followers(names), key=lambda record: record.name):
            for upstream in follower.job.after:
                if upstream.job in names:
                    found.setdefault(upstream.job, []).append(follower.name)
        return found

    async def check(self, jobs: Mapping[str, Job]) -> set[str]:
        """Check what jobs follow before they are applied; the keys of `jobs` are their places. Returns the names of all
        jobs that they follow.

        Raises InvalidInput for a job that does not exist, and for a cycle.
        """
        upstream = {one.job for job in jobs.values() for one in job.after}
        if not upstream:
            return set()
        names = {job.name for job in jobs.values()}
        stored = {job.name: job for job in await self._chains.following()}
        present = {record.name for record in await self._jobs.get(upstream - names) if record.deleted_at is None}
        known = names | stored.keys() | {one.job for job in stored.values() for one in job.after}
        problems = []
        for place, job in jobs.items():
            for n, one in enumerate(job.after):
                if one.job not in names | present:
                    near = nearest(one.job, known)
                    remedy = f"did you mean {near}?" if near else "apply it first, or together with this one"
                    where = f"{place}.after[{n}].job" if place else f"after[{n}].job"
                    problems.append(Problem(where, f"there is no job {one.job!r}", remedy))
        if problems:
            raise InvalidInput(problems)
        graph = _graph_of([*(stored | {job.name: job for job in jobs.values()}).values()])
        cycle = graph.cycle()
        if cycle is not None and names & set(cycle):
            place = next(place for place, job in jobs.items() if job.name in cycle)
            where = f"{place}.after" if place else "after"
            raise InvalidInput(
                Problem(where, f"jobs follow each other: {' -> '.join(cycle)}", "remove one of the links")
            )
        return upstream

    async def prepare(self, jobs: Mapping[str, Job]) -> set[str]:
        """`check`, and have each run that an upstream job creates from now on followed."""
        upstream = await self.check(jobs)
        if upstream:
            await self._chains.follow(upstream)
        return upstream

    async def written(self, edits: Iterable[tuple[Job | None, Job]]) -> None:
        """Publish that jobs were written, each as it was before and is now, if what they follow has changed."""
        if any((() if before is None else before.after) != after.after for before, after in edits):
            await self._chains.graph_changed()

    async def refuse_followed(self, job: str) -> None:
        """Raises Conflict if other jobs follow this one."""
        names = sorted(record.name for record in await self._chains.followers([job]) if record.name != job)
        if names:
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            verb = "follows" if len(names) == 1 else "follow"
            raise Conflict(f"{shown} {verb} {job}; delete {'it' if len(names) == 1 else 'them'} first, or change after")


def _graph_of(jobs: list[Job]) -> JobGraph:
    return JobGraph({job.name: job.after for job in jobs}, {job.name: job.join for job in jobs})
