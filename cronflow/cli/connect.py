"""Connects a command to the cluster: a client of the API for a logged-in user, else one on the servers of the settings.
Both have the methods of `AsyncClient`.

The rule: files and flags are checked before the client is opened, so an error about an unreachable server means that
everything else was valid. `client` is the only access to the API, `open_service` and `open_live` to the servers; tests
replace them. CRONFLOW_API_URL takes precedence over the login file, and both over REDIS_URL and MONGO_URL.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cronflow.cli.terminal.output import author
from cronflow.domain.errors import CronFlowError, InvalidInput, NotFound, Problem
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
NEAR_ENOUGH = 0.6
AGAIN_S = 1.0

Answer = TypeVar("Answer")
Item = TypeVar("Item")

api_in_use: str | None = None
"""The URL of the API that this command uses; None: it connects to the servers, or has not connected yet."""


def settings(overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings of this process. Raises InvalidInput with every problem."""
    from cronflow.config import load_settings

    return load_settings(overrides or {})


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
async def open_client(*, live: bool = False) -> AsyncIterator[Cluster]:
    """`live`: the client can follow. Names that do not exist get suggestions."""
    global api_in_use
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
        service, by=author(), namespace=read.namespace, heartbeat=read.heartbeat, retry=read.retry, hub=hub
    )


def call(use: Callable[[Cluster], Awaitable[Answer]]) -> Answer:

    async def run() -> Answer:
        async with open_client() as cluster:
            return await use(cluster)

    return run_interruptible(run())


def following(use: Callable[[Cluster], Awaitable[Answer]], *, awaited: bool = False) -> Answer | None:
    """`call` with a client that can follow. Ctrl-C returns None; with `awaited`, it raises KeyboardInterrupt."""

    async def run() -> Answer:
        async with open_client(live=True) as cluster:
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
        return call(lambda cluster: cluster.cluster.settings())["version"] or None
    except CronFlowError:
        return None


def retry() -> Retry:
    """The default retry of jobs: that of the API, or of the local settings if the API does not answer."""

    async def read() -> Retry:
        try:
            async with open_client() as cluster:
                found = await cluster.cluster.settings()
        except CronFlowError:
            return settings().retry
        initial = timedelta(milliseconds=found["retry_initial_ms"])
        return Retry(max=found["retry_max"], initial=initial, multiplier=found["retry_multiplier"])

    return settings().retry if current_login() is None else run_interruptible(read())


def login_file() -> LoginFile:
    """In the XDG configuration folder. Raises InvalidInput without a home directory."""
    from cronflow.client.session import LoginFile

    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not Path(folder).is_absolute():
        try:
            folder = str(Path.home() / ".config")
        except RuntimeError:
            raise InvalidInput(
                Problem("HOME", "is not set, so no login can be stored", "set XDG_CONFIG_HOME")
            ) from None
    return LoginFile(Path(folder) / "cronflow" / "login.json")


def current_login() -> tuple[Login, LoginFile | None] | None:
    """The active login, and the file that stores it; None: commands connect to the servers. Raises InvalidInput."""
    from cronflow.client.session import Login

    read = settings()
    key = _api_key(read)
    if read.api_url is None:
        if key is not None:
            what = "is set, but CRONFLOW_API_URL is not"
            raise InvalidInput(Problem("CRONFLOW_API_KEY", what, "set CRONFLOW_API_URL to the address of the API"))
        return _stored_login()
    url = read.api_url.rstrip("/")
    if key is not None:
        return Login(url=url, token=key, insecure=read.api_insecure), None
    stored = _stored_login()
    if stored is None or stored[0].url != url:
        what = f"is {url}, but you are not logged in there"
        remedy = f"set CRONFLOW_API_KEY or CRONFLOW_API_KEY_FILE, or: cronflow login {url}"
        raise InvalidInput(Problem("CRONFLOW_API_URL", what, remedy))
    return stored


def _stored_login() -> tuple[Login, LoginFile | None] | None:
    try:
        file = login_file()
    except InvalidInput:
        # Without a home directory there is no login.
        return None
    login = file.read()
    return None if login is None else (login, file)


def _api_key(read: Settings) -> str | None:
    if read.api_key is not None and read.api_key_file is not None:
        what = "CRONFLOW_API_KEY and CRONFLOW_API_KEY_FILE are both set"
        raise InvalidInput(Problem("CRONFLOW_API_KEY_FILE", what, "remove one of the two"))
    if read.api_key_file is None:
        return read.api_key
    from cronflow.config.values import key

    path = read.api_key_file
    try:
        return key(path.read_text("ascii"))
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}"
    except (UnicodeDecodeError, InvalidInput):
        reason = f"{path} does not contain an API key"
    raise InvalidInput(Problem("CRONFLOW_API_KEY_FILE", reason))


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
            return [job["name"] async for job in cluster.jobs.list()]
        if error.kind == "run":
            job = error.name.partition("@")[0]
            runs = await runs_of(cluster, job, SUGGESTED_FROM)
            return [run["id"] for run in runs or await runs_of(cluster, None, SUGGESTED_FROM)]
    except CronFlowError:
        pass
    return []


async def collect(items: AsyncIterator[Item]) -> list[Item]:
    return [item async for item in items]


async def runs_of(
    cluster: Cluster,
    job: str | None,
    limit: int | None,
    *,
    states: Collection[str] = (),
    since: datetime | None = None,
    dead: bool = False,
) -> list[RunSchema]:
    """The latest runs that match, of one job or of all."""
    if job is None or states or since is not None or dead:
        found = cluster.runs.list(job=job, state=[*states], since=since, dead=dead, limit=limit)
        return await collect(found)
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
