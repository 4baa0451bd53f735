"""Real servers for the tests: one Redis and one MongoDB a session, and as many more as a test wants to kill.

The rule: a test that needs a server never passes without it. There is no skip; where no server can be had the test
fails and says what to install. Tests share the session's servers, each in its own namespace, and must not kill, pause
or flush them; a test that wants to do so starts its own (fixtures `own_redis` and `own_mongo`).
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from cronflow.testing.embedded import CannotStart, MongoServer, RedisServer

REDIS_URL = "CRONFLOW_TEST_REDIS_URL"
MONGO_URL = "CRONFLOW_TEST_MONGO_URL"
"""Environment variables: the URLs of servers to test against, instead of starting some."""

AnyServer = TypeVar("AnyServer", RedisServer, MongoServer)

_count = itertools.count(1)


@contextmanager
def started(server: AnyServer) -> Iterator[AnyServer]:
    """Starts `server` and stops it at the end; fails the test, with the remedy, when it cannot be had."""
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
        server.stop()


def fresh_namespace() -> str:
    """A namespace that no other test and no other session has, such as `t12-9f3a61`."""
    return f"t{next(_count)}-{secrets.token_hex(3)}"
