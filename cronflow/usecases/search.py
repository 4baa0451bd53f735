"""Searching what no index serves: jobs by text and labels, lines by text.

The rule it protects: a question costs a bounded number of reads, however rare the answer is. So it may answer with
fewer than were asked for; where to go on is always told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cronflow.domain.job import JobRecord
from cronflow.ports import Backends, LogLine

PAGE = 500
MOST_JOBS = 5000
MOST_LINES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs: `text` in the name or description, in any case; `labels` with their value, or None for any."""

    text: str = ""
    labels: Mapping[str, str | None] = field(default_factory=dict)
    enabled: bool | None = None

    @property
    def everything(self) -> bool:
        """Whether no job is left out."""
        return not self.text and not self.labels and self.enabled is None

    def takes(self, record: JobRecord) -> bool:
        """Whether a job is one of them."""
        job, text = record.job, self.text.casefold()
        return (
            (self.enabled is None or job.enabled is self.enabled)
            and all(key in job.labels and value in (None, job.labels[key]) for key, value in self.labels.items())
            and (text in job.name.casefold() or text in job.description.casefold())
        )


class Searcher:
    """Looks page by page."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    async def jobs(self, wanted: JobFilter, *, after: str = "", limit: int = 100) -> tuple[list[JobRecord], str | None]:
        """By name, those behind `after`; and behind which name to go on, None at the end."""
        size = min(PAGE, limit + 1) if wanted.everything else PAGE
        found: list[JobRecord] = []
        looked = 0
        while looked < MOST_JOBS:
            page = await self._backends.jobs.find(after=after, limit=size)
            for record in page:
                if wanted.takes(record):
                    if len(found) == limit:
                        return found, found[-1].name
                    found.append(record)
                after = record.name
            if len(page) < size:
                return found, None
            looked += len(page)
        return found, after

    async def lines(
        self, run: str, text: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000
    ) -> tuple[list[LogLine], tuple[int, int], bool]:
        """Those that contain the text, behind (fence, n); the last one that was looked at, and whether there may be
        more now.
        """
        text = text.casefold()
        size = PAGE if text else min(PAGE, limit + 1)
        found: list[LogLine] = []
        looked = 0
        while looked < MOST_LINES:
            page = await self._backends.logs.read(run, after=after, limit=size)
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
