"""The runs that a leader knows to exist."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from cronflow.domain.job import JobRecord
from cronflow.leader.pending_runs import PendingRuns
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from tests.contracts.builders import T0, a_pend, a_record

TERM = 7
MINUTE = timedelta(seconds=60)


@pytest.fixture
def backends() -> MemoryBackends:
    """A store in memory."""
    return memory_backends(FakeClock())


def a_job(name: str = "report", *, minute: int = 0, fence: int = 100) -> JobRecord:
    """A job whose pending run is at that minute."""
    return a_record(name, pending_run=a_pend(fire=T0 + minute * MINUTE, fence=fence))


async def looked_up(backends: MemoryBackends, pending_runs: PendingRuns, record: JobRecord, term: int = TERM) -> bool:
    """Whether ensuring it reads the store."""
    before = backends.faults.calls["runs.existing"]
    await pending_runs.ensure([record], term)
    return backends.faults.calls["runs.existing"] > before


async def test_a_run_is_inserted_once_and_then_known(backends: MemoryBackends) -> None:
    pending_runs, record = PendingRuns(backends.runs), a_job()
    assert record.pending_run is not None
    assert not pending_runs.has_inserted("report", record.pending_run)
    assert await looked_up(backends, pending_runs, record)
    assert [run.job for run in backends.documents.runs.values()] == ["report"]
    assert pending_runs.has_inserted("report", record.pending_run)
    assert not await looked_up(backends, pending_runs, record)


async def test_a_job_without_a_pending_run_needs_no_look(backends: MemoryBackends) -> None:
    assert not await looked_up(backends, PendingRuns(backends.runs), a_record())


@pytest.mark.parametrize("other", [a_job(minute=1), a_job(fence=101), a_job("other")], ids=["fire", "fence", "job"])
async def test_another_pending_run_is_not_taken_for_a_known_one(backends: MemoryBackends, other: JobRecord) -> None:
    pending_runs = PendingRuns(backends.runs)
    await pending_runs.ensure([a_job()], TERM)
    assert await looked_up(backends, pending_runs, other)


async def test_another_term_looks_again(backends: MemoryBackends) -> None:
    pending_runs, record = PendingRuns(backends.runs), a_job()
    await pending_runs.ensure([record], TERM)
    assert await looked_up(backends, pending_runs, record, TERM + 1)
    assert not await looked_up(backends, pending_runs, record, TERM + 1)


async def test_only_the_latest_are_remembered(backends: MemoryBackends) -> None:
    pending_runs = PendingRuns(backends.runs, most=2)
    first, second, third = records = [a_job(name) for name in "abc"]
    await pending_runs.ensure(records[:2], TERM)
    await pending_runs.ensure([replace(first)], TERM)
    assert first.pending_run is not None
    pending_runs.inserted("a", first.pending_run)
    await pending_runs.ensure([third], TERM)
    assert not await looked_up(backends, pending_runs, first)
    assert await looked_up(backends, pending_runs, second)
