"""The periodic loop that runs every role, how a role is woken and ended, and how outages and hanging steps are found.

Rule: a role survives only BackendUnavailable, and if it is guarded (`node.role_guard`) any other error too; otherwise
that ends the process. An outage is logged once when it begins and once when it ends, however many roles and threads
notice it. It ends when every affected role works again and the service has answered since, because a step may not have
used the service at all.

The protocols at the end are what the node's process needs of roles in packages that it does not import.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog

from cronflow.domain.cluster import Tenure
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import ServiceLost, ServiceRecovered
from cronflow.ports import Clock, EventSink, discard_event

RETRY_S = 0.5
CANCEL_AGAIN_S = 0.5
SHORTEST_PAUSE_S = 0.001
"""Of a role that waits for an instant. A pause of less than the clock's resolution would not end."""
SHORTEST_ROUND_S = 0.01
"""The pause of a role that reads a store in each round, so that instants close to each other share a round."""

PACKAGE = str(Path(__file__).parents[1])

log = structlog.get_logger("cronflow.node")


class Wake:
    """Ends the pause of a role early. May be set from any thread."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def bind(self) -> None:
        """Bind to the running loop, which is the role's."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def set(self) -> None:
        if self._loop is None or self._thread == threading.get_ident():
            self.event.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.event.set)


@dataclass(frozen=True, slots=True)
class NodeRole:
    """A periodic task of a node: `step` does one round and returns the seconds until the next."""

    name: str
    step: Callable[[], Awaitable[float]]
    wake: Wake


@dataclass(frozen=True, slots=True)
class Outage:
    """A period in which a service was unavailable, by the monotonic clock."""

    began: float
    ended: float


@dataclass(slots=True)
class _Failure:
    """`passed`: the role has worked since, perhaps without the service."""

    error: BackendUnavailable
    at: float
    passed: bool = False


class Outages:
    """The present and latest outages of each service, as the roles of this node see them. `answered_at` returns when a
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
        """The services that at least one role cannot reach."""
        return {service for _, service in self._failing}

    def began(self, service: str) -> float | None:
        """When the present outage of the service began, or None."""
        return self._began.get(service)

    def away_s(self, service: str) -> float:
        """How long the service has been unavailable, in seconds; 0 when it is available."""
        began = self._began.get(service)
        return 0.0 if began is None else self._monotonic() - began

    def last(self, service: str) -> Outage | None:
        """The latest outage of the service that has ended."""
        return self._last.get(service)

    def failed(self, role: str, error: BackendUnavailable) -> None:
        with self._lock:
            is_new = error.service not in self.away
            failure = self._failing[role, error.service] = _Failure(error, self._monotonic())
            if is_new:
                self._began[error.service] = failure.at
        if is_new:
            log.error("service away", service=error.service, address=error.address, reason=error.reason)
            self._emit(ServiceLost(error.service, error.reason))

    def worked(self, role: str) -> None:
        """The role's step succeeded."""
        if self._failing:
            for error in self._ended(role):
                outage = self._last[error.service]
                log.info("service back", service=error.service, address=error.address)
                self._emit(ServiceRecovered(error.service, round(outage.ended - outage.began, 1)))

    def _ended(self, role: str) -> list[BackendUnavailable]:
        """The outages that end with this role's step. Any role shows that a service is back, not only the one that has
        failed: that one may have nothing to do, because a node that reports an outage gets no runs.
        """
        ended = []
        with self._lock:
            for (failing, service), failure in list(self._failing.items()):
                failure.passed = failure.passed or failing == role
                if not failure.passed or self._answered_at(service) < failure.at:
                    continue
                del self._failing[failing, service]
                if service not in self.away:
                    self._last[service] = Outage(self._began.pop(service), self._monotonic())
                    ended.append(failure.error)
        return ended


@dataclass(slots=True)
class _Step:
    """A step that runs now: its task, what this task waits for, and since when."""

    task: asyncio.Task[Any]
    awaited: object
    since: float


