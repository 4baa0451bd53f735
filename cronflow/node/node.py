"""The node: a TaskGroup of roles, and the order in which they start and stop.

Start: the heartbeat announces the name first, because a live node with the same name is an error. Stop, on the first
signal: resign, take no more runs, wait for running jobs, then stop them and give them back, record all outcomes, leave
the cluster. A second signal stops running jobs at once. The stop never waits for a server that is away for longer than
`Timings.stop`: outcomes go to the spool, and the leader's key, job locks and the heartbeat expire. `bootstrap.roles`
builds the roles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import NodeJoined, NodeLeft
from cronflow.node.cluster_clock import ClusterClock
from cronflow.node.event_log import EventLog
from cronflow.node.heartbeat import Heartbeat
from cronflow.node.keep_alive import KeepAliveThread
from cronflow.node.role_loop import (
    Flushed,
    Leadership,
    NodeRole,
    Outages,
    Outcomes,
    StepMonitor,
    Workload,
    end_tasks,
    repeat,
)
from cronflow.node.timings import Timings
from cronflow.ports import Bus, Signal
from cronflow.supervision import Phase, ProcessStatus

FLUSH_S = 5.0

log = structlog.get_logger("cronflow.node")


class Node:
    """One incarnation of a node. `check` runs first; `roles` run in the main loop, those of `keep_alive` in its thread;
    `signals` maps each pub/sub signal to its callback.
    """

    def __init__(
        self,
        *,
        node: str,
        name: str,
        version: str,
        slots: int,
        check: Callable[[], Awaitable[None]],
        bus: Bus,
        clock: ClusterClock,
        timings: Timings,
        outages: Outages,
        step_monitor: StepMonitor,
        event_log: EventLog,
        counter: Flushed,
        keep_alive: KeepAliveThread,
        heartbeat: Heartbeat,
        elector: Leadership,
        worker: Workload,
        recorder: Outcomes,
        before_resigning: Callable[[], Awaitable[None]],
        roles: Sequence[NodeRole],
        signals: Mapping[Signal, Callable[[], None]],
    ) -> None:
        self.id = node
        self._name, self._version, self._slots = name, version, slots
        self._check = check
        self._bus = bus
        self._clock = clock
        self._timings = timings
        self._outages = outages
        self._step_monitor = step_monitor
        self._event_log = event_log
        self._counter = counter
        self._keep_alive = keep_alive
        self._heartbeat = heartbeat
        self.elector = elector
        self._worker = worker
        self._recorder = recorder
        self._before_resigning = before_resigning
        self._roles = roles
        self._signals = signals
        self._stop = asyncio.Event()
        self._force = asyncio.Event()
        self._joined = False

    @property
    def clock(self) -> ClusterClock:
        """The clock of all its roles."""
        return self._clock

    @property
    def leads(self) -> bool:
        return self.elector.tenure is not None

    @property
    def status(self) -> ProcessStatus:
        """Its phase, role and unreachable services, for its supervisor."""
        phase = Phase.UP if self._joined else Phase.STARTING
        if self._stop.is_set():
            phase = Phase.STOPPING
        away = tuple(service for service in ("Redis", "MongoDB") if self._outages.began(service) is not None)
        return ProcessStatus(phase, "leader" if self.leads else "worker", away)

    def stop(self) -> None:
        """Stop gracefully; the second call stops running jobs at once."""
        if self._stop.is_set():
            self._force.set()
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop`.

        Raises Conflict when a live node has the name, BackendUnavailable when a server is unavailable at start,
        InvalidInput when the configuration of Redis is unsafe.
        """
        await self._check()
        async with self._keep_alive as keep_alive, asyncio.TaskGroup() as group:
            await keep_alive.call(self._clock.step)
            await keep_alive.call(self._heartbeat.announce)
            log.info("node up", node=self.id, slots=self._slots)
            self._event_log.emit(NodeJoined(self._name, self._version, self._slots, self._heartbeat.code))
            self._worker.start(group)
            self._joined = True
            tasks = [
                group.create_task(repeat(role, self._clock, self._outages, self._step_monitor), name=role.name)
                for role in self._roles
            ]
            tasks.append(group.create_task(self._bus.listen(self.id, self._signals), name="signals"))
            tasks.append(group.create_task(keep_alive.ended(), name="keep-alive thread"))
            tasks += self._recorder.start_roles(group)
            keep_alive.begin()
            await self._stop.wait()
            if not await self._within(self._timings.stop, self._wind_down()):
                log.error("stop takes too long", limit_s=self._timings.stop, running=self._worker.in_flight)
            # Before the roles that write what the worker waits for.
            await self._worker.end()
            await end_tasks(tasks)
        self._event_log.emit(NodeLeft(self._name))
        await self._within(FLUSH_S, self._flush())
        log.info("node down", node=self.id)

    async def _within(self, seconds: float, work: Coroutine[Any, Any, None]) -> bool:
        """Do the work, for at most this time. Returns whether it was finished."""
        task, ended = asyncio.ensure_future(work), asyncio.Event()
        task.add_done_callback(lambda _: ended.set())
        try:
            await self._clock.wait(ended, seconds)
        finally:
            finished = task.done()
            await end_tasks([task])
        if finished:
            task.result()
        return finished

    async def _flush(self) -> None:
        await self._counter.flush()
        await self._event_log.flush()

    async def _announce_stop(self) -> None:
        try:
            await self._before_resigning()
        except BackendUnavailable as error:
            log.warning("runs not inserted", reason=str(error), remedy="plan recovery of the next leader inserts them")
        for announce in (self.elector.resign, self._heartbeat.step):
            try:
                await self._keep_alive.call(announce)
            except BackendUnavailable as error:
                # The leader's key and the heartbeat then expire.
                log.warning("could not announce the stop", reason=str(error))

    async def _wind_down(self) -> None:
        worker = self._worker
        log.info("node stopping", node=self.id, running=worker.in_flight)
        self._heartbeat.draining = True
        # At the same time: a server that does not answer must not delay the end of the jobs.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._announce_stop(), name="announce stop")
            group.create_task(self._drain(), name="drain")
        await self._recorder.replay_all()
        try:
            await self._keep_alive.call(self._heartbeat.leave)
            # Runs that a leader pushed before it saw that this node is leaving.
            await worker.give_back()
        except BackendUnavailable as error:
            log.warning("could not leave the cluster", reason=str(error))

    async def _drain(self) -> None:
        draining: asyncio.Task[Any] = asyncio.create_task(self._worker.drain(self._timings.drain))
        forced: asyncio.Task[Any] = asyncio.create_task(self._force.wait())
        try:
            await asyncio.wait({draining, forced}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            drained = draining.done()
            await end_tasks([draining, forced])
        if drained:
            draining.result()
        else:
            await self._worker.drain(0.0)
