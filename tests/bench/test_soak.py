from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from cronflow.backends import codec
from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.run import Attempt, Covers, Kind, Outcome, Run, RunState, run_id
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.testing.schedule_oracle import fires_between
from cronflow.usecases import UseCases
from tests.bench import soak
from tests.bench.soak import FULL, Soak, SoakResult
from tests.bench.soak_audit import Audit, Database, Lateness, all_ended, audit, lateness, together
from tests.bench.soak_faults import TASKS, Use, growth
from tests.bench.soak_load import Load, register

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
LOAD = Load("small", jobs=5, step_s=4, spread_s=2, seconds=9)
"""Jobs 0, 2 and 4 are due after 0, 4 and 8 seconds, jobs 1 and 3 after 1 and 5."""
DUE = 13


def all_due(load: Load) -> list[tuple[str, datetime]]:
    """By the schedules of the jobs themselves."""
    end = START + timedelta(seconds=load.seconds)
    return [
        (job.name, fire)
        for job in load.all_jobs(START)
        if job.schedule is not None
        for fire in fires_between(job.schedule, START, end)
    ]


def a_run(job: str, fire: datetime, late_ms: int = 7) -> Run:
    """A run that succeeded."""
    started = fire + timedelta(milliseconds=late_ms)
    return Run(
        id=run_id(job, fire),
        job=job,
        fire_at=fire,
        kind=Kind.INTERVAL,
        state=RunState.SUCCEEDED,
        fence=1,
        term=1,
        job_ver=1,
        node="node-0#a",
        attempt=1,
        max_attempts=4,
        check_at=None,
        created_at=fire,
        dispatched_at=fire,
        started_at=started,
        ended_at=started,
        outcome=Outcome.OK,
        attempts=(Attempt(1, 1, "node-0#a", started, started, Outcome.OK, None),),
    )


@pytest.fixture
async def database(mongo_url: str, namespace: str) -> AsyncIterator[Database]:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo_url, tz_aware=True)
    async with client:
        yield client[f"cronflow_{namespace}"]
        await client.drop_database(f"cronflow_{namespace}")


async def audited(database: Database, runs: list[Run], load: Load = LOAD) -> Audit:
    await database["runs"].insert_many([codec.run_document(run) for run in runs])
    return await audit(database, load, START)


def test_a_load_counts_the_instants_that_its_schedules_make_due() -> None:
    assert (LOAD.instants, len(all_due(LOAD))) == (DUE, DUE)
    at_once = replace(LOAD, once=True, spread_s=1)
    assert at_once.instants == len(all_due(at_once)) == 5
    for spread in (1, 3, 7):
        load = Load("any", jobs=11, step_s=7, spread_s=spread, seconds=25)
        assert load.instants == len(all_due(load))


def test_the_parts_are_those_of_the_targets() -> None:
    assert {load.name: (load.jobs, load.instants) for load in FULL} == {
        "hour": (1000, 720_000),
        "instant": (60_000, 60_000),
        "million": (1_000_000, 150_000),
    }
    options = argparse.Namespace(part="million", jobs=10_000, length="2s")
    assert [load.instants for load in soak.chosen(options)] == [1000], "a smaller part keeps its rate"


async def test_an_audit_holds_when_every_instant_has_one_run_that_succeeded(database: Database) -> None:
    others = [a_run("_sys:sweep", START), a_run("other", START)]
    after = [a_run("soak-0000000", START + timedelta(seconds=12))]
    found = await audited(database, [*(a_run(*one) for one in all_due(LOAD)), *others, *after])
    assert found.holds
    assert found == Audit(DUE, 0, 0, 0, 0, 0, 0, 0, 0, {})


async def test_an_audit_finds_instants_without_a_run(database: Database) -> None:
    found = await audited(database, [a_run(job, fire) for job, fire in all_due(LOAD) if job != "soak-0000003"])
    assert not found.holds
    assert found.missing == found.violations == 2
    assert found.short == {START + timedelta(seconds=1): (1, 2), START + timedelta(seconds=5): (1, 2)}


