"""The keep-alive thread: an event loop with its own connections, for work that must not wait for the main loop.

It renews the heartbeat, the leader's key, the leases of runs and the job locks. Otherwise a handler that blocks the
main loop would lose all of them, and its runs would start again elsewhere. But the thread must not keep a dead process
alive, so `LoopMonitor` watches the main loop: a node whose loop is blocked gets no work, does not lead, and renews a
run's lease only up to the run's timeout.

On virtual time, in tests, the same roles run in the main loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import Any, Self, TypeVar

from cronflow.domain import metrics
from cronflow.node.role_loop import NodeRole, Outages, Wake, end_tasks, repeat
from cronflow.ports import UNMETERED, Clock, Meter

BEAT_EVERY_S = 0.5
READY_WITHIN_S = 30.0

Answer = TypeVar("Answer")


class LoopMonitor:
    """Measures how late the main loop runs its tasks, and how many it has."""

    def __init__(self, clock: Clock, meter: Meter = UNMETERED) -> None:
        self._clock = clock
        self._meter = meter
        self._at: float | None = None
        self._late_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.role = NodeRole("loop monitor", self._beat, Wake())

    @property
    def stalled_s(self) -> float:
        """For how long the main loop has been blocked, beyond its usual beat, in seconds."""
        return self._behind(self._clock.monotonic())

    @property
    def lag_s(self) -> float:
        """How late the last beat came, or the next one already is, in seconds."""
        return max(self._late_s, self.stalled_s)

    @property
    def tasks(self) -> int:
        """How many tasks the main loop has; 0 before the first beat. Any thread may ask. Slow: it looks at each."""
        return 0 if self._loop is None else len(asyncio.all_tasks(self._loop))

    def _behind(self, now: float) -> float:
        return 0.0 if self._at is None else max(0.0, now - self._at - BEAT_EVERY_S)

    async def _beat(self) -> float:
        now = self._clock.monotonic()
        self._late_s = self._behind(now)
        if self._at is not None:
            self._meter.observe(metrics.LOOP_LAG, self._late_s)
        self._at = now
        self._loop = asyncio.get_running_loop()
        return BEAT_EVERY_S


class KeepAliveThread:
    """Runs roles in its own thread, or in the calling loop when `threaded` is false. An async context manager.

    `lifetime` opens the connections of these roles, in their loop. Leaving the context stops the roles.
    """

    def __init__(
        self,
        roles: Sequence[NodeRole],
        clock: Clock,
        outages: Outages,
        lifetime: AbstractAsyncContextManager[Any] | None = None,
        *,
        threaded: bool,
    ) -> None:
        self._roles = roles
        self._clock = clock
        self._outages = outages
        self._lifetime = lifetime or nullcontext()
        self._threaded = threaded
        self._stop = Wake()
        self._begin = Wake()
        self._ready: asyncio.Future[asyncio.AbstractEventLoop] | None = None
        self._done: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        """Open the connections; then `call` works. `begin` starts the roles."""
        here = asyncio.get_running_loop()
        self._ready, self._done = here.create_future(), here.create_future()
        if self._threaded:
            threading.Thread(target=self._thread, args=(here,), name="keep-alive", daemon=True).start()
        else:
            self._task = asyncio.ensure_future(self._live(here))
        outcomes: set[asyncio.Future[Any]] = {self._ready, self._done}
        await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
        if self._done.done():
            self._done.result()
        self._loop = self._ready.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        assert self._done is not None
        await asyncio.wait({self._done})
        if error is None:
            self._done.result()

    def begin(self) -> None:
        """Start the roles."""
        self._begin.set()

    async def call(self, make: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Run a coroutine in the thread's loop."""
        loop = self._loop
        assert loop is not None
        if loop is asyncio.get_running_loop():
            return await make()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(make(), loop))

    async def ended(self) -> None:
        """Wait for the thread to end. Raises the error that ended it."""
        assert self._done is not None
        await asyncio.shield(self._done)

    def _thread(self, here: asyncio.AbstractEventLoop) -> None:
        asyncio.run(self._live(here))

    async def _live(self, here: asyncio.AbstractEventLoop) -> None:
        failure: BaseException | None = None
        self._stop.bind()
        self._begin.bind()
        try:
            async with self._lifetime:
                _resolve(here, self._ready, asyncio.get_running_loop())
                await self._run_roles()
        except BaseException as error:  # any error ends the node, in the main loop
            failure = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
        _resolve(here, self._done, None, failure)

    async def _run_roles(self) -> None:
        stopping = asyncio.ensure_future(self._stop.event.wait())
        beginning = asyncio.ensure_future(self._begin.event.wait())
        await asyncio.wait({stopping, beginning}, return_when=asyncio.FIRST_COMPLETED)
        beginning.cancel()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(repeat(role, self._clock, self._outages), name=role.name) for role in self._roles
            ]
            await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            await end_tasks(tasks)
        stopping.cancel()


def _resolve(
    here: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any] | None,
    value: object,
    failure: BaseException | None = None,
) -> None:
    def settle() -> None:
        if future is not None and not future.done():
            if failure is None:
                future.set_result(value)
            else:
                future.set_exception(failure)

    if not here.is_closed():
        here.call_soon_threadsafe(settle)
