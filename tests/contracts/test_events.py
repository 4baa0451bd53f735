"""The contracts of events, roll-ups, totals, the live stream and the live log tail."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.mongo.events import RANGES
from cronflow.domain.events import Event, JobPaused, LeaderElected, NodeLost, RecordedEvent, SpoolStarted, event_id
from cronflow.domain.rollup import BucketSize, Tally
from cronflow.domain.run import RunState
from cronflow.ports import LogLine
from tests.contracts.builders import T0, a_record, a_run
from tests.contracts.conftest import Coordination, Stores
from tests.waiting import eventually


def happened(second: int, event: Event) -> RecordedEvent:
    at = T0 + timedelta(seconds=second)
    return RecordedEvent(event_id(at, "x"), at, "n1", event)


async def test_events_are_kept_once_and_read_in_both_directions(stores: Stores) -> None:
    first, second, third = (
        happened(1, LeaderElected("n1", 7)),
        happened(2, NodeLost("n2", 3)),
        happened(3, JobPaused("report", "eva")),
    )
    await stores.events.append([third, first])
    await stores.events.append([second, first])
    assert await stores.events.find() == [third, second, first]
    assert await stores.events.find(limit=1, before=third.id) == [second]
    assert await stores.events.find(after=first.id) == [second, third]
    assert await stores.events.find(after=first.id, kinds={"job_paused"}) == [third]
    assert await stores.events.find(kinds={"leader_elected", "node_lost"}) == [second, first]
    assert await stores.events.find(since=second.at) == [third, second]


async def test_events_about_a_node_are_found_by_its_name(stores: Stores) -> None:
    first, other, second = (
        happened(1, LeaderElected("n1", 7)),
        happened(2, NodeLost("n2", 3)),
        happened(3, NodeLost("n1", 0)),
    )
    # An event without a node, which n1 emitted.
    await stores.events.append([first, other, second, happened(4, JobPaused("report", "eva"))])
    assert await stores.events.find(node="n1") == [second, first]
    assert await stores.events.find(node="n1", kinds={"node_lost"}) == [second]
    assert await stores.events.find(node="n1", before=second.id, limit=1) == [first]
    assert await stores.events.find(node="n") == []


async def test_the_events_about_a_node_are_read_from_an_index(mongo_url: str, namespace: str) -> None:
    from cronflow.backends.mongo.events import MongoEventStore

    async with MongoDatabase(mongo_url, namespace) as database:
        events = [happened(n, NodeLost(f"n{n % 100}", n)) for n in range(2000)]
        await MongoEventStore(database).append(events)
        match = {"fields.node": "n7", "_id": {"$lt": events[1500].id}}
        told = await database["events"].find(match).sort("_id", -1).limit(10).explain()
        assert told["executionStats"]["totalKeysExamined"] <= 11
        assert "SORT" not in str(told["queryPlanner"]["winningPlan"])


async def test_an_event_of_a_kind_that_this_version_does_not_know_is_left_out(mongo_url: str, namespace: str) -> None:
    from cronflow.backends.mongo.events import MongoEventStore

    async with MongoDatabase(mongo_url, namespace) as database:
        events = MongoEventStore(database)
        await events.append([happened(1, NodeLost("n2", 3))])
        await database["events"].insert_one({"_id": "x", "at": T0, "source": "", "kind": "new", "fields": {}})
        assert [found.event for found in await events.find()] == [NodeLost("n2", 3)]


async def test_a_filter_by_an_old_or_a_new_kind_finds_events_stored_under_both(mongo_url: str, namespace: str) -> None:
    from cronflow.backends.mongo.events import MongoEventStore

    async with MongoDatabase(mongo_url, namespace) as database:
        events = MongoEventStore(database)
        new = happened(2, SpoolStarted("n2"))
        await events.append([happened(1, NodeLost("n2", 3)), new])
        old = {"_id": "0", "at": T0, "source": "n1", "kind": "spool_begun", "fields": {"node": "n1"}}
        await database["events"].insert_one(old)
        for kind in ("spool_begun", "spool_started"):
            found = await events.find(kinds={kind})
            assert found == [new, RecordedEvent("0", T0, "n1", SpoolStarted("n1"))]


async def test_events_are_found_by_an_old_kind(stores: Stores) -> None:
    stored = happened(1, SpoolStarted("n1"))
    await stores.events.append([stored, happened(2, NodeLost("n2", 3))])
    assert await stores.events.find(kinds={"spool_begun"}) == [stored]


async def test_counts_add_up_in_minutes_hours_and_days(stores: Stores) -> None:
    one = Tally(Counter(succeeded=2, failed=1), Counter(ok=2, error=1), Counter({4: 3}), Counter({20: 3}))
    other = Tally(Counter(succeeded=5), Counter(ok=5), Counter({4: 1, 60: 4}), Counter({20: 5}))
    # MongoDB deletes counts of a minute after two days.
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    later = start + timedelta(minutes=59)
    await stores.rollups.add({start: one, later: other})
    await stores.rollups.add({start: one})
    until = start + timedelta(days=1)
    minutes = await stores.rollups.read(BucketSize.MINUTE, start, until)
    assert [(bucket.at, bucket.tally.ended) for bucket in minutes] == [(start, 6), (later, 5)]
    assert minutes[0].tally.states == Counter(succeeded=4, failed=2)
    assert minutes[1].tally.lateness == Counter({4: 1, 60: 4})
    (hour,) = await stores.rollups.read(BucketSize.HOUR, start, until)
    assert hour.tally.duration == Counter({20: 11})
    (day,) = await stores.rollups.read(BucketSize.DAY, BucketSize.DAY.begin(start), until)
    assert day.tally.outcomes == Counter(ok=9, error=2)
    assert await stores.rollups.read(BucketSize.MINUTE, start - timedelta(days=1), start) == []


async def test_every_bucket_says_when_it_is_to_go(mongo_url: str, namespace: str) -> None:
    from cronflow.backends.mongo.events import MongoRollupStore

    async with MongoDatabase(mongo_url, namespace) as database:
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        await MongoRollupStore(database).add({today + timedelta(hours=12): Tally(Counter(succeeded=1))})
        documents = await database["rollups"].find({}).to_list(None)
        kept = {document["_id"].partition("|")[0]: document["expire_at"] - document["at"] for document in documents}
        days = {"minute": 2, "hour": 14, "day": 400}
        assert {name: length.days for name, length in kept.items()} == {**days, "day": 401}
        assert (await database["rollups"].index_information())["expiry"]["expireAfterSeconds"] == 0


async def test_jobs_are_counted_by_their_state(stores: Stores) -> None:
    records = [
        a_record("one"),
        a_record("two"),
        replace(a_record("three"), paused=True),
        replace(a_record("four"), next_fire=None),
        replace(a_record("five"), deleted_at=T0, next_fire=None, paused=True),
        replace(a_record("six"), deleted_at=T0, next_fire=None),
        a_record("_sys:sweep"),
        replace(a_record("_sys:cleanup"), next_fire=None),
    ]
    for record in records:
        await stores.jobs.create(record)
    found = await stores.totals.jobs()
    # System jobs do not count; they are recognized by name.
    assert (found.active, found.paused, found.idle) == (2, 1, 1)


async def test_open_runs_are_counted_up_to_a_limit(stores: Stores) -> None:
    fires = [T0 + timedelta(minutes=n) for n in range(5)]
    await stores.runs.insert([a_run(fire=fire) for fire in fires])
    await stores.runs.insert([a_run("other", state=RunState.SUCCEEDED, check_at=None, ended_at=T0)])
    assert await stores.totals.open_runs(100) == 5
    assert await stores.totals.open_runs(3) == 3


async def test_counting_jobs_looks_at_no_document(mongo_url: str, namespace: str) -> None:
    async with MongoDatabase(mongo_url, namespace) as database:
        await database["jobs"].insert_many(
            [{"_id": f"j{n}", "active": True, "paused": False, "deleted_at": None} for n in range(50)]
        )
        for match in (match for ranges in RANGES.values() for match in ranges):
            pipeline = [{"$match": match}, {"$group": {"_id": 1, "n": {"$sum": 1}}}]
            command = {"aggregate": "jobs", "pipeline": pipeline, "hint": "standing", "cursor": {}}
            explained = str(await database["jobs"].database.command("explain", command, verbosity="executionStats"))
            assert "'totalDocsExamined': 0" in explained
            # The keys of its range alone; one more where a scan looks past the end.
            counted = await database["jobs"].count_documents(match)
            assert f"'totalKeysExamined': {counted}" in explained or f"'totalKeysExamined': {counted + 1}" in explained


# ------------------------------------------------------------------------------------------------------------- Redis


async def test_one_at_a_time_builds_ticks_and_a_tick_of_another_is_refused(coordination: Coordination) -> None:
    assert await coordination.feed.claim("a", 30.0)
    assert await coordination.feed.claim("a", 30.0)
    assert not await coordination.feed.claim("b", 30.0)
    first = await coordination.feed.tick("a", b"1")
    assert first is not None
    assert await coordination.feed.tick("b", b"x") is None
    await coordination.feed.release("b")
    assert not await coordination.feed.claim("b", 30.0)
    await coordination.feed.release("a")
    assert await coordination.feed.claim("b", 0.05)
    assert await eventually(lambda: coordination.feed.claim("a", 30.0), what="the right has expired")


async def test_ticks_and_events_are_read_in_one_order_from_any_place_that_is_still_there(
    coordination: Coordination,
) -> None:
    assert await coordination.feed.read("") == []
    await coordination.feed.claim("a", 30.0)
    first = await coordination.feed.tick("a", b"1")
    await coordination.feed.event(b"[2]")
    last = await coordination.feed.tick("a", b"3")
    assert first is not None
    assert last is not None
    entries = await coordination.feed.read("")
    assert entries is not None
    assert [(entry.kind, entry.text) for entry in entries] == [("tick", b"1"), ("event", b"[2]"), ("tick", b"3")]
    assert await coordination.feed.read(first) == entries[1:]
    assert await coordination.feed.read(first, 1) == entries[1:2]
    assert await coordination.feed.read(last) == []
    assert await coordination.feed.read("1-1") is None


async def test_the_stream_is_capped(coordination: Coordination) -> None:
    for n in range(1500):
        await coordination.feed.event(b"%d" % n)
    entries = await coordination.feed.read("", 10_000)
    assert entries is not None
    assert 1200 <= len(entries) <= 1400
    assert entries[-1].text == b"1499"


def a_line(n: int, text: str = "hello") -> LogLine:
    return LogLine(run="r@1", job="r", fence=7, attempt=1, n=n, at=T0, level="info", text=text)


async def test_lines_are_published_only_while_there_is_a_viewer(coordination: Coordination) -> None:
    assert not await coordination.live_tail.publish([a_line(0)])
    await coordination.live_tail.add_viewer(30.0)
    assert await coordination.live_tail.has_viewer()
    place = await coordination.live_tail.newest()
    assert await coordination.live_tail.publish([a_line(1), a_line(2)])
    assert await coordination.live_tail.publish([a_line(3)])
    batches = await coordination.live_tail.read(place)
    assert batches is not None
    assert [line for batch in batches for line in batch.lines] == [a_line(1), a_line(2), a_line(3)]
    assert await coordination.live_tail.read(await coordination.live_tail.newest()) == []
    assert await coordination.live_tail.read("1-1") is None
    await coordination.live_tail.add_viewer(0.01)
    await eventually(lambda: _no_viewer(coordination), what="the viewer expires")
    assert not await coordination.live_tail.publish([a_line(4)])


async def _no_viewer(coordination: Coordination) -> bool:
    return not await coordination.live_tail.has_viewer()


@pytest.mark.parametrize("coordination", ["redis"], indirect=True)
async def test_what_would_be_a_large_message_is_left_to_the_store(coordination: Coordination) -> None:
    await coordination.live_tail.add_viewer(30.0)
    await coordination.live_tail.publish([a_line(n, "x" * 8000) for n in range(20)])
    found = await coordination.live_tail.read("")
    assert found is not None
    (batch,) = found
    assert len(batch.lines) + batch.omitted == 20
    assert 5 <= len(batch.lines) <= 8
