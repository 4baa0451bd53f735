"""Edits, pauses and deletes: nothing that fell due disappears, nothing old starts afterwards."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.documents import job_document, parse_job
from cronflow.domain import transitions
from cronflow.domain.capabilities import Capabilities
from cronflow.domain.chain import Upstream
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, NotFound
from cronflow.domain.events import Event, FiresSkipped
from cronflow.domain.job import CommandTarget, Delivery, HttpTarget, Job, JobRecord, Retry
from cronflow.domain.retry import RetryRule
from cronflow.domain.run import Covers, Run, RunState, run_id
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.transitions import ClaimedRun
from cronflow.leader.plan_recovery import recover
from cronflow.ports import AuditQuery, Backends, RunQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from tests.contracts.builders import a_job, a_pend, a_report, a_run

MINUTE = timedelta(minutes=1)
Answer = TypeVar("Answer")


class Bench:
    """A service on memory, without any node: whatever happens is the editor's doing."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.events: list[Event] = []
        self.service = UseCases(self.backends, self.clock, self.events.append)
        self.start = self.clock.now()

    async def pass_time(self, minutes: float) -> None:
        await self.clock.advance(minutes * 60)

    async def record(self, name: str = "report") -> JobRecord:
        (found,) = await self.backends.jobs.get([name])
        return found

    async def runs(self) -> list[Run]:
        return (await self.service.backends.runs.find(RunQuery()))[::-1]

    async def wait_for_servers(self, edit: Coroutine[Any, Any, Answer]) -> Answer:
        """An edit that waits for runs to show that they have started."""
        task = asyncio.create_task(edit)
        await self.clock.advance(1)
        return await task


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_applying_returns_what_happened_to_each_job(bench: Bench) -> None:
    assert await bench.service.jobs.apply([a_job("a"), a_job("b")]) == [("a", "created"), ("b", "created")]
    results = await bench.service.jobs.apply([a_job("a"), a_job("b", description="new")])
    assert results == [("a", "unchanged"), ("b", "changed")]
    assert ((await bench.record("a")).ver, (await bench.record("b")).ver) == (1, 2)


async def test_nothing_is_applied_when_two_jobs_have_one_name_or_a_reserved_one(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="more than one job is called 'a'"):
        await bench.service.jobs.apply([a_job("b"), a_job("a"), a_job("a")])
    with pytest.raises(InvalidInput, match="reserved for system jobs"):
        await bench.service.jobs.apply([a_job("b"), a_job("_sys:sweep")])
    assert await bench.service.backends.jobs.find() == []


