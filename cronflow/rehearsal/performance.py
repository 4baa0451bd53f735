"""Performs a scenario, and returns what was observed. The same input gives the same output."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn

import structlog

from cronflow.domain.catch_up import CatchUpPlan
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.run import Run, fire_of
from cronflow.rehearsal.clock import RehearsalClock
from cronflow.rehearsal.director import Director
from cronflow.rehearsal.executor import Execution
from cronflow.rehearsal.scenario import RehearsedJob, Scenario
from cronflow.rehearsal.stage import Stage
from cronflow.testing.virtual_time import run_on_virtual_time

BEFORE_FIRES = timedelta(milliseconds=10)
"""What the scenario plans for an instant happens before the fires of that instant."""
WARM_UP = timedelta(seconds=10)
"""Before the period: the nodes start, and one of them is elected."""


@dataclass(frozen=True, slots=True)
class Performance:
    """`records` are the jobs as they were left, `waits` the last reason for which a fire waited. `leaderless` are the
    periods without a leader, and `recovery` is the plan by which missed runs started.
    """

    scenario: Scenario
    runs: Mapping[str, Run]
    records: Mapping[str, JobRecord]
    executions: Sequence[Execution]
    waits: Mapping[tuple[str, datetime], str]
    leaderless: Sequence[tuple[datetime, datetime]]
    killed: str | None
    recovery: CatchUpPlan | None


def perform(jobs: Sequence[RehearsedJob], scenario: Scenario, changes: Sequence[Job] = ()) -> Performance:
    """Rehearse the jobs; `changes` are applied to them at the beginning, as `jobs apply` would."""
    state = random.getstate()
    # Placement and elections break ties at random.
    random.seed(1)
    try:
        with _silent_log():
            return run_on_virtual_time(_perform(jobs, scenario, changes))
    finally:
        random.setstate(state)


async def _perform(jobs: Sequence[RehearsedJob], scenario: Scenario, changes: Sequence[Job]) -> Performance:
    stage = Stage(scenario, RehearsalClock(scenario.first - WARM_UP))
    director = Director(stage)
    await stage.define(jobs)
    if changes:
        await stage.change(changes)
    stage.start()
    killed = None
    try:
        outage = scenario.outage
        for at in sorted(filter(None, (scenario.kill_leader_at, outage.at if outage else None))):
            await director.run_until(at - BEFORE_FIRES)
            if outage is not None and at == outage.at:
                await director.power_cut(outage.end)
            else:
                killed = await director.kill_leader()
        await director.run_until(scenario.until)
        stage.check()
    finally:
        left = list(stage.nodes)
        await stage.kill(left)
    # The fires of the very end may have begun.
    return Performance(
        scenario,
        {name: run for name, run in stage.runs.seen.items() if run.fire_at < scenario.until},
        dict(stage.jobs),
        [one for one in stage.executor.executions if (fire_of(one.run) or one.began) < scenario.until],
        dict(stage.jobs.waits),
        director.leaderless,
        killed,
        stage.backends.documents.catch_up,
    )


@contextmanager
def _silent_log() -> Iterator[None]:
    """The nodes are not those of the reader: what they log would confuse."""
    processors = structlog.get_config()["processors"]
    before = list(processors)
    processors[:] = [_drop]
    try:
        yield
    finally:
        processors[:] = before


def _drop(*_: object) -> NoReturn:
    raise structlog.DropEvent
