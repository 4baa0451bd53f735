"""Scans over all jobs, or over the lines of a run, for questions that no index answers.

Every scan reads a bounded number of pages, however rare the matches are. It may therefore return fewer items than
requested; the returned position tells the caller where to continue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from cronflow.domain.errors import NotFound
from cronflow.domain.job import JobRecord
from cronflow.ports import Backends, LogLine

PAGE = 500
MOST_JOBS = 1000
MOST_LINES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Selects jobs: `text` occurs in the name or description, ignoring case; `labels` map to a value, or to None for
    any value; `name` is a pattern such as `etl-*`; `readable` accepts the name, where not all jobs may be read. `names`
    are the only ones that may match. `deleted`: deleted jobs match too, as long as their tombstones are kept.
    """

    text: str = ""
    name: str = ""
    labels: Mapping[str, str | None] = field(default_factory=dict)
    enabled: bool | None = None
    readable: Callable[[str], bool] | None = None
    names: Collection[str] | None = None
    deleted: bool = False

    @property
    def matches_all(self) -> bool:
        return not self.text and not self.name and not self.labels and self.enabled is None and self.readable is None

    def matches(self, record: JobRecord) -> bool:
        job, text = record.job, self.text.casefold()
        return (
            (self.readable is None or self.readable(job.name))
            and (self.enabled is None or job.enabled is self.enabled)
            and (not self.name or fnmatchcase(job.name, self.name))
            and all(key in job.labels and value in (None, job.labels[key]) for key, value in self.labels.items())
            and (text in job.name.casefold() or text in job.description.casefold())
        )


def labels_of(words: Sequence[str]) -> Mapping[str, str | None]:
    """The labels of a JobFilter, each written as `key` or `key=value`."""
    return {key: value if equals else None for key, equals, value in (one.partition("=") for one in words)}


class Searcher:
    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    async def jobs(self, wanted: JobFilter, *, after: str = "", limit: int = 100) -> tuple[list[JobRecord], str | None]:
        """Matching jobs by name, after the name `after`; and the name to continue after, None at the end."""
        if wanted.names is not None:
            return await self._named(wanted, sorted(name for name in wanted.names if name > after), limit)
        size = min(PAGE, limit + 1) if wanted.matches_all else PAGE
        found: list[JobRecord] = []
        looked = 0
        while looked < MOST_JOBS:
            page = await self._page(after, size, deleted=wanted.deleted)
            for record in page:
                if wanted.matches(record):
                    if len(found) == limit:
                        return found, found[-1].name
                    found.append(record)
                after = record.name
            if len(page) < size:
                return found, None
            looked += len(page)
        return found, after

    async def _page(self, after: str, size: int, *, deleted: bool) -> list[JobRecord]:
        if not deleted:
            return await self._backends.jobs.find(after=after, limit=size)
        return [row.record for row in await self._backends.archive.jobs(after=after, limit=size)]

    async def _named(self, wanted: JobFilter, names: Sequence[str], limit: int) -> tuple[list[JobRecord], str | None]:
        """The same for a bounded number of names, which are in order."""
        records = {record.name: record for record in await self._backends.jobs.get(names)} if names else {}
        present = [records[name] for name in names if name in records]
        found = [one for one in present if (wanted.deleted or one.deleted_at is None) and wanted.matches(one)]
        return found[:limit], found[limit - 1].name if len(found) > limit else None

    async def lines(
        self, run_id: str, text: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000
    ) -> tuple[list[LogLine], tuple[int, int], bool]:
        """Lines of a run that contain the text, ignoring case, after (fence, n); the last line that was read, and
        whether there may be more now. Raises NotFound.
        """
        if not await self._backends.runs.get([run_id]):
            raise NotFound("run", run_id)
        text = text.casefold()
        size = PAGE if text else min(PAGE, limit + 1)
        found: list[LogLine] = []
        looked = 0
        while looked < MOST_LINES:
            page = await self._backends.logs.read(run_id, after=after, limit=size)
            for line in page:
                if text in line.text.casefold():
                    if len(found) == limit:
                        return found, after, True
                    found.append(line)
                after = (line.fence, line.n)
            if len(page) < size:
                return found, after, False
            looked += len(page)
        return found, after, True
