"""One connection pool for commands, one connection for doorbells, and scripts by name.

The rule it protects: a command that takes or gives a right is sent once. The client therefore has no silent retries;
a timeout drops the connection (a reply that comes too late must not reach the next caller), and every driver error
becomes BackendUnavailable here.
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
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, NoScriptError, RedisError, ResponseError

from cronflow.backends.redis.clients import Client, Opened, open_client
from cronflow.backends.redis.keys import RedisKeys
from cronflow.domain import metrics
from cronflow.domain.errors import BackendUnavailable
from cronflow.ports import UNMETERED, Meter

PING_EVERY_S = 5.0


class Script:
    """A Lua file of the `lua` folder, with the hash that EVALSHA wants."""

    def __init__(self, name: str) -> None:
        self.text = resources.files("cronflow.backends.redis").joinpath("lua", f"{name}.lua").read_text("utf-8")
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


class RedisConnection:
    """The connections of one process to one Redis, as an async context manager. A `client` of the caller's stays his.

    For the forms of `url` see `clients`. Entering checks that the server answers, and that it drops no key when its
    memory is full; BackendUnavailable is raised if not. InvalidInput is raised for a URL that cannot be read. The
    doorbell connection is asked for an answer when it was silent for `ping_every_s` seconds.
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
            async with self._translated():
                yield
        except BackendUnavailable:
            self._meter.add(metrics.BACKEND_FAILURES, "redis")
            raise
        self._meter.observe(metrics.BACKEND_SECONDS, time.perf_counter() - began, "redis")

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        try:
            yield
        except ResponseError as error:
            # Only what the server itself cannot do now; a wrong command is our bug and must be seen.
            if str(error).split(" ", 1)[0] in {
                "LOADING",
                "READONLY",
                "OOM",
                "MISCONF",
                "MASTERDOWN",
                "NOREPLICAS",
                "NOAUTH",
                "WRONGPASS",
            }:
                raise BackendUnavailable("Redis", self.address, str(error)) from error
            raise
        except (RedisError, OSError) as error:
            if isinstance(error, RedisConnectionError) and isinstance(self._client, Redis):
                # The other pooled connections lead to the same lost server: let them not fail one by one.
                await self._client.connection_pool.disconnect(inuse_connections=False)
            raise BackendUnavailable("Redis", self.address, str(error) or type(error).__name__) from error

    async def call(self, script: str, keys: Sequence[str], *arguments: object) -> Any:
        """Run a script. One that Redis does not know has not run, so it is loaded and sent again."""
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
        """Send one command to every server that may have keys; None when this user may not send it."""
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
        """The channels on which something was said; first None, once the subscription stands.

        Ends with BackendUnavailable when the connection is lost, or when a PING after `ping_every_s` of silence is not
        answered within as long again: a half-open socket would otherwise be deaf for ever.
        """
        async with self._translated(), self._client.pubsub() as pubsub:
            await pubsub.subscribe(*channels)
            yield None
            unanswered = False
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=False, timeout=self._ping_every_s)
                if message is None:
                    if unanswered:
                        raise BackendUnavailable("Redis", self.address, "the doorbell connection does not answer")
                    await pubsub.ping()
                    unanswered = True
                    continue
                unanswered = False
                if message["type"] == "message":
                    yield message["channel"].decode()
