"""The contract of calendars, and of jobs that are bound to them, on every backend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.calendars import MongoCalendarStore
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.connection import RedisConnection
from cronflow.bootstrap.backends import adapters
from cronflow.domain.job import JobRecord
from cronflow.domain.schedule.calendar import Calendar, DaySpan, YearlyDay
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.kinds import AnyOf, Cron, Rules, bound
from cronflow.domain.schedule.pins import pins_of
from cronflow.domain.schedule.windows import WeeklyHours
from cronflow.domain.version import version_of
from cronflow.ports import Backends, CalendarStore
from cronflow.testing.memory import memory_backends
from tests.contracts.builders import T0, a_job, a_record
from tests.contracts.conftest import emptied
from tests.servers import fresh_namespace
from tests.test_cost import Counting

CHRISTMAS, NEW_YEAR = YearlyDay(12, 25, "Christmas Day"), YearlyDay(1, 1, "New Year")
HOLIDAYS = Calendar(name="de-holidays", description="Of Germany", tz="Europe/Berlin", days=(CHRISTMAS,))
NOW = SystemClock().now().replace(microsecond=0)


@pytest.fixture(params=["memory", "mongodb"])
async def stores(request: pytest.FixtureRequest, emptied_namespace: str) -> AsyncIterator[Backends]:
    """The stores of each backend."""
    if request.param == "memory":
        yield memory_backends(SystemClock())
        return
    async with emptied(request.getfixturevalue("mongo_url"), emptied_namespace) as database:
        yield adapters(RedisConnection("redis://127.0.0.1:1", "unused"), database)


@pytest.fixture
async def mongo(mongo_url: str, emptied_namespace: str) -> AsyncIterator[MongoDatabase]:
    async with emptied(mongo_url, emptied_namespace) as database:
        yield database


def on(database: MongoDatabase) -> Backends:
    return adapters(RedisConnection("redis://127.0.0.1:1", "unused"), database)


@pytest.fixture
def calendars(stores: Backends) -> CalendarStore:
    return stores.calendars


async def saved(calendars: CalendarStore, calendar: Calendar, rev: int = 0) -> Calendar:
    made = await calendars.put(calendar, rev, "ada", NOW)
    assert made is not None
    return made


def using(name: str, *books: Calendar, **rules: Any) -> JobRecord:
    """A job whose schedule names these calendars and is bound to them."""
    schedule = Cron("0 8 * * *", calendars=tuple(one.name for one in books), **rules)
    return a_record(job=replace(a_job(name), schedule=bound(schedule, books)))


# ------------------------------------------------------------------------------------------------------------ calendars


async def test_a_calendar_is_read_as_it_was_written_with_its_revision_and_author(calendars: CalendarStore) -> None:
    full = replace(
        HOLIDAYS,
        days=(CHRISTMAS, DaySpan(date(2026, 12, 28), date(2026, 12, 30), "closed"), DaySpan(NOW.date(), NOW.date())),
        windows=(WeeklyHours((1, 5), T0.time(), T0.time(), "Monday and Friday"),),
    )
    made = await saved(calendars, full)
    assert (made, made.rev) == (full, 1)
    [record] = await calendars.get(["de-holidays", "other"])
    assert (record.calendar, record.calendar.rev, record.calendar.description) == (full, 1, "Of Germany")
    assert (record.name, record.updated_at, record.updated_by) == ("de-holidays", NOW, "ada")
    assert await calendars.get(["other"]) == []


async def test_calendars_are_listed_by_name_in_pages(calendars: CalendarStore) -> None:
    for name in ("b", "c", "a"):
        await saved(calendars, Calendar(name=name))
    assert [one.name for one in await calendars.find(limit=2)] == ["a", "b"]
    assert [one.name for one in await calendars.find(after="b")] == ["c"]


async def test_a_change_needs_the_present_revision_and_makes_the_next(calendars: CalendarStore) -> None:
    await saved(calendars, HOLIDAYS)
    changed = replace(HOLIDAYS, days=(NEW_YEAR,))
    for wrong in (0, 2):
        assert await calendars.put(changed, wrong, "bob", NOW) is None
    assert (await calendars.get(["de-holidays"]))[0].calendar == HOLIDAYS
    made = await calendars.put(changed, 1, "bob", NOW + timedelta(hours=1))
    assert made is not None
    assert made.rev == 2
    [record] = await calendars.get(["de-holidays"])
    assert (record.calendar, record.calendar.rev, record.updated_by) == (changed, 2, "bob")
    assert record.updated_at == NOW + timedelta(hours=1)
    assert await calendars.put(Calendar(name="other"), 1, "bob", NOW) is None


async def test_of_several_writers_at_once_exactly_one_wins(calendars: CalendarStore) -> None:
    for rev in range(3):
        attempts = [replace(HOLIDAYS, days=(YearlyDay(1, day),)) for day in range(1, 9)]
        made = await asyncio.gather(*(calendars.put(one, rev, "", NOW) for one in attempts))
        [winner] = [one for one in made if one is not None]
        [record] = await calendars.get(["de-holidays"])
        assert (record.calendar, record.calendar.rev) == (winner, rev + 1)


async def test_a_deleted_calendar_is_gone_and_a_new_one_of_its_name_continues_its_revisions(
    calendars: CalendarStore,
) -> None:
    await saved(calendars, HOLIDAYS)
    assert not await calendars.delete("de-holidays", 2)
    assert not await calendars.delete("de-holidays", 0)
    assert not await calendars.delete("other", 1)
    assert await calendars.delete("de-holidays", 1)
    assert not await calendars.delete("de-holidays", 1)
    assert await calendars.get(["de-holidays"]) == []
    assert await calendars.find() == []
    assert await calendars.put(HOLIDAYS, 1, "", NOW) is None
    assert (await saved(calendars, HOLIDAYS)).rev == 3


async def test_a_change_whose_author_died_is_completed_by_the_next_one_in_mongodb(mongo: MongoDatabase) -> None:
    calendars = on(mongo).calendars
    await saved(calendars, HOLIDAYS)
    half = replace(HOLIDAYS, days=(NEW_YEAR,))
    await saved(calendars, half, 1)
    # As if the author of revision 2 had died after the insert.
    first = await mongo["calendar_revisions"].find_one({"_id": "de-holidays@1"})
    await mongo["calendars"].replace_one({"_id": "de-holidays"}, {**first, "_id": "de-holidays"})
    assert (await calendars.get(["de-holidays"]))[0].calendar.rev == 1
    assert await calendars.put(HOLIDAYS, 1, "", NOW) is None
    [record] = await calendars.get(["de-holidays"])
    assert (record.calendar, record.calendar.rev) == (half, 2)
    # And of the first revision.
    await mongo["calendars"].delete_one({"_id": "de-holidays"})
    assert await calendars.put(half, 0, "", NOW) is None
    assert (await calendars.get(["de-holidays"]))[0].calendar == HOLIDAYS


class Late:
    """The collection of a writer that stalls before its last write."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    async def update_one(self, *args: Any, **options: Any) -> Any:
        self.reached.set()
        await self.go.wait()
        return await self._collection.update_one(*args, **options)


