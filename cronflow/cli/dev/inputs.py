"""What `cronflow dev` needs before it starts a process: jobs and apps from files, credentials, and servers.

The rules: files are checked before a server is started; two data folders never share credentials, which only their
owner can read; real servers are preferred to running in memory.
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cronflow.app import App, load_module
from cronflow.config import Settings
from cronflow.domain.errors import CronFlowError, InvalidInput, Problem
from cronflow.domain.job import Job, PythonTarget, Retry
from cronflow.files.jobs import read_job_files
from cronflow.testing.embedded import MongoServer, RedisServer, find_mongod, find_redis


@dataclass(frozen=True, slots=True)
class Given:
    """The jobs, and what a node needs to run them: Apps by address, allowed modules, folders to import from."""

    jobs: tuple[Job, ...]
    apps: tuple[str, ...]
    modules: tuple[str, ...]
    folders: tuple[Path, ...]


def read(files: Sequence[Path], retry: Retry, tz: str = "UTC") -> Given:
    """`retry` and `tz` are for jobs that do not define them. Raises InvalidInput with every problem."""
    folders = tuple(dict.fromkeys(file.resolve().parent for file in files))
    for folder in folders:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    jobs = read_job_files([file for file in files if file.suffix != ".py"], retry=retry, tz=tz) if files else []
    modules = {job.target.ref.partition(":")[0] for job in jobs if isinstance(job.target, PythonTarget)}
    apps: list[str] = []
    for file in (file for file in files if file.suffix == ".py"):
        found = _apps_in(file)
        apps += [address for address, _ in found]
        jobs += [job for _, app in found for job in app.jobs_with(retry, tz)]
    names = [job.name for job in jobs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput([Problem("", f"two jobs are named {name!r}", "rename one") for name in twice])
    return Given(tuple(jobs), tuple(apps), tuple(sorted(modules)), folders)


def _apps_in(file: Path) -> list[tuple[str, App]]:
    if not file.is_file():
        raise InvalidInput(Problem(str(file), "does not exist"))
    if not file.stem.isidentifier():
        raise InvalidInput(Problem(str(file), "is not a valid module name", "use only letters, digits and _"))
    module = load_module(file.stem)
    found = [(f"{file.stem}:{name}", value) for name, value in vars(module).items() if isinstance(value, App)]
    if not found:
        raise InvalidInput(Problem(str(file), "contains no App", "create one: app = App('name')"))
    return found


@dataclass(frozen=True, slots=True)
class DevCredentials:
    """The complete settings, and the generated ones as variables for the API and for all processes."""

    settings: Settings
    for_api: dict[str, str] = field(repr=False)
    for_all: dict[str, str] = field(repr=False)
    password: str | None = field(repr=False)


def complete(settings: Settings, folder: Path | None) -> DevCredentials:
    """Generate missing settings, or read them from the folder if it has them. `password` is None if the settings have
    one, which must not be printed.
    """
    for_api: dict[str, str] = {}
    for_all: dict[str, str] = {}
    password = None
    if not (settings.admin_password or settings.admin_password_file or settings.admin_password_hash):
        password = for_api["CRONFLOW_ADMIN_PASSWORD"] = _stored(folder, "admin-password", _password)
        settings = replace(settings, admin_password=password)
    if settings.jwt_secret is None:
        secret = for_api["CRONFLOW_JWT_SECRET"] = _stored(folder, "jwt-secret", lambda: secrets.token_urlsafe(48))
        settings = replace(settings, jwt_secret=secret)
    if settings.secrets_key is None:
        key = for_all["CRONFLOW_SECRETS_KEY"] = _stored(folder, "secrets-key", _key)
        settings = replace(settings, secrets_key=(base64.b64decode(key),))
    return DevCredentials(settings, for_api, for_all, password)


def _password() -> str:
    return secrets.token_urlsafe(12)


def _key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def _stored(folder: Path | None, name: str, make: Callable[[], str]) -> str:
    if folder is None:
        return make()
    file = folder / name
    try:
        if file.exists():
            return file.read_text("utf-8").strip()
        value = make()
        # Created with private permissions.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(value + "\n")
    except OSError as error:
        raise CronFlowError(f"{file} cannot be used: {error.strerror}") from error
    return value


@dataclass(frozen=True, slots=True)
class Servers:
    """The URLs, and a text for the origin of each server."""

    redis_url: str
    mongo_url: str
    redis_from: str
    mongo_from: str


def missing(settings: Settings) -> list[str]:
    lacking = []
    if not settings.redis_url and find_redis() is None:
        lacking.append("Redis")
    if not settings.mongo_url and find_mongod() is None:
        lacking.append("MongoDB")
    return lacking


@asynccontextmanager
async def open_servers(settings: Settings, data: Path) -> AsyncIterator[Servers]:
    """Start the servers that are not in the settings; stop them at the end. Raises CannotStart with the remedy."""
    async with AsyncExitStack() as stack:
        redis: RedisServer | None = None
        mongo: MongoServer | None = None
        starting: list[Awaitable[object]] = []
        password = _stored(data, "servers-password", lambda: secrets.token_hex(24))
        if not settings.redis_url:
            redis = RedisServer(data, password=password)
            starting.append(asyncio.to_thread(redis.start))
        if not settings.mongo_url:
            mongo = MongoServer(data, password=password)
            starting.append(asyncio.to_thread(mongo.start))
        for server in (redis, mongo):
            if server is not None:
                stack.push_async_callback(asyncio.to_thread, server.stop)
        failures = [f for f in await asyncio.gather(*starting, return_exceptions=True) if isinstance(f, BaseException)]
        if failures:
            raise failures[0]
        yield Servers(
            redis_url=settings.redis_url or (redis.url if redis else ""),
            mongo_url=settings.mongo_url or (mongo.url if mongo else ""),
            redis_from="from the settings" if redis is None else f"started on port {redis.port}",
            mongo_from="from the settings" if mongo is None else f"started on port {mongo.port}",
        )
