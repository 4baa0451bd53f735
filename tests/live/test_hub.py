"""The live stream on virtual time: one tick a second, the same for all, to go on from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
from pydantic import TypeAdapter

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import NodeLeft
from cronflow.domain.rollup import Tally
from cronflow.live.hub import Hub
from cronflow.live.session import StreamSession
from cronflow.live.state import ClusterConfig
from cronflow.node.event_log import EventLog
from cronflow.ports import Entry, LogLine
from cronflow.schemas.stream import SnapSchema, TickSchema
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from tests.contracts.builders import T0, a_record, a_report, a_run

ABOUT = ClusterConfig(namespace="here", lease=timedelta(seconds=9))


class Bench:
    """Any number of replicas over one memory."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.running: dict[Hub, asyncio.Task[None]] = {}

    async def replica(self) -> Hub:
        hub = Hub(self.backends, self.clock, ABOUT)
        self.running[hub] = asyncio.create_task(hub.run())
        await self.clock.settle()
        return hub

    async def stop(self, hub: Hub) -> None:
        task = self.running.pop(hub)
        task.cancel()
        await asyncio.wait({task})

    async def elapse(self, seconds: float) -> None:
        for _ in range(round(seconds * 4)):
            await self.clock.advance(0.25)

    async def write(self, *lines: LogLine) -> None:
        """As a node does: published, and stored a moment later."""
        await self.backends.live_tail.publish(lines)
        await self.clock.advance(0.1)
        await self.backends.logs.append(lines)


@asynccontextmanager
async def a_bench() -> AsyncIterator[Bench]:
    bench = Bench()
    try:
        yield bench
        for task in bench.running.values():
            assert not task.done(), task.result()
    finally:
        for hub in list(bench.running):
            await bench.stop(hub)


async def messages(session: StreamSession) -> list[dict[str, Any]]:
    """All that can be sent now."""
    found = []
    while (text := session._ready()) is not None:
        found.append(orjson.loads(text))
    return found


async def watch(bench: Bench, session: StreamSession, seconds: float) -> list[dict[str, Any]]:
    """All that is sent in that time to a client that keeps up."""
    found = await messages(session)
    for _ in range(round(seconds * 4)):
        await bench.clock.advance(0.25)
        found += await messages(session)
    return found


def texts(sent: list[dict[str, Any]], topic: str) -> list[str | int | None]:
    """The lines of a topic as they were sent; a number stands for a gap."""
    found: list[str | int | None] = []
    for message in sent:
        for chunk in message.get("logs", ()):
            if chunk["topic"] == topic:
                found += [chunk["gap"]] if chunk["gap"] != 0 else []
                found += [line["text"] for line in chunk["lines"]]
    return found


def a_line(n: int, fence: int = 7, run: str = "r@1", level: str = "info", **fields: Any) -> LogLine:
    line = LogLine(run=run, job="r", fence=fence, attempt=1, n=n, at=T0, level=level, text=f"{run} {fence}.{n}")
    return replace(line, **fields)


# ---------------------------------------------------------------------------------------------------------- the ticks


async def test_a_snapshot_comes_first_and_then_a_tick_a_second_however_many_replicas_there_are() -> None:
    async with a_bench() as bench:
        one, two = await bench.replica(), await bench.replica()
        await bench.elapse(2.5)
        sessions = [one.open(None), two.open(None)]
        (first,), (second,) = [await messages(session) for session in sessions]
        assert first["t"] == "snap"
        assert first == second
        await bench.elapse(10)
        sent = [await messages(session) for session in sessions]
        assert sent[0] == sent[1]
        assert [message["t"] for message in sent[0]] == ["tick"] * 10
        assert len({message["seq"] for message in sent[0]}) == 10


async def test_when_the_builder_goes_another_replica_builds_on() -> None:
    async with a_bench() as bench:
        one, two = await bench.replica(), await bench.replica()
        await bench.elapse(3)
        await bench.stop(one)
        session = two.open(None)
        await messages(session)
        await bench.elapse(10)
        assert 8 <= len(await messages(session)) <= 11


async def test_events_come_with_the_next_tick_and_with_it_alone() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        session = hub.open(None)
        await messages(session)
        event_log = EventLog(bench.backends.events, bench.backends.feed, bench.clock, "n1")
        event_log.emit(NodeLeft("n1"))
        await event_log.flush()
        await bench.elapse(3)
        events = [event for message in await messages(session) for event in message["events"]]
        assert [(event["kind"], event["text"]) for event in events] == [("node_left", "n1 left")]


