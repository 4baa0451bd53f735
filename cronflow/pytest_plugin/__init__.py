"""The pytest plugin: fixtures for tests of your own jobs. It imports nothing of CronFlow until a fixture is used.

* `cronflow_clock`: a `FakeClock`.
* `cronflow_jobs`: `run_job_sync` on that clock, so that runs follow each other in time.
* `cronflow_servers`: the URLs of a Redis and a MongoDB for the session.
* `cronflow_cluster`: a cluster on these servers for one test, with an API and a client.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cronflow.pytest_plugin.cluster import JobCluster
    from cronflow.testing import FakeClock, JobResult

SERVERS = ("CRONFLOW_TEST_REDIS_URL", "CRONFLOW_TEST_MONGO_URL")
"""Environment variables with the URLs of servers to test with, instead of embedded ones."""


@pytest.fixture
def cronflow_clock() -> FakeClock:
    """A clock that only moves when the test or a run moves it."""
    from cronflow.testing import FakeClock

    return FakeClock()


@pytest.fixture
def cronflow_jobs(cronflow_clock: FakeClock) -> Callable[..., JobResult]:
    """`cronflow.testing.run_job_sync` on `cronflow_clock`."""
    from functools import partial

    from cronflow.testing import run_job_sync

    return partial(run_job_sync, clock=cronflow_clock)


@pytest.fixture(scope="session")
def cronflow_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URLs of Redis and MongoDB: those of the environment variables, or else of embedded servers."""
    from contextlib import ExitStack

    from cronflow.testing.embedded import CannotStart, MongoServer, RedisServer

    with ExitStack() as stack:
        urls = []
        for variable, make in zip(SERVERS, (RedisServer, MongoServer), strict=True):
            if url := os.environ.get(variable):
                urls.append(url)
                continue
            server = make(tmp_path_factory.mktemp("cronflow-server"))
            try:
                server.start()
            except CannotStart as error:
                reason = f"{error}\nOr set {variable} to the URL of a running server."
            else:
                stack.callback(server.stop)
                urls.append(server.url)
                continue
            pytest.fail(f"the fixture cronflow_servers needs {server.service}. {reason}", pytrace=False)
        yield urls[0], urls[1]


@pytest.fixture
def cronflow_cluster(
    cronflow_servers: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JobCluster]:
    """A cluster with its own namespace, an API and no node. Its data is deleted after the test."""
    from cronflow.pytest_plugin.cluster import JobCluster

    with JobCluster(*cronflow_servers, folder=tmp_path_factory.mktemp("cronflow-cluster")) as cluster:
        yield cluster
