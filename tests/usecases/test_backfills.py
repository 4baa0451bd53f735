"""Requests of backfills: what they choose, what they refuse, and what cancelling one does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.backfill import Backfill, BackfillRate, BackfillScope, BackfillState
from cronflow.domain.errors import Conflict, InvalidInput, NotFound
from cronflow.domain.events import BackfillCancelled, BackfillRequested, Event
from cronflow.domain.job import system_jobs
from cronflow.domain.planning import run_on_request
from cronflow.domain.run import Covers, Kind, RunState, backfill_run_id
from cronflow.domain.shadow import JobMode
from cronflow.ports import AuditQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from tests.contracts.builders import T0, a_job, a_run

MINUTE = timedelta(minutes=1)
LAST = T0 + 4 * MINUTE
ENDED: dict[str, Any] = {"check_at": None, "ended_at": T0}


class Bench:
    """A service on memory, ten minutes after T0, with a job that is due every minute from now on."""

    def __init__(self) -> None:
        self.clock = FakeClock(T0 + 10 * MINUTE)
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.events: list[Event] = []
        self.service = UseCases(self.backends, self.clock, self.events.append)


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    await made.service.jobs.apply([a_job()])
    return made


async def test_a_request_is_one_document_with_its_instants(bench: Bench) -> None:
    rate = BackfillRate(10, "m")
    found, started = await bench.service.backfills.request("report", T0, LAST, rate=rate, by="ada")
    assert started
    assert (found.id, found.total, found.first_instant, found.last_instant) == ("report~b1", 5, T0, LAST)
    [watched] = await bench.backends.backfills.watched(100)
    assert watched.backfill == found
    assert list(watched.upcoming) == [T0 + n * MINUTE for n in range(5)]
    assert bench.backends.documents.runs == {}
    assert bench.events[-1] == BackfillRequested("report~b1", 5, "ada")
    [entry] = await bench.backends.audit.find(AuditQuery(action="job.backfill"))
    assert (entry.by, entry.target) == ("ada", "job:report")


async def test_a_plan_writes_nothing(bench: Bench) -> None:
    found = (await bench.service.backfills.plan("report", T0, LAST, BackfillScope.MISSING)).backfill
    assert found.total == 5
    assert await bench.backends.backfills.find() == []


async def test_only_what_is_missing_is_chosen_also_behind_a_range(bench: Bench) -> None:
    covering = a_run(fire=T0 - MINUTE, state=RunState.SUCCEEDED, covers=Covers(T0 - MINUTE, T0, 2), **ENDED)
    failed = a_run(fire=T0 + MINUTE, state=RunState.FAILED, **ENDED)
    open_one = a_run(fire=T0 + 2 * MINUTE)
    await bench.backends.runs.insert([covering, failed, open_one])

    async def plan(*asked: Any) -> Backfill:
        return (await bench.service.backfills.plan(*asked)).backfill

    assert (await plan("report", T0, LAST, BackfillScope.MISSING)).total == 3
    chosen = await plan("report", T0, LAST, BackfillScope.FAILED)
    assert (chosen.total, chosen.first_instant) == (1, T0 + MINUTE)
    assert (await plan("report", T0, LAST, BackfillScope.ALL)).total == 5


async def test_nothing_is_started_without_instants(bench: Bench) -> None:
    found, started = await bench.service.backfills.request("report", T0, LAST, BackfillScope.FAILED)
    assert (found.total, started) == (0, False)
    assert await bench.backends.backfills.find() == []


async def test_a_job_has_one_running_backfill_and_the_next_one_another_number(bench: Bench) -> None:
    first, _ = await bench.service.backfills.request("report", T0, LAST)
    with pytest.raises(Conflict, match="cronflow backfills cancel report~b1"):
        await bench.service.backfills.request("report", T0, LAST)
    await bench.backends.backfills.close(first.id, BackfillState.DONE, T0)
    assert (await bench.service.backfills.request("report", T0, LAST))[0].id == "report~b2"


async def test_two_requests_at_once_start_one(bench: Bench) -> None:
    present, _ = await bench.service.backfills.request("report", T0, LAST)
    find = bench.backends.backfills.find

    async def stale(**_: object) -> list[object]:
        # The other request was written after this read.
        object.__setattr__(bench.backends.backfills, "find", find)
        return []

    object.__setattr__(bench.backends.backfills, "find", stale)
    with pytest.raises(Conflict, match="still running"):
        await bench.service.backfills.request("report", T0, LAST)
    assert [one.id for one in await bench.backends.backfills.find()] == [present.id]


async def test_what_cannot_be_backfilled_is_refused(bench: Bench) -> None:
    request = bench.service.backfills.request
    with pytest.raises(NotFound):
        await request("nothing", T0, LAST)
    with pytest.raises(InvalidInput, match="last: is in the future"):
        await request("report", T0, bench.clock.now() + timedelta(seconds=1))
    await bench.service.jobs.apply([a_job("by-hand", schedule=None)])
    with pytest.raises(InvalidInput, match="cronflow jobs run by-hand"):
        await request("by-hand", T0, LAST)
    [sweep, _] = system_jobs(T0.time(), T0.time())
    await bench.service.jobs._editor.define(sweep)
    with pytest.raises(InvalidInput, match="is a system job"):
        await request(sweep.name, T0, LAST)


async def test_cancelling_stops_it_and_cancels_its_open_runs_alone(bench: Bench) -> None:
    found, _ = await bench.service.backfills.request("report", T0, LAST)
    record = await bench.service.jobs.get("report")
    now = bench.clock.now()
    own = run_on_request(record, backfill_run_id(found.id, T0), Kind.BACKFILL, T0, None, now)
    other = replace(own, id="report@manual-1", kind=Kind.MANUAL)
    await bench.backends.runs.insert([own, other])
    progress = await bench.service.backfills.cancel(found.id, "wrong range", by="bob")
    assert (progress.backfill.state, progress.backfill.cancelled_by) == (BackfillState.CANCELLED, "bob")
    assert progress.counts == {RunState.CANCELLED: 1}
    run = await bench.service.runs.get(own.id)
    assert (run.state, run.reason) == (RunState.CANCELLED, "cancelled by bob: wrong range")
    assert (await bench.service.runs.get(other.id)).is_open
    again = await bench.service.backfills.cancel(found.id, "again", by="eve")
    assert again.backfill.cancelled_by == "bob"
    assert [event for event in bench.events if isinstance(event, BackfillCancelled)] == [
        BackfillCancelled(found.id, "bob", "wrong range")
    ]


async def test_one_that_is_done_cannot_be_cancelled(bench: Bench) -> None:
    found, _ = await bench.service.backfills.request("report", T0, LAST)
    await bench.backends.backfills.close(found.id, BackfillState.DONE, T0)
    with pytest.raises(Conflict, match="is done"):
        await bench.service.backfills.cancel(found.id)
    with pytest.raises(NotFound):
        await bench.service.backfills.cancel("report~b9")


async def test_its_progress_tells_why_it_waits(bench: Bench) -> None:
    found, _ = await bench.service.backfills.request("report", T0, LAST)
    # Its next fire is in the past, because nobody plans here.
    assert (await bench.service.backfills.get(found.id)).waiting == "a fire of its job is due"
    await bench.service.jobs.pause("report")
    assert (await bench.service.backfills.get(found.id)).waiting == "its job is paused"


async def test_a_job_in_shadow_mode_has_no_backfill(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job(mode=JobMode.SHADOW)])
    with pytest.raises(Conflict, match=r"is in shadow mode.*cronflow jobs activate report"):
        await bench.service.backfills.plan("report", T0, LAST, BackfillScope.MISSING)
    with pytest.raises(Conflict, match="is in shadow mode"):
        await bench.service.backfills.request("report", T0, LAST)
