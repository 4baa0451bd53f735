"""Late inserts alone, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import JobRecord, PlanIntent
from cronflow.domain.planning import run_of_pending
from cronflow.domain.run import RunState, run_id
from cronflow.leader.elector import Elector
from cronflow.leader.late_inserts import FORGET_AFTER_S, GATHER_S, INSERT_AFTER_S, LateInserts, Pushed
from cronflow.leader.pending_runs import PendingRuns
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from tests.contracts.builders import a_pend, a_record

DUE_S = INSERT_AFTER_S + GATHER_S


@dataclass
class Leading:
    """What late inserts see of the election."""

    tenure: object | None = True


class Bench:
    """A leader's late inserts."""

    def __init__(self, most: int = 100) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.election = Leading()
        self.pending_runs = PendingRuns(self.backends.runs)
        self.late_inserts = LateInserts(
            self.backends.plans, self.backends.runs, self.pending_runs, cast(Elector, self.election), self.clock, most
        )

    async def pushed(self, *names: str, intent: str = "1-1") -> list[JobRecord]:
        """A batch whose runs have just been pushed."""
        records = [a_record(name, pending_run=a_pend(at=self.clock.now())) for name in names]
        await self.backends.plans.write(PlanIntent(id=intent, term=1, jobs=names))
        self.late_inserts.defer(intent, 1, [one for record in records for one in pushed(record)])
        return records

    @property
    def runs(self) -> dict[str, RunState]:
        """The state of each run, by job."""
        return {run.job: run.state for run in self.backends.documents.runs.values()}

    @property
    def intents(self) -> set[str]:
        """The ids of the intents."""
        return set(self.backends.documents.plans)


def pushed(record: JobRecord) -> Sequence[Pushed]:
    """The run of a job's pending run."""
    assert record.pending_run is not None
    return [Pushed(run_id(record.name, record.pending_run.fire), record.job, record.pending_run)]


async def test_runs_are_inserted_when_they_are_old_enough_and_then_their_intent_is_removed() -> None:
    bench = Bench()
    await bench.pushed("a", "b")
    pause = await bench.late_inserts.step()
    assert (bench.runs, bench.intents) == ({}, {"1-1"})
    await bench.clock.advance(pause)
    await bench.late_inserts.step()
    assert bench.runs == {"a": RunState.DISPATCHED, "b": RunState.DISPATCHED}
    assert bench.intents == set()


async def test_what_its_worker_has_inserted_stays_as_it_is() -> None:
    bench = Bench()
    (record,) = await bench.pushed("a")
    assert record.pending_run is not None
    run = run_of_pending(record.job, record.pending_run, 1)
    ended = replace(run, state=RunState.SUCCEEDED, check_at=None, ended_at=bench.clock.now())
    await bench.backends.runs.insert([ended])
    await bench.clock.advance(DUE_S)
    await bench.late_inserts.step()
    assert (bench.runs, bench.intents) == ({"a": RunState.SUCCEEDED}, set())


async def test_a_node_that_stops_inserts_its_runs_while_it_still_leads_and_accepts_no_more() -> None:
    bench = Bench(most=3)
    await bench.pushed("a")
    assert bench.late_inserts.capacity == 2
    await bench.late_inserts.close()
    assert (bench.runs, bench.intents) == ({"a": RunState.DISPATCHED}, set())
    assert bench.late_inserts.capacity == 0


async def test_a_node_that_has_lost_the_lead_inserts_its_runs_at_once() -> None:
    bench = Bench()
    await bench.pushed("a")
    bench.election.tenure = None
    await bench.late_inserts.step()
    assert (bench.runs, bench.intents) == ({"a": RunState.DISPATCHED}, set())


async def test_after_an_outage_of_a_minute_runs_are_left_to_plan_recovery() -> None:
    bench = Bench(most=3)
    await bench.pushed("a")
    bench.backends.faults.fail_before("MongoDB", 1)
    await bench.clock.advance(DUE_S)
    with pytest.raises(BackendUnavailable):
        await bench.late_inserts.step()
    assert bench.late_inserts.capacity == 2
    await bench.clock.advance(FORGET_AFTER_S)
    await bench.late_inserts.step()
    # It may have been inserted, have ended and have been deleted since.
    assert (bench.runs, bench.intents) == ({}, {"1-1"})
    assert bench.late_inserts.capacity == 3


async def test_a_failed_insert_is_repeated_and_removes_no_intent_before() -> None:
    bench = Bench()
    await bench.pushed("a")
    await bench.clock.advance(DUE_S)
    bench.backends.faults.fail_before("runs.insert", 1)
    with pytest.raises(BackendUnavailable):
        await bench.late_inserts.step()
    assert (bench.runs, bench.intents) == ({}, {"1-1"})
    await bench.late_inserts.step()
    assert (bench.runs, bench.intents) == ({"a": RunState.DISPATCHED}, set())


async def test_a_run_that_is_known_to_exist_is_not_looked_up() -> None:
    bench = Bench()
    (record,) = await bench.pushed("a")
    await bench.pending_runs.ensure([record], 1)
    calls = bench.backends.faults.calls
    before = calls["runs.existing"]
    await bench.clock.advance(DUE_S)
    await bench.late_inserts.step()
    assert calls["runs.existing"] == before
    assert bench.intents == set()
