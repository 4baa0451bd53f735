"""The way from a command to the service: settings, servers, one event loop, and the names that were perhaps meant.

The rule: files and flags are checked before this is called, so whoever is told of a server that is away knows that the
rest was right. `open_service` is the only door to the servers; a test puts another one in its place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol, TypeVar

from cronflow.domain.errors import CronFlowError, NotFound

if TYPE_CHECKING:
    from cronflow.config import Settings
    from cronflow.domain.job import JobRecord
    from cronflow.service import Service

PAGE = 500
NEAR_ENOUGH = 0.6

Answer = TypeVar("Answer")


class Named(Protocol):
    """What is listed by name."""

    @property
    def name(self) -> str:
        """Its name."""


Record = TypeVar("Record", bound=Named)


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """The service on the servers of the settings. Raises BackendUnavailable when one does not answer."""
    import structlog

    from cronflow import wiring
    from cronflow.cli.logs import LogFormat, configure

    if not structlog.is_configured():
        # What the log has to say of a server belongs on stderr; stdout carries the answer.
        configure("warn", LogFormat.TEXT)
    async with wiring.open_service(settings) as service:
        yield service


def settings(overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings of this process. Raises InvalidInput with every problem."""
    from cronflow.config import load_settings

    return load_settings(overrides or {})


def call(use: Callable[[Service], Awaitable[Answer]]) -> Answer:
    """Connect, do it, disconnect."""
    import asyncio

    async def run() -> Answer:
        async with open_service(settings()) as service:
            try:
                return await use(service)
            except NotFound as error:
                await _suggest(service, error)
                raise

    return asyncio.run(run())


async def all_jobs(service: Service) -> list[JobRecord]:
    """Every job, by name."""
    return await every(service.jobs)


async def every(find: Callable[..., Awaitable[list[Record]]]) -> list[Record]:
    """All that there is, page by page. `find` takes `after` and `limit` and lists by name."""
    found: list[Record] = []
    while True:
        page = await find(after=found[-1].name if found else "", limit=PAGE)
        found += page
        if len(page) < PAGE:
            return found


async def _suggest(service: Service, error: NotFound) -> None:
    """Add the nearest names to the error."""
    from cronflow.ports import RunQuery

    try:
        if error.kind == "job":
            known = [record.name for record in await all_jobs(service)]
        elif error.kind == "run":
            job = error.name.partition("@")[0]
            runs = await service.runs(RunQuery(job=job, limit=PAGE)) or await service.runs(RunQuery(limit=PAGE))
            known = [run.id for run in runs]
        else:
            return
    except CronFlowError:
        # The names would have been a kindness; what is told is that there is no such thing.
        return
    near = get_close_matches(error.name, known, n=3, cutoff=NEAR_ENOUGH)
    if near:
        error.add_note(f"did you mean {' or '.join(near)}?")
