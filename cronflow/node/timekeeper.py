"""The timekeeper: samples the servers' clocks, and is the clock of every other role of this node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

import structlog

from cronflow.domain.clustertime import ClusterTime
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import ClockWentRight, ClockWentWrong
from cronflow.node.loop import Wake
from cronflow.ports import Clock, Tell, Timepiece, nobody

log = structlog.get_logger("cronflow.node")


class Timekeeper:
    """The timekeeper role, and the Clock port on cluster time. `local` is the node's own clock."""

    def __init__(
        self,
        local: Clock,
        timepieces: Mapping[str, Timepiece],
        every_s: float,
        *,
        name: str = "",
        tell: Tell = nobody,
    ) -> None:
        self._local = local
        self._timepieces = timepieces
        self._every_s = every_s
        self._time = ClusterTime()
        self._complaint: str | None = None
        self._name = name
        self._tell = tell
        self.wake = Wake()

    def now(self) -> datetime:
        """The cluster's time."""
        return self._time.now(self._local.now(), self._local.monotonic())

    def monotonic(self) -> float:
        """This node's."""
        return self._local.monotonic()

    async def sleep(self, seconds: float) -> None:
        """On this node's monotonic clock."""
        await self._local.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """On this node's monotonic clock."""
        return await self._local.wait(event, seconds)

    @property
    def complaint(self) -> str | None:
        """Why this node must not lead, or None."""
        return self._time.complaint(self._local.now(), self._local.monotonic())

    async def step(self) -> float:
        """Sample each server once. One that does not answer keeps its last sample; others report its outage."""
        for source, timepiece in self._timepieces.items():
            asked = self._local.monotonic()
            try:
                theirs = await timepiece.now()
            except BackendUnavailable:
                continue
            self._time.observe(source, theirs, asked, self._local.monotonic())
        self.now()
        complaint = self.complaint
        if complaint != self._complaint:
            self._complaint = complaint
            if complaint is None:
                log.info("clocks agree again")
                self._tell(ClockWentRight(self._name))
            else:
                log.error(
                    "clocks disagree", reason=complaint, remedy="keep the machines' clocks in step, by NTP or the like"
                )
                self._tell(ClockWentWrong(self._name, complaint))
        return self._every_s
