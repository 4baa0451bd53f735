"""Connects a command to the cluster: a client of the API for a logged-in user, else one on the servers of the settings.
Both have the methods of `AsyncClient`.

The rule: files and flags are checked before the client is opened, so an error about an unreachable server means that
everything else was valid. `client` is the only access to the API, `open_service` and `open_live` to the servers; tests
replace them. `target` decides which cluster that is; a command that changes something names it before it does.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from cronflow.cli.target import Target, settings, target
from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.output import author, note
from cronflow.documents import FORMAT_ZONE
from cronflow.domain.errors import CronFlowError, NotFound
from cronflow.domain.job import Retry

if TYPE_CHECKING:
    from cronflow.client.aio import AsyncClient
    from cronflow.client.local import LocalClient
    from cronflow.client.session import Login, LoginFile
    from cronflow.config import Settings
    from cronflow.live.hub import Hub
    from cronflow.schemas.runs import RunSchema
    from cronflow.usecases import UseCases

    Cluster = AsyncClient | LocalClient

SUGGESTED_FROM = 500
SUGGESTED_FROM_JOBS = 5000
NEAR_ENOUGH = 0.6
AGAIN_S = 1.0

Answer = TypeVar("Answer")
Item = TypeVar("Item")

api_in_use: str | None = None
"""The URL of the API that this command uses; None: it connects to the servers, or has not connected yet."""


def client() -> AsyncClient | None:
    """The client of the login; None: commands connect to the servers. Raises InvalidInput for an invalid login."""
    found = current_login()
    if found is None:
        return None
    from cronflow.client.authenticated import AuthenticatedClient

    return AuthenticatedClient(*found)


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[UseCases]:
    """The use-cases on the servers of the settings. Raises BackendUnavailable when one does not answer."""
    from cronflow.bootstrap import parts

    _log_to_stderr(settings)
    async with parts.open_service(settings) as service:
        yield service


@asynccontextmanager
async def open_live(settings: Settings) -> AsyncIterator[tuple[UseCases, Hub]]:
    """`open_service` with the live stream, as in an API replica."""
    from cronflow.bootstrap import parts

    _log_to_stderr(settings)
    async with parts.open_live(settings) as both:
        yield both


def _log_to_stderr(settings: Settings) -> None:
    """Log warnings about the servers as text to stderr."""
    import structlog

    from cronflow.cli.process_log import LogFormat, log_of

    if not structlog.is_configured():
        log_of(settings, otherwise=LogFormat.TEXT, level="warn", role="command")


@asynccontextmanager
async def open_client(*, live: bool = False, changes: bool | None = None) -> AsyncIterator[Cluster]:
    """`live`: the client can follow. Names that do not exist get suggestions. `changes`: whether the command changes
    the cluster, which it names on stderr; None: it prints nothing.
    """
    global api_in_use
    if changes is not None:
        _announce(target(), changes=changes)
    found = client()
    api_in_use = None if found is None else found.url
    if found is not None:
        async with found, _suggesting(found):
            yield found
        return
    read = settings()
    if live:
        async with open_live(read) as (service, hub), _suggesting(one := _local(read, service, hub)):
            yield one
        return
    async with open_service(read) as service, _suggesting(one := _local(read, service)):
        yield one


def _local(read: Settings, service: UseCases, hub: Hub | None = None) -> LocalClient:
    from cronflow.client.local import LocalClient

    return LocalClient(
        service,
        by=author(),
        namespace=read.namespace,
        heartbeat=read.heartbeat,
        retry=read.retry,
        timezone=read.timezone,
        hub=hub,
    )


def _announce(used: Target, *, changes: bool) -> None:
    """Name the cluster if the command changes it, or if another one is named too."""
    if changes or used.ignored:
        unused = f"; ignored: {', '.join(used.ignored)}" if used.ignored else ""
        note(formatting.clean(f"cluster: {used}{unused}"))


def call(use: Callable[[Cluster], Awaitable[Answer]], *, changes: bool = False) -> Answer:
    """Use the cluster of this command, which `change` names first."""

    async def run() -> Answer:
        async with open_client(changes=changes) as cluster:
            return await use(cluster)

    return run_interruptible(run())


def change(use: Callable[[Cluster], Awaitable[Answer]]) -> Answer:
    """`call` for a command that changes the cluster."""
    return call(use, changes=True)


def following(
    use: Callable[[Cluster], Awaitable[Answer]], *, awaited: bool = False, changes: bool = False
) -> Answer | None:
    """`call` with a client that can follow. Ctrl-C returns None; with `awaited`, it raises KeyboardInterrupt."""

    async def run() -> Answer:
        async with open_client(live=True, changes=changes) as cluster:
            return await use(cluster)

    try:
        return run_interruptible(run())
    except KeyboardInterrupt:
        if awaited:
            raise
        return None


def api_version() -> str | None:
    """The version of the API that this command uses; None without an API, or if it does not answer."""
    if api_in_use is None:
        return None
    try:
        return run_interruptible(_api_version())
    except CronFlowError:
        return None


async def _api_version() -> str | None:
    async with open_client() as cluster:
        return (await cluster.cluster.settings())["version"] or None


class JobDefaults(NamedTuple):
    """What completes the documents of jobs."""

    retry: Retry
    tz: str


def job_defaults() -> JobDefaults:
    """The defaults of the API, or those of the local settings if the API does not answer."""

    async def read() -> JobDefaults:
        try:
            async with open_client() as cluster:
                found = await cluster.cluster.settings()
        except CronFlowError:
            return local()
        initial = timedelta(milliseconds=found["retry_initial_ms"])
        retry = Retry(max=found["retry_max"], initial=initial, multiplier=found["retry_multiplier"])
        # An API of 0.10 does not know it.
        return JobDefaults(retry, found.get("timezone", FORMAT_ZONE))

    def local() -> JobDefaults:
        read = settings()
        return JobDefaults(read.retry, read.timezone)

    return local() if current_login() is None else run_interruptible(read())


def current_login() -> tuple[Login, LoginFile | None] | None:
    """The active login, and the file that stores it; None: commands connect to the servers. Raises InvalidInput."""
    found = target()
    return None if found.login is None else (found.login, found.file)


@asynccontextmanager
async def _suggesting(cluster: Cluster) -> AsyncIterator[None]:
    """Add the nearest names to a NotFound."""
    try:
        yield
    except NotFound as error:
        known = await _known(cluster, error)
        near = get_close_matches(error.name, known, n=3, cutoff=NEAR_ENOUGH)
        if near:
            error.add_note(f"did you mean {' or '.join(near)}?")
        raise


async def _known(cluster: Cluster, error: NotFound) -> list[str]:
    """The names of this kind; none if they cannot be read, because suggestions are optional."""
    try:
        if error.kind == "job":
            return [job["name"] async for job in first_of(cluster.jobs.list(), SUGGESTED_FROM_JOBS)]
        if error.kind == "run":
            job = error.name.partition("@")[0]
            runs = await runs_of(cluster, job, SUGGESTED_FROM)
            return [run["id"] for run in runs or await runs_of(cluster, None, SUGGESTED_FROM)]
    except CronFlowError:
        pass
    return []


async def first_of(items: AsyncIterator[Item], most: int) -> AsyncIterator[Item]:
    count = 0
    async for item in items:
        yield item
        count += 1
        if count == most:
            return


async def collect(items: AsyncIterator[Item]) -> list[Item]:
    return [item async for item in items]


async def runs_of(
    cluster: Cluster,
    job: str | None,
    limit: int | None,
    *,
    states: Collection[str] = (),
    **conditions: Any,
) -> list[RunSchema]:
    """The latest runs that match, of one job or of all. `conditions` as in `AsyncClient.runs.list`."""
    if job is None or states or any(conditions.values()):
        return await collect(cluster.runs.list(job=job, state=[*states], limit=limit, **conditions))
    try:
        # An API key limited to this job may use this route.
        return await collect(cluster.jobs.runs(job, limit=limit))
    except NotFound:
        return []


def run_interruptible(work: Coroutine[object, object, Answer]) -> Answer:
    """Run until the work ends or one Ctrl-C, which raises KeyboardInterrupt.

    asyncio turns Ctrl-C into a cancellation of the command's task, and in CPython 3.11 `asyncio.wait_for`, which the
    Redis client uses, loses a cancellation that arrives just as it finishes (python/cpython#86296). So the cancellation
    is repeated until the work has ended.
    """
    return asyncio.run(_interruptible(work))


async def _interruptible(work: Coroutine[object, object, Answer]) -> Answer:
    # Only the main thread receives signals.
    if threading.current_thread() is not threading.main_thread():
        return await work
    loop, working = asyncio.get_running_loop(), asyncio.ensure_future(work)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        if not working.done():
            working.cancel()
            loop.call_later(AGAIN_S, interrupt)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        return await working
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGINT)
