"""The cluster clock: samples the clocks of Redis and MongoDB, and is the clock of everything else in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

import structlog

from cronflow.domain.cluster_time import ClusterTime
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import ClockInSync, ClockOutOfSync
from cronflow.node.role_loop import Wake
from cronflow.ports import Clock, EventSink, ServerClock, discard_event

log = structlog.get_logger("cronflow.node")


class ClusterClock:
    """A role, and the Clock port on cluster time. `local` is the machine's clock."""

    def __init__(
        self,
        local: Clock,
        server_clocks: Mapping[str, ServerClock],
        every_s: float,
        *,
        name: str = "",
        emit: EventSink = discard_event,
    ) -> None:
        self._local = local
        self._server_clocks = server_clocks
        self._every_s = every_s
        self._time = ClusterTime()
        self._complaint: str | None = None
        self._name = name
        self._emit = emit
        self.wake = Wake()

    def now(self) -> datetime:
        """The cluster's time. All other methods use the machine's monotonic clock."""
        return self._time.now(self._local.now(), self._local.monotonic())

    def shift(self, seconds: float) -> None:
        """The machine's clock and those of the servers are set forward at once, by a simulation."""
        self._time.shift(seconds)

    def monotonic(self) -> float:
        return self._local.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._local.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        return await self._local.wait(event, seconds)

    @property
    def complaint(self) -> str | None:
        """Why this node must not lead, or None."""
        return self._time.complaint(self._local.now(), self._local.monotonic())

    async def sample(self) -> None:
        """Ask each server once. One that does not answer keeps its last sample. BackendUnavailable if none has ever
        answered: a process must not act by its own clock alone.
        """
        unavailable: BackendUnavailable | None = None
        for source, server_clock in self._server_clocks.items():
            asked = self._local.monotonic()
            try:
                theirs = await server_clock.now()
            except BackendUnavailable as error:
                unavailable = error
                continue
            self._time.observe(source, theirs, asked, self._local.monotonic())
        if unavailable is not None and not self._time.is_sampled:
            raise unavailable
        self.now()

    async def step(self) -> float:
        """Sample the servers, and report a clock that is off. Other roles report an outage."""
        await self.sample()
        complaint = self.complaint
        if complaint != self._complaint:
            self._complaint = complaint
            if complaint is None:
                log.info("clocks agree again")
                self._emit(ClockInSync(self._name))
            else:
                log.error("clocks disagree", reason=complaint, remedy="synchronize the machines' clocks, with NTP")
                self._emit(ClockOutOfSync(self._name, complaint))
        return self._every_s