async def test_an_edit_of_the_schedule_records_what_had_fallen_due_as_skipped(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    await bench.pass_time(3)
    await bench.service.jobs.apply([a_job(schedule=Every("1h"))])
    (skipped,) = await bench.runs()
    assert (skipped.state, skipped.reason) == (RunState.SKIPPED, "edited")
    assert skipped.covers == Covers(bench.start, bench.start + 3 * MINUTE, 4)
    assert (await bench.record()).next_fire == bench.start + timedelta(hours=1)
    assert bench.backends.documents.plans == {}


async def test_the_plan_of_a_change_names_the_due_fires_that_it_skips_and_an_event_follows(bench: Bench) -> None:
    """A due fire was dropped as `skipped edited` without a word."""
    await bench.service.jobs.apply([a_job(), a_job("paused"), a_job("other")])
    await bench.service.jobs.pause("paused")
    await bench.pass_time(2)
    changed = [a_job(name, schedule=Every("1h")) for name in ("report", "paused")]
    unaffected = a_job("other", timeout=timedelta(seconds=5))
    first, last = f"{bench.start:%Y-%m-%dT%H:%M:%SZ}", f"{bench.start + 2 * MINUTE:%Y-%m-%dT%H:%M:%SZ}"
    skips = f"skips 3 fires due from {first} to {last}: the schedule changes before a run is planned"
    planned = await bench.service.jobs.compare([*changed, unaffected])
    assert [list(one.warnings) for one in planned] == [[skips], [], []]
    applied = await bench.service.jobs.applied([*changed, unaffected], by="ann")
    assert [list(one.warnings) for one in applied] == [[skips], [], []]
    skipped = [event for event in bench.events if isinstance(event, FiresSkipped)]
    fires = f"3 fires due from {first} to {last}"
    assert skipped == [FiresSkipped("report", fires, "edited", "ann"), FiresSkipped("paused", fires, "paused", "ann")]
    # Planned later or applied again, nothing is left to skip.
    again = await bench.service.jobs.applied([*changed, unaffected])
    assert [(one.result, list(one.warnings)) for one in again] == [("unchanged", [])] * 3


async def test_jobs_that_no_live_node_can_run_are_named_before_and_after_they_are_applied(bench: Bench) -> None:
    shell = Job(name="shell", target=CommandTarget("true"))
    python = a_job(require={"gpu": "yes"})

    async def warned() -> list[list[str]]:
        planned = [list(one.warnings) for one in await bench.service.jobs.compare([shell, python])]
        assert planned == [list(one.warnings) for one in await bench.service.jobs.applied([shell, python])]
        return planned

    # Jobs may be applied before the first node starts.
    assert await warned() == [[], []]
    await bench.backends.membership.report(a_report("a", capabilities=Capabilities(shell=False)), 60)
    assert await warned() == [
        ["no live node can run this job, so its runs will wait (a: does not run commands (ALLOW_SHELL))"],
        ["no live node can run this job, so its runs will wait (a: no label gpu (needs gpu=yes))"],
    ]
    await bench.backends.membership.report(a_report("b", labels={"gpu": "yes"}), 60)
    assert await warned() == [[], []]
    # Nothing is refused because Redis is away.
    bench.backends.faults.fail_before("membership.members", times=2)
    assert await warned() == [[], []]


async def test_a_job_that_follows_others_warns_of_older_nodes_which_plan_without_its_mark(bench: Bench) -> None:
    mail = Job(name="mail", target=CommandTarget("true"), after=(Upstream("report"),))
    await bench.backends.membership.report(a_report("new", knows_newer_keys=True), 60)
    [_, new] = await bench.service.jobs.applied([a_job(), mail])
    assert list(new.warnings) == []
    await bench.backends.membership.report(a_report("old"), 60)
    [upstream, follower] = await bench.service.jobs.compare([a_job(), mail])
    assert list(upstream.warnings) == []
    assert list(follower.warnings) == ["runs that an older node plans while it leads are not followed; upgrade old"]


async def test_an_edit_that_leaves_the_schedule_alone_leaves_the_cursor_alone(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    await bench.pass_time(3)
    await bench.service.jobs.apply([a_job(timeout=timedelta(seconds=5))])
    assert (await bench.record()).next_fire == bench.start
    assert await bench.runs() == []


async def test_pausing_a_paused_job_makes_no_version(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    await bench.service.jobs.pause("report")
    before = await bench.record()
    await bench.service.jobs.pause("report")
    assert await bench.record() == before


async def test_what_falls_due_while_paused_is_recorded_when_it_is_resumed(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    await bench.service.jobs.pause("report")
    assert not (await bench.record()).active
    await bench.pass_time(10.5)
    await bench.service.jobs.resume("report")
    (skipped,) = await bench.runs()
    assert (skipped.reason, skipped.covers and skipped.covers.count) == ("paused", 11)
    record = await bench.record()
    assert (record.active, record.next_fire) == (True, bench.start + 11 * MINUTE)


async def test_a_deleted_job_leaves_its_history_and_a_tombstone_and_may_come_back(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    await bench.pass_time(2)
    await bench.service.jobs.delete("report")
    (skipped,) = await bench.runs()
    assert (skipped.reason, skipped.covers and skipped.covers.count) == ("deleted", 3)
    with pytest.raises(NotFound, match="no job 'report'"):
        await bench.service.jobs.get("report")
    assert await bench.service.backends.jobs.find() == []
    assert await bench.service.jobs.apply([a_job()]) == [("report", "created")]
    record = await bench.record()
    assert (record.ver, record.next_fire) == (3, bench.start + 3 * MINUTE)


async def test_an_edit_inserts_the_missing_run_of_the_pending_run(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    record = await bench.record()
    pending_run = a_pend(bench.start)
    moved = replace(record, pending_run=pending_run, next_fire=bench.start + MINUTE)
    bench.backends.documents.jobs["report"] = moved
    await bench.wait_for_servers(bench.service.jobs.apply([a_job(timeout=MINUTE)]))
    found = await bench.service.runs.get(run_id("report", bench.start))
    # It had been planned under the old version and had not started: it will start under the new one.
    assert (found.state, found.job_ver, found.attempt) == (RunState.RETRYING, 2, 0)


async def test_an_edit_keeps_what_runs_or_waits_and_gives_back_what_has_not_started(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    states = (RunState.DISPATCHED, RunState.RUNNING, RunState.RETRYING)
    await bench.backends.runs.insert([a_run(fire=bench.start - k * MINUTE, state=s) for k, s in enumerate(states)])
    await bench.wait_for_servers(bench.service.jobs.apply([a_job(timeout=MINUTE)]))
    found = [(run.state, run.job_ver) for run in (await bench.runs())[::-1]]
    assert found == [(RunState.RETRYING, 2), (RunState.RUNNING, 2), (RunState.RETRYING, 2)]


async def test_a_run_that_starts_while_the_edit_waits_for_it_is_not_started_twice(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    run = a_run(fire=bench.start)
    await bench.backends.runs.insert([run])
    edit = asyncio.create_task(bench.service.jobs.apply([a_job(timeout=MINUTE)]))
    await bench.clock.advance(0.1)
    claimed = ClaimedRun(
        run=run.id, fence=run.fence, node="n1#a", attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE
    )
    assert await bench.backends.runs.apply([transitions.start(claimed, "s1", bench.start, MINUTE)])
    await bench.clock.advance(0.1)
    assert await edit == [("report", "changed")]
    assert [(found.state, found.job_ver, found.fence) for found in await bench.runs()] == [
        (RunState.RUNNING, 2, run.fence)
    ]


async def test_a_pause_cancels_what_has_not_started_and_what_waits_for_a_retry(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    states = (RunState.DISPATCHED, RunState.RETRYING)
    await bench.backends.runs.insert([a_run(fire=bench.start - k * MINUTE, state=s) for k, s in enumerate(states)])
    await bench.wait_for_servers(bench.service.jobs.pause("report"))
    assert [(run.state, run.reason) for run in await bench.runs()] == [(RunState.CANCELLED, "paused")] * 2


async def test_an_edit_that_dies_before_its_move_leaves_an_intent_and_no_change(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    await bench.pass_time(3)
    bench.backends.faults.fail_before("jobs.replace")
    with pytest.raises(BackendUnavailable):
        await bench.service.jobs.apply([a_job(schedule=Every("1h"))])
    assert len(bench.backends.documents.plans) == 1
    assert (await bench.record()).next_fire == bench.start


async def test_an_edit_that_keeps_losing_is_a_conflict(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])

    async def always_beaten(record: JobRecord, rev: int) -> bool:
        return False

    bench.backends.jobs.replace = always_beaten  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="keeps changing concurrently"):
        await bench.service.jobs.apply([a_job(timeout=MINUTE)])


async def test_many_jobs_are_written_in_batches_with_one_intent_for_all_that_skip_instants(bench: Bench) -> None:
    names = [f"job-{n:03}" for n in range(100)]
    await bench.service.jobs.apply([a_job(name) for name in names])
    calls = bench.backends.faults.calls
    assert {verb: calls[verb] for verb in ("jobs.create_all", "jobs.create", "audit.append")} == {
        "jobs.create_all": 1,
        "jobs.create": 0,
        "audit.append": 1,
    }
    await bench.pass_time(3)
    calls.clear()
    changed = [a_job(name, schedule=Every("1h")) for name in names]
    assert {result for _, result in await bench.service.jobs.apply(changed, by="eva")} == {"changed"}
    assert calls.pop("jobs.replace") == 100, "each one is a compare-and-set"
    assert max(calls.values()) <= 3, calls
    assert calls["plans.write"] == calls["plans.remove"] == calls["audit.append"] == 1
    skipped = await bench.backends.runs.find(RunQuery(states=[RunState.SKIPPED], limit=500))
    assert {(run.job, run.reason) for run in skipped} == {(name, "edited") for name in names}
    assert len(await bench.backends.audit.find(AuditQuery(action="job.change", limit=500))) == 100
    assert not bench.backends.documents.plans


async def test_a_job_that_changes_while_its_batch_is_written_is_read_again(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job("a"), a_job("b"), a_job("c")])
    replace_one, others = bench.backends.jobs.replace, [a_job("b", description="by somebody else")]

    async def overtaken(record: JobRecord, rev: int) -> bool:
        if record.name == "b" and others:
            assert await replace_one(replace(await bench.record("b"), job=others.pop(), ver=2), rev)
        return await replace_one(record, rev)

    bench.backends.jobs.replace = overtaken  # type: ignore[method-assign]
    results = await bench.service.jobs.apply([a_job(name, timeout=MINUTE) for name in "abc"])
    assert results == [("a", "changed"), ("b", "changed"), ("c", "changed")]
    assert [(await bench.record(name)).ver for name in "abc"] == [2, 3, 2]
    assert [version.job.description for version in await bench.backends.versions.of("b")][1:] == ["by somebody else"]


async def test_a_batch_that_fails_in_between_is_audited_and_its_intent_covers_what_was_written(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job("a"), a_job("b")])
    await bench.pass_time(3)
    replace_one = bench.backends.jobs.replace

    async def fail_on_b(record: JobRecord, rev: int) -> bool:
        if record.name == "b":
            raise BackendUnavailable("MongoDB", "here", "timed out")
        return await replace_one(record, rev)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.backends.jobs, "replace", fail_on_b)
        with pytest.raises(BackendUnavailable):
            await bench.service.jobs.apply([a_job("a", schedule=Every("1h")), a_job("b", schedule=Every("1h"))])
    entries = await bench.backends.audit.find(AuditQuery(action="job.change"))
    assert [entry.target for entry in entries] == ["job:a"]
    [(intent, _)] = bench.backends.documents.plans.values()
    assert intent.jobs == ("a", "b")
    backends = bench.backends
    assert await recover(backends.jobs, backends.plans, backends.runs, intent, 1)
    assert [(run.job, run.state) for run in await bench.runs()] == [("a", RunState.SKIPPED)]
    assert await bench.service.jobs.apply([a_job(name, schedule=Every("1h")) for name in "ab"]) == [
        ("a", "unchanged"),
        ("b", "changed"),
    ]


async def test_a_conflict_in_a_batch_counts_the_jobs_that_were_applied(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job("a"), a_job("b"), a_job("c")])
    replace_one = bench.backends.jobs.replace

    async def b_is_always_beaten(record: JobRecord, rev: int) -> bool:
        return record.name != "b" and await replace_one(record, rev)

    bench.backends.jobs.replace = b_is_always_beaten  # type: ignore[method-assign]
    with pytest.raises(Conflict, match=r"job 'b' keeps changing concurrently; try again \(2 of 3 jobs were applied"):
        await bench.service.jobs.apply([a_job(name, timeout=MINUTE) for name in "abc"])
    assert [(await bench.record(name)).ver for name in "abc"] == [2, 1, 2]


async def test_batches_in_flight_end_and_are_audited_when_another_one_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronflow.usecases.jobs.BATCH", 1)
    monkeypatch.setattr("cronflow.usecases.jobs.BATCHES_AT_ONCE", 2)
    create_all, failed = bench.backends.jobs.create_all, asyncio.Event()

    async def fail_on_a(records: Sequence[JobRecord]) -> set[str]:
        if records[0].name == "a":
            failed.set()
            raise BackendUnavailable("MongoDB", "here", "timed out")
        await failed.wait()
        for _ in range(100):
            # Long enough for an answer that does not wait for this batch.
            await asyncio.sleep(0)
        return await create_all(records)

    monkeypatch.setattr(bench.backends.jobs, "create_all", fail_on_a)
    with pytest.raises(BackendUnavailable):
        await bench.service.jobs.apply([a_job(name) for name in "abcd"])
    # b was in flight; c and d were not begun.
    assert [record.name for record in await bench.backends.jobs.find()] == ["b"]
    assert [entry.target for entry in await bench.backends.audit.find(AuditQuery())] == ["job:b"]


async def test_the_same_key_triggers_the_same_run(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    first = await bench.service.jobs.trigger("report", {"region": "eu"}, key="k1")
    assert await bench.service.jobs.trigger("report", key="k1") == first == "report@manual-k1"
    assert (await bench.service.runs.get(first)).args == {"region": "eu"}
    assert await bench.service.jobs.trigger("report") != first
    with pytest.raises(NotFound):
        await bench.service.jobs.trigger("nobody")


async def test_the_next_fires_begin_with_the_cursor(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job(), a_job("by-hand", schedule=None)])
    _, rows = await bench.service.jobs.next_fires("report", 3)
    assert [row.fire for row in rows] == [bench.start + k * MINUTE for k in range(3)]
    assert (await bench.service.jobs.next_fires("by-hand", 3))[1] == []


async def test_a_changed_schedule_leaves_a_pause_and_what_fell_due_in_it_is_recorded_as_paused(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    await bench.service.jobs.pause("report")
    await bench.pass_time(3)
    assert await bench.service.jobs.apply([a_job(schedule=Every("1h"))]) == [("report", "changed")]
    assert (await bench.record()).paused
    (skipped,) = await bench.runs()
    assert (skipped.reason, skipped.covers and skipped.covers.count) == ("paused", 4)
    await bench.pass_time(120)
    await bench.service.jobs.resume("report")
    record = await bench.record()
    assert (record.paused, record.next_fire) == (False, bench.start + timedelta(hours=3))
    assert [(run.reason, run.fire_at) for run in (await bench.runs())[1:]] == [
        ("paused", bench.start + timedelta(hours=1))
    ]


async def test_a_job_that_was_paused_when_it_was_deleted_begins_anew_without_the_pause(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job()])
    await bench.service.jobs.pause("report")
    await bench.service.jobs.delete("report")
    assert await bench.service.jobs.apply([a_job()]) == [("report", "created")]
    assert not (await bench.record()).paused


@pytest.fixture(params=["memory", "servers"])
async def backends(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Backends]:
    """On memory, and on real servers."""
    if request.param == "memory":
        yield memory_backends(SystemClock())
        return
    urls = request.getfixturevalue("redis_url"), request.getfixturevalue("mongo_url")
    async with open_backends(*urls, namespace) as opened:
        yield opened


@pytest.mark.parametrize("change", [{"schedule": Every("1h")}, {"enabled": False}, {"timeout": MINUTE}])
async def test_a_pause_stays_until_it_is_resumed_whatever_is_applied(
    backends: Backends, change: dict[str, Any]
) -> None:
    service = UseCases(backends, SystemClock())
    await service.jobs.apply([a_job()])
    await service.jobs.pause("report")
    assert await service.jobs.apply([a_job(**change)]) == [("report", "changed")]
    found = await service.jobs.get("report")
    assert (found.paused, found.active) == (True, False)
    assert not (await service.jobs.resume("report")).paused


def rules(*matches: str) -> Retry:
    return Retry(rules=[RetryRule(match, retry=True) for match in matches])


UNUSABLE = [
    (HttpTarget("http://h", headers={"X-Team": "a\r\nX-Admin: yes"}), "run.http.headers.X-Team", "line break"),
    (HttpTarget("http://h", headers={"X-Team": "a\0"}), "run.http.headers.X-Team", "control character"),
    (HttpTarget("http://h", headers={"X Team": "a"}), "run.http.headers", "'X Team' is not the name of a header"),
    (HttpTarget("http://h/\0"), "run.http.url", "control character"),
    (CommandTarget("true", env={"A=B": "c"}), "run.env", "'A=B' is not the name of an environment variable"),
    (CommandTarget("true", env={"": "c"}), "run.env", "'' is not the name of an environment variable"),
    (CommandTarget("true", env={"A": "b\0c"}), "run.env.A", "NUL"),
    (CommandTarget("true", cwd="/tmp\0"), "run.cwd", "NUL"),
]


@pytest.mark.parametrize(("target", "place", "what"), UNUSABLE)
async def test_a_target_that_no_node_can_run_is_refused_before_anything_is_written(
    bench: Bench, target: HttpTarget | CommandTarget, place: str, what: str
) -> None:
    good, bad = a_job("good"), replace(a_job("bad"), target=target)
    jobs = bench.service.jobs
    for attempt, prefix in (
        (jobs.apply([good, bad]), "jobs[1]."),
        (jobs.compare([good, bad]), "jobs[1]."),
        (jobs.define(bad), ""),
    ):
        with pytest.raises(InvalidInput) as refused:
            await attempt
        [problem] = refused.value.problems
        assert problem.place == prefix + place
        assert what in problem.what
    assert await bench.backends.jobs.find() == []
    await jobs.define(good)
    with pytest.raises(InvalidInput, match=re.escape(what)):
        await jobs.amend("good", lambda job: replace(job, target=target))
    assert (await bench.record("good")).job == good


@pytest.mark.parametrize(("target", "place", "what"), UNUSABLE)
def test_a_job_that_an_older_version_has_stored_with_such_a_target_stays_readable(
    target: HttpTarget | CommandTarget, place: str, what: str
) -> None:
    old = replace(a_job("old"), target=target)
    assert parse_job(job_document(old, compact=True)) == old


@pytest.mark.parametrize(
    ("fields", "place", "what"),
    [
        ({"success_exit_codes": (0, 1)}, "success_exit_codes", "only a command has exit codes"),
        ({"retry": rules("OSError", "exit:75")}, "retry.rules[1].match", "exit:75 never matches: only a command"),
        ({"retry": rules("http:5xx")}, "retry.rules[0].match", "http:5xx never matches: only an HTTP request"),
        (
            {"retry": rules("exit:75"), "target": HttpTarget("http://h")},
            "retry.rules[0].match",
            "exit:75 never matches: only a command",
        ),
    ],
)
async def test_what_has_no_effect_on_the_target_is_refused(
    bench: Bench, fields: dict[str, object], place: str, what: str
) -> None:
    job = replace(a_job("bad"), **fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput) as refused:
        await bench.service.jobs.define(job)
    [problem] = refused.value.problems
    assert problem.place == place
    assert what in problem.what
    assert parse_job(job_document(job, compact=True)) == job, "one that is stored stays readable"


async def test_what_suits_the_target_is_accepted(bench: Bench) -> None:
    command, request = CommandTarget("true"), HttpTarget("http://h")
    await bench.service.jobs.apply(
        [
            replace(a_job("a"), target=command, retry=rules("exit:75", "TimeoutError"), success_exit_codes=(0, 1)),
            replace(a_job("b"), target=request, retry=rules("http:503", "gaierror")),
        ]
    )


def test_a_job_without_limits_is_stored_as_before() -> None:
    """Nodes of version 0.6, which refuse unknown keys, read it."""
    stored = job_document(replace(a_job("old"), target=CommandTarget("true")), compact=True)
    assert stored["run"] == {"shell": "true"}