async def test_a_writer_that_stalls_does_not_bring_its_revision_back_in_mongodb(mongo: MongoDatabase) -> None:
    slow, calendars = MongoCalendarStore(mongo), on(mongo).calendars
    await saved(calendars, HOLIDAYS)
    late = slow._calendars = Late(slow._calendars)
    stalled = asyncio.create_task(slow.put(replace(HOLIDAYS, days=(NEW_YEAR,)), 1, "slow", NOW))
    await late.reached.wait()
    last = replace(HOLIDAYS, days=())
    assert await calendars.put(last, 1, "", NOW) is None
    assert (await saved(calendars, last, 2)).rev == 3
    late.go.set()
    made = await stalled
    assert made is not None
    assert made.rev == 2
    [record] = await calendars.get(["de-holidays"])
    assert (record.calendar, record.calendar.rev) == (last, 3)


# ----------------------------------------------------------------------------------------------------------------- jobs


async def test_every_read_of_a_job_has_the_calendars_with_which_it_was_written(stores: Backends) -> None:
    first = await saved(stores.calendars, HOLIDAYS)
    record = using("report", first)
    await stores.jobs.create(replace(record, followed=True))
    second = await saved(stores.calendars, replace(HOLIDAYS, days=()), 1)
    await stores.jobs.create(using("other", second))
    assert record.next_fire is not None
    until = record.next_fire
    reads = [
        await stores.jobs.get(["report", "other"]),
        await stores.jobs.find(),
        await stores.jobs.due(until, 10),
        await stores.jobs.due_in_turn(until, until, 10),
        await stores.jobs.fence(["report", "other"], 1),
        [row.record for row in await stores.archive.jobs()],
        await stores.alert_conditions.behind(until, until, 10),
    ]
    for found in reads:
        books = {one.name: (one.job.schedule.book, pins_of(one.job.schedule)) for one in found}  # type: ignore[union-attr]
        assert books == {"report": ((first,), ("de-holidays@1",)), "other": ((second,), ("de-holidays@2",))}
    christmas = T0.replace(month=12, day=25, hour=8)
    [report, other] = sorted(await stores.jobs.get(["report", "other"]), key=lambda one: one.name, reverse=True)
    assert exclusion(report.job.schedule, christmas) is not None
    assert exclusion(other.job.schedule, christmas) is None


