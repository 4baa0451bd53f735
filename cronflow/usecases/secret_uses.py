"""Which jobs and alerts use which secrets, found by reading their documents.

Only a person who manages secrets asks for this, and rarely, so there is no index. The number of jobs that are read is
bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cronflow.domain.secret import referenced
from cronflow.ports import AlertStore, JobStore

PAGE = 500
MOST_JOBS = 20_000


class SecretUse(NamedTuple):
    """The names of the jobs and alerts that refer to a secret, in order."""

    jobs: Sequence[str]
    alerts: Sequence[str]


class SecretUses(NamedTuple):
    """By secret, also those that are used and not set. `complete`: all jobs were read."""

    by_secret: Mapping[str, SecretUse]
    jobs_read: int
    complete: bool


async def secret_uses(jobs: JobStore, alerts: AlertStore, most_jobs: int = MOST_JOBS) -> SecretUses:
    """Reads the first `most_jobs` jobs by name, and all alerts."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    after, read, page_size = "", 0, min(PAGE, most_jobs)
    while page_size and (page := await jobs.find(after=after, limit=page_size)):
        for record in page:
            for secret in referenced(record.job.target):
                found.setdefault(secret, ([], []))[0].append(record.name)
        read, after = read + len(page), page[-1].name
        page_size = min(PAGE, most_jobs - read)
    complete = bool(page_size) or not await jobs.find(after=after, limit=1)
    for rule in await alerts.find():
        for secret in referenced(rule.alert):
            found.setdefault(secret, ([], []))[1].append(rule.name)
    return SecretUses({name: SecretUse(*found[name]) for name in sorted(found)}, read, complete)
