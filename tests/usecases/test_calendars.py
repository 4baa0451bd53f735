"""Calendars are applied, and the jobs that use them follow; also when the process that changes one dies."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, NotFound
from cronflow.domain.events import CalendarChanged, CalendarDeleted, Event
from cronflow.domain.job import Job
from cronflow.domain.planning import next_run
from cronflow.domain.run import RunState
from cronflow.domain.schedule.calendar import Calendar, DaySpan, YearlyDay
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.kinds import AnyOf, Cron, Schedule
from cronflow.domain.schedule.pins import book_of, pins_of
from cronflow.domain.schedule.preview import PreviewRow
from cronflow.domain.schedule.windows import Period
from cronflow.ports import AuditQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from cronflow.usecases import calendars as module
from cronflow.usecases.calendar_binding import CalendarUpdates
from cronflow.usecases.edit import Editor
from tests.contracts.builders import a_job, a_pend

DAY = timedelta(days=1)
HOLIDAYS = Calendar(name="de-holidays", days=(YearlyDay(12, 25, "Christmas Day"),))
MORE = replace(HOLIDAYS, days=(*HOLIDAYS.days, YearlyDay(11, 26, "Thanksgiving")))
START = datetime(2026, 11, 24, 7, 0, tzinfo=UTC)
"""A Tuesday."""


class Scene:
    """Use cases at a fixed time, and the events that they emit."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.events: list[Event] = []
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.service = UseCases(self.backends, self.clock, self.events.append)
        back = self.backends
        editor = Editor(back.jobs, back.versions, back.plans, back.runs, back.queue, self.clock)
        self.updates = CalendarUpdates(back.calendars, back.jobs, editor)

    async def apply(self, name: str, schedule: Schedule, **fields: Any) -> Job:
        job = a_job(name, schedule=schedule, **fields)
        await self.service.jobs.apply([job], by="ada")
        return job

    async def pins(self, *names: str) -> dict[str, tuple[str, ...]]:
        return {one.name: pins_of(one.job.schedule) for one in await self.backends.jobs.get(names)}


def daily(**rules: Any) -> Cron:
    return Cron("0 8 * * *", **({"calendars": ("de-holidays",)} | rules))


@pytest.fixture
async def scene() -> Scene:
    made = Scene()
    await made.service.calendars.define(HOLIDAYS, by="ada")
    made.events.clear()
    return made


# -------------------------------------------------------------------------------------------------------- definitions


async def test_a_calendar_is_created_changed_and_left_alone_when_it_is_the_same() -> None:
    scene = Scene()
    for calendar, result, rev in ((HOLIDAYS, "created", 1), (HOLIDAYS, "unchanged", 1), (MORE, "changed", 2)):
        use, found, plan = await scene.service.calendars.define(calendar, by="ada")
        assert (found, plan.result) == (result, result)
        assert (use.record.calendar, use.record.calendar.rev, use.record.updated_by) == (calendar, rev, "ada")
    changes = [event for event in scene.events if isinstance(event, CalendarChanged)]
    assert changes == [CalendarChanged("de-holidays", 1, 0, "ada"), CalendarChanged("de-holidays", 2, 0, "ada")]
    entries = (await scene.backends.audit.find(AuditQuery(limit=9)))[::-1]
    assert [(one.action, one.by, one.target) for one in entries] == [
        ("calendar.create", "ada", "calendar:de-holidays"),
        ("calendar.change", "ada", "calendar:de-holidays"),
    ]
    before, after = entries[1].before, entries[1].after
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert (before["revision"], after["revision"], len(after["days"])) == (1, 2, 2)


async def test_the_audit_log_has_the_size_of_a_large_calendar() -> None:
    scene = Scene()
    days = tuple(DaySpan(date(2026, 1, 1) + 2 * n * DAY, date(2026, 1, 1) + 2 * n * DAY) for n in range(201))
    await scene.service.calendars.define(Calendar(name="large", days=days))
    [entry] = await scene.backends.audit.find(AuditQuery(limit=9))
    assert isinstance(entry.after, dict)
    assert entry.after["days"] == "201 days"


