"""Real servers for the tests: one Redis and one MongoDB a session, and as many more as a test wants to kill.

The rule: a test that needs a server never passes without it. There is no skip; where no server can be had the test
fails and says what to install. Tests share the session's servers, each in its own namespace, and must not kill, pause
or flush them; a test that wants to do so starts its own (fixtures `own_redis` and `own_mongo`).
"""

from __future__ import annotations

import fcntl
import itertools
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from cronflow.testing.embedded import CannotStart, MongoServer, RedisServer

REDIS_URL = "CRONFLOW_TEST_REDIS_URL"
MONGO_URL = "CRONFLOW_TEST_MONGO_URL"
"""Environment variables: the URLs of servers to test against, instead of starting some."""

IN_MEMORY = Path("/dev/shm")
PREFIX = "cronflow-tests-"
NEEDED_BYTES = 4 << 30
"""What must be free there for a server to use it: several processes of tests do, with up to half a gigabyte each."""

AnyServer = TypeVar("AnyServer", RedisServer, MongoServer)

_count = itertools.count(1)


@contextmanager
def started(server: AnyServer) -> Iterator[AnyServer]:
    """Starts `server` and kills it at the end; fails the test, with the remedy, when it cannot be had."""
    obstacle: CannotStart | None = None
    try:
        server.start()
    except CannotStart as error:
        obstacle = error
    if obstacle:
        variable = REDIS_URL if isinstance(server, RedisServer) else MONGO_URL
        pytest.fail(f"{obstacle}\nThe tests take the URL of a running server from {variable}.", pytrace=False)
    try:
        yield server
    finally:
        # Nobody reads its files any more, and a MongoDB that is stopped writes them all once more.
        server.kill()


def _free_bytes() -> int:
    """The memory that files in it may take: 0 where there is no such folder."""
    try:
        return min(shutil.disk_usage(IN_MEMORY).free, psutil.virtual_memory().available)
    except OSError:
        return 0


@contextmanager
def fast_folder(otherwise: Path) -> Iterator[Path]:
    """A folder in memory for the files of a server, where `fsync` costs nothing; else the other one.

    A server on it survives whatever is done to its process, which is all that tests do. The folder is deleted at the
    end. Those of tests that were killed are deleted by the next ones: their locks are free.
    """
    if _free_bytes() < NEEDED_BYTES:
        yield otherwise
        return
    for left in IN_MEMORY.glob(f"{PREFIX}*.lock"):
        with suppress(OSError), left.open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _delete(left)
    file = IN_MEMORY / f"{PREFIX}{secrets.token_hex(8)}.lock"
    with file.open("xb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = file.with_suffix("")
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            _delete(file)


def _delete(lock: Path) -> None:
    """The folder of this lock, then the lock."""
    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
    lock.unlink(missing_ok=True)


def fresh_namespace() -> str:
    """A namespace that no other test and no other session has, such as `t12-9f3a61`."""
    return f"t{next(_count)}-{secrets.token_hex(3)}"
