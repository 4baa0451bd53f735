"""The clean-up, on memory and on real servers: expired data is deleted, but nothing that could still be
inserted again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import JobRecord
from cronflow.domain.job_breaker import BreakerState
from cronflow.domain.run import AttemptResult, Kind, Outcome, Run, RunState
from cronflow.domain.split import Split, SplitBy
from cronflow.leader import maintenance
from cronflow.leader.maintenance import Cleanup
from cronflow.ports import LateResult, LogLine
from cronflow.usecases.edit import Editor
from tests.contracts.builders import a_job, a_pend, a_report, a_run, an_assignment
from tests.executors import Lines
from tests.leader.forging import HOUR, MINUTE, Forge, MemoryForge, ServerForge

DAY = timedelta(days=1)
RETENTION = 30 * DAY


async def clean(forge: Forge, **rest: Any) -> Any:
    cleanup = Cleanup(forge.backends, forge.clock, run_retention=RETENTION, **rest)
    return await cleanup.run(an_assignment("_sys:cleanup@1"), Lines())


def ended(fire: datetime, job: str = "report", **fields: Any) -> Run:
    """A run that ended a second after its fire."""
    end: dict[str, Any] = {"ended_at": fire + timedelta(seconds=1), "outcome": Outcome.OK, "check_at": None}
    return replace(a_run(job, fire, state=RunState.SUCCEEDED), **(end | fields))


async def a_job_with_runs(forge: Forge, *ago: timedelta, name: str = "report", **fields: Any) -> list[str]:
    """Runs that ended so long ago, the oldest first; the last one is what the `pending_run` names."""
    runs = [ended(forge.now - age, name) for age in sorted(ago, reverse=True)]
    await forge.backends.runs.insert(runs)
    base = JobRecord(
        job=a_job(name),
        next_fire=forge.now + HOUR,
        due_at=forge.now + HOUR,
        pending_run=a_pend(runs[-1].fire_at),
        created_at=runs[0].fire_at,
        updated_at=runs[0].fire_at,
    )
    assert await forge.backends.jobs.create(replace(base, **fields))
    return [run.id for run in runs]


async def left(forge: Forge) -> list[str]:
    return [row.id for row in await forge.backends.archive.runs()]


async def test_the_parts_of_a_run_that_is_open_stay(forge: Forge) -> None:
    fire = forge.now - 40 * DAY
    split = Split(by=SplitBy.SHARDS, total=2, begun=True)
    parents = [
        a_run("report", fire, id="report@open", state=RunState.RETRYING, split=split),
        ended(fire, id="report@ended", split=split),
    ]
    parts = [ended(fire, id=f"{parent.id}~s{n}", kind=Kind.PART) for parent in parents for n in range(2)]
    await forge.backends.runs.insert([*parents, *parts])
    await clean(forge)
    assert await left(forge) == ["report@open", "report@open~s0", "report@open~s1"]


async def test_runs_that_ended_before_the_retention_go_and_the_others_stay(forge: Forge) -> None:
    runs = await a_job_with_runs(forge, 90 * DAY, 60 * DAY, 31 * DAY, 29 * DAY, HOUR)
    result = await clean(forge)
    # Of those from before, the newest stays: at that time the `pending_run` named it and may have been read.
    assert await left(forge) == runs[2:]
    assert result["runs"] == 2
    assert (await clean(forge))["runs"] == 0


async def test_the_retention_counts_from_the_end_of_a_run_to_the_moment(forge: Forge) -> None:
    await a_job_with_runs(forge, 31 * DAY, HOUR)
    edge = forge.now - RETENTION
    await forge.backends.runs.insert(
        [
            ended(forge.now - 90 * DAY, ended_at=edge - MINUTE),
            ended(forge.now - 91 * DAY, ended_at=edge + HOUR),
            ended(forge.now - 92 * DAY, state=RunState.RUNNING, ended_at=None, outcome=None, check_at=forge.now),
        ]
    )
    assert (await clean(forge))["runs"] == 1
    assert {row.fire_at for row in await forge.backends.archive.runs()} == {
        forge.now - age for age in (92 * DAY, 91 * DAY, 31 * DAY, HOUR)
    }


async def test_the_run_that_the_pending_run_names_stays_however_old_it_is(forge: Forge) -> None:
    runs = await a_job_with_runs(forge, 400 * DAY, 380 * DAY)
    await clean(forge)
    assert await left(forge) == runs[1:]
    # Also when, by a clock that was set back or a job that came back, a newer fire exists.
    other = await a_job_with_runs(forge, 300 * DAY, name="other")
    await forge.backends.runs.insert([ended(forge.now - 200 * DAY, "other")])
    await clean(forge)
    assert other[0] in await left(forge)


async def test_runs_from_the_cursor_on_stay_however_old_they_are(forge: Forge) -> None:
    # By a clock that was set back, newer fires exist than the cursor has reached.
    runs = await a_job_with_runs(forge, 300 * DAY, next_fire=forge.now - 250 * DAY, due_at=None)
    passed = [ended(forge.now - age) for age in (260 * DAY, 250 * DAY, 240 * DAY, 200 * DAY)]
    await forge.backends.runs.insert(passed)
    await clean(forge)
    assert await left(forge) == [runs[0], *(run.id for run in passed[1:])]


async def test_a_run_whose_successor_is_younger_than_the_retention_stays(forge: Forge) -> None:
    # Who read the job before its last move and has slept since would insert the yearly run again.
    runs = await a_job_with_runs(forge, 365 * DAY, HOUR)
    assert (await clean(forge))["runs"] == 0
    assert await left(forge) == runs


async def test_manual_runs_are_deleted_with_their_late_results(forge: Forge) -> None:
    runs = await a_job_with_runs(forge, HOUR)
    manual = ended(forge.now - 31 * DAY, id="report@manual-x")
    await forge.backends.runs.insert([manual])
    for name, run in (("f1", manual.id), ("f2", runs[0])):
        late = LateResult(
            run=run, fence=1, node="n1#a", at=forge.now, attempt_result=AttemptResult(Outcome.OK), finish_id=name
        )
        await forge.backends.runs.keep_late([late])
    assert (await clean(forge))["runs"] == 1
    assert await left(forge) == runs
    if isinstance(forge, ServerForge):
        assert [row["_id"] async for row in forge.database["late"].find()] == ["f2"]
    else:
        assert isinstance(forge, MemoryForge)
        assert list(forge.backends.documents.late) == ["f2"]


async def test_runs_of_a_job_that_does_not_exist_go_all(forge: Forge) -> None:
    await forge.backends.runs.insert([ended(forge.now - 40 * DAY), ended(forge.now - 31 * DAY)])
    assert (await clean(forge))["runs"] == 2
    assert await left(forge) == []


async def test_a_deleted_job_loses_its_pending_run_first_and_a_retention_later_everything(forge: Forge) -> None:
    runs = await a_job_with_runs(
        forge, 80 * DAY, 70 * DAY, deleted_at=forge.now - 31 * DAY, next_fire=None, due_at=None
    )
    await clean(forge)
    (record,) = await forge.backends.jobs.get(["report"])
    assert (record.pending_run, record.rev) == (None, 1)
    breaker = BreakerState(job="report")
    await forge.backends.breakers.replace(breaker, replace(breaker, counts_from=forge.now))
    await clean(forge)
    assert await left(forge) == runs[1:]
    # A retention later, seen from the record.
    aged = replace(record, updated_at=forge.now - 31 * DAY)
    assert await forge.backends.jobs.replace(aged, record.rev)
    result = await clean(forge)
    assert (result["runs"], result["jobs"]) == (1, 1)
    assert await forge.backends.jobs.get(["report"]) == []
    assert await forge.backends.breakers.get(["report"]) == {}
    assert await left(forge) == []


async def test_a_tombstone_younger_than_the_retention_is_left_alone(forge: Forge) -> None:
    await a_job_with_runs(forge, 80 * DAY, deleted_at=forge.now - 29 * DAY, next_fire=None, due_at=None)
    await clean(forge)
    (record,) = await forge.backends.jobs.get(["report"])
    assert record.pending_run is not None


async def test_the_run_of_a_deleted_jobs_pending_run_is_inserted_before_that_is_removed(forge: Forge) -> None:
    fire = forge.now - 70 * DAY
    record = JobRecord(
        job=a_job(), pending_run=a_pend(fire), deleted_at=forge.now - 31 * DAY, created_at=fire, updated_at=fire
    )
    await forge.backends.jobs.create(record)
    await clean(forge)
    (run,) = await forge.backends.archive.runs()
    assert run.fire_at == fire


async def test_a_job_whose_tombstone_goes_while_it_is_applied_again_is_created(forge: Forge) -> None:
    gone = forge.now - 70 * DAY
    await forge.backends.jobs.create(
        JobRecord(job=a_job(), pending_run=None, deleted_at=gone, created_at=gone, updated_at=gone)
    )
    replacing = forge.backends.jobs.replace

    async def too_late(record: JobRecord, rev: int) -> bool:
        assert (await clean(forge))["jobs"] == 1
        forge.backends.jobs.replace = replacing  # type: ignore[method-assign]
        return await replacing(record, rev)

    forge.backends.jobs.replace = too_late  # type: ignore[method-assign]
    assert (
        await Editor(
            forge.backends.jobs,
            forge.backends.versions,
            forge.backends.plans,
            forge.backends.runs,
            forge.backends.queue,
            forge.clock,
        ).define(a_job())
        == "created"
    )
    (record,) = await forge.backends.jobs.get(["report"])
    assert (record.active, record.rev) == (True, 0)


async def test_it_deletes_in_batches_with_pauses_and_goes_on_after_a_failure(
    forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "BATCH", 3)
    runs = await a_job_with_runs(forge, *(k * DAY for k in range(31, 42)))
    delete, sizes = forge.backends.archive.delete_runs, list[int]()

    async def failing(ids: Any, ended_before: datetime) -> int:
        if len(sizes) == 1:
            sizes.append(0)
            raise BackendUnavailable("MongoDB", "here", "away")
        sizes.append(len(ids))
        return await delete(ids, ended_before)

    forge.backends.archive.delete_runs = failing  # type: ignore[method-assign]
    with pytest.raises(BackendUnavailable):
        await clean(forge)
    assert len(await left(forge)) == 8
    assert (await clean(forge))["runs"] == 7
    assert await left(forge) == runs[-1:]
    assert max(sizes) == 3
    assert len([pause for pause in forge.clock.pauses if pause > 0]) >= 4


async def test_nodes_that_have_been_silent_for_an_hour_are_forgotten(forge: Forge) -> None:
    await forge.is_up("n1")
    if isinstance(forge, ServerForge):
        await forge.redis.command("ZADD", forge.redis.keys.nodes, (forge.now - 2 * HOUR).timestamp() * 1000, "n2#b")
    elif isinstance(forge, MemoryForge):
        report, until, seen = forge.backends.memory.reports["n1#a"]
        forge.backends.memory.reports["n2#b"] = (replace(report, name="n2"), until - 7200, seen - 7200)
    assert (await clean(forge))["nodes"] == 1
    assert [member.report.name for member in await forge.backends.membership.members()] == ["n1"]


async def test_indexes_of_earlier_versions_go_when_no_node_of_such_a_version_is_left(forge: Forge) -> None:
    dropped: list[bool] = []

    async def drop() -> None:
        dropped.append(True)

    forge.backends.store_admin.drop_unused_indexes = drop  # type: ignore[method-assign]
    for name, version in (("n1", "0.9.0"), ("n2", "0.8.0")):
        await forge.backends.membership.report(a_report(name, version=version), 15)
    await clean(forge)
    assert not dropped
    await forge.backends.membership.leave(a_report("n2"))
    await clean(forge)
    assert dropped


async def test_it_keeps_the_age_of_log_lines_in_step(forge: Forge) -> None:
    run = (await a_job_with_runs(forge, HOUR))[0]
    lines = [
        LogLine(run=run, job="report", fence=1, attempt=1, n=n, at=forge.now - age, level="info", text="x")
        for n, age in enumerate((8 * DAY, HOUR))
    ]
    await forge.backends.logs.append(lines)
    await clean(forge, log_retention=7 * DAY)
    if isinstance(forge, ServerForge):
        index = (await forge.database["logs"].index_information())["age"]
        assert (index["key"], index["expireAfterSeconds"]) == ([("at", 1)], 7 * 86400)
    else:
        assert await forge.backends.logs.read(run) == lines[1:]
