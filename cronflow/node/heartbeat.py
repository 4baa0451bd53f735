"""The heartbeat: reports this node to the cluster every five seconds.

Rule: a node without a valid heartbeat takes and starts nothing, but finishes what runs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Protocol

import structlog

from cronflow.domain.capabilities import Capabilities
from cronflow.domain.cluster import Backlog, NodeReport
from cronflow.domain.errors import Conflict
from cronflow.domain.resources import ResourceAmount
from cronflow.node.resources import Resources, zone_data
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import Clock, Membership

NAME_POLL_S = 0.5

log = structlog.get_logger("cronflow.node")


class Measures(Protocol):
    """How busy the machine is, as fractions of what this process may use."""

    def cpu(self) -> float:
        """CPU use since the last call, 0 to 1."""

    def memory(self) -> float:
        """Memory use now, 0 to 1."""


class Heartbeat:
    """`load` returns (runs in flight, runs ended so far); `early` how many runs the node accepts beyond its slots
    before their instant; `capacity` is what jobs may reserve. `draining`: the node is about to stop. `asked`: a drain
    was requested; `on_asked` is called when this changes.
    """

    def __init__(
        self,
        membership: Membership,
        clock: Clock,
        timings: Timings,
        *,
        name: str,
        incarnation: str,
        slots: int,
        labels: Mapping[str, str],
        version: str,
        load: Callable[[], tuple[int, int]],
        lag_s: Callable[[], float] = lambda: 0.0,
        mongo_away_s: Callable[[], float] = lambda: 0.0,
        breakers: Callable[[], Mapping[str, str]] = dict,
        backlog: Callable[[], Backlog] = Backlog,
        resources: Measures | None = None,
        capabilities: Capabilities | None = None,
        capacity: ResourceAmount | None = None,
        early: Callable[[], int | None] = lambda: None,
        zones: Callable[[], str] = zone_data,
        differing: Callable[[], Mapping[str, tuple[str, str]]] = dict,
        apps: Mapping[str, str] | None = None,
    ) -> None:
        self._membership = membership
        self._clock = clock
        self._timings = timings
        self._name = name
        self._incarnation = incarnation
        self._slots = slots
        self._labels = labels
        self._version = version
        self._load = load
        self._lag_s = lag_s
        self._mongo_away_s = mongo_away_s
        self._breakers = breakers
        self._backlog = backlog
        self._zones = zones
        self._differing = differing
        self._apps = apps or {}
        self._capabilities = capabilities
        modules = None if capabilities is None else capabilities.modules
        self.code = "" if modules is None else sha256("\n".join(modules).encode()).hexdigest()[:8]
        self._capacity = capacity
        self._early = early
        self._resources = resources or Resources()
        self._started_at: datetime = clock.now()
        self._ended, self._ended_at, self._rate = 0, clock.monotonic(), 0.0
        self._sent_at = -1e9
        self._name_taken_at: float | None = None
        self.draining = False
        self.asked = False
        self.memory = 0.0
        self.on_asked: Callable[[], None] = lambda: None
        self.wake = Wake()

    @property
    def valid(self) -> bool:
        """Whether other nodes still see this node as up."""
        return self._clock.monotonic() - self._sent_at < self._timings.heartbeat_valid

    @property
    def age_s(self) -> float | None:
        """Seconds since the last report; None before the first."""
        return None if self._sent_at < 0 else self._clock.monotonic() - self._sent_at

    async def announce(self) -> None:
        """Send the first report. Waits for a node of the same name to expire; raises Conflict if it stays alive."""
        while (pause := await self.step()) and self.age_s is None:
            await self._clock.sleep(pause)

    async def step(self) -> float:
        """Report. A report of another node with this name must expire: that node was killed, or this one replaced it
        and Redis has lost the latest writes. Raises Conflict if it is renewed instead.
        """
        began = self._clock.monotonic()
        try:
            asked = await self._membership.report(self.report(), self._timings.node_ttl, asked=self.asked)
        except Conflict as error:
            if self._name_taken_at is None:
                self._name_taken_at = began
                if self.age_s is not None:
                    log.warning("name taken", reason=str(error), waits_s=self._timings.node_ttl + 1)
            if began - self._name_taken_at > self._timings.node_ttl + 1:
                raise
            return NAME_POLL_S
        self._name_taken_at = None
        self._sent_at = began
        if asked == self.asked:
            return self._timings.heartbeat
        self.asked = asked
        self.on_asked()
        # Report again at once, so that the cluster sees the new state.
        return 0.0

    async def leave(self) -> None:
        """Remove this node at once, not after the TTL."""
        self._sent_at = -1e9
        await self._membership.leave(self.report())

    def report(self) -> NodeReport:
        """The present report. `rate` is a moving average of runs ended per second."""
        in_flight, ended = self._load()
        self.memory = self._resources.memory()
        now = self._clock.monotonic()
        passed = now - self._ended_at
        if passed >= 1.0:
            recent = (ended - self._ended) / passed
            self._rate = 0.5 * self._rate + 0.5 * recent
            self._ended, self._ended_at = ended, now
        return NodeReport(
            name=self._name,
            incarnation=self._incarnation,
            cpu=round(self._resources.cpu(), 3),
            memory=round(self.memory, 3),
            slots=self._slots,
            in_flight=in_flight,
            rate=round(self._rate, 1),
            labels=self._labels,
            draining=self.draining or self.asked,
            lag_s=round(self._lag_s(), 4),
            mongo_away_s=round(self._mongo_away_s(), 1),
            version=self._version,
            pid=os.getpid(),
            host=socket.gethostname(),
            started_at=self._started_at,
            breakers=self._breakers(),
            spool=self._backlog(),
            zones=self._zones(),
            capabilities=self._capabilities,
            inserts_runs=True,
            accepts_early=self._early(),
            knows_newer_keys=True,
            knows_keys_of_0_12=True,
            capacity=self._capacity,
            differing=self._differing(),
            apps=self._apps,
        )
