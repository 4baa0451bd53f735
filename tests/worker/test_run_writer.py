"""What a worker records of runs that may have no document yet."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain import transitions
from cronflow.domain.job import Delivery, JobRecord, Retry
from cronflow.domain.planning import ACK_WITHIN, run_of_pending
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.transitions import Change, ClaimedRun
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.worker.run_writer import RunWrite, RunWriter
from tests.contracts.builders import a_pend, a_record

SECOND = timedelta(seconds=1)
LEASE = 45 * SECOND
FENCE = 100


class Bench:
    """A worker's writer, and a job that has moved its cursor and whose run nobody has inserted."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.writer = RunWriter(self.backends.jobs, self.backends.runs, self.clock)
        self.record = self.a_record("report")
        self.pending = self.pending_of(self.record)

    def a_record(self, name: str, fence: int = FENCE) -> JobRecord:
        """A job with a pending run."""
        record = a_record(name, pending_run=a_pend(fence=fence, at=self.clock.now()))
        self.backends.documents.jobs[name] = record
        return record

    def pending_of(self, record: JobRecord) -> Run:
        """The run of its pending run."""
        assert record.pending_run is not None
        return run_of_pending(record.job, record.pending_run, record.term)

    @property
    def runs(self) -> dict[str, Run]:
        """All runs."""
        return dict(self.backends.documents.runs)


def claimed(run: Run, fence: int = FENCE) -> ClaimedRun:
    """As its worker holds it."""
    return ClaimedRun(
        run=run.id, fence=fence, node="n1#a", attempt=1, retry=Retry(max=0), delivery=Delivery.AT_LEAST_ONCE
    )


def start(bench: Bench, start_id: str = "s1", run: Run | None = None) -> Change:
    """A start, now."""
    return transitions.start(claimed(run or bench.pending), start_id, bench.clock.now(), LEASE)


def finish(bench: Bench, finish_id: str = "f1", fence: int = FENCE) -> Change:
    """A success, now."""
    now = bench.clock.now()
    return transitions.finish(claimed(bench.pending, fence), AttemptResult(Outcome.OK), finish_id, now, now)


async def test_a_young_run_is_inserted_as_its_end_leaves_it_by_one_call() -> None:
    bench = Bench()
    assert await bench.writer.write([RunWrite(finish(bench), bench.pending)]) == [True]
    (run,) = bench.runs.values()
    assert (run.state, run.finish_id, run.created_at) == (RunState.SUCCEEDED, "f1", bench.pending.created_at)
    assert bench.backends.faults.calls["runs.apply"] == 0


async def test_what_the_leader_has_inserted_is_changed_and_what_was_cancelled_stays() -> None:
    bench = Bench()
    await bench.backends.runs.insert([bench.pending])
    assert await bench.writer.write([RunWrite(start(bench), bench.pending)]) == [True]
    assert bench.runs[bench.pending.id].state is RunState.RUNNING
    cancelled = replace(bench.pending, state=RunState.CANCELLED, check_at=None, ended_at=bench.clock.now())
    bench.backends.documents.runs[bench.pending.id] = cancelled
    assert await bench.writer.write([RunWrite(finish(bench), bench.pending)]) == [False]
    assert bench.runs[bench.pending.id] == cancelled


async def test_of_two_starts_of_an_absent_run_in_one_batch_one_wins_and_repeating_them_changes_nothing() -> None:
    bench = Bench()
    writes = [RunWrite(start(bench, start_id), bench.pending) for start_id in ("s1", "s2")]
    assert await bench.writer.write(writes) == [True, False]
    assert await bench.writer.write(writes) == [True, False]
    assert bench.runs[bench.pending.id].start_id == "s1"


async def test_a_start_and_an_end_in_one_batch_are_two_steps() -> None:
    bench = Bench()
    writes = [RunWrite(start(bench), bench.pending), RunWrite(finish(bench), bench.pending)]
    assert await bench.writer.write(writes) == [True, True]
    assert (bench.runs[bench.pending.id].start_id, bench.runs[bench.pending.id].finish_id) == ("s1", "f1")