async def test_an_audit_of_nothing_misses_every_instant(database: Database) -> None:
    found = await audit(database, LOAD, START)
    assert found.missing == DUE


async def test_an_audit_finds_instants_with_two_runs(database: Database) -> None:
    runs = [a_run(*one) for one in all_due(LOAD)]
    found = await audited(database, [*runs, replace(runs[3], id=f"{runs[3].id}~r1")])
    assert not found.holds
    assert (found.doubled, found.missing, found.violations) == (1, 0, 1)


async def test_an_audit_finds_runs_at_instants_that_were_not_due(database: Database) -> None:
    # Job 1 is not due at the instants of job 0, nor before the start.
    wrong = [a_run("soak-0000001", START + timedelta(seconds=at)) for at in (0, 4, -3)]
    found = await audited(database, [*(a_run(*one) for one in all_due(LOAD)), *wrong])
    assert not found.holds
    assert (found.stray, found.missing) == (3, 0)


async def test_an_audit_of_one_instant_finds_runs_at_others(database: Database) -> None:
    load = Load("instant", jobs=5, step_s=1, seconds=3, once=True)
    runs = [a_run(*one) for one in all_due(load)]
    found = await audited(database, [*runs, a_run("soak-0000001", START + timedelta(seconds=1))], load)
    assert (found.due, found.stray, found.missing) == (5, 1, 0)


async def test_an_audit_finds_runs_that_did_not_succeed(database: Database) -> None:
    runs = [a_run(*one) for one in all_due(LOAD)]
    runs[0] = replace(runs[0], state=RunState.FAILED, outcome=Outcome.ERROR)
    runs[1] = replace(runs[1], state=RunState.RUNNING, ended_at=None, outcome=None)
    found = await audited(database, runs)
    assert not found.holds
    assert (found.unsuccessful, found.violations) == (2, 0)


async def test_an_audit_counts_runs_over_several_instants_and_those_dispatched_again(database: Database) -> None:
    runs = [a_run(*one) for one in all_due(LOAD)]
    runs[0] = replace(runs[0], covers=Covers(START, START + timedelta(seconds=4), 2))
    runs[1] = replace(runs[1], attempt=2)
    found = await audited(database, runs)
    assert not found.holds
    assert (found.merged, found.redispatched) == (1, 1)


async def test_all_runs_have_ended_when_nothing_is_due_announced_or_open(database: Database) -> None:
    end = START + timedelta(seconds=LOAD.seconds)
    blocking: list[tuple[str, dict[str, Any]]] = [
        ("jobs", {"active": True, "due_at": end - timedelta(seconds=1)}),
        ("runs", {"open": True, "fire_at": end - timedelta(seconds=1)}),
    ]
    later: list[tuple[str, dict[str, Any]]] = [
        ("jobs", {"active": True, "due_at": end}),
        ("jobs", {"active": False, "due_at": START}),
        ("runs", {"open": True, "fire_at": end}),
        ("plans", {"at": datetime.now(UTC) + timedelta(hours=1)}),
    ]
    for collection, document in later:
        await database[collection].insert_one(document)
    assert await all_ended(database, LOAD, START)
    for collection, document in blocking:
        added = await database[collection].insert_one(document)
        assert not await all_ended(database, LOAD, START), collection
        await database[collection].delete_one({"_id": added.inserted_id})
    intent = await database["plans"].insert_one({"at": datetime.now(UTC) - timedelta(seconds=1)})
    waiting = asyncio.create_task(all_ended(database, LOAD, START))
    done, _ = await asyncio.wait({waiting}, timeout=0.5)
    assert not done, "the intent announces runs that may have no document"
    await database["plans"].delete_one({"_id": intent.inserted_id})
    assert await waiting