async def test_a_reconnecting_client_continues_without_a_gap_on_any_replica() -> None:
    async with a_bench() as bench:
        one, two = await bench.replica(), await bench.replica()
        await bench.elapse(2)
        session = one.open(None)
        (snapshot,) = await messages(session)
        one.close(session)
        await bench.elapse(60)
        await bench.stop(one)
        third = await bench.replica()
        await bench.elapse(1)
        for hub in (two, third):
            sent = await messages(hub.open(snapshot["seq"]))
            assert [message["t"] for message in sent] == ["tick"] * len(sent)
            assert [message["seq"] for message in sent] == [tick.id for tick in list(two.ticks)[-len(sent) :]]
            assert len(sent) >= 58
            assert {message["dropped"] for message in sent} == {0}


async def test_a_client_that_saw_a_tick_first_on_another_replica_continues_without_a_gap() -> None:
    async with a_bench() as bench:
        one, late = await bench.replica(), Hub(bench.backends, bench.clock, ABOUT)
        await bench.elapse(3)
        await late.step()
        await bench.elapse(2)
        seen = one.ticks[-1].id
        assert late.place_after(seen) is None
        arrival = asyncio.ensure_future(late.reach(seen))
        await bench.elapse(0.5)
        assert not arrival.done()
        await late.step()
        await bench.elapse(0.25)
        await arrival
        session = late.open(seen)
        await bench.elapse(2)
        await late.step()
        order = [tick.id for tick in one.ticks]
        sent = [message["seq"] for message in await messages(session)]
        assert sent[:2] == order[order.index(seen) + 1 :][:2]


async def test_a_tick_that_no_replica_has_is_not_waited_for_long() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        arrival = asyncio.ensure_future(hub.reach("99999999999999-0"))
        await bench.elapse(1.5)
        assert not arrival.done()
        await bench.elapse(1)
        await arrival
        for nothing in (None, "", "last Tuesday"):
            await hub.reach(nothing)


async def test_a_tick_that_is_no_longer_buffered_means_a_new_snapshot() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        (snapshot,) = await messages(hub.open("1-1"))
        assert snapshot["t"] == "snap"
        session = hub.open(snapshot["seq"])
        await messages(session)
        bench.backends.memory.flush()
        sent = await watch(bench, session, 5)
        assert [message["t"] for message in sent][:2] == ["snap", "tick"]
        assert [message["t"] for message in sent].count("snap") == 1


async def test_a_slow_client_skips_to_the_newest_tick_and_gets_the_number_missed() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2.5)
        session = hub.open(None)
        await messages(session)
        await bench.elapse(30)
        (tick,) = await messages(session)
        assert tick["seq"] == hub.ticks[-1].id
        assert tick["dropped"] == 29


async def test_a_redis_that_is_away_interrupts_and_a_mongodb_that_is_away_is_shown() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        session = hub.open(None)
        await messages(session)
        bench.backends.faults.fail_before("Redis", 1_000_000)
        await bench.elapse(5)
        assert await messages(session) == []
        bench.backends.faults.heal()
        await bench.elapse(5)
        assert await messages(session)
        bench.backends.faults.fail_before("MongoDB", 1_000_000)
        await bench.elapse(5)
        last = (await messages(session))[-1]
        assert "on purpose" in last["patch"]["servers"]["mongodb"]["error"]


async def test_an_entry_that_cannot_be_read_interrupts_the_stream_for_a_moment_and_ends_nothing() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(3)
        session = hub.open(None)
        [snapshot] = await messages(session)
        newest = bench.backends.memory.feed[-1]
        bench.backends.memory.feed.append(newest._replace(id=f"{newest.id}1", text=b'{"at": "of another version"}'))
        await bench.elapse(0.25)
        assert hub.doc["at"] != "of another version"
        await bench.elapse(9)
        ticks = await messages(session)
        assert len(ticks) >= 8, "none is skipped"
        assert all("jobs" in {**snapshot["doc"], **message["patch"]} for message in ticks)


