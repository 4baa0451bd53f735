"""Runs that may have no document yet, as their jobs' documents state them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.job import JobRecord
from cronflow.domain.planning import run_of_pending
from cronflow.domain.run import Run, RunState, run_id
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases.pending_runs import find_run, insert_pending_runs, pending_among, pending_run_of
from tests.contracts.builders import T0, a_pend, a_record

RUN = run_id("report", T0)
LATER = run_id("report", T0 + timedelta(seconds=60))


@pytest.fixture
def backends() -> MemoryBackends:
    """A store in memory."""
    return memory_backends(FakeClock())


def a_job_with_a_pending_run(backends: MemoryBackends, name: str = "report", **fields: Any) -> JobRecord:
    """It has moved its cursor, and its run has no document."""
    record = a_record(name, pending_run=a_pend(**fields))
    backends.documents.jobs[name] = record
    return record


def run_of(record: JobRecord) -> Run:
    """The run of its pending run."""
    assert record.pending_run is not None
    return run_of_pending(record.job, record.pending_run, record.term)


async def test_missing_runs_are_inserted_and_present_ones_stay(backends: MemoryBackends) -> None:
    missing = a_job_with_a_pending_run(backends)
    present = a_job_with_a_pending_run(backends, "other")
    ended = replace(run_of(present), state=RunState.SUCCEEDED, check_at=None)
    await backends.runs.insert([ended])
    idle = a_record("idle")
    assert await insert_pending_runs(backends.runs, [missing, present, idle]) == {RUN}
    assert backends.documents.runs[RUN] == run_of(missing)
    assert backends.documents.runs[ended.id] == ended
    assert len(backends.documents.runs) == 2
    assert await insert_pending_runs(backends.runs, [missing, present]) == set()
    assert backends.faults.calls["runs.insert"] == 2


async def test_a_job_is_found_by_its_pending_run_only(backends: MemoryBackends) -> None:
    record = a_job_with_a_pending_run(backends)
    backends.documents.jobs["idle"] = a_record("idle")
    assert await pending_among(backends.jobs, [RUN, LATER, run_id("idle", T0), run_id("gone", T0)]) == [record]
    assert await pending_among(backends.jobs, [LATER]) == []
    assert await pending_among(backends.jobs, []) == []
    assert pending_run_of(backends.documents.jobs["idle"]) is None


async def test_a_run_is_found_with_and_without_a_document(backends: MemoryBackends) -> None:
    record = a_job_with_a_pending_run(backends)
    assert await find_run(backends.jobs, backends.runs, RUN) == run_of(record)
    assert backends.documents.runs == {}
    ended = replace(run_of(record), state=RunState.SUCCEEDED, check_at=None)
    await backends.runs.insert([ended])
    assert await find_run(backends.jobs, backends.runs, RUN) == ended
    assert await find_run(backends.jobs, backends.runs, LATER) is None


@pytest.mark.parametrize("moved_on", [False, True], ids=["ended", "and its job has moved on"])
@pytest.mark.parametrize("call", ["runs.get", "jobs.get"])
async def test_a_run_that_gets_its_document_while_it_is_looked_up_is_found(
    monkeypatch: pytest.MonkeyPatch, backends: MemoryBackends, call: str, moved_on: bool
) -> None:
    record = a_job_with_a_pending_run(backends)
    ended = replace(run_of(record), state=RunState.SUCCEEDED, check_at=None)
    store, verb = getattr(backends, call.split(".")[0]), call.split(".")[1]
    original = getattr(store, verb)

    async def then_it_ends(*words: Any) -> Any:
        found = await original(*words)
        await backends.runs.insert([ended])
        if moved_on:
            a_job_with_a_pending_run(backends, fire=T0 + timedelta(seconds=60), fence=101)
        return found

    monkeypatch.setattr(store, verb, then_it_ends)
    assert await find_run(backends.jobs, backends.runs, RUN) == ended
