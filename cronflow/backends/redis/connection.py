"""One connection pool for commands, one connection for signals, and scripts by name.

A command is sent once, because it may acquire or release something. The client therefore never retries silently. A
timeout drops the connection, so that a late reply cannot reach the next caller. Every driver error becomes
BackendUnavailable here, and so does a call that takes longer than CALL_TIMEOUT_S.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha1
from importlib import resources
from types import TracebackType
from typing import Any, Self

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import AuthenticationError, NoPermissionError, NoScriptError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from cronflow.backends.redis import clients
from cronflow.backends.redis.clients import Client, Opened, open_client
from cronflow.backends.redis.keys import RedisKeys
from cronflow.domain import metrics
from cronflow.domain.errors import AccessDenied, BackendUnavailable
from cronflow.ports import UNMETERED, Meter

PING_EVERY_S = 5.0
MOST_CALLS = 50
"""At the same time; others wait. The driver refuses more than 100 connections, as if the server were away."""
DENIALS = ("NOAUTH", "WRONGPASS", "NOPERM", "ACL failure in script", "The user executing the script can't")
"""How replies begin that deny access. Those about a right that a script lacks have no code of their own."""
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
RIGHTS_REMEDY = (
    "correct the user and password in CRONFLOW_REDIS_URL, or grant the rights of the ACL line in the how-to"
    " `Redis and MongoDB with passwords and TLS`"
)
CA_REMEDY = "add ?ssl_ca_certs=/path/ca.pem to CRONFLOW_REDIS_URL, and use the host name of the certificate"


class Script:
    """A file of the `lua` folder, with its hash for EVALSHA."""

    def __init__(self, name: str) -> None:
        self.text = resources.files("cronflow.backends.redis").joinpath("lua", f"{name}.lua").read_text("utf-8")
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


class RedisConnection:
    """The connections of one process to one Redis, as an async context manager.

    `clients` documents the forms of `url`; an invalid one raises InvalidInput. Entering raises BackendUnavailable if
    the server does not answer. The signal connection is pinged after `ping_every_s` seconds of silence.
    """

    def __init__(
        self,
        url: str,
        namespace: str,
        client: Client | None = None,
        *,
        ping_every_s: float = PING_EVERY_S,
        meter: Meter = UNMETERED,
    ) -> None:
        self.keys = RedisKeys(namespace)
        self._ping_every_s = ping_every_s
        self._meter = meter
        self._scripts: dict[str, Script] = {}
        self._calls = asyncio.Semaphore(MOST_CALLS)
        self._opened = Opened(client, url) if client is not None else open_client(url)
        self._client, self.address = self._opened.client, self._opened.address

    async def __aenter__(self) -> Self:
        try:
            await self.ping()
        except BaseException:
            await self._opened.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        began = time.perf_counter()
        try:
            async with self._translated(), asyncio.timeout(clients.CALL_TIMEOUT_S), self._calls:
                yield
        except BackendUnavailable:
            self._meter.add(metrics.BACKEND_FAILURES, "redis")
            raise
        self._meter.observe(metrics.BACKEND_SECONDS, time.perf_counter() - began, "redis")

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        try:
            yield
        except (NoPermissionError, AuthenticationError) as error:
            raise self.denied(str(error)) from error
        except ResponseError as error:
            text = str(error)
            if text.startswith(DENIALS):
                raise self.denied(text) from error
            # Only errors of the server's state. A wrong command is our bug and propagates.
            if text.split(" ", 1)[0] in {"LOADING", "READONLY", "OOM", "MISCONF", "MASTERDOWN", "NOREPLICAS"}:
                raise BackendUnavailable("Redis", self.address, str(error)) from error
            raise
        except (RedisError, OSError) as error:
            if isinstance(error, RedisConnectionError) and isinstance(self._client, Redis):
                # The other pooled connections lead to the same server; do not let them fail one by one.
                await self._client.connection_pool.disconnect(inuse_connections=False)
            if UNTRUSTED in str(error):
                raise AccessDenied("Redis", self.address, "its certificate is not trusted", CA_REMEDY) from error
            reason = str(error) or (
                "it did not answer in time" if isinstance(error, TimeoutError) else type(error).__name__
            )
            raise BackendUnavailable("Redis", self.address, reason) from error

    def denied(self, reason: str) -> AccessDenied:
        """The error for a user whom Redis refuses, with the reason in Redis's words."""
        return AccessDenied("Redis", self.address, reason.rstrip("."), RIGHTS_REMEDY)

    async def call(self, script: str, keys: Sequence[str], *arguments: object) -> Any:
        """Run a script. If Redis has not loaded it, it has not run, so it is sent again with its text."""
        found = self._scripts.get(script)
        if found is None:
            found = self._scripts[script] = Script(script)
        async with self._asking():
            try:
                return await self._client.evalsha(found.sha, len(keys), *keys, *arguments)  # type: ignore[arg-type]
            except NoScriptError:
                return await self._client.eval(found.text, len(keys), *keys, *arguments)  # type: ignore[arg-type]

    async def command(self, *words: object) -> Any:
        """Send one command."""
        async with self._asking():
            return await self._client.execute_command(*words)  # type: ignore[arg-type, unused-ignore]

    async def each(self, *words: object) -> list[Any] | None:
        """Send a command to every server that has keys. None if this user may not send it."""
        options = {} if isinstance(self._client, Redis) else {"target_nodes": RedisCluster.PRIMARIES}
        async with self._asking():
            try:
                answer = await self._client.execute_command(*words, **options)  # type: ignore[arg-type, unused-ignore]
            except ResponseError as error:
                if str(error).lower().startswith(("unknown command", "err unknown command")) or isinstance(
                    error, NoPermissionError
                ):
                    return None
                raise
        return list(answer.values()) if options else [answer]

    async def pipeline(self, commands: Sequence[Sequence[object]]) -> list[Any]:
        """Send several commands in one round trip; not a transaction."""
        if not commands:
            return []
        async with self._asking():
            pipe = self._client.pipeline(transaction=False)
            for words in commands:
                pipe.execute_command(*words)  # type: ignore[arg-type, unused-ignore]
            return list(await pipe.execute())

    async def ping(self) -> float:
        """Round trip in seconds."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.command("PING")
        return loop.time() - began

    async def messages(self, channels: Sequence[str]) -> AsyncIterator[str | None]:
        """The channel of each message. The first item is None, as soon as the subscription is established.

        Raises BackendUnavailable when the connection is lost, or when a PING after `ping_every_s` of silence is not
        answered within the same time. Otherwise a half-open socket would never receive anything again.
        """
        async with self._translated(), self._client.pubsub() as pubsub:
            async with asyncio.timeout(clients.CALL_TIMEOUT_S):
                await pubsub.subscribe(*channels)
            yield None
            unanswered = False
            while True:
                # The driver may also connect again here.
                async with asyncio.timeout(self._ping_every_s + clients.CALL_TIMEOUT_S):
                    message = await pubsub.get_message(ignore_subscribe_messages=False, timeout=self._ping_every_s)
                if message is None:
                    if unanswered:
                        raise BackendUnavailable("Redis", self.address, "the signal connection does not answer")
                    async with asyncio.timeout(clients.CALL_TIMEOUT_S):
                        await pubsub.ping()
                    unanswered = True
                    continue
                unanswered = False
                if message["type"] == "message":
                    yield message["channel"].decode()


class RedisAdapter:
    """Base of the adapters: a connection and its keys."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis, self._keys = connection, connection.keys