async def test_the_snapshot_is_small_and_cheap_with_ten_thousand_jobs_and_many_runs() -> None:
    async with a_bench() as bench:
        for n in range(10_000):
            await bench.backends.jobs.create(a_record(f"job-{n:05}", due_at=T0 + timedelta(seconds=n)))
        await bench.backends.runs.insert([a_run(f"job-{n:05}", T0 + timedelta(seconds=n)) for n in range(10_000)])
        for n in range(20):
            await bench.backends.membership.report(
                a_report(f"n{n}", breakers={"MongoDB": "open", "shop:443": "closed"}), 100_000
            )
        hub = await bench.replica()
        await bench.elapse(2)
        faults = bench.backends.faults
        faults.calls.clear()
        await bench.elapse(20)
        assert faults.calls["runs.find"] == faults.calls["jobs.find"] == faults.calls["archive.runs"] == 0
        assert faults.calls["totals.jobs"] <= 3
        for _ in range(600):
            await hub._builder.step()
            await hub.step()
        text = hub.snapshot_message().text
        doc = orjson.loads(text)["doc"]
        assert doc["jobs"] == {"total": 10_000, "active": 10_000, "paused": 0, "idle": 0}
        assert doc["queue"]["open"] == 10_000
        assert (doc["namespace"], doc["lease_s"]) == ("here", 9.0)
        assert len(doc["nodes"]) == 20
        assert [breaker["service"] for breaker in doc["breakers"]] == ["MongoDB"]
        assert len(doc["series"]["cluster"]["at"]) == 600
        assert len(text) < 300_000
        assert len(hub.ticks[-1].text) < 10_000


async def test_rates_and_latency_come_from_the_roll_ups() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        session = hub.open(None)
        await messages(session)
        tally = Tally()
        tally.states.update(succeeded=30, failed=10)
        tally.lateness[20] = 40
        await bench.backends.rollups.add({bench.clock.now().replace(second=0, microsecond=0): tally})
        await bench.elapse(3)
        patches = [message["patch"] for message in await messages(session)]
        assert [patch["rates"]["ended"] for patch in patches].count(40.0) == 1
        assert max(patch["rates"]["failed"] for patch in patches) == 10.0
        latency = patches[-1]["latency"]["lateness_ms"]
        assert 700 < latency["p50"] < latency["p95"] < latency["p99"] <= 1024
        series = hub.snapshot()["series"]["cluster"]
        assert [series[f"lateness_{word}_ms"][-1] for word in latency] == list(latency.values())
        assert series["duration_p50_ms"][-1] is None


# ---------------------------------------------------------------------------------------------------------- the lines


async def test_history_and_what_follows_are_one_without_gap_or_double() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        await bench.backends.logs.append([a_line(n) for n in range(10)])
        session = hub.open(None)
        await messages(session)
        await hub.following.subscribe(session, "run:r@1", 3)
        # What a node has not noticed yet is not published, what it has is told twice: by the store and by Redis.
        await bench.backends.logs.append([a_line(10), a_line(11)])
        await bench.write(a_line(12), a_line(13), a_line(0, run="other@1"))
        await bench.write(a_line(14))
        await bench.write(a_line(0, fence=9))
        await bench.backends.logs.append([a_line(1, fence=9)])
        found = texts(await watch(bench, session, 10), "run:r@1")
        assert found == [f"r@1 7.{n}" for n in range(7, 15)] + ["r@1 9.0", "r@1 9.1"]


async def test_lines_that_redis_lost_are_read_from_mongodb() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        session = hub.open(None)
        await messages(session)
        await hub.following.subscribe(session, "run:r@1", 100)
        await bench.write(a_line(0))
        await bench.elapse(2)
        bench.backends.memory.flush()
        await bench.backends.logs.append([a_line(1), a_line(2)])
        assert texts(await watch(bench, session, 8), "run:r@1") == ["r@1 7.0", "r@1 7.1", "r@1 7.2"]


async def test_lines_that_were_never_published_are_read_within_seconds() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        session = hub.open(None)
        await messages(session)
        await hub.following.subscribe(session, "run:r@1", 100)
        await watch(bench, session, 20)
        await bench.backends.logs.append([a_line(0), a_line(1)])
        assert texts(await watch(bench, session, 7), "run:r@1") == ["r@1 7.0", "r@1 7.1"]