class StepMonitor:
    """Finds a step that hangs. A step makes progress when it waits for something else than at the last look, so a long
    step is no hanging one. `hanging` may be called from any thread; call it every few seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._steps: dict[str, _Step] = {}

    def began(self, role: str) -> None:
        """A step of the role begins in the current task."""
        task = asyncio.current_task()
        assert task is not None
        self._steps[role] = _Step(task, None, self._monotonic())

    def ended(self, role: str) -> None:
        self._steps.pop(role, None)

    def running(self, roles: Collection[str]) -> bool:
        """Whether one of these roles is in a step. May be called from any thread."""
        return any(role in self._steps for role in roles)

    def hanging(self, roles: Collection[str], seconds: float) -> str | None:
        """The first of these roles that has made no progress for so long, and where it waits. None if there is none."""
        now = self._monotonic()
        for role, step in list(self._steps.items()):
            awaited, places = _awaited(step.task)
            if awaited is not step.awaited:
                step.awaited, step.since = awaited, now
            elif role in roles and now - step.since >= seconds:
                return f"the {role} has made no progress for {now - step.since:.0f} s: {' > '.join(places)}"
        return None


def _awaited(task: asyncio.Task[Any]) -> tuple[object, list[str]]:
    """What a task waits for in the end, and the names of our coroutines on the way there."""
    found: object = task.get_coro()
    places: list[str] = []
    while (inner := getattr(found, "cr_await", None)) is not None:
        found = inner
        code = getattr(found, "cr_code", None)
        if code is not None and PACKAGE in code.co_filename and "<locals>" not in code.co_qualname:
            places.append(code.co_qualname)
    return found, places


async def repeat(role: NodeRole, clock: Clock, outages: Outages, step_monitor: StepMonitor | None = None) -> None:
    """Run the role for ever: again after the seconds that its step returns, or at once when it is woken."""
    wake = role.wake
    wake.bind()
    step_monitor = step_monitor or StepMonitor()
    while True:
        wake.event.clear()
        step_monitor.began(role.name)
        try:
            pause = await role.step()
        except BackendUnavailable as error:
            outages.failed(role.name, error)
            # Not woken early: signals must not turn an outage into a busy loop.
            await clock.sleep(RETRY_S)
            continue
        finally:
            step_monitor.ended(role.name)
        outages.worked(role.name)
        await clock.wait(wake.event, pause)


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and wait until they have ended. Repeats the cancellation: in CPython 3.11 `asyncio.wait_for`,
    which the Redis client uses, loses one that arrives just as it finishes (python/cpython#86296).
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)


class Leadership(Protocol):
    """The elector. While not `willing` it releases the leader's key and does not campaign."""

    willing: bool
    last_term: int
    wake: Wake

    @property
    def tenure(self) -> Tenure | None:
        """The right to lead, or None."""

    @property
    def lease_left_s(self) -> float:
        """How long this node's lease is still valid, in seconds."""

    async def resign(self) -> None:
        """Stop leading for good."""


class Workload(Protocol):
    """The worker. While `paused` it takes no runs and gives its queue back."""

    paused: bool

    @property
    def in_flight(self) -> int:
        """The number of runs on this node."""

    def start(self, group: asyncio.TaskGroup) -> None:
        """Run attempts as tasks of this group, from now on."""

    def pause(self, paused: bool) -> None:
        """Start or stop taking runs."""

    def interrupt(self, why: str) -> int:
        """Stop what runs with `at_least_once` and hand it on. Returns how many runs; what is being stopped counts no
        more.
        """

    async def drain(self, seconds: float) -> None:
        """Take no more runs. Wait for running ones, then stop them and give them back."""

    async def end(self) -> None:
        """End what is left after `drain`, also attempts that could not be stopped."""

    async def give_back(self) -> None:
        """Return the runs in the node's queue to the leader."""


class Outcomes(Protocol):
    """The recorder. Its group commits outlive the other roles, because runs end until the last moment."""

    def start_roles(self, group: asyncio.TaskGroup) -> Sequence[asyncio.Task[None]]:
        """Start the group commits."""

    async def replay_all(self) -> None:
        """Write the spooled outcomes to MongoDB if possible. Never raises BackendUnavailable."""


class Flushed(Protocol):
    """A role that may still have something to write when the node stops."""

    role: NodeRole

    async def flush(self) -> None:
        """Write what is left. Never raises BackendUnavailable."""
