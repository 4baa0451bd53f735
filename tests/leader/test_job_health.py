"""The events of jobs that become overdue or stuck, and recover."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from cronflow.domain.cluster import Tenure
from cronflow.domain.events import Event, JobsOverdue, JobsRecovered, JobsStuck
from cronflow.domain.placement import NO_FREE_SLOT, Waiting
from cronflow.leader.job_health_monitor import JobHealthMonitor
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.usecases.job_health import JobHealthReader
from tests.contracts.builders import T0, a_record


class Leader:
    """An elector that always leads."""

    def __init__(self, term: int = 1) -> None:
        self.tenure: Tenure | None = Tenure.__new__(Tenure)
        object.__setattr__(self.tenure, "term", term)


class Bench:
    """The monitor over a cluster in memory."""

    def __init__(self) -> None:
        self.clock = FakeClock(T0 + timedelta(hours=1))
        self.backends = memory_backends(self.clock)
        self.leader = Leader()
        self.events: list[Event] = []
        reader = JobHealthReader(self.backends, self.clock)
        self.monitor = JobHealthMonitor(reader, self.leader, self.events.append)  # type: ignore[arg-type]

    def late(self, name: str, minutes: int = 5, reason: str = "") -> None:
        fire = self.clock.now() - timedelta(minutes=minutes)
        nodes = (("n1#a", reason),)
        waiting = Waiting(fire=fire, since=fire, reason=reason, nodes=nodes) if reason else None
        self.backends.documents.jobs[name] = a_record(name, fire, waiting=waiting)

    async def look(self) -> list[Event]:
        self.events.clear()
        await self.monitor.step()
        return list(self.events)


async def test_jobs_that_become_overdue_or_stuck_are_reported_once_and_again_when_they_recover() -> None:
    bench = Bench()
    assert await bench.look() == []
    bench.late("a")
    bench.late("b")
    assert await bench.look() == [JobsOverdue(2, "a", "the cluster has no leader")]
    assert await bench.look() == []
    bench.late("c", reason=NO_FREE_SLOT)
    assert JobsStuck(1, "c", NO_FREE_SLOT) in await bench.look()
    del bench.backends.documents.jobs["a"]
    assert await bench.look() == [JobsRecovered(1, "a", "overdue")]
    del bench.backends.documents.jobs["c"]
    assert await bench.look() == [JobsRecovered(1, "c", "overdue"), JobsRecovered(1, "c", "stuck")]


async def test_jobs_that_a_round_did_not_read_have_not_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronflow.usecases.job_health.MOST_CONDITIONS", 2)
    bench = Bench()
    assert await bench.look() == []
    bench.late("b", minutes=6)
    bench.late("c", minutes=5)
    assert await bench.look() == [JobsOverdue(2, "b", "the cluster has no leader")]
    # The two that are longest overdue are read: c is not among them any more.
    bench.late("a", minutes=7)
    assert await bench.look() == [JobsOverdue(1, "a", "the cluster has no leader")]
    del bench.backends.documents.jobs["a"]
    assert await bench.look() == []
    del bench.backends.documents.jobs["b"]
    assert await bench.look() == [JobsRecovered(2, "a", "overdue")]


async def test_what_a_new_leader_finds_is_not_reported_again() -> None:
    bench = Bench()
    bench.late("a")
    assert await bench.look() == []
    bench.leader = bench.monitor._elector = Leader(2)  # type: ignore[assignment]
    assert await bench.look() == []
    bench.leader.tenure = None
    bench.late("b")
    assert await bench.look() == []


async def test_a_run_that_no_node_can_run_is_reported_where_it_is_found() -> None:
    bench = Bench()
    await bench.look()
    bench.late("a", minutes=0, reason="no node can run this job")
    record = bench.backends.documents.jobs["a"]
    assert record.waiting is not None
    earlier = record.waiting.since - timedelta(seconds=20)
    bench.backends.documents.jobs["a"] = replace(record, waiting=replace(record.waiting, since=earlier))
    assert await bench.look() == []
    del bench.backends.documents.jobs["a"]
    assert await bench.look() == [JobsRecovered(1, "a", "stuck")]