async def test_a_late_follower_gets_no_line_of_its_history_twice() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        first, second = hub.open(None), hub.open(None)
        await messages(first)
        await messages(second)
        await hub.following.subscribe(first, "run:r@1", 0)
        # The store has them already; the first one has not been sent them yet.
        await bench.backends.logs.append([a_line(0), a_line(1)])
        await hub.following.subscribe(second, "run:r@1", 100)
        await bench.write(a_line(2))
        found = {first: list[dict[str, Any]](), second: list[dict[str, Any]]()}
        for _ in range(8):
            for session, sent in found.items():
                sent += await watch(bench, session, 1)
        for sent in found.values():
            assert texts(sent, "run:r@1") == ["r@1 7.0", "r@1 7.1", "r@1 7.2"]


async def test_missing_lines_become_a_gap_with_their_number() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        session = hub.open(None)
        await hub.following.subscribe(session, "run:r@1", 100)
        await bench.write(a_line(0), a_line(1))
        await bench.write(a_line(5))
        assert texts(await watch(bench, session, 8), "run:r@1") == ["r@1 7.0", "r@1 7.1", 3, "r@1 7.5"]


async def test_the_lines_of_all_runs_are_filtered_and_each_is_sent_once() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        warn, topic = "warn", "logs?level=warn&job=r"
        now = bench.clock.now()
        await bench.backends.logs.append([a_line(0, level=warn, at=now), a_line(1, at=now)])
        session, other = hub.open(None), hub.open(None)
        await hub.following.subscribe(session, topic, 10)
        await hub.following.subscribe(other, topic, 0)
        await bench.write(a_line(2, level=warn, at=now), a_line(3, at=now), a_line(4, level=warn, job="x", at=now))
        await bench.backends.logs.append([a_line(5, level="error", at=now)])
        assert texts(await watch(bench, session, 12), topic) == ["r@1 7.0", "r@1 7.2", "r@1 7.5"]
        assert texts(await watch(bench, other, 2), topic) == ["r@1 7.2", "r@1 7.5"]


async def test_a_client_that_reads_nothing_loses_lines_and_gets_a_gap() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        session = hub.open(None)
        await messages(session)
        await hub.following.subscribe(session, "run:r@1", 0)
        for begin in range(0, 8000, 500):
            await bench.write(*(a_line(n) for n in range(begin, begin + 500)))
            await bench.clock.advance(0.2)
        await bench.write(a_line(8000))
        found = texts(await watch(bench, session, 10), "run:r@1")
        missed = [gap for gap in found if isinstance(gap, int)]
        assert found[0] == "r@1 7.0"
        assert len(missed) == 1
        assert len(found) - 1 + missed[0] in (8000, 8001)


async def test_no_lines_are_requested_without_followers() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(5)
        assert not await bench.backends.live_tail.has_viewer()
        session = hub.open(None)
        await hub.following.subscribe(session, "run:r@1", 0)
        assert await bench.backends.live_tail.has_viewer()
        hub.close(session)
        await bench.elapse(30)
        assert not await bench.backends.live_tail.has_viewer()


async def test_it_ends_when_it_is_cancelled_also_where_a_driver_makes_another_error_of_that() -> None:
    class Swallowing:
        """A feed whose read is interrupted by the cancellation, and tells of a lost connection instead."""

        async def read(self, after: str, limit: int) -> list[Entry]:
            reading.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise BackendUnavailable("Redis", "here", "the connection was lost") from None
            raise AssertionError

    reading = asyncio.Event()
    clock = FakeClock()
    hub = Hub(memory_backends(clock), clock, ABOUT)
    hub._feed = Swallowing()  # type: ignore[assignment]
    task = asyncio.create_task(hub.run())
    await reading.wait()
    task.cancel()
    await clock.settle()
    assert task.cancelled()


async def test_messages_have_exactly_the_fields_of_their_schemas() -> None:
    async with a_bench() as bench:
        await bench.backends.membership.report(a_report("n1"), 60.0)
        await bench.backends.runs.insert([a_run()])
        hub = await bench.replica()
        session = hub.open(None)
        await hub.following.subscribe(session, "run:r@1", 5)
        await bench.write(a_line(0))
        EventLog(bench.backends.events, bench.backends.feed, bench.clock, "n1").emit(NodeLeft("n1"))
        snapshot, *ticks = await watch(bench, session, 5)
        assert any(tick["logs"] for tick in ticks)
        for message, shape in ((snapshot, SnapSchema), *((tick, TickSchema) for tick in ticks)):
            assert TypeAdapter(shape).dump_python(TypeAdapter(shape).validate_python(message)) == message
