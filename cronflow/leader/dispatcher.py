"""The dispatcher: pushes assignments to the queues of nodes.

Rule: a run is recorded as dispatched before it is pushed, so a push may fail: `check_at` finds runs that were lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import structlog

from cronflow.domain.cluster import Tenure
from cronflow.ports import START_BY_S, Assignment, Clock, Queue

log = structlog.get_logger("cronflow.node")


class Dispatcher:
    """Pushes, and renews the leader's key when Redis has lost it."""

    def __init__(self, queue: Queue, renew_now: Callable[[], Awaitable[Tenure | None]], clock: Clock) -> None:
        self._queue = queue
        self._renew_now = renew_now
        self._clock = clock

    async def push(self, tenure: Tenure, placed: Iterable[tuple[str, Assignment]], read_at: float) -> None:
        """Push each assignment to its node in one round trip. `read_at` is the monotonic time at which their jobs were
        read: an edit since then may have been acknowledged, and after five seconds no older version may start.

        Raises Deposed when Redis has a newer term.
        """
        lists: dict[str, list[Assignment]] = {}
        for node, assignment in placed:
            lists.setdefault(node, []).append(assignment)
        if not lists:
            return
        if self._clock.monotonic() - read_at >= START_BY_S:
            log.warning("runs not pushed: too late", term=tenure.term, runs=sum(map(len, lists.values())))
            return
        if await self._dispatch(tenure, lists, read_at):
            return
        if await self._renew_now() is tenure and await self._dispatch(tenure, lists, read_at):
            return
        count = sum(map(len, lists.values()))
        log.warning("runs not pushed", term=tenure.term, runs=count, remedy="the reconciler dispatches them again")

    async def _dispatch(self, tenure: Tenure, lists: dict[str, list[Assignment]], read_at: float) -> bool:
        waited_s = self._clock.monotonic() - read_at
        return await self._queue.dispatch(tenure.term, tenure.redis_epoch, lists, waited_s)
