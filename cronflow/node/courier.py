"""The courier: sends the notices of the outbox, on whichever node leads, or on any while nobody does.

The rules it protects: a notice is claimed before it is sent, and the claim has an end, so whoever dies in between
leaves it to another, who sends the same id again; what an attempt came to counts only under the claim that it was made
with. A receiver that fails rests for a while, so that it keeps nobody else's notices waiting.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from cronflow.domain import metrics
from cronflow.domain.alerts import Notice, NoticeState, next_delay
from cronflow.domain.events import AlertGaveUp
from cronflow.node.loop import Role, Wake
from cronflow.ports import UNMETERED, Backends, Clock, Meter, Postman, Tell

LEASE = timedelta(seconds=30)
"""Longer than an attempt takes."""
AT_ONCE = 16
REST_S = 10.0
IDLE_S = 60.0
DISABLED = "the alert is disabled"

log = structlog.get_logger("cronflow.node")


class Courier:
    """The courier; `role` is to be played. It looks into the outbox when it was asked to."""

    def __init__(
        self, backends: Backends, postman: Postman, clock: Clock, tell: Tell, meter: Meter = UNMETERED
    ) -> None:
        self._backends = backends
        self._postman = postman
        self._clock = clock
        self._tell = tell
        self._meter = meter
        self._asked = False
        self._resting: dict[str, float] = {}
        self.role = Role("courier", self.step, Wake())

    def ask(self) -> None:
        """There may be notices to send."""
        self._asked = True
        self.role.wake.set()

    async def step(self) -> float:
        """Send what is due, as many at once as it may."""
        if not self._asked:
            return IDLE_S
        self._asked = False
        while notices := await self._claim():
            # By MongoDB's clock: while nobody leads, that of this node may be the reason.
            at = await self._backends.upkeep.time()
            came_to = await asyncio.gather(*(self._send(notice, at) for notice in notices), return_exceptions=True)
            # After all of them have ended: none is cut off because MongoDB has failed another.
            for error in came_to:
                if isinstance(error, BaseException):
                    raise error
        return IDLE_S

    async def _claim(self) -> list[Notice]:
        now = self._clock.monotonic()
        self._resting = {alert: until for alert, until in self._resting.items() if until > now}
        resting: Collection[str] = self._resting.keys()
        return await self._backends.outbox.claim(secrets.token_hex(8), LEASE, AT_ONCE, besides=resting)

    async def _send(self, notice: Notice, at: datetime) -> None:
        record = await self._backends.alerts.get(notice.alert)
        if record is None:
            await self._backends.outbox.forget(notice)
            return
        if not record.alert.enabled:
            dropped = replace(notice, state=NoticeState.GAVE_UP, error=DISABLED, tried_at=at, ended_at=at)
            await self._backends.outbox.tried(dropped, None)
            return
        answer = await self._postman.post(record.alert.webhook, notice.id, notice.body, at)
        tried = replace(notice, status=answer.status, error=answer.error, tried_at=at)
        if answer.taken:
            self._meter.add(metrics.NOTICES, "delivered")
            await self._backends.outbox.tried(replace(tried, state=NoticeState.DELIVERED, ended_at=at), None)
            return
        self._resting[notice.alert] = self._clock.monotonic() + REST_S
        delay = next_delay(notice.attempts, notice.created_at, at)
        self._meter.add(metrics.NOTICES, "gave_up" if delay is None else "failed")
        log.warning("notice not taken", alert=notice.alert, notice=notice.id, reason=answer.error)
        if delay is not None:
            await self._backends.outbox.tried(tried, delay)
        elif await self._backends.outbox.tried(replace(tried, state=NoticeState.GAVE_UP, ended_at=at), None):
            self._tell(AlertGaveUp(notice.alert, notice.subject, notice.attempts, answer.error or ""))
