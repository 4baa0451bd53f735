"""The rehearsed cluster: real nodes on the memory backend, which can be killed and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cronflow.bootstrap.roles import build_node
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.schedule.fires import next_after
from cronflow.leader.elector import Elector
from cronflow.node.node import Node
from cronflow.node.timings import Timings
from cronflow.rehearsal.clock import RehearsalClock
from cronflow.rehearsal.executor import SimulatedExecutor
from cronflow.rehearsal.scenario import RehearsedJob, RehearsedNode, Scenario
from cronflow.rehearsal.watched import watch
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases

SECOND = timedelta(seconds=1)
RENEW_AFTER = timedelta(seconds=60)
"""A leader's range of fencing tokens, which are instants, ends two minutes after its last renewal."""


class CalmMachine:
    """A machine that is always equally busy, so that the runs alone decide the placement."""

    def cpu(self) -> float:
        return 0.1

    def memory(self) -> float:
        return 0.2


@dataclass(slots=True)
class RunningNode:
    """A node and its process."""

    rehearsed: RehearsedNode
    node: Node
    process: asyncio.Task[None]


class Stage:
    """`changed_at` is the monotonic time of the last write to a job or a run."""

    def __init__(self, scenario: Scenario, clock: RehearsalClock) -> None:
        self.scenario, self.clock = scenario, clock
        self.timings = Timings()
        # How many runs a node accepts ahead follows from durations by the monotonic clock, here far too short.
        self.backends = memory_backends(clock, ahead=False)
        self.executor = SimulatedExecutor(clock, scenario.duration_of)
        self.changed_at = 0.0
        self.jobs, self.runs = watch(self.backends.documents, self.note_activity)
        self.use_cases = UseCases(self.backends, clock)
        self.nodes: list[RunningNode] = []
        self._paused: list[str] = []
        self._renew_at = clock.now()

    def note_activity(self) -> None:
        """Something happens now."""
        self.changed_at = self.clock.monotonic()

    @property
    def leader(self) -> Node | None:
        return next((running.node for running in self.nodes if running.node.leads), None)

    @property
    def in_transit(self) -> bool:
        """Whether a run is on its way to a node, its start is yet to be recorded, or its end to be answered."""
        lists = self.backends.memory.lists.values()
        return self.runs.unsettled or any(lists) or any(run not in self.runs for run in self.executor.active)

    async def define(self, jobs: Sequence[RehearsedJob]) -> None:
        """Define the limits, calendars and jobs, each with its cursor, and pause those that are paused."""
        for limit in self.scenario.limits:
            await self.use_cases.limits.define(limit)
        for calendar in self.scenario.calendars:
            await self.use_cases.calendars.define(calendar)
        await self.use_cases.jobs.apply([one.job for one in jobs])
        for one in jobs:
            record, fire = self.jobs[one.job.name], self._cursor(one)
            self.jobs[one.job.name] = replace(record, next_fire=fire, due_at=fire)
            if one.paused and (one.paused_until is None or one.paused_until > self.clock.now()):
                await self.use_cases.jobs.pause(one.job.name, until=one.paused_until)
                self._paused.append(one.job.name)

    async def change(self, jobs: Sequence[Job]) -> None:
        """Create and change jobs, as `jobs apply` would. A new job fires in the period at the earliest."""
        known = set(self.jobs)
        await self.use_cases.jobs.apply(jobs)
        for job in jobs:
            record = self.jobs[job.name]
            if job.name not in known or (record.next_fire or self.scenario.first) < self.scenario.first:
                fire = self._cursor(RehearsedJob(job))
                self.jobs[job.name] = replace(record, next_fire=fire, due_at=fire)

    def _cursor(self, one: RehearsedJob) -> datetime | None:
        # The stored schedule is bound to its calendars.
        schedule = self.jobs[one.job.name].job.schedule
        if one.next_fire is not None or schedule is None:
            return one.next_fire
        return next_after(schedule, self.scenario.first - SECOND)

    def paused(self) -> list[JobRecord]:
        """The jobs that are paused."""
        return [record for name in self._paused if (record := self.jobs[name]).paused]

    def start(self) -> None:
        """Start all nodes that are not up."""
        up = {running.rehearsed.name for running in self.nodes}
        for rehearsed in self.scenario.nodes:
            if rehearsed.name not in up:
                node = build_node(
                    self.backends,
                    self.executor,
                    self.clock,
                    self.timings,
                    name=rehearsed.name,
                    slots=rehearsed.slots,
                    labels=rehearsed.labels,
                    resources=CalmMachine(),
                    capacity=rehearsed.capacity,
                    catch_up_options=self.scenario.catch_up,
                )
                process = asyncio.create_task(node.run(), name=rehearsed.name)
                self.nodes.append(RunningNode(rehearsed, node, process))
                self.runs.alive.add(node.id)

    async def kill(self, nodes: Sequence[RunningNode]) -> None:
        """As a power cut would: nothing is given back or recorded."""
        self.runs.shorten_leases(self.clock.now(), timedelta(seconds=self.timings.run_lease))
        for running in nodes:
            self.nodes.remove(running)
            self.runs.alive.discard(running.node.id)
            running.process.cancel()
        if nodes:
            await asyncio.wait([running.process for running in nodes])

    def check(self) -> None:
        """Raise the error of a node that has ended by itself."""
        for running in self.nodes:
            if running.process.done():
                running.process.result()

    async def skip(self, time: timedelta) -> None:
        """Set all clocks forward. Nothing may be under way."""
        self.clock.skip(time)
        self.runs.extend_leases(self.clock.now())
        # Intents whose runs the workers insert are removed by the monotonic clock, and recovered by the wall clock.
        plans = self.backends.documents.plans
        for name, (intent, at) in list(plans.items()):
            plans[name] = (intent, at + time)
        for running in self.nodes:
            running.node.clock.shift(time.total_seconds())
        if self.clock.now() >= self._renew_at:
            self._renew_at = self.clock.now() + RENEW_AFTER
            for running in self.nodes:
                if running.node.leads and isinstance(running.node.elector, Elector):
                    await running.node.elector.renew_now()
        self.runs.forget_ended(self.jobs, self.clock.monotonic())
        self.backends.documents.changes.clear()
