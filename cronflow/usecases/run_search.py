"""Lists runs by conditions that no index answers: text in the names of their jobs, labels of these, and the kind.

If few jobs match, the index of job histories answers. Otherwise the runs that the other conditions select are read in
their order, a bounded number per request. A page may therefore be short although more runs match; `FoundRuns.after` is
where the next page starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import NamedTuple

from cronflow.domain.run import Kind, Run
from cronflow.ports import Backends, RunQuery
from cronflow.usecases.search import JobFilter

PAGE = 500
MOST_RUNS = 2000
MOST_NAMES = 20_000
NAMES_AT_ONCE = 5000
MOST_LABELLED = 1000
MOST_HISTORIES = 100
"""MongoDB merges at most 200 ranges of an index in their order."""
_WILDCARD = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """A query with conditions on top. `name` is a text that the name of the job contains, or a pattern such as `etl-*`;
    `labels` map to a value, or to None for any value.
    """

    query: RunQuery
    name: str = ""
    labels: Mapping[str, str | None] = field(default_factory=dict)
    kinds: Collection[Kind] = ()


class FoundRuns(NamedTuple):
    """A page of runs. `after` is where the next page starts, even if this one is short or empty; None at the end."""

    runs: list[Run]
    after: tuple[datetime, str] | None


class RunSearcher:
    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    async def find(self, wanted: RunFilter, limit: int) -> FoundRuns:
        """Matching runs in the order of the query, after its `before`."""
        query = wanted.query
        if wanted.name or wanted.labels:
            jobs = await self._jobs(wanted)
            if jobs is not None:
                wanted = RunFilter(query=replace(query, jobs=jobs), kinds=wanted.kinds)
        if wanted.name or wanted.labels or wanted.kinds:
            return await self._scan(wanted, limit)
        found = await self._backends.runs.find(replace(wanted.query, limit=limit + 1))
        return FoundRuns(found[:limit], _place(found[limit - 1]) if len(found) > limit else None)

    async def names(
        self, text: str, limit: int, readable: Callable[[str], bool] | None = None
    ) -> tuple[list[str], bool]:
        """Names of jobs that contain the text, those that begin with it first; and whether there may be more. With
        `readable` only those that it accepts.
        """
        first: list[str] = []
        if readable is None:
            first = await self._backends.jobs.names(prefix=text, limit=limit + 1)
            if not text or len(first) > limit:
                return first[:limit], len(first) > limit
        others, complete = await self._containing(text, limit + 1, readable)
        found = sorted({*first, *others}, key=lambda name: (not name.startswith(text), name))
        return found[:limit], len(found) > limit or not complete

    async def _containing(self, text: str, most: int, readable: Callable[[str], bool] | None) -> tuple[list[str], bool]:
        """Up to `most` names, and whether all names were looked at."""
        found: list[str] = []
        after, looked = "", 0
        while len(found) < most and looked < MOST_NAMES:
            page = await self._backends.jobs.names(after=after, limit=NAMES_AT_ONCE)
            found += [name for name in page if text in name and (readable is None or readable(name))]
            if len(page) < NAMES_AT_ONCE:
                return found, True
            after, looked = page[-1], looked + len(page)
        return found, False

    async def _jobs(self, wanted: RunFilter) -> list[str] | None:
        """The names of the matching jobs, deleted ones included; None if they are too many to list."""
        prefix = _WILDCARD.split(wanted.name)[0] if _WILDCARD.search(wanted.name) else ""
        most = MOST_LABELLED if wanted.labels else MOST_HISTORIES
        found: list[str] = []
        after, looked = "", 0
        while len(found) <= most and looked < MOST_NAMES:
            page = await self._backends.jobs.names(prefix=prefix, after=after, limit=NAMES_AT_ONCE, deleted=True)
            found += [name for name in page if _has_name(name, wanted.name)]
            if len(page) < NAMES_AT_ONCE:
                break
            after, looked = page[-1], looked + len(page)
        else:
            return None
        if len(found) > most:
            return None
        if wanted.labels:
            found = await self._labelled(found, wanted.labels)
        return found if len(found) <= MOST_HISTORIES else None

    async def _labelled(self, names: Collection[str], labels: Mapping[str, str | None]) -> list[str]:
        """Those of the named jobs that have the labels."""
        matching = JobFilter(labels=labels)
        return sorted(record.name for record in await self._backends.jobs.get(names) if matching.matches(record))

    async def _scan(self, wanted: RunFilter, limit: int) -> FoundRuns:
        found: list[Run] = []
        labelled: dict[str, bool] = {}
        query = replace(wanted.query, limit=PAGE)
        looked = 0
        while looked < MOST_RUNS:
            page = await self._backends.runs.find(query)
            if wanted.labels:
                unknown = {run.job for run in page} - labelled.keys()
                having = set(await self._labelled(unknown, wanted.labels)) if unknown else set()
                labelled |= {name: name in having for name in unknown}
            for run in page:
                if (
                    (not wanted.kinds or run.kind in wanted.kinds)
                    and _has_name(run.job, wanted.name)
                    and (not wanted.labels or labelled[run.job])
                ):
                    if len(found) == limit:
                        return FoundRuns(found, _place(found[-1]))
                    found.append(run)
            if len(page) < PAGE:
                return FoundRuns(found, None)
            looked += len(page)
            query = replace(query, before=_place(page[-1]))
        return FoundRuns(found, query.before)


def _has_name(name: str, wanted: str) -> bool:
    return fnmatchcase(name, wanted) if _WILDCARD.search(wanted) else wanted in name


def _place(run: Run) -> tuple[datetime, str]:
    return run.fire_at, run.id
