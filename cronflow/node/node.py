"""The node: one TaskGroup of roles, and the order in which they stop.

Starting: the name is announced first, because a live namesake is refused. Stopping, on the first signal: resign,
take nothing more, wait for what runs, then stop it and hand it on, record everything, leave. A second signal forces
what runs to stop at once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping

import structlog

from cronflow.domain.cluster import node_id
from cronflow.domain.errors import BackendUnavailable
from cronflow.node.dispatch import Dispatcher
from cronflow.node.draining import Draining
from cronflow.node.elector import Elector
from cronflow.node.heartbeat import Heartbeat, Measures
from cronflow.node.loop import Outages, repeat
from cronflow.node.planner import Planner
from cronflow.node.reconciler import Reconciler
from cronflow.node.recorder import Recorder
from cronflow.node.settler import Settler
from cronflow.node.timings import Timings
from cronflow.node.worker import Worker
from cronflow.ports import Backends, Bell, Clock, Executor

log = structlog.get_logger("cronflow.node")


class Node:
    """One incarnation of a node."""

    def __init__(
        self,
        backends: Backends,
        executor: Executor,
        clock: Clock,
        timings: Timings,
        *,
        name: str,
        slots: int = 16,
        labels: Mapping[str, str] | None = None,
        version: str = "",
        resources: Measures | None = None,
    ) -> None:
        self._backends = backends
        self._executor = executor
        self._clock = clock
        self._timings = timings
        self._slots = slots
        self._stop = asyncio.Event()
        self._force = asyncio.Event()
        incarnation = secrets.token_hex(4)
        self.id = node_id(name, incarnation)
        self.elector = Elector(
            self.id, backends.election, backends.control, clock, timings, on_change=self._leadership_changed
        )
        dispatcher = Dispatcher(backends.queue, self.elector)
        self._planner = Planner(backends, self.elector, dispatcher, clock, timings)
        self._settler = Settler(backends, self.elector, clock, timings)
        self._reconciler = Reconciler(backends, self.elector, dispatcher, clock, timings)
        self._outages = Outages()
        self._recorder = Recorder(backends, self.id, clock, timings, self._outages)
        self._worker: Worker | None = None
        self._heartbeat = Heartbeat(
            backends.membership,
            clock,
            timings,
            name=name,
            incarnation=incarnation,
            slots=slots,
            labels=labels or {},
            version=version,
            load=self._load,
            resources=resources,
        )

    @property
    def leads(self) -> bool:
        """Whether this node believes now that it leads."""
        return self.elector.tenure is not None

    def stop(self) -> None:
        """Ask it to stop; the second time, at once."""
        if self._stop.is_set():
            self._force.set()
        self._stop.set()

    async def run(self) -> None:
        """Until it is asked to stop. Raises Conflict when a live node has the name, BackendUnavailable when Redis is
        away at start.
        """
        await self._heartbeat.announce()
        log.info("node up", node=self.id, slots=self._slots)
        async with asyncio.TaskGroup() as group:
            worker = self._worker = Worker(
                self._backends,
                self._recorder,
                self._heartbeat,
                self._executor,
                self._clock,
                self._timings,
                node=self.id,
                slots=self._slots,
                group=group,
            )
            drain = Draining(
                self._backends,
                self._heartbeat,
                self.elector,
                worker,
                self._clock,
                self._timings,
                node=self.id,
            )
            self._heartbeat.on_asked = drain.wake.set
            roles = {
                "elector": (self.elector.step, self.elector.wake),
                "planner": (self._planner.step, self._planner.wake),
                "settler": (self._settler.step, self._settler.wake),
                "reconciler": (self._reconciler.step, self._reconciler.wake),
                "heartbeat": (self._heartbeat.step, self._heartbeat.wake),
                "worker": (worker.step, worker.wake),
                "cancellations": (worker.look_for_cancellations, worker.cancellations),
                "draining": (drain.step, drain.wake),
                "leases": (worker.renew, asyncio.Event()),
                "locks": (worker.renew_locks, asyncio.Event()),
            }
            tasks = [
                group.create_task(repeat(role, step, self._clock, wake, self._outages), name=role)
                for role, (step, wake) in roles.items()
            ]
            tasks.append(group.create_task(self._backends.bus.listen(self.id, self._bells(worker)), name="bells"))
            tasks += self._recorder.start_roles(group)
            await self._stop.wait()
            await self._wind_down(worker)
            for task in tasks:
                task.cancel()
        log.info("node down", node=self.id)

    async def _wind_down(self, worker: Worker) -> None:
        log.info("node stopping", node=self.id, running=worker.in_flight)
        self._heartbeat.draining = True
        for farewell in (self.elector.resign, self._heartbeat.step):
            try:
                await farewell()
            except BackendUnavailable as error:
                # The leader's key and the heartbeat then expire by themselves.
                log.warning("could not say goodbye", reason=str(error))
        draining = asyncio.ensure_future(worker.drain(self._timings.drain))
        forced = asyncio.ensure_future(self._force.wait())
        await asyncio.wait({draining, forced}, return_when=asyncio.FIRST_COMPLETED)
        if not draining.done():
            draining.cancel()
            await worker.drain(0.0)
        forced.cancel()
        try:
            await self._heartbeat.leave()
            # What a leader pushed before it saw that.
            await worker.give_back()
        except BackendUnavailable as error:
            log.warning("could not leave", reason=str(error))

    def _bells(self, worker: Worker) -> dict[Bell, Callable[[], None]]:
        def jobs() -> None:
            self._planner.look()
            self._reconciler.wake.set()

        def stop() -> None:
            worker.cancellations.set()
            self._heartbeat.wake.set()

        return {
            Bell.LEADER: self.elector.ring,
            Bell.ROOM: self._planner.room_freed,
            Bell.JOBS: jobs,
            Bell.STOP: stop,
            Bell.NODE: worker.wake.set,
        }

    def _load(self) -> tuple[int, int]:
        return (0, 0) if self._worker is None else (self._worker.in_flight, self._worker.ended)

    def _leadership_changed(self) -> None:
        for role in (self._planner, self._settler, self._reconciler):
            role.wake.set()
