"""The one periodic loop that every role runs in, how it is woken, and how outages are told.

The rule it protects: a role survives only BackendUnavailable; anything else ends the process loudly. An outage is
logged once when it begins and once when it is over, however many roles feel it, in whichever thread they run. It is
over when each role that felt it works again and the service has answered since: a step may have asked it nothing.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from cronflow.domain.cluster import Tenure
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import ServiceLost, ServiceRecovered
from cronflow.ports import Clock, EventSink, discard_event

RETRY_S = 0.5

log = structlog.get_logger("cronflow.node")


class Wake:
    """Ends the pause of a role. May be set from any thread."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """From now on the role runs in this loop."""
        self._loop = asyncio.get_running_loop()

    def set(self) -> None:
        """Let the role look at once."""
        if self._loop is None:
            self.event.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.event.set)


@dataclass(frozen=True, slots=True)
class NodeRole:
    """A part that a node plays: `step` does one round and returns the seconds until the next."""

    name: str
    step: Callable[[], Awaitable[float]]
    wake: Wake


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which a service was away, by the monotonic clock."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class _Failure:
    """What a role met with last, and when."""

    error: BackendUnavailable
    at: float


class Outages:
    """Which services are away, as the roles of this node see it; since when, and when last. `answered_at` says when a
    service last answered this process.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        emit: EventSink = discard_event,
        answered_at: Callable[[str], float] = lambda _service: math.inf,
    ) -> None:
        self._monotonic = monotonic
        self._emit = emit
        self._answered_at = answered_at
        self._failing: dict[tuple[str, str], _Failure] = {}
        self._began: dict[str, float] = {}
        self._last: dict[str, Outage] = {}
        self._lock = threading.Lock()

    @property
    def away(self) -> set[str]:
        """The services that some role cannot reach."""
        return {service for _, service in self._failing}

    def began(self, service: str) -> float | None:
        """Since when the service has been away, None when it is not."""
        return self._began.get(service)

    def away_s(self, service: str) -> float:
        """For how long the service has been away, in seconds; 0 when it is not."""
        began = self._began.get(service)
        return 0.0 if began is None else self._monotonic() - began

    def last(self, service: str) -> Outage | None:
        """The latest outage of the service that is over."""
        return self._last.get(service)

    def failed(self, role: str, error: BackendUnavailable) -> None:
        """A role's step failed."""
        with self._lock:
            is_news = error.service not in self.away
            failure = self._failing[role, error.service] = _Failure(error, self._monotonic())
            if is_news:
                self._began[error.service] = failure.at
        if is_news:
            log.error("service away", service=error.service, address=error.address, reason=error.reason)
            self._emit(ServiceLost(error.service, error.reason))

    def worked(self, role: str) -> None:
        """A role's step went through."""
        if self._failing:
            for error in self._over(role):
                outage = self._last[error.service]
                log.info("service back", service=error.service, address=error.address)
                self._emit(ServiceRecovered(error.service, round(outage.ended - outage.began, 1)))

    def _over(self, role: str) -> list[BackendUnavailable]:
        """The outages that end with this role's step."""
        over = []
        with self._lock:
            for (who, service), failure in list(self._failing.items()):
                if who != role or self._answered_at(service) < failure.at:
                    continue
                del self._failing[who, service]
                if service not in self.away:
                    self._last[service] = Outage(self._began.pop(service), self._monotonic())
                    over.append(failure.error)
        return over


async def repeat(role: NodeRole, clock: Clock, outages: Outages) -> None:
    """Play the role for ever: again after the seconds that its step returns, or at once when it is woken."""
    wake = role.wake
    wake.bind()
    while True:
        wake.event.clear()
        try:
            pause = await role.step()
        except BackendUnavailable as error:
            outages.failed(role.name, error)
            # Not woken early: rings must not turn an outage into a busy loop.
            await clock.sleep(RETRY_S)
            continue
        outages.worked(role.name)
        await clock.wait(wake.event, pause)


class Leadership(Protocol):
    """The elector. One that is not `willing` gives the lead back and does not campaign."""

    willing: bool
    last_term: int
    wake: Wake

    @property
    def tenure(self) -> Tenure | None:
        """The right to lead, or None."""

    @property
    def lease_left_s(self) -> float:
        """How long this node still leads unless the lease is renewed, in seconds."""

    async def resign(self) -> None:
        """Stop leading and never begin again."""


class Workload(Protocol):
    """The worker. `paused`: it takes nothing and gives back what waits."""

    paused: bool

    @property
    def in_flight(self) -> int:
        """How many runs are on this node."""

    def start(self, group: asyncio.TaskGroup) -> None:
        """Run attempts as tasks of this group, from now on."""

    def pause(self, paused: bool) -> None:
        """Take nothing until further notice."""

    async def drain(self, seconds: float) -> None:
        """Take nothing more; wait for what runs, then stop it and hand it on."""

    async def give_back(self) -> None:
        """Return what waits in the node's list to the leader."""


class Outcomes(Protocol):
    """The recorder: group commits that outlive the other roles, because runs end until the last moment."""

    def start_roles(self, group: asyncio.TaskGroup) -> Sequence[asyncio.Task[None]]:
        """Start the group commits."""

    async def replay_all(self) -> None:
        """Write what is spooled, as far as MongoDB allows. Never raises BackendUnavailable."""


class Flushed(Protocol):
    """A role that still has something to write when the node stops."""

    role: NodeRole

    async def flush(self) -> None:
        """Write what is left. Never raises BackendUnavailable."""
