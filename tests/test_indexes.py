"""Lists of runs on a real MongoDB: each filter uses an index, and what is read does not grow with what is stored.

Some thousand runs stand for a million: a query that read them all would read ten times more than the bounds here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronflow.backends.mongo.admin import MongoArchive, MongoStoreAdmin
from cronflow.backends.mongo.backfills import MongoBackfillStore
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.mongo.indexes import INDEXES, UNUSED
from cronflow.backends.mongo.jobs import MongoJobStore
from cronflow.backends.mongo.runs import MongoDeadLetters, MongoRunStore, unresolved
from cronflow.domain.job import PRIORITIES
from cronflow.domain.run import Kind, Outcome, Run, RunState, backfill_run_id
from cronflow.ports import RunQuery
from tests.contracts.builders import T0, a_record, a_run
from tests.servers import fresh_namespace

STORED = 6000
LIMIT = 20
ODD = {60: RunState.FAILED, 61: RunState.SKIPPED, 62: RunState.LOST}


def stored(n: int) -> Run:
    """The n-th run before T0: one in a hundred did not go well, the newest twenty are open, node `old` is long gone."""
    fire = T0 - timedelta(seconds=n)
    state = ODD.get(n % 100, RunState.SUCCEEDED if n >= 20 else RunState.RUNNING)
    node = "old#1" if n >= STORED - 50 else f"n{n % 3}#{'ab'[n // 3000]}"
    run = a_run(f"job-{n % 40}", fire, kind=Kind.CRON, state=state, node=node, created_at=fire)
    if state is RunState.RUNNING:
        return run
    return replace(run, check_at=None, ended_at=fire, outcome=Outcome.OK)


@pytest.fixture(scope="module")
def filled(mongo_url: str) -> str:
    """A namespace with six thousand runs, of forty jobs on four nodes."""
    namespace = fresh_namespace()

    async def fill() -> None:
        async with MongoDatabase(mongo_url, namespace) as database:
            for first in range(0, STORED, 1000):
                await MongoRunStore(database).insert([stored(n) for n in range(first, first + 1000)])

    asyncio.run(fill())
    return namespace


@pytest.fixture
async def store(mongo_url: str, filled: str) -> AsyncIterator[MongoRunStore]:
    """The store over them."""
    async with MongoDatabase(mongo_url, filled) as database:
        yield MongoRunStore(database)


def shown(value: object) -> str:
    """What differs from an empty query."""
    if not isinstance(value, RunQuery):
        return ""
    fields = ((name, getattr(value, name)) for name in RunQuery.__dataclass_fields__ if name != "limit")
    return " ".join(f"{name}={_plain(given)}" for name, given in fields if given) or "all"


def _plain(value: object) -> str:
    if isinstance(value, tuple | datetime):
        return ""
    return "+".join(sorted(value)) if isinstance(value, set | frozenset) else str(value)


DAY = timedelta(days=1)
DEEP = T0 - timedelta(seconds=4000)
SOME = frozenset({"job-3", "job-20", "job-21"})


@pytest.mark.parametrize(
    ("query", "indexes", "most"),
    [
        (RunQuery(), {"newest"}, LIMIT),
        (RunQuery(before=(DEEP, "job-0@x")), {"newest"}, LIMIT + 1),
        (RunQuery(since=DEEP, until=DEEP + timedelta(seconds=10)), {"newest"}, LIMIT),
        (RunQuery(until=DEEP), {"newest"}, LIMIT),
        (RunQuery(job="job-3"), {"history"}, LIMIT),
        (RunQuery(job="job-3", before=(DEEP, "x")), {"history"}, LIMIT + 1),
        (RunQuery(job="job-3", since=DEEP, until=DEEP + DAY), {"history"}, LIMIT),
        (RunQuery(oldest_first=True), {"newest"}, LIMIT),
        (RunQuery(oldest_first=True, before=(DEEP, "x"), since=DEEP), {"newest"}, LIMIT + 1),
        (RunQuery(oldest_first=True, job="job-3"), {"history"}, LIMIT),
        (RunQuery(oldest_first=True, states={RunState.FAILED}), {"unusual"}, LIMIT),
        (RunQuery(oldest_first=True, node="n1"), {"node"}, LIMIT * 2),
        (RunQuery(oldest_first=True, dead=True, job="job-20"), {"dead"}, LIMIT),
        (RunQuery(jobs=SOME), {"history"}, LIMIT + len(SOME)),
        (RunQuery(jobs=SOME, before=(DEEP, "x")), {"history"}, LIMIT + 2 * len(SOME)),
        (RunQuery(jobs=SOME, oldest_first=True), {"history"}, LIMIT + len(SOME)),
        (RunQuery(jobs=SOME, dead=True), {"dead"}, LIMIT),
        (RunQuery(jobs=SOME, states={RunState.RUNNING}), {"open"}, LIMIT),
        (RunQuery(states={RunState.SUCCEEDED}), {"newest"}, 3 * LIMIT),
        (RunQuery(states={RunState.FAILED}), {"unusual"}, LIMIT),
        (RunQuery(states={RunState.FAILED}, until=DEEP), {"unusual"}, LIMIT),
        (RunQuery(states={RunState.FAILED}, before=(DEEP, "x")), {"unusual"}, LIMIT + 1),
        (RunQuery(states={RunState.FAILED, RunState.LOST, RunState.SKIPPED}), {"unusual"}, 3 * LIMIT),
        (RunQuery(states={RunState.CANCELLED}), {"unusual"}, 0),
        (RunQuery(states={RunState.RUNNING}), {"open"}, LIMIT),
        (RunQuery(states={RunState.RETRYING}), {"open"}, LIMIT),
        (RunQuery(states={RunState.RUNNING}, job="job-3"), {"open"}, 1),
        (RunQuery(states={RunState.RUNNING, RunState.LOST}), {"open", "unusual"}, 2 * LIMIT),
        (RunQuery(states={RunState.FAILED}, job="job-20"), {"unusual", "history"}, 4 * LIMIT),
        (RunQuery(states={RunState.FAILED}, job="job-3"), {"unusual", "history"}, 2 * LIMIT),
        (RunQuery(node="n1"), {"node"}, LIMIT * 2),
        (RunQuery(node="old"), {"node"}, LIMIT),
        (RunQuery(node="old#1", until=DEEP), {"node"}, LIMIT),
        (RunQuery(node="gone"), {"node", None}, 0),
        (RunQuery(node="n1", before=(DEEP, "x")), {"node"}, LIMIT * 2),
        (RunQuery(dead=True), {"dead"}, LIMIT),
        (RunQuery(dead=True, job="job-3"), {"dead"}, 0),
        (RunQuery(dead=True, job="job-20"), {"dead"}, LIMIT),
        (RunQuery(dead=True, job="job-20", since=DEEP, until=DEEP + DAY), {"dead"}, LIMIT),
        (RunQuery(dead=True, job="job-20", before=(DEEP, "x")), {"dead"}, LIMIT + 1),
    ],
    ids=shown,
)
async def test_a_filter_uses_an_index_and_reads_little_more_than_it_answers(
    store: MongoRunStore, query: RunQuery, indexes: set[str | None], most: int
) -> None:
    query = replace(query, limit=LIMIT)
    looked = 0
    for cursor in await store.cursors(query):
        told = await cursor.explain()
        assert set(used(told["queryPlanner"]["winningPlan"])) <= indexes, told["queryPlanner"]["winningPlan"]
        assert "COLLSCAN" not in str(told["queryPlanner"]["winningPlan"])
        looked += told["executionStats"]["totalDocsExamined"]
    assert looked <= most, looked
    assert len(await store.find(query)) == len([run for run in ALL if matches(run, query)][:LIMIT])


async def test_the_dead_letters_of_a_job_are_counted_without_those_of_others(mongo_url: str, filled: str) -> None:
    async with MongoDatabase(mongo_url, filled) as database:
        letters = MongoDeadLetters(database)
        expected = sum(run.is_dead and run.job == "job-20" for run in ALL)
        assert await letters.count("job-20") == expected > 0
        found = await database["runs"].find(unresolved("job-20")).hint("dead").explain()
        assert found["executionStats"]["totalDocsExamined"] == expected


async def test_what_a_backfill_reads_comes_from_indexes(mongo_url: str) -> None:
    async with MongoDatabase(mongo_url, fresh_namespace()) as database:
        runs, backfills = MongoRunStore(database), MongoBackfillStore(database)
        instants = [T0 + timedelta(seconds=n) for n in range(300)]
        made = [a_run(f"job-{n % 3}", instant) for n, instant in enumerate(instants)]
        own = [
            replace(run, id=backfill_run_id(f"{run.job}~b{n % 2}", run.fire_at), kind=Kind.BACKFILL)
            for n, run in enumerate(made)
        ]
        await runs.insert([*made, *own])
        for cursor in await runs.cursors(RunQuery(backfill="job-1~b1", limit=LIMIT)):
            told = await cursor.explain()
            assert used(told["queryPlanner"]["winningPlan"]) == ["backfill"]
            assert "'SORT'" not in str(told["queryPlanner"]["winningPlan"])
            assert told["executionStats"]["totalDocsExamined"] == LIMIT
        told = await database["runs"].database.command(
            "explain",
            {"aggregate": "runs", **backfills.counting(["job-1~b1"]), "cursor": {}},
            verbosity="executionStats",
        )
        assert "'totalDocsExamined': 0" in str(told)
        told = await runs.outlined("job-1", instants[0], instants[9], None, LIMIT).explain()
        assert used(told["queryPlanner"]["winningPlan"]) == ["history"]
        assert told["executionStats"]["totalDocsExamined"] <= LIMIT


async def test_a_filter_without_an_index_would_be_noticed(store: MongoRunStore) -> None:
    cursor = store._runs.find({"reason": "overlap"}).limit(LIMIT)
    told = await cursor.explain()
    assert told["executionStats"]["totalDocsExamined"] == STORED
    assert set(used(told["queryPlanner"]["winningPlan"])) == set()


async def test_a_run_that_succeeds_is_in_no_index_of_those_that_did_not(store: MongoRunStore) -> None:
    found = await store._runs.find({}, {"_id": 1}).hint("unusual").to_list(None)
    assert len(found) == sum(run.state in ODD.values() for run in ALL)


async def test_the_clean_up_reads_a_page_of_old_runs_from_an_index(mongo_url: str, filled: str) -> None:
    oldest = sorted(ALL, key=lambda run: (run.fire_at, run.id))
    async with MongoDatabase(mongo_url, filled) as database:
        archive = MongoArchive(database)
        last = oldest[LIMIT - 1]
        for after, first in ((None, 0), ((last.fire_at, last.id), LIMIT)):
            found = await archive.due_before(T0, after=after, limit=LIMIT)
            assert [row.id for row in found] == [run.id for run in oldest[first : first + LIMIT]]
            told = await archive.cursor_of_due(T0, after, LIMIT).explain()
            assert used(told["queryPlanner"]["winningPlan"]) == ["newest"]
            assert "'SORT'" not in str(told["queryPlanner"]["winningPlan"])
            assert told["executionStats"]["totalDocsExamined"] <= LIMIT + 1


async def test_indexes_of_earlier_versions_are_dropped_and_the_others_stay(mongo_url: str) -> None:
    async with MongoDatabase(mongo_url, fresh_namespace()) as database:
        admin = MongoStoreAdmin(database)
        # A node of 0.8 creates it at each start.
        await database["runs"].create_index([("ended_at", 1), ("_id", 1)], name="ended")
        await admin.drop_unused_indexes()
        assert "ended" not in await database["runs"].index_information()
        assert await admin.missing_indexes() == []
        await admin.drop_unused_indexes()


def test_an_index_is_either_used_or_dropped() -> None:
    for collection, names in UNUSED.items():
        assert not names & {index.document["name"] for index in INDEXES[collection]}


DUE = 101


@pytest.mark.parametrize(
    ("limit", "looks_at"),
    [(16, 16), (1000, DUE)],
    ids=["more are due than the limit", "fewer are due than the limit"],
)
async def test_the_planner_reads_due_jobs_by_priority_and_no_others(mongo_url: str, limit: int, looks_at: int) -> None:
    """With a million jobs, of which 500 fell due in every second, each round of the planner read all of them."""
    async with MongoDatabase(mongo_url, fresh_namespace()) as database:
        jobs = MongoJobStore(database)
        # A tenth has the highest priority.
        records = [a_record(f"job-{k}", T0 + timedelta(seconds=k - DUE + 1)) for k in range(1000)]
        priorities = [9 if k % 10 == 0 else k % 5 for k in range(1000)]
        await jobs.create_all(
            [
                replace(record, job=replace(record.job, priority=priority))
                for record, priority in zip(records, priorities, strict=True)
            ]
        )
        pipeline = jobs.in_turn(T0, T0 + timedelta(seconds=5), limit)
        told = await database["jobs"].database.command(
            "explain",
            {"aggregate": "jobs", "pipeline": pipeline, "cursor": {}, "hint": "turn"},
            verbosity="executionStats",
        )
        first = told["stages"][0]["$cursor"]
        assert used(first["queryPlanner"]["winningPlan"]) == ["turn"]
        assert "'SORT'" not in str(first["queryPlanner"]["winningPlan"])
        assert first["executionStats"]["totalDocsExamined"] == looks_at
        # One step for each priority whose other jobs are skipped.
        assert first["executionStats"]["totalKeysExamined"] <= looks_at + len(PRIORITIES) + 2
        found = await jobs.due_in_turn(T0, T0 + timedelta(seconds=5), limit)
        assert [record.job.priority for record in found].count(9) == min(limit, priorities[:DUE].count(9))


async def test_the_planner_reads_due_jobs_without_a_priority_last(mongo_url: str) -> None:
    """Jobs that 0.6 stored have none until they move."""
    async with MongoDatabase(mongo_url, fresh_namespace()) as database:
        jobs = MongoJobStore(database)
        await jobs.create_all([a_record(f"job-{k:02}", T0 + timedelta(seconds=k - 20)) for k in range(20)])
        await database["jobs"].update_many({"_id": {"$gte": "job-15"}}, {"$unset": {"priority": ""}})
        found = await jobs.due_in_turn(T0, T0, 18)
        assert sorted(record.name for record in found) == [f"job-{k:02}" for k in range(18)]


@pytest.mark.parametrize("without", [(), ("job-3",)], ids=["of all jobs", "without a job"])
async def test_the_reconciler_reads_waiting_runs_by_priority_and_no_others(
    mongo_url: str, without: Sequence[str]
) -> None:
    async with MongoDatabase(mongo_url, fresh_namespace()) as database:
        runs = MongoRunStore(database)
        stored = [
            a_run(
                f"job-{k % 5}",
                T0 - timedelta(seconds=k),
                state=RunState.RETRYING if k >= 20 else RunState.RUNNING,
                priority=k % 10,
                check_at=T0 - timedelta(seconds=k) if k % 2 else datetime.now(UTC) + DAY,
            )
            for k in range(2000)
        ]
        await runs.insert(stored)
        pipeline = runs.overdue_in_turn(LIMIT, LIMIT, without)
        parts = [pipeline[:3], *(stage["$unionWith"]["pipeline"] for stage in pipeline[3:])]
        for part, most in zip(parts, (10, LIMIT, LIMIT // 8), strict=True):
            told = await database["runs"].database.command(
                "explain",
                {"aggregate": "runs", "pipeline": part, "cursor": {}, "hint": "turn"},
                verbosity="executionStats",
            )
            assert set(used(told["queryPlanner"]["winningPlan"])) == {"turn"}
            assert "'SORT'" not in str(told["queryPlanner"]["winningPlan"])
            assert told["executionStats"]["totalDocsExamined"] <= most
        found = await runs.overdue(LIMIT, without=without)
        waiting = [run for run in found if run.state is RunState.RETRYING]
        assert sum(run.priority == 9 for run in waiting) == LIMIT
        assert not {run.job for run in waiting} & set(without)


ALL = sorted((stored(n) for n in range(STORED)), key=lambda run: (run.fire_at, run.id), reverse=True)


def matches(run: Run, query: RunQuery) -> bool:
    """As the memory backend does it."""
    return (
        (query.job is None or run.job == query.job)
        and (not query.states or run.state in query.states)
        and (not query.dead or run.is_dead)
        and (query.node is None or query.node in (run.node, str(run.node).partition("#")[0]))
        and (query.since is None or run.fire_at >= query.since)
        and (query.until is None or run.fire_at < query.until)
        and (query.jobs is None or run.job in query.jobs)
        and (query.before is None or ((run.fire_at, run.id) < query.before) is not query.oldest_first)
    )


def used(plan: dict[str, Any]) -> list[str]:
    """The indexes of a plan, of all its stages."""
    found = [plan["indexName"]] if "indexName" in plan else []
    for name in ("inputStage", "queryPlan"):
        if name in plan:
            found += used(plan[name])
    for stage in plan.get("inputStages", []):
        found += used(stage)
    return found
