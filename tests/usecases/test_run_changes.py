"""Which runs of the coming days a change adds and removes, and which jobs never run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Job, Misfire, MisfirePolicy
from cronflow.domain.schedule.comparison import MOST_DAYS
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule
from cronflow.usecases import run_changes
from cronflow.usecases.jobs import Comparison
from tests.cli.scene import NOON, Scene, job

DAILY, LATER = Cron("0 2 * * *"), Cron("0 3 * * *")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def counts(found: Sequence[Comparison]) -> list[tuple[int | None, int | None] | None]:
    return [None if one.runs is None else (one.runs.added, one.runs.removed) for one in found]


async def test_a_plan_and_the_change_itself_have_the_same_runs(scene: Scene) -> None:
    jobs = scene.service.jobs
    kept, moved, new = job("kept", DAILY), job("moved", DAILY), job("new", Cron("0 0,2 * * *"))
    await jobs.apply([kept, moved])
    wanted = [replace(kept, description="other"), replace(moved, schedule=LATER), new]
    planned = await jobs.compare(wanted, days=7)
    assert counts(planned) == [None, (7, 7), (14, 0)]
    assert planned[1].runs is not None
    assert planned[1].runs.first_added[0] == datetime.fromisoformat("2026-11-22T03:00:00Z")
    assert counts(await jobs.applied(wanted, days=7)) == counts(planned)
    assert counts(await jobs.compare(wanted, days=7)) == [None, None, None]
    assert counts(await jobs.compare([replace(kept, enabled=False)], days=3)) == [(0, 3)]


async def test_runs_are_compared_only_if_days_are_given_and_only_for_so_many(scene: Scene) -> None:
    assert counts(await scene.service.jobs.compare([job("new", DAILY)])) == [None]
    for days in (-1, MOST_DAYS + 1):
        with pytest.raises(InvalidInput, match="days"):
            await scene.service.jobs.compare([job("new", DAILY)], days=days)


async def test_a_paused_job_has_runs_only_after_its_pause(scene: Scene) -> None:
    jobs = scene.service.jobs
    await jobs.apply([job("paused", DAILY), job("until", DAILY)])
    await jobs.pause("paused")
    await jobs.pause("until", until=NOON + timedelta(days=5))
    found = await jobs.compare([job("paused", LATER), job("until", LATER)], days=7)
    assert counts(found) == [(0, 0), (2, 2)]


async def test_a_deleted_job_appears_again(scene: Scene) -> None:
    await scene.service.jobs.apply([job("gone", DAILY)])
    await scene.service.jobs.delete("gone")
    assert counts(await scene.service.jobs.compare([job("gone", DAILY)], days=7)) == [(7, 0)]
    assert counts(await scene.service.jobs.applied([job("gone", DAILY)], days=7)) == [(7, 0)]


async def test_the_comparison_of_many_jobs_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_changes, "MOST_COMPARED", 30)
    jobs = [job(f"job-{n}", Cron(f"{n} 2 * * *")) for n in range(4)]
    await scene.service.jobs.apply(jobs)
    found = await scene.service.jobs.compare([replace(one, schedule=LATER) for one in jobs], days=7)
    # Two jobs take 14 instants each; the two that are left are only counted.
    assert [one.runs and one.runs.compared for one in found] == [True, True, False, False]
    assert [one.runs and (one.runs.before, one.runs.after) for one in found] == [(7, 7)] * 4


async def test_jobs_with_the_same_schedules_share_a_comparison(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_changes, "MOST_COMPARED", 30)
    jobs = [job(f"job-{n}", DAILY) for n in range(9)]
    await scene.service.jobs.apply(jobs)
    found = await scene.service.jobs.compare([replace(one, schedule=LATER) for one in jobs], days=7)
    assert counts(found) == [(7, 7)] * 9


def once(at: datetime, policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE) -> Job:
    return job("once", Once(at), misfire=Misfire(policy))


@pytest.mark.parametrize(
    ("wanted", "warnings"),
    [
        (once(NOON - timedelta(days=1)), ["its `at` has passed, so the job runs once, immediately"]),
        (
            once(NOON - timedelta(days=1), MisfirePolicy.SKIP),
            ["its `at` has passed, so the run is recorded as skipped and the job never runs"],
        ),
        (once(NOON + timedelta(days=1)), []),
        (job("ended", Every("1h", end=NOON)), ["this job never runs again: its `end` has passed"]),
        (job("off", Every("1h", end=NOON), enabled=False), []),
        (job("by-hand"), []),
        (job("daily", DAILY), []),
    ],
)
async def test_a_job_that_never_runs_again_is_called_out(scene: Scene, wanted: Job, warnings: list[str]) -> None:
    [planned] = await scene.service.jobs.compare([wanted], days=7)
    assert list(planned.warnings) == warnings
    [applied] = await scene.service.jobs.applied([wanted], days=7)
    assert list(applied.warnings) == warnings
    # The next time nothing changes.
    [again] = await scene.service.jobs.compare([wanted], days=7)
    assert (again.result, list(again.warnings)) == ("unchanged", [])


@pytest.mark.parametrize("schedule", [Once(NOON - timedelta(hours=1)), DAILY])
async def test_an_at_in_the_past_is_a_run_that_appears(scene: Scene, schedule: Schedule) -> None:
    expected = 1 if isinstance(schedule, Once) else 7
    [found] = await scene.service.jobs.compare([job("new", schedule)], days=7)
    assert found.runs is not None
    assert found.runs.added == expected