async def test_versions_keep_their_calendars(stores: Backends) -> None:
    first = await saved(stores.calendars, HOLIDAYS)
    record = using("report", first)
    second = await saved(stores.calendars, replace(HOLIDAYS, days=()), 1)
    later = replace(using("report", second), ver=2)
    await stores.versions.keep([version_of(record), version_of(later)])
    found = await stores.versions.of("report")
    assert [pins_of(one.job.schedule) for one in found] == [("de-holidays@1",), ("de-holidays@2",)]
    assert [one.job.schedule.book for one in found] == [(first,), (second,)]  # type: ignore[union-attr]
    assert [one.job for one in found] == [record.job, later.job]


async def test_revisions_with_the_same_content_stay_apart(stores: Backends) -> None:
    revs = [await saved(stores.calendars, HOLIDAYS)]
    revs.append(await saved(stores.calendars, replace(HOLIDAYS, days=()), 1))
    revs.append(await saved(stores.calendars, HOLIDAYS, 2))
    await stores.jobs.create_all([using(f"job-{one.rev}", one) for one in revs])
    for _ in range(2):
        found = {one.name: pins_of(one.job.schedule) for one in await stores.jobs.find()}
        assert found == {f"job-{rev}": (f"de-holidays@{rev}",) for rev in (1, 2, 3)}


async def test_a_schedule_of_several_parts_is_bound_as_a_whole_and_in_its_parts(stores: Backends) -> None:
    made = await saved(stores.calendars, replace(HOLIDAYS, days=(YearlyDay(12, 31),)))
    other = await saved(stores.calendars, Calendar(name="quiet"))
    schedule = AnyOf(
        schedules=(Cron("0 18 * * *", business_day=(-1,)), Cron("0 8 * * *")),
        calendars=("de-holidays",),
        blackout=("quiet",),
    )
    job = replace(a_job("both"), schedule=bound(schedule, [made, other]))
    await stores.jobs.create(a_record(job=job))
    [found] = await stores.jobs.get(["both"])
    assert found.job == job
    assert isinstance(found.job.schedule, AnyOf)
    assert pins_of(found.job.schedule) == ("de-holidays@1", "quiet@1")
    [first, _] = found.job.schedule.schedules
    assert isinstance(first, Rules)
    assert first.book == (made,)


async def test_the_jobs_that_use_a_calendar_are_those_that_pin_any_of_its_revisions(stores: Backends) -> None:
    first, other = await saved(stores.calendars, HOLIDAYS), await saved(stores.calendars, Calendar(name="de"))
    second = await saved(stores.calendars, replace(HOLIDAYS, days=()), 1)
    gone = replace(using("gone", second), deleted_at=NOW, next_fire=None, due_at=None)
    await stores.jobs.create_all([using("c", first), using("a", second), using("b", other, second)])
    await stores.jobs.create_all([gone, using("d", other), a_record()])
    assert await stores.calendars.users("de-holidays") == ["a", "b", "c"]
    assert await stores.calendars.users("de-holidays", limit=1) == ["a"]
    assert await stores.calendars.users("de-holidays", after="a") == ["b", "c"]
    assert await stores.calendars.users("de") == ["b", "d"]
    assert await stores.calendars.users("d") == []
    assert await stores.calendars.user_counts(["de-holidays", "de", "d"]) == {"de-holidays": 3, "de": 2, "d": 0}
    assert await stores.calendars.user_counts([]) == {}


