"""The contract of the queries for the health of jobs, and what is concluded from them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.bootstrap.backends import open_backends
from cronflow.domain.catch_up import HELD
from cronflow.domain.job import JobRecord
from cronflow.domain.job_health import JobHealth
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.placement import NO_FREE_SLOT, Waiting
from cronflow.domain.run import Kind, Outcome, Run, RunState
from cronflow.ports import Backends
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.usecases.job_health import JobHealthReader
from tests.contracts.builders import T0, a_pend, a_record, a_run

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
NOW = T0 + 10 * MINUTE
NO_LABEL = (("n1#a", "no label gpu (needs gpu=h100)"),)


@pytest.fixture(params=["memory", "servers"])
async def backends(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Backends]:
    if request.param == "memory":
        yield memory_backends(FakeClock(NOW))
        return
    urls = request.getfixturevalue("redis_url"), request.getfixturevalue("mongo_url")
    async with open_backends(*urls, namespace) as opened:
        yield opened


def reader(backends: Backends) -> JobHealthReader:
    return JobHealthReader(backends, FakeClock(NOW))


def waits(
    reason: str, ago: timedelta, fire: timedelta | None = None, nodes: tuple[tuple[str, str], ...] = ()
) -> Waiting:
    return Waiting(fire=NOW - (ago if fire is None else fire), since=NOW - ago, reason=reason, nodes=nodes)


def ended(job: str, minute: int, state: RunState, **fields: Any) -> Run:
    at = T0 + minute * MINUTE
    return replace(a_run(job, at, state=state, check_at=None, ended_at=at, outcome=Outcome.ERROR), **fields)


async def names(backends: Backends, health: JobHealth) -> dict[str, str]:
    report = await reader(backends).read([health])
    return {one.job: one.reason for one in report.conditions[health]}


async def test_a_job_is_overdue_when_its_instant_passed_and_nothing_is_planned(backends: Backends) -> None:
    late, soon = NOW - 2 * MINUTE, NOW - 59 * SECOND
    patient = a_record("patient", late)
    held = Waiting(fire=late, since=late, reason=HELD)
    await backends.jobs.create_all(
        [
            a_record("late", late),
            a_record("soon", soon),
            a_record("paused", late, paused=True),
            replace(patient, job=replace(patient.job, misfire=replace(patient.job.misfire, late_after=5 * MINUTE))),
            a_record("held", NOW + 9 * MINUTE, next_fire=late, waiting=held),
            a_record("_sys:sweep", late),
        ]
    )
    assert await names(backends, JobHealth.OVERDUE) == {
        "late": "the cluster has no leader",
        "held": "the cluster has no leader",
    }
    assert await backends.election.acquire("n1#a", 30)
    assert await names(backends, JobHealth.OVERDUE) == {"late": "the leader has not planned the run yet", "held": HELD}


async def test_what_falls_due_in_maintenance_is_not_overdue(backends: Backends) -> None:
    await backends.jobs.create_all([a_record("late", NOW - 2 * MINUTE), a_record("before", NOW - 5 * MINUTE)])
    await backends.control.begin_maintenance(MaintenanceMode(since=NOW - 3 * MINUTE))
    assert set(await names(backends, JobHealth.OVERDUE)) == {"before"}


async def test_a_job_is_stuck_while_no_node_can_take_its_next_fire(backends: Backends) -> None:
    fire = NOW - 2 * MINUTE

    def waiting(name: str, reason: str, ago: timedelta, **fields: Any) -> JobRecord:
        return a_record(name, fire, waiting=replace(waits(reason, ago, 2 * MINUTE, NO_LABEL), **fields))

    await backends.jobs.create_all(
        [
            waiting("no-label", "no node can run this job", 10 * SECOND),
            waiting("just-now", "no node can run this job", 9 * SECOND),
            waiting("busy", NO_FREE_SLOT, MINUTE),
            waiting("busy-now", NO_FREE_SLOT, 59 * SECOND),
            waiting("queued", "its previous run has not ended", MINUTE, blocked_by="x@1"),
            waiting("limited", "the limit db is full", MINUTE, nodes=()),
        ]
    )
    assert await names(backends, JobHealth.STUCK) == {"no-label": "no node can run this job", "busy": NO_FREE_SLOT}
    [one] = [c for c in (await reader(backends).report()).conditions[JobHealth.STUCK] if c.job == "no-label"]
    assert (one.nodes, one.run, one.since) == (NO_LABEL, f"no-label@{fire:%Y%m%dT%H%M%SZ}", NOW - 10 * SECOND)


async def test_a_job_is_stuck_while_no_node_can_take_an_open_run(backends: Backends) -> None:
    def open_run(job: str, waiting: Waiting, **fields: Any) -> Run:
        return replace(a_run(job, T0, state=RunState.RETRYING, node=None, waiting=waiting), **fields)

    busy = replace(waits(NO_FREE_SLOT, MINUTE), nodes=(("n1#a", NO_FREE_SLOT),))
    await backends.runs.insert(
        [
            open_run("manual", waits("no node is up", 10 * SECOND)),
            open_run("busy", busy),
            open_run("filled", busy, kind=Kind.BACKFILL, id="filled@20261121T000000Z~b1"),
            open_run("held", waits("the cluster is in maintenance", MINUTE)),
        ]
    )
    assert await names(backends, JobHealth.STUCK) == {"manual": "no node is up", "busy": NO_FREE_SLOT}


async def test_a_job_is_failing_while_its_latest_run_failed(backends: Backends) -> None:
    await backends.jobs.create_all([a_record(name, pending_run=a_pend()) for name in ("bad", "once", "good", "parted")])
    failed, ok = RunState.FAILED, RunState.SUCCEEDED
    await backends.runs.insert(
        [
            ended("bad", 1, ok),
            ended("bad", 2, failed, error="first"),
            ended("bad", 3, RunState.LOST),
            ended("bad", 4, failed, error="Traceback:\n\nKeyError: 'id'"),
            ended("bad", 5, RunState.SKIPPED),
            ended("once", 1, failed),
            ended("good", 1, failed),
            ended("good", 2, ok),
            ended("parted", 1, failed, kind=Kind.PART, id="parted@20261121T000100Z~s1"),
            ended("deleted", 1, failed),
        ]
    )
    assert await names(backends, JobHealth.FAILING) == {
        "bad": "the last 3 runs failed: KeyError: 'id'",
        "once": "the last run failed",
    }
    [bad] = [c for c in (await reader(backends).report()).conditions[JobHealth.FAILING] if c.job == "bad"]
    assert bad.since == T0 + 2 * MINUTE


async def test_paused_jobs_and_those_that_never_ran_are_found(backends: Backends) -> None:
    gone: dict[str, Any] = {"deleted_at": T0, "next_fire": None, "due_at": None}
    await backends.jobs.create_all(
        [
            a_record("new"),
            a_record("planned", pending_run=a_pend()),
            replace(a_record("by-hand"), next_fire=None, due_at=None),
            replace(a_record("gone"), **gone),
            a_record("held", paused=True, pending_run=a_pend()),
            replace(a_record("held-and-gone", paused=True), **gone),
        ]
    )
    await backends.runs.insert([a_run("by-hand")])
    assert await names(backends, JobHealth.NEVER_RAN) == {"new": "has no run yet"}
    assert await names(backends, JobHealth.PAUSED) == {"held": "paused"}