async def test_lateness_is_that_of_the_first_start_in_each_part_of_the_time(database: Database) -> None:
    late = dict(zip(all_due(LOAD), range(100, 100 + DUE), strict=True))
    runs = [a_run(*one, late_ms=late[one]) for one in late]
    again = runs[0].fire_at + timedelta(seconds=3)
    runs[0] = replace(runs[0], attempt=2, started_at=again, attempts=(runs[0].attempts[0],))
    await database["runs"].insert_many([codec.run_document(run) for run in runs])
    parts = await lateness(database, LOAD, START, 3)
    for number, part in enumerate(parts):
        own = sorted(ms for (_, fire), ms in late.items() if (fire - START).total_seconds() // 3 == number)
        assert (part.runs, part.percentile(0), part.percentile(1)) == (len(own), own[0], own[-1])
    whole = together(parts)
    assert (whole.runs, whole.percentile(0.5), whole.percentile(1)) == (DUE, 106, 112)


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    late = Lateness({5: 98, 20: 1, 1000: 1})
    assert [late.percentile(part) for part in (0.5, 0.98, 0.99, 1.0)] == [5, 5, 20, 1000]
    assert Lateness({}).percentile(0.99) == 0


async def test_the_registered_jobs_are_those_that_apply_stores(
    redis_url: str, mongo_url: str, namespace: str, database: Database
) -> None:
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    load = Load("stored", jobs=7, step_s=60, spread_s=3, seconds=60)
    async with open_backends(redis_url, mongo_url, namespace) as backends:
        service = UseCases(backends, SystemClock())
        await register(service, load, start)
        registered = await database["jobs"].find().sort("_id").to_list()
        await database["jobs"].delete_many({})
        await service.jobs.apply(list(load.all_jobs(start)))
        applied = await database["jobs"].find().sort("_id").to_list()
    varying = dict.fromkeys(("created_at", "updated_at"))
    assert len(applied) == 7
    assert [one | varying for one in registered] == [one | varying for one in applied]


@pytest.mark.prove
async def test_a_soak_on_real_nodes_finds_one_run_for_every_instant(
    own_redis: RedisServer, own_mongo: MongoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "LEAD", timedelta(seconds=5))
    monkeypatch.setattr(soak, "NODES", 1)
    load = Load("short", jobs=20, step_s=1, seconds=3)
    result = await Soak(own_redis, own_mongo, tmp_path, load, None).run()
    soak.report(result)
    assert result.audit.holds, result
    assert (result.audit.due, result.lateness.runs) == (60, 60)


def test_the_figures_are_those_of_the_targets() -> None:
    exact = Audit(10, 0, 0, 0, 0, 0, 0, 0, 0, {})
    late = [Lateness({10: 95, 700: 5})]
    hour, instant, million = (SoakResult(load, exact, late) for load in FULL)
    assert hour.figures() == {"soak_hour": (0, "runs")}
    assert instant.figures() == {"soak_instant": (0.7, "s")}
    assert million.figures() == {"soak_million_p99": (0.7, "s")}
    short = replace(exact, missing=2, doubled=1)
    assert replace(hour, audit=short).figures() == {"soak_hour": (3, "runs")}
    assert replace(million, audit=short).figures() == {}


# ------------------------------------------------------------------------------------------------ under random faults


def use(memory: float = 90, files: float = 40, threads: float = 20, tasks: float = 40) -> Use:
    return Use(memory, files, threads, tasks)


def test_a_process_that_needs_more_at_the_moment_has_not_grown() -> None:
    assert growth([use(memory=90 + k % 3, tasks=40 + 10 * (k % 2)) for k in range(12)]) == []
    warm = [use(memory=60), use(memory=80), *(use(memory=95) for _ in range(7))]
    assert growth(warm) == [], "caches fill up in the first third"


@pytest.mark.parametrize("what", ["memory", "files", "threads", "tasks"])
def test_what_grows_from_round_to_round_is_named(what: str) -> None:
    (found,) = growth([use(**{what: 20 + 20 * k}) for k in range(9)])
    assert found.startswith(f"{what} from ")


def test_a_few_rounds_show_no_growth() -> None:
    assert growth([use(memory=20 * k) for k in range(5)]) == []


def test_the_tasks_of_a_node_are_read_from_its_metrics() -> None:
    text = b"# TYPE cronflow_loop_tasks gauge\ncronflow_loop_tasks 41.0\ncronflow_loop_tasks_other 1.0\n"
    assert TASKS.findall(text) == [b"41.0"]