async def test_outdated_are_the_jobs_that_pin_an_earlier_revision_of_a_calendar_that_exists(stores: Backends) -> None:
    assert await stores.calendars.outdated(10) == []
    first, other = await saved(stores.calendars, HOLIDAYS), await saved(stores.calendars, Calendar(name="de"))
    await stores.jobs.create_all([using("c", first), using("b", other, first), using("d", other), a_record()])
    await stores.jobs.create(replace(using("gone", first), deleted_at=NOW, next_fire=None, due_at=None))
    assert await stores.calendars.outdated(10) == []
    second = await saved(stores.calendars, replace(HOLIDAYS, days=()), 1)
    await stores.jobs.create(using("a", second))
    assert await stores.calendars.outdated(10) == ["b", "c"]
    assert len(await stores.calendars.outdated(1)) == 1
    [record] = await stores.jobs.get(["c"])
    assert await stores.jobs.replace(replace(record, job=using("c", second).job), record.rev)
    assert await stores.calendars.outdated(10) == ["b"]
    assert await stores.calendars.delete("de-holidays", 2)
    assert await stores.calendars.outdated(10) == []


# ------------------------------------------------------------------------------------------------------- what it costs


async def test_jobs_are_bound_with_one_query_for_all_revisions_and_then_with_none(mongo_url: str) -> None:
    counting = Counting()
    async with MongoDatabase(mongo_url, fresh_namespace(), listeners=[counting]) as database:
        stores = on(database)
        books = [await saved(stores.calendars, Calendar(name=f"c{n}", days=(CHRISTMAS,))) for n in range(5)]
        await stores.jobs.create_all([using(f"job-{n}", books[n % 5], books[(n + 1) % 5]) for n in range(20)])
        await stores.jobs.create(a_record())
        counting.clear()
        await stores.jobs.find()
        assert counting.commands == {"find jobs": 1, "find calendar_revisions": 1}
        counting.clear()
        found = await stores.jobs.find()
        assert counting.commands == {"find jobs": 1}
        again = await stores.jobs.find()
        assert [one.job for one in again] == [one.job for one in found]
        assert all(one.job is other.job for one, other in zip(found, again, strict=True))


async def test_the_jobs_of_a_calendar_are_found_by_its_index_alone(mongo: MongoDatabase) -> None:
    stores = on(mongo)
    first = await saved(stores.calendars, HOLIDAYS)
    second = await saved(stores.calendars, replace(HOLIDAYS, days=()), 1)
    await stores.jobs.create_all([using(f"job-{n}", second) for n in range(30)])
    await stores.jobs.create_all([using(f"old-{n}", first) for n in range(3)])
    await stores.jobs.create_all([replace(a_record(), job=a_job(f"plain-{n}")) for n in range(30)])
    match = {"calendars": {"$elemMatch": {"$gte": "de-holidays@", "$lt": "de-holidaysA", "$ne": "de-holidays@2"}}}
    plan = await mongo["jobs"].find({"$or": [match], "deleted_at": None}, {"_id": 1}).explain()
    assert plan["executionStats"]["nReturned"] == 3
    assert plan["executionStats"]["totalDocsExamined"] <= 3
    assert plan["executionStats"]["totalKeysExamined"] <= 6


async def test_a_job_whose_revision_is_lost_is_read_and_excludes_everything(
    mongo: MongoDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    stores = on(mongo)
    await stores.jobs.create_all([using("report", await saved(stores.calendars, HOLIDAYS)), a_record()])
    await mongo["calendar_revisions"].delete_many({})
    mongo.revisions.clear()
    [report] = [one for one in await stores.jobs.find() if one.name == "report"]
    found = exclusion(report.job.schedule, T0)
    assert found is not None
    assert found.reason == "calendar de-holidays: de-holidays@1 is missing in MongoDB; apply the calendar again"
    assert "de-holidays@1 is pinned by jobs" in caplog.text
    assert pins_of(report.job.schedule) == ("de-holidays@1",)
