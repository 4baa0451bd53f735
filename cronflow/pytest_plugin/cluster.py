"""A cluster for one test, on real servers: the API in a thread of this process, nodes there or as child processes."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from cronflow.app import App
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.keys import RedisKeys
from cronflow.bootstrap.backends import adapters
from cronflow.bootstrap.in_process import InProcessCluster, in_process_cluster
from cronflow.bootstrap.parts import timings
from cronflow.client import Client
from cronflow.config import load_settings
from cronflow.documents import job_document
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.operating_system import tied_to_parent
from cronflow.testing.embedded.server import free_port

if TYPE_CHECKING:
    from cronflow.schemas.runs import RunDetailSchema

PATIENCE_S = 60.0
POLL_S = 0.05
STOP_WITHIN_S = 20.0
LIMITS = {
    "leader_ttl": "10s",
    "leader_renew": "1s",
    "failover_check": "1s",
    "heartbeat": "500ms",
    "node_ttl": "5s",
    "drain_timeout": "5s",
}
"""Shorter than in production, so that a test that stops a node does not wait long."""

T = TypeVar("T")
_numbers = itertools.count(1)


class JobCluster:
    """`client` is logged in as admin, `url` is the address of the API, and `environment` has the settings of a process
    of this cluster.
    """

    def __init__(self, redis_url: str, mongo_url: str, *, folder: Path) -> None:
        self.namespace = f"test-{next(_numbers)}-{secrets.token_hex(3)}"
        self.redis_url, self.mongo_url = redis_url, mongo_url
        self.url = f"http://127.0.0.1:{free_port()}"
        self.client = Client(self.url)
        self.environment = {
            "CRONFLOW_REDIS_URL": redis_url,
            "CRONFLOW_MONGO_URL": mongo_url,
            "CRONFLOW_NAMESPACE": self.namespace,
            "CRONFLOW_SPOOL_DIR": str(folder / "spool"),
            **{f"CRONFLOW_{name.upper()}": value for name, value in LIMITS.items()},
        }
        self._folder = folder
        self._password = secrets.token_urlsafe(16)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cronflow-cluster", daemon=True)
        self._stack = AsyncExitStack()
        self._cluster: InProcessCluster | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._run(self._open())
            self.client.login("admin", self._password)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def define(self, *jobs: App | Mapping[str, object]) -> None:
        """Create or change jobs: all jobs of an app, or a job as in a job file."""
        documents: list[Mapping[str, object]] = []
        for one in jobs:
            documents += [dict(job_document(job)) for job in one.jobs] if isinstance(one, App) else [one]
        self.client.jobs.apply(documents)

    def start_node(self, *apps: App | str, name: str = "node-1", labels: Mapping[str, str] | None = None) -> None:
        """Start a node and wait until it is up. An `App` runs in this process; with addresses such as `billing:app`,
        the node is a child process in the working directory.
        """
        if addresses := [app for app in apps if isinstance(app, str)]:
            if len(addresses) < len(apps):
                raise InvalidInput(Problem("apps", "an App and an address cannot share a node", "start two nodes"))
            self._start_child(name, addresses, labels or {})
        else:
            self._run(self._own.start_node(name, [app for app in apps if isinstance(app, App)], labels))
        self._wait(lambda: self._is_up(name), f"node {name} is up")

    def stop_node(self, name: str = "node-1") -> None:
        """Stop a node as SIGTERM would: running jobs may finish."""
        if (child := self._children.pop(name, None)) is None:
            self._run(self._own.stop_node(name))
        else:
            _end(child)

    def run(
        self, job: str, args: Mapping[str, object] | None = None, *, timeout_s: float = PATIENCE_S
    ) -> RunDetailSchema:
        """Run a job now and wait for the end of the run."""
        return self.wait_for_run(self.client.jobs.run(job, args)["id"], timeout_s=timeout_s)

    def wait_for_run(self, run: str, *, timeout_s: float = PATIENCE_S) -> RunDetailSchema:
        """Wait until a run has ended. TimeoutError with its state and the reason why it waits."""

        self._wait(
            lambda: self.client.runs.get(run)["ended_at"], f"{run} has ended", timeout_s, lambda: self._state(run)
        )
        return self.client.runs.get(run, whole=True)

    @property
    def _own(self) -> InProcessCluster:
        assert self._cluster is not None
        return self._cluster

    async def _open(self) -> None:
        settings = load_settings(
            {
                "redis_url": self.redis_url,
                "mongo_url": self.mongo_url,
                "namespace": self.namespace,
                "admin_password": self._password,
                "jwt_secret": secrets.token_urlsafe(32),
                **LIMITS,
            },
            environ={},
            folder=self._folder,
        )
        redis, mongo = RedisConnection(self.redis_url, self.namespace), MongoDatabase(self.mongo_url, self.namespace)
        await self._stack.enter_async_context(redis)
        await self._stack.enter_async_context(mongo)
        self._stack.push_async_callback(_delete_data, redis, mongo, self.namespace)
        backends = adapters(redis, mongo, lock_s=timings(settings).job_lock)
        port = int(self.url.rpartition(":")[2])
        self._cluster = await self._stack.enter_async_context(in_process_cluster(settings, backends, port=port))

    def _start_child(self, name: str, addresses: list[str], labels: Mapping[str, str]) -> None:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("CRONFLOW_")}
        options = [f"--app={address}" for address in addresses] + [
            f"--label={key}={value}" for key, value in labels.items()
        ]
        with (self._folder / f"{name}.log").open("ab") as log:
            # The command is this interpreter with a module of this package.
            self._children[name] = subprocess.Popen(  # noqa: S603
                [*tied_to_parent(), sys.executable, "-m", "cronflow", "node", f"--name={name}", *options],
                env={**inherited, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _is_up(self, name: str) -> bool:
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            log = (self._folder / f"{name}.log").read_text("utf-8", "replace")
            raise RuntimeError(f"node {name} ended with exit code {child.returncode}:\n{log[-3000:]}")
        return any(node["name"] == name and node["state"] == "up" for node in self.client.nodes.list())

    def _state(self, run: str) -> str:
        found = self.client.runs.get(run)
        return f"it is {found['state']}; waits for: {found['waiting']}; last error: {found['error']}"

    def _wait(
        self,
        condition: Callable[[], T],
        what: str,
        timeout_s: float = PATIENCE_S,
        last: Callable[[], str] = lambda: "",
    ) -> T:
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout_s:g} s: {what}. {last()}".rstrip())
            time.sleep(POLL_S)
        return found

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _close(self) -> None:
        for child in self._children.values():
            child.terminate()
        for child in self._children.values():
            _end(child)
        self.client.close()
        self._run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


async def _delete_data(redis: RedisConnection, mongo: MongoDatabase, namespace: str) -> None:
    database = mongo["jobs"].database
    await database.client.drop_database(database.name)
    cursor: object = "0"
    while True:
        cursor, keys = await redis.command("SCAN", cursor, "MATCH", f"{RedisKeys(namespace).prefix}*", "COUNT", "1000")
        if keys:
            await redis.command("UNLINK", *keys)
        if int(str(cursor)) == 0:
            return
