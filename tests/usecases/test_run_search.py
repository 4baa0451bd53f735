"""Runs by the name and labels of their jobs and by kind: complete, in order, and never an unbounded read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.run import Kind, Run
from cronflow.ports import RunQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases, run_search
from cronflow.usecases.run_search import RunFilter
from tests.contracts.builders import T0, a_job, a_record, a_run

JOBS = 12
RUNS = 240
KINDS = (Kind.CRON, Kind.CRON, Kind.MANUAL, Kind.REPLAY)


@pytest.fixture
def service() -> UseCases:
    clock = FakeClock()
    return UseCases(memory_backends(clock), clock)


@pytest.fixture(params=["few jobs match", "many jobs match"])
def _bounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(run_search, "PAGE", 10)
    monkeypatch.setattr(run_search, "MOST_RUNS", 20)
    monkeypatch.setattr(run_search, "NAMES_AT_ONCE", 5)
    if request.param == "many jobs match":
        monkeypatch.setattr(run_search, "MOST_HISTORIES", 1)
        monkeypatch.setattr(run_search, "MOST_LABELLED", 1)
    return iter([None])


async def filled(service: UseCases) -> list[Run]:
    """Runs of twelve jobs, four with `team=billing`, newest first."""
    names = [f"{'etl' if n % 2 else 'app'}-{n}" for n in range(JOBS)]
    records = [
        a_record(name, job=a_job(name, labels={"team": "billing", "n": str(n)} if n % 3 == 0 else {}))
        for n, name in enumerate(names)
    ]
    await service.backends.jobs.create_all(records)
    runs = [
        a_run(names[n % JOBS], T0 + timedelta(seconds=n // 3), kind=KINDS[n % len(KINDS)], id=f"{names[n % JOBS]}@{n}")
        for n in range(RUNS)
    ]
    await service.backends.runs.insert(runs)
    return sorted(runs, key=lambda run: (run.fire_at, run.id), reverse=True)


async def found(service: UseCases, wanted: RunFilter, limit: int = 7) -> list[Run]:
    """The runs of all pages. Every request returns at most the limit and moves on."""
    runs: list[Run] = []
    while True:
        page = await service.run_search.find(wanted, limit)
        assert len(page.runs) <= limit
        runs += page.runs
        if page.after is None:
            return runs
        query = wanted.query
        assert page.after != query.before
        wanted = RunFilter(
            query=RunQuery(before=page.after, oldest_first=query.oldest_first, since=query.since),
            name=wanted.name,
            labels=wanted.labels,
            kinds=wanted.kinds,
        )


@pytest.mark.usefixtures("_bounds")
@pytest.mark.parametrize("oldest_first", [False, True])
async def test_every_condition_selects_its_runs_in_order(service: UseCases, oldest_first: bool) -> None:
    runs = await filled(service)
    of_billing = {f"{'etl' if n % 2 else 'app'}-{n}" for n in range(0, JOBS, 3)}
    since = T0 + timedelta(seconds=30)
    cases: list[tuple[dict[str, Any], Callable[[Run], bool]]] = [
        ({"name": "etl"}, lambda run: run.job.startswith("etl")),
        ({"name": "p-1"}, lambda run: run.job == "app-10"),
        ({"name": "etl-?"}, lambda run: run.job.startswith("etl-") and len(run.job) == 5),
        ({"name": "tl*"}, lambda run: False),
        ({"labels": {"team": "billing"}}, lambda run: run.job in of_billing),
        ({"labels": {"n": None}}, lambda run: run.job in of_billing),
        ({"labels": {"n": "3"}, "name": "etl"}, lambda run: run.job == "etl-3"),
        ({"kinds": [Kind.MANUAL]}, lambda run: run.kind is Kind.MANUAL),
        (
            {"kinds": [Kind.REPLAY], "labels": {"team": "billing"}},
            lambda run: run.kind is Kind.REPLAY and run.job in of_billing,
        ),
        ({"name": "nobody"}, lambda run: False),
    ]
    for wanted, takes in cases:
        query = RunQuery(oldest_first=oldest_first, since=since)
        expected = [run for run in runs if takes(run) and run.fire_at >= since]
        assert await found(service, RunFilter(query=query, **wanted)) == (expected[::-1] if oldest_first else expected)


async def test_a_request_reads_a_bounded_number_of_runs(service: UseCases, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = await filled(service)
    monkeypatch.setattr(run_search, "PAGE", 10)
    monkeypatch.setattr(run_search, "MOST_RUNS", 20)
    page = await service.run_search.find(RunFilter(query=RunQuery(), kinds=[Kind.BACKFILL]), 50)
    assert page == ([], (runs[19].fire_at, runs[19].id))


@pytest.mark.parametrize("at_once", [2, 5000])
async def test_names_that_begin_with_the_text_are_suggested_first(
    service: UseCases, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(run_search, "NAMES_AT_ONCE", at_once)
    for name in ("report-a", "daily-report", "report-b", "sync"):
        await service.backends.jobs.create(a_record(name))
    assert await service.run_search.names("report", 9) == (["report-a", "report-b", "daily-report"], False)
    assert await service.run_search.names("report", 2) == (["report-a", "report-b"], True)
    assert await service.run_search.names("", 3) == (["daily-report", "report-a", "report-b"], True)
    assert await service.run_search.names("report", 9, lambda name: name != "report-a") == (
        ["report-b", "daily-report"],
        False,
    )


async def test_suggestions_stop_after_a_bounded_number_of_names(
    service: UseCases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_search, "NAMES_AT_ONCE", 2)
    monkeypatch.setattr(run_search, "MOST_NAMES", 4)
    for n in range(9):
        await service.backends.jobs.create(a_record(f"job-{n}"))
    assert await service.run_search.names("-8", 9) == ([], True)
    await service.jobs.delete("job-0")
    assert "job-0" not in (await service.run_search.names("job", 9))[0]
