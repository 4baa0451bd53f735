"""Applying a spread as one change: all jobs or none, and what an interruption leaves behind."""

from __future__ import annotations

import pytest

from cronflow.domain.errors import BackendUnavailable, Conflict
from cronflow.domain.job import Job, JobRecord, PythonTarget
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.spread import MinuteMove
from cronflow.ports import AuditQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from cronflow.usecases import schedule_load as module
from cronflow.usecases.search import JobFilter

ALL = JobFilter(name="*")


class Bench:
    """Jobs that start together, in memory."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.service = UseCases(self.backends, self.clock)

    async def herd(self, count: int) -> None:
        await self.service.jobs.apply([a_job(f"job-{n:04}") for n in range(count)])

    async def crons(self) -> dict[str, str]:
        """The expressions of the jobs that are not at the full hour."""
        found = await self.backends.jobs.find(limit=10_000)
        crons = {one.name: one.job.schedule.expr for one in found if isinstance(one.job.schedule, Cron)}
        return {name: expr for name, expr in crons.items() if expr != "0 2 * * *"}

    async def plan(self) -> list[MinuteMove]:
        return list((await self.service.spread.propose(ALL)).plan.moves)


def a_job(name: str, cron: str = "0 2 * * *") -> Job:
    return Job(name=name, schedule=Cron(cron), target=PythonTarget("jobs:work"))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def before_write(bench: Bench, monkeypatch: pytest.MonkeyPatch, act: object, at: int) -> None:
    """Await `act` before the job with this number is written, once."""
    write, written = bench.backends.jobs.replace, 0

    async def replace(record: JobRecord, rev: int) -> bool:
        nonlocal written
        written += 1
        if written == at:
            await act()  # type: ignore[operator]
        return await write(record, rev)

    monkeypatch.setattr(bench.backends.jobs, "replace", replace)


async def test_jobs_of_several_batches_move_in_one_change(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronflow.usecases.jobs.BATCH", 7)
    await bench.herd(50)
    moves = await bench.plan()
    done = await bench.service.spread.apply(moves, by="ada")
    assert {one.version for one in done} == {2}
    assert await bench.crons() == {move.job: move.after for move in moves}
    entries = await bench.backends.audit.find(AuditQuery(by="ada"))
    assert sorted(entry.action for entry in entries) == ["job.change"] * 49 + ["job.spread"]


async def test_a_job_that_is_changed_before_the_write_stops_the_change_and_the_error_counts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.herd(4)
    moves = await bench.plan()

    async def change() -> None:
        monkeypatch.undo()
        await bench.service.jobs.amend("job-0001", lambda _: a_job("job-0001", "0 5 * * *"), by="eve")

    before_write(bench, monkeypatch, change, 2)
    with pytest.raises(Conflict) as caught:
        await bench.service.spread.apply(moves, by="ada")
    assert str(caught.value) == (
        "job 'job-0001' is at version 2, not 1: someone else changed it; 2 of 3 jobs were moved, but not job-0001 "
        "(plan again and apply the new plan)"
    )
    [entry] = await bench.backends.audit.find(AuditQuery(action="job.spread"))
    assert set(entry.after) == {"job-0000", "job-0002"}  # type: ignore[call-overload]
    assert (await bench.crons())["job-0001"] == "0 5 * * *"


async def test_a_job_whose_cursor_moves_meanwhile_is_moved_nevertheless(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.herd(4)
    moves = await bench.plan()

    async def plan_a_run() -> None:
        # As the planner does: another revision of the same version.
        [record] = await bench.backends.jobs.get(["job-0001"])
        monkeypatch.undo()
        assert await bench.backends.jobs.replace(record, record.rev)

    before_write(bench, monkeypatch, plan_a_run, 2)
    await bench.service.spread.apply(moves)
    assert await bench.crons() == {move.job: move.after for move in moves}


async def test_applying_the_same_moves_again_finishes_what_an_outage_interrupted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronflow.usecases.edit.AT_ONCE", 1)
    await bench.herd(6)
    moves = await bench.plan()

    async def fail() -> None:
        raise BackendUnavailable("MongoDB", "replace", "connection refused")

    before_write(bench, monkeypatch, fail, 3)
    with pytest.raises(BackendUnavailable) as caught:
        await bench.service.spread.apply(moves, by="ada")
    assert "of 5 jobs were moved" in caught.value.__notes__[0]
    assert 0 < len(await bench.crons()) < 5
    monkeypatch.undo()
    done = await bench.service.spread.apply(moves, by="ada")
    assert await bench.crons() == {move.job: move.after for move in moves}
    assert [move.version for move in done] == [2] * 5, "none is moved twice"
    entries = await bench.backends.audit.find(AuditQuery(action="job.spread"))
    assert sum(len(entry.after) for entry in entries) == 5  # type: ignore[misc, arg-type]


async def test_a_plan_is_bounded_and_the_next_one_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MOVES", 10)
    monkeypatch.setattr(module, "PAGE", 7)
    await bench.herd(25)
    first = await bench.service.spread.spread(ALL)
    second = await bench.service.spread.spread(ALL)
    third = await bench.service.spread.spread(ALL)
    assert [(len(one.plan.moves), one.more) for one in (first, second, third)] == [(10, True), (10, True), (4, False)]
    assert third.plan.after.peak == 1


async def test_a_result_about_many_jobs_is_used_again_for_a_while(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NEW_JOBS", 3)
    await bench.herd(3)
    few = (await bench.service.schedule_load.report()).schedule_load
    assert (await bench.service.schedule_load.report()).schedule_load is not few
    await bench.herd(1003)
    many = (await bench.service.schedule_load.report()).schedule_load
    assert (await bench.service.schedule_load.report()).schedule_load is many
    assert (await bench.service.schedule_load.report(frequent=True)).schedule_load is not many
    await bench.clock.advance(1.0)
    assert (await bench.service.schedule_load.report()).schedule_load is not many


async def test_spreading_is_seen_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEW_JOBS", 3)
    await bench.herd(300)
    before = await bench.service.schedule_load.report()
    await bench.service.spread.spread(ALL)
    after = await bench.service.schedule_load.report()
    assert max(after.schedule_load.minutes()) < max(before.schedule_load.minutes())


async def test_no_more_jobs_are_read_than_allowed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 5)
    monkeypatch.setattr(module, "MOST_JOBS", 10)
    await bench.herd(11)
    found = await bench.service.schedule_load.report()
    assert (found.schedule_load.jobs, found.more) == (10, True)
    monkeypatch.setattr(module, "MOST_JOBS", 15)
    found = await bench.service.schedule_load.report()
    assert (found.schedule_load.jobs, found.more) == (11, False)
