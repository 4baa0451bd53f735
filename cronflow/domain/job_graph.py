"""The graph of jobs that follow others: cycles, and what a job leads to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cronflow.domain.chain import Join, On, Upstream


class Edge(NamedTuple):
    """`job` follows `upstream`."""

    upstream: str
    job: str
    on: On
    join: Join


class JobGraph:
    """The jobs that follow others, by name, with what they follow."""

    def __init__(self, after: Mapping[str, Sequence[Upstream]], joins: Mapping[str, Join] | None = None) -> None:
        self._after = {job: tuple(upstream) for job, upstream in after.items() if upstream}
        self._joins = joins or {}
        self._followers: dict[str, list[str]] = defaultdict(list)
        for job in sorted(self._after):
            for one in self._after[job]:
                self._followers[one.job].append(job)

    @property
    def edges(self) -> list[Edge]:
        """Sorted by upstream job, then by follower."""
        return sorted(
            Edge(one.job, job, one.on, self._joins.get(job, Join.ALL))
            for job, upstream in self._after.items()
            for one in upstream
        )

    @property
    def jobs(self) -> list[str]:
        """All jobs with an edge, by name."""
        return sorted({*self._after, *self._followers})

    def followers(self, job: str) -> Sequence[str]:
        """The jobs that follow this one directly, by name."""
        return self._followers.get(job, ())

    def downstream(self, job: str) -> set[str]:
        """The jobs that follow this one, directly or through others; not the job itself, unless it is in a cycle."""
        return self._reached(job, self._followers)

    def upstream(self, job: str) -> set[str]:
        """The jobs that lead to this one."""
        return self._reached(job, {name: [one.job for one in found] for name, found in self._after.items()})

    def around(self, job: str) -> JobGraph:
        """The part of the graph that leads to the job or follows it."""
        kept = {job, *self.downstream(job), *self.upstream(job)}
        after = {
            name: [one for one in upstream if one.job in kept] for name, upstream in self._after.items() if name in kept
        }
        return JobGraph(after, self._joins)

    def cycle(self) -> list[str] | None:
        """A cycle, as names of which each follows the one before it and the first is also the last; None without one.
        Takes time in proportion to the jobs and edges (depth-first search).
        """
        done: set[str] = set()
        for start in sorted(self._followers):
            path: dict[str, None] = {}
            left = [(start, 0)]
            while left:
                job, depth = left.pop()
                while len(path) > depth:
                    done.add(path.popitem()[0])
                if job in path:
                    way = list(path)
                    return [*way[way.index(job) :], job]
                if job not in done:
                    path[job] = None
                    left += [(follower, depth + 1) for follower in reversed(self.followers(job))]
            done.update(path)
        return None

    @staticmethod
    def _reached(job: str, edges: Mapping[str, Sequence[str]]) -> set[str]:
        found: set[str] = set()
        left = [job]
        while left:
            for follower in edges.get(left.pop(), ()):
                if follower not in found:
                    found.add(follower)
                    left.append(follower)
        return found
