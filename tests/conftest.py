"""The fixtures that every test may use: a home, servers, their URLs, a namespace.

The rule: nothing is started before a test asks for it, and nothing outlives the session. What they do stands in
`tests.servers`.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from cronflow.operating_system import die_with_parent
from cronflow.testing.embedded import MongoServer, RedisServer
from tests import children, drawing
from tests.rabbitmq import RabbitServer, rabbit_server
from tests.servers import MONGO_URL, REDIS_URL, fast_folder, fresh_namespace, started

LONG = frozenset({"client", "dashboard", "live", "processes"})
"""The folders of tests that take long, most of it in waiting for real processes."""
TOGETHER = "docs"
"""The folder whose tests share a cluster: one worker has them all, so that there is one."""
BROKER = "rabbit"
"""The fixture whose tests share a broker, which is slow to start; the same worker has them."""
SECURED = "secured"
"""The fixture of servers with TLS and passwords, which are slow to start; another worker has their tests."""


_homes = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--prove", action="store_true", help="try many more random inputs, as `make prove` does")
    parser.addoption("--stories", type=int, default=200, help="so many simulated stories are told; default: 200")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `make prove` runs, and put the rest in order.

    Where several workers share the tests, none that is long is left for the end, where the other workers would wait
    for it. One worker begins with the longest of all, another with those that share a cluster, a third with those that
    share slow servers; the long ones are spread over all workers but the first and among the others, so that few run at
    the same time.
    """
    if not config.getoption("prove"):
        left_out = [item for item in items if item.get_closest_marker("prove")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("prove")]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return
    together = [item for item in items if item.path.parent.name == TOGETHER or BROKER in _fixtures_of(item)]
    longest = [item for item in items if item.get_closest_marker("longest")]
    secured = [item for item in items if SECURED in _fixtures_of(item)]
    first: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for n, group in enumerate((longest, together, secured)):
        first[n % workers] += group
    placed = {*together, *longest, *secured}
    rest = [item for item in items if item not in placed]
    long = [item for item in rest if item.path.parent.name in LONG]
    short = [item for item in rest if item.path.parent.name not in LONG]
    # Each worker is given as many in a row, and takes from the end of another's when it has none left.
    ordered: list[pytest.Item] = []
    for k in range(workers):
        size = (len(items) - len(ordered)) // (workers - k)
        ordered += first[k]
        part = long[k - 1 :: workers - 1] if k else []
        size = max(0, size - len(first[k]) - len(part))
        between = size * 2 // 3 // max(1, len(part))
        for n, item in enumerate(part):
            ordered += [item, *short[n * between : (n + 1) * between]]
        ordered += short[len(part) * between : size]
        short = short[size:]
    items[:] = ordered + short


def _fixtures_of(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


def pytest_configure(config: pytest.Config) -> None:
    """Clean the environment before a module of tests is imported; see `tests.children`."""
    if config.getoption("dist", "no") != "no":
        # The workers do it for themselves, and want to see what it was.
        return
    if hasattr(config, "workerinput"):
        die_with_parent(os.getppid())
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        # A shell that starts the tests in the background ignores these, and children would inherit that.
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    if config.getoption("prove"):
        drawing.prove()
    os.environ.clear()
    os.environ.update(children.clean(children.OUTSIDE) | {"HOME": children.NO_HOME})
    # Examples that failed are kept in the checkout, and not in the folder of one test.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(children.ROOT / ".hypothesis"))
    time.tzset()

    def restore() -> None:
        os.environ.clear()
        os.environ.update(children.OUTSIDE)
        time.tzset()

    config.add_cleanup(restore)


@pytest.fixture(scope="session", autouse=True)
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the tests' homes, and the home of what several tests share. Every child has one of these homes."""
    folder = tmp_path_factory.mktemp("homes")
    start = subprocess.Popen.__init__

    def checked(self: subprocess.Popen[Any], args: Any, *more: Any, **named: Any) -> None:
        children.refuse_the_home_of_the_person(args, named.get("env"))
        start(self, args, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setattr(subprocess.Popen, "__init__", checked)
        yield folder


def restore_logging() -> None:
    """Undo what a command configured that ran in this process."""
    if structlog.is_configured():
        structlog.reset_defaults()
        root = logging.getLogger()
        root.setLevel(logging.WARNING)
        root.handlers[:] = [handler for handler in root.handlers if type(handler) is not logging.StreamHandler]


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """A test starts with the logging of the tests, whatever a test or a fixture of its module configured before."""
    yield
    restore_logging()


@pytest.fixture(autouse=True)
def home(homes: Path) -> Iterator[Path]:
    """The home of this test, which is its working directory too: no `cronflow.toml` lies there."""
    folder = homes / str(next(_homes))
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The Redis that the tests share; always a process of this session. Not to be killed, paused or flushed."""
    with started(RedisServer(tmp_path_factory.mktemp("redis"), durable=False)) as server:
        yield server


@pytest.fixture(scope="session")
def mongo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    """The MongoDB that the tests share; always a process of this session. Not to be killed or paused."""
    with fast_folder(tmp_path_factory.mktemp("mongo")) as folder, started(MongoServer(folder)) as server:
        yield server


@pytest.fixture(scope="session")
def rabbit(homes: Path) -> Iterator[RabbitServer]:
    """The RabbitMQ that the tests share; always a process of this session. It may be restarted, but not killed."""
    with rabbit_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(request: pytest.FixtureRequest) -> str:
    """Where the shared Redis is: CRONFLOW_TEST_REDIS_URL if that is set, else `redis_server`."""
    if url := os.environ.get(REDIS_URL):
        return url
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url


@pytest.fixture(scope="session")
def mongo_url(request: pytest.FixtureRequest) -> str:
    """Where the shared MongoDB is: CRONFLOW_TEST_MONGO_URL if that is set, else `mongo_server`."""
    if url := os.environ.get(MONGO_URL):
        return url
    server: MongoServer = request.getfixturevalue("mongo_server")
    return server.url


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis for this test alone, with an append-only file, to be killed, paused and flushed at will."""
    with fast_folder(tmp_path) as folder, started(RedisServer(folder)) as server:
        yield server


@pytest.fixture
def own_mongo(tmp_path: Path) -> Iterator[MongoServer]:
    """A MongoDB for this test alone, to be killed and paused at will."""
    with fast_folder(tmp_path) as folder, started(MongoServer(folder)) as server:
        yield server


@pytest.fixture
def namespace() -> str:
    """A short namespace that is this test's alone, so that tests can share servers."""
    return fresh_namespace()
