"""The way from a command to the use-cases: through the API or to the servers, one event loop, and the names that were
perhaps meant.

The rule: files and flags are checked before this is called, so whoever is told of a server that is away knows that the
rest was right. `client` is the only door to the API and `open_service` the only one to the servers; a test puts others
in their place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol, TypeVar

from cronflow.domain.errors import CronFlowError, NotFound

if TYPE_CHECKING:
    from cronflow.client import AsyncClient
    from cronflow.config import Settings
    from cronflow.domain.job import JobRecord, Retry
    from cronflow.live.hub import Hub
    from cronflow.remote.login import Login, LoginFile
    from cronflow.remote.usecases import Deployed, UseCases
    from cronflow.usecases.service import Service

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
    from cronflow.bootstrap import commands

    _log_to_stderr(settings)
    async with commands.open_service(settings) as service:
        yield service


@asynccontextmanager
async def open_live(settings: Settings) -> AsyncIterator[tuple[Service, Hub]]:
    """The same with the live stream, as an API replica has it."""
    from cronflow.bootstrap import commands

    _log_to_stderr(settings)
    async with commands.open_live(settings) as both:
        yield both


def _log_to_stderr(settings: Settings) -> None:
    """What the log has to say of a server belongs there, for people; stdout carries the answer."""
    import structlog

    from cronflow.cli.logs import LogFormat, log_of

    if not structlog.is_configured():
        log_of(settings, otherwise=LogFormat.TEXT, level="warn", role="command")


def settings(overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings of this process. Raises InvalidInput with every problem."""
    from cronflow.config import load_settings

    return load_settings(overrides or {})


def client() -> AsyncClient | None:
    """The client of whoever is logged in; None: commands go to the servers. Raises InvalidInput for a login that is
    none. Its errors are those of the service.
    """
    found = current_login()
    if found is None:
        return None
    from cronflow.remote.client import RemoteClient

    return RemoteClient(*found)


def current_login() -> tuple[Login, LoginFile | None] | None:
    """The login that counts, and the file that it is kept in; None: commands go to the servers. Raises InvalidInput."""
    from cronflow.cli.credentials import login_of

    return login_of(settings())


@asynccontextmanager
async def open_cluster() -> AsyncIterator[UseCases]:
    """The use-cases, through the API when somebody is logged in, else on the servers of the settings."""
    found = client()
    if found is None:
        async with open_service(settings()) as service:
            yield service
        return
    from cronflow.remote.service import RemoteService

    async with found:
        yield RemoteService(found)


async def deployed(service: UseCases) -> Deployed:
    """What commands go by of the settings: as the API says, or those of this process for who asks the servers."""
    from cronflow.remote.usecases import Deployed, Remote

    if isinstance(service, Remote):
        return await service.deployed()
    read = settings()
    return Deployed(namespace=read.namespace, heartbeat=read.heartbeat, retry=read.retry)


def retry() -> Retry:
    """What stands in for the retry that a job leaves out, before the cluster is asked anything else.

    Where the API does not say, it is that of the settings here: what is read with it can be checked all the same, and
    whatever is asked next will tell what is wrong with the API.
    """
    import asyncio

    async def ask() -> Retry:
        try:
            async with open_cluster() as service:
                return (await deployed(service)).retry
        except CronFlowError:
            return settings().retry

    return settings().retry if current_login() is None else asyncio.run(ask())


def call(use: Callable[[UseCases], Awaitable[Answer]]) -> Answer:
    """Connect, do it, disconnect."""
    from cronflow.cli import interrupt

    async def run() -> Answer:
        async with open_cluster() as service, suggesting(service):
            return await use(service)

    return interrupt.run(run())


@asynccontextmanager
async def suggesting(service: UseCases) -> AsyncIterator[None]:
    """Add the nearest names to what is not found."""
    try:
        yield
    except NotFound as error:
        await _suggest(service, error)
        raise


async def all_jobs(service: UseCases) -> list[JobRecord]:
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


async def _suggest(service: UseCases, error: NotFound) -> None:
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