async def test_there_may_only_be_so_many_calendars(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CALENDARS", 1)
    for act in (scene.service.calendars.define, scene.service.calendars.plan):
        with pytest.raises(InvalidInput, match=r"1 calendars already exist \(delete one first\)"):
            await act(Calendar(name="other"))
    await scene.service.calendars.define(MORE)


async def test_a_used_calendar_is_not_deleted_and_the_error_names_jobs(scene: Scene) -> None:
    for n in range(5):
        await scene.apply(f"job-{n}", daily())
    await scene.apply("other", Cron("@daily", blackout=("de-holidays",)))
    with pytest.raises(Conflict, match="'de-holidays' is used by job-0, job-1, job-2 and 3 more; remove it"):
        await scene.service.calendars.delete("de-holidays", by="ada")
    for n in range(5):
        await scene.service.jobs.delete(f"job-{n}")
    with pytest.raises(Conflict, match="is used by other; remove it"):
        await scene.service.calendars.delete("de-holidays", by="ada")
    await scene.apply("other", Cron("@daily"))
    await scene.service.calendars.delete("de-holidays", by="ada")
    assert CalendarDeleted("de-holidays", "ada") in scene.events
    with pytest.raises(NotFound):
        await scene.service.calendars.get("de-holidays")
    with pytest.raises(NotFound):
        await scene.service.calendars.delete("de-holidays")
    use, result, _ = await scene.service.calendars.define(HOLIDAYS)
    assert (result, use.record.calendar.rev) == ("created", 3)


async def test_a_calendar_shows_its_jobs(scene: Scene) -> None:
    await scene.apply("b", daily())
    await scene.apply("a", Cron("@daily", only_in=("de-holidays",)))
    await scene.apply("plain", Cron("@daily"))
    use = await scene.service.calendars.get("de-holidays")
    assert (use.job_count, list(use.jobs)) == (2, ["a", "b"])
    [listed] = await scene.service.calendars.find()
    assert (listed.record.name, listed.job_count) == ("de-holidays", 2)


# ------------------------------------------------------------------------------------------------------------ binding


async def test_every_way_to_write_a_job_refuses_a_calendar_that_does_not_exist(scene: Scene) -> None:
    await scene.apply("report", daily())
    job = a_job("report", schedule=daily(calendars=("de-holidys",)))
    message = (
        r"schedule.calendars\[0\]: there is no calendar 'de-holidys' \(did you mean de-holidays\? "
        r"Otherwise define it first: cronflow calendars apply -f FILE\)"
    )
    jobs = scene.service.jobs
    for act in (
        lambda: jobs.apply([job]),
        lambda: jobs.applied([job]),
        lambda: jobs.compare([job]),
        lambda: jobs.define(job),
        lambda: jobs.amend("report", lambda _: job),
        lambda: jobs.preview(job.schedule, 3),  # type: ignore[arg-type]
        lambda: jobs.preview_change("report", job.schedule),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput, match=message):
            await act()
    blackout = Cron("@daily", blackout=(Period(START.replace(tzinfo=None), datetime(2027, 1, 1)), "nope"))  # noqa: DTZ001
    with pytest.raises(InvalidInput, match=r"jobs\[1\]\.schedule\.blackout\[1\]: there is no calendar 'nope' \(define"):
        await jobs.apply([a_job("other"), a_job("third", schedule=blackout)])
    assert await scene.pins("report", "other") == {"report": ("de-holidays@1",)}


async def test_a_written_job_is_bound_to_the_current_calendars(scene: Scene) -> None:
    await scene.apply("report", daily())
    await scene.service.jobs.define(a_job("defined", schedule=daily()))
    await scene.service.jobs.define(a_job("plain"))
    await scene.service.jobs.amend("plain", lambda job: replace(job, schedule=daily()))
    names = ("report", "defined", "plain")
    assert await scene.pins(*names) == dict.fromkeys(names, ("de-holidays@1",))
    previewed = await scene.service.jobs.preview(daily(business_day=(-1,)), 1)
    assert book_of(previewed.schedule) == (HOLIDAYS,)


async def test_an_edit_of_another_part_keeps_the_calendars(scene: Scene) -> None:
    await scene.apply("report", daily())
    await scene.service.jobs.amend("report", lambda job: replace(job, enabled=False))
    await scene.service.jobs.pause("report")
    await scene.service.jobs.resume("report")
    await scene.service.jobs.amend("report", lambda job: replace(job, enabled=True))
    assert await scene.pins("report") == {"report": ("de-holidays@1",)}
    assert [pins_of(one.job.schedule) for one in await scene.backends.versions.of("report")] == [("de-holidays@1",)] * 4


async def test_applying_the_same_job_again_changes_nothing(scene: Scene) -> None:
    job = await scene.apply("report", daily())
    assert await scene.service.jobs.apply([job]) == [("report", "unchanged")]
    assert (await scene.service.jobs.compare([job]))[0].result == "unchanged"
    await scene.service.calendars.define(MORE)
    assert await scene.service.jobs.apply([job]) == [("report", "unchanged")]


async def test_the_next_run_and_the_next_fires_pass_over_what_is_excluded(scene: Scene) -> None:
    await scene.service.calendars.define(replace(MORE, days=(DaySpan(date(2026, 11, 24), date(2026, 11, 26), "fair"),)))
    await scene.apply("report", daily())
    record = await scene.service.jobs.get("report")
    assert record.next_fire == START + timedelta(hours=1)
    assert next_run(record) == START + timedelta(hours=1) + 3 * DAY
    _, rows = await scene.service.jobs.next_fires("report", 2)
    eight = START + timedelta(hours=1)
    assert rows == [
        PreviewRow(eight, "skipped: calendar de-holidays: fair"),
        PreviewRow(eight + 3 * DAY),
        PreviewRow(eight + 4 * DAY),
    ]


# ------------------------------------------------------------------------------------------------------------ changes


async def test_a_change_edits_every_job_that_uses_the_calendar_and_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    for n in range(5):
        await scene.apply(f"job-{n}", daily())
    await scene.apply("plain", Cron("@daily"))
    await scene.service.calendars.define(Calendar(name="other"))
    await scene.apply("other", daily(calendars=("other",)))
    _, _, plan = await scene.service.calendars.define(MORE, by="bob")
    assert plan.jobs == 5
    pins = await scene.pins(*(f"job-{n}" for n in range(5)), "plain", "other")
    assert pins == {f"job-{n}": ("de-holidays@2",) for n in range(5)} | {"plain": (), "other": ("other@1",)}
    changed = await scene.service.jobs.get("job-3")
    assert (changed.ver, changed.edited_by) == (2, "bob")
    assert (await scene.service.jobs.get("plain")).ver == 1
    assert exclusion(changed.job.schedule, datetime(2026, 11, 26, 8, tzinfo=UTC)) is not None
    [before] = await scene.backends.versions.of("job-3")
    assert exclusion(before.job.schedule, datetime(2026, 11, 26, 8, tzinfo=UTC)) is None


async def test_a_change_of_calendars_keeps_the_cursor_and_the_instants_that_are_due(scene: Scene) -> None:
    await scene.apply("report", Cron("0 * * * *", calendars=("de-holidays",)))
    before = await scene.service.jobs.get("report")
    # The leader has been away: three instants are due.
    await scene.clock.advance(3 * 3600)
    await scene.service.calendars.define(MORE)
    after = await scene.service.jobs.get("report")
    assert (after.next_fire, after.ver) == (before.next_fire, 2)
    assert await scene.backends.runs.open_of(["report"]) == {}
    assert not scene.backends.documents.runs


async def test_a_change_of_business_days_moves_the_cursor_like_an_edit(scene: Scene) -> None:
    await scene.apply("report", daily(business_day=(-1,)))
    assert (await scene.service.jobs.get("report")).next_fire == datetime(2026, 11, 30, 8, tzinfo=UTC)
    closed = replace(HOLIDAYS, days=(DaySpan(date(2026, 11, 30), date(2026, 11, 30), "closed"),))
    plan = await scene.service.calendars.plan(closed, 30)
    [effect] = plan.effects
    assert effect.before == datetime(2026, 11, 30, 8, tzinfo=UTC)
    assert effect.after == datetime(2026, 11, 27, 8, tzinfo=UTC)
    assert effect.changes.allowed == [effect.after]
    assert [(one.fire, one.reason) for one in effect.changes.skipped] == [
        (effect.before, "calendar de-holidays: closed")
    ]
    await scene.service.calendars.define(closed)
    assert (await scene.service.jobs.get("report")).next_fire == effect.after


async def test_a_run_that_was_planned_early_for_an_instant_that_is_now_excluded_does_not_start(scene: Scene) -> None:
    await scene.apply("report", daily())
    record = await scene.service.jobs.get("report")
    eight = START + timedelta(hours=1)
    pend = a_pend(eight, at=START, job_ver=1)
    moved = replace(record, next_fire=eight + DAY, due_at=eight + DAY, pending_run=pend)
    assert await scene.backends.jobs.replace(moved, record.rev)
    closed = replace(HOLIDAYS, days=(DaySpan(date(2026, 11, 24), date(2026, 11, 24), "strike"),))
    await scene.service.calendars.define(closed)
    [run] = await scene.backends.runs.get(["report@20261124T080000Z"])
    assert (run.state, run.reason) == (RunState.CANCELLED, "calendar de-holidays: strike")


async def test_a_run_that_was_planned_early_and_is_still_allowed_goes_on(scene: Scene) -> None:
    await scene.apply("report", daily())
    record = await scene.service.jobs.get("report")
    eight = START + timedelta(hours=1)
    moved = replace(record, next_fire=eight + DAY, due_at=eight + DAY, pending_run=a_pend(eight, at=START))
    assert await scene.backends.jobs.replace(moved, record.rev)
    await scene.service.calendars.define(MORE)
    [run] = await scene.backends.runs.get(["report@20261124T080000Z"])
    assert (run.state, run.job_ver) == (RunState.RETRYING, 2)
    after = await scene.service.jobs.get("report")
    assert after.since == eight


async def test_a_plan_lists_the_fires_that_are_skipped_and_those_that_are_not_any_more(scene: Scene) -> None:
    await scene.apply("daily", daily())
    await scene.apply("often", Cron("* * * * *", blackout=("de-holidays",)))
    await scene.apply("hourly-elsewhere", Cron("0 * * * *"))
    await scene.apply("paused", daily())
    await scene.service.jobs.pause("paused")
    changed = replace(HOLIDAYS, days=(YearlyDay(11, 26, "Thanksgiving"),))
    plan = await scene.service.calendars.plan(changed)
    assert (plan.result, plan.jobs, plan.compared, plan.days) == ("changed", 3, 3, 90)
    by_job = {effect.job: effect for effect in plan.effects}
    assert sorted(by_job) == ["daily", "often"]
    daily_one = by_job["daily"]
    assert [(f"{one.fire:%m-%d %H}", one.reason) for one in daily_one.changes.skipped] == [
        ("11-26 08", "calendar de-holidays: Thanksgiving")
    ]
    assert [f"{fire:%m-%d %H}" for fire in daily_one.changes.allowed] == ["12-25 08"]
    assert not daily_one.changes.more
    assert (daily_one.before, daily_one.after) == (START + timedelta(hours=1), START + timedelta(hours=1))
    often = by_job["often"].changes
    assert [len(often.skipped), len(often.allowed), often.more] == [50, 50, True]
    assert often.skipped[0].fire == datetime(2026, 11, 26, tzinfo=UTC)
    assert await scene.pins("daily") == {"daily": ("de-holidays@1",)}
    assert (await scene.service.calendars.plan(changed, 1)).effects == []
    assert (await scene.service.calendars.plan(HOLIDAYS)).result == "unchanged"
    for days in (0, 401):
        with pytest.raises(InvalidInput, match=f"days: is {days}; it must be 1 to 400"):
            await scene.service.calendars.plan(changed, days)


async def test_a_plan_looks_at_a_bounded_number_of_jobs(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COMPARED", 2)
    for n in range(4):
        await scene.apply(f"job-{n}", daily())
    plan = await scene.service.calendars.plan(MORE)
    assert (plan.jobs, plan.compared, [one.job for one in plan.effects]) == (4, 2, ["job-0", "job-1"])


async def test_parts_of_several_schedules_are_bound_again_too(scene: Scene) -> None:
    whole = AnyOf(schedules=(Cron("0 18 * * *", business_day=(-1,)), Cron("0 8 1 * *")), calendars=("de-holidays",))
    await scene.apply("both", whole)
    closed = replace(HOLIDAYS, days=(DaySpan(date(2026, 11, 30), date(2026, 11, 30)),))
    await scene.service.calendars.define(closed)
    assert (await scene.service.jobs.get("both")).next_fire == datetime(2026, 11, 27, 18, tzinfo=UTC)


# ------------------------------------------------------------------------------------------------------- interruptions


async def test_the_leader_finishes_what_a_process_that_died_has_left_behind(scene: Scene) -> None:
    for n in range(4):
        await scene.apply(f"job-{n}", daily())
    await scene.service.calendars.define(Calendar(name="gone"))
    await scene.apply("two", daily(calendars=("de-holidays", "gone")))
    # The process dies after the new revision, and after the first of its edits.
    assert await scene.backends.calendars.put(MORE, 1, "bob", START) is not None
    assert await scene.updates.apply(["job-2"]) == 1
    # Somebody has deleted the other calendar meanwhile.
    assert await scene.backends.calendars.delete("gone", 1)
    assert await scene.updates.finish() == 4
    names = [f"job-{n}" for n in range(4)]
    assert await scene.pins(*names) == dict.fromkeys(names, ("de-holidays@2",))
    assert await scene.pins("two") == {"two": ("de-holidays@2", "gone@1")}
    assert await scene.updates.finish() == 0
    assert [one.ver for one in await scene.backends.jobs.get(names)] == [2] * 4


async def test_a_job_that_pins_an_earlier_revision_with_the_same_content_is_bound_to_the_current_one(
    scene: Scene,
) -> None:
    """Otherwise the leader would find it for ever."""
    job = await scene.apply("report", daily())
    await scene.apply("other", daily())
    for rev, calendar in ((1, MORE), (2, HOLIDAYS)):
        assert await scene.backends.calendars.put(calendar, rev, "bob", START)
    [planned] = await scene.service.jobs.compare([job])
    assert (planned.result, planned.differences) == (
        "changed",
        [("calendar de-holidays", "de-holidays@1", "de-holidays@3")],
    )
    assert await scene.service.jobs.apply([job]) == [("report", "changed")]
    assert await scene.updates.finish() == 1
    assert await scene.pins("report", "other") == dict.fromkeys(("report", "other"), ("de-holidays@3",))
    assert await scene.updates.finish() == 0


async def test_to_apply_a_calendar_again_finishes_an_interrupted_change(scene: Scene) -> None:
    await scene.apply("a", daily())
    await scene.apply("b", daily())
    scene.backends.faults.fail_before("jobs.replace")
    with pytest.raises(BackendUnavailable):
        await scene.service.calendars.define(MORE)
    _, result, _ = await scene.service.calendars.define(MORE)
    assert result == "unchanged"
    assert await scene.pins("a", "b") == dict.fromkeys("ab", ("de-holidays@2",))


async def test_a_job_that_is_edited_at_the_same_time_keeps_that_edit(scene: Scene) -> None:
    await scene.apply("report", daily())
    assert await scene.backends.calendars.put(MORE, 1, "bob", START) is not None
    await scene.service.jobs.amend(
        "report", lambda job: replace(job, description="new", schedule=daily(tz="Asia/Tokyo"))
    )
    assert await scene.pins("report") == {"report": ("de-holidays@2",)}
    assert await scene.updates.finish() == 0
    record = await scene.service.jobs.get("report")
    assert (record.job.description, record.ver) == ("new", 2)


async def test_jobs_without_calendars_ask_for_none(scene: Scene) -> None:
    scene.backends.faults.calls.clear()
    await scene.apply("plain", Cron("@daily"))
    await scene.service.jobs.define(a_job("other"))
    await scene.service.jobs.preview(Cron("@daily"), 3)
    assert scene.backends.faults.calls["calendars.get"] == 0