async def test_an_old_item_inserts_nothing_that_its_job_no_longer_names() -> None:
    bench = Bench()
    write = RunWrite(finish(bench), bench.pending)
    await bench.clock.advance(ACK_WITHIN.total_seconds())
    # Its run was there, ended, and has been deleted since; the job has moved on.
    bench.a_record("report", fence=FENCE + 1)
    assert await bench.writer.write([write]) == [False]
    assert bench.runs == {}


async def test_an_absent_run_of_any_age_is_inserted_if_its_job_names_it_under_this_fence() -> None:
    bench = Bench()
    await bench.clock.advance(3600.0)
    assert await bench.writer.write([RunWrite(finish(bench))]) == [True]
    run = bench.runs[bench.pending.id]
    assert (run.state, run.finish_id, run.node) == (RunState.SUCCEEDED, "f1", "n1#a")


async def test_an_absent_run_is_not_inserted_for_an_attempt_under_another_fence() -> None:
    bench = Bench()
    await bench.clock.advance(3600.0)
    assert await bench.writer.write([RunWrite(finish(bench, fence=FENCE - 1))]) == [False]
    assert bench.runs == {}


async def test_an_absent_run_is_not_inserted_for_another_instant_under_the_same_fence() -> None:
    bench = Bench()
    await bench.clock.advance(3600.0)
    later = replace(bench.pending, id="report@20990101T000000Z")
    assert await bench.writer.write([RunWrite(start(bench, run=later))]) == [False]
    assert bench.runs == {}


@pytest.mark.parametrize("moved_on", [False, True], ids=["inserted", "and moved on"])
@pytest.mark.parametrize("call", ["runs.apply", "runs.existing", "jobs.get"])
async def test_an_old_run_that_the_leader_inserts_between_two_calls_is_not_taken_for_one_of_another_attempt(
    monkeypatch: pytest.MonkeyPatch, call: str, moved_on: bool
) -> None:
    bench = Bench()
    await bench.clock.advance(3600.0)
    store = getattr(bench.backends, call.split(".")[0])
    original = getattr(store, call.split(".")[1])

    async def then_the_leader_inserts(*words: Any) -> Any:
        found = await original(*words)
        await bench.backends.runs.insert([bench.pending])
        if moved_on:
            later = bench.pending.fire_at + SECOND
            pending_run = a_pend(fence=FENCE + 1, at=bench.clock.now(), fire=later)
            bench.backends.documents.jobs["report"] = replace(bench.record, pending_run=pending_run)
        return found

    monkeypatch.setattr(store, call.split(".")[1], then_the_leader_inserts)
    assert await bench.writer.write([RunWrite(finish(bench))]) == [True]
    assert [run.finish_id for run in bench.runs.values()] == ["f1"]


async def test_each_write_of_a_mixed_batch_gets_its_own_answer() -> None:
    bench = Bench()
    other = bench.pending_of(bench.a_record("other"))
    absent = bench.pending_of(bench.a_record("absent"))
    ended = bench.pending_of(bench.a_record("ended"))
    await bench.backends.runs.insert([other])
    bench.backends.documents.runs[ended.id] = replace(ended, state=RunState.SUCCEEDED, check_at=None)
    writes = [
        RunWrite(start(bench, run=ended)),
        RunWrite(start(bench), bench.pending),
        RunWrite(start(bench, run=absent)),
        RunWrite(start(bench, run=other)),
        RunWrite(start(bench, run=replace(other, id="gone@20260101T000000Z"))),
    ]
    assert await bench.writer.write(writes) == [False, True, True, True, False]
    assert {run.id for run in bench.runs.values() if run.state is RunState.RUNNING} == {
        bench.pending.id,
        absent.id,
        other.id,
    }
