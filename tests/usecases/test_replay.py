"""Replays and acknowledgements: nothing runs twice for a dead letter, and no ended state changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from cronflow.domain.errors import BackendUnavailable, Conflict, NotFound
from cronflow.domain.job import Retry
from cronflow.domain.run import Kind, Outcome, Run, RunState, Settled, original_id, replay_id
from cronflow.ports import RunQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from tests.contracts.builders import T0, a_job, a_run

MINUTE = timedelta(minutes=1)


def a_dead_run(minute: int = 0, job: str = "report", **fields: object) -> Run:
    ended = {"state": RunState.FAILED, "check_at": None, "ended_at": T0, "outcome": Outcome.ERROR, "error": "no"}
    return a_run(job, T0 + minute * MINUTE, **(ended | {"args": {"region": "eu"}} | fields))


DEAD = a_dead_run()


class Bench:
    """A service on memory, with a job and a dead letter of it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.service = UseCases(self.backends, self.clock)

    async def run(self, name: str = DEAD.id) -> Run:
        return await self.service.runs.get(name)

    async def ids(self) -> set[str]:
        return {run.id for run in await self.service.backends.runs.find(RunQuery())}


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    await made.service.jobs.apply([a_job(retry=Retry(max=1))])
    await made.backends.runs.insert([DEAD])
    return made


def test_replays_are_numbered_on_the_run_that_all_of_them_repeat() -> None:
    assert replay_id("report@1", 1) == "report@1~r1"
    assert replay_id("report@1~r1", 2) == "report@1~r2"
    assert original_id("report@1~r12") == "report@1"
    assert original_id("report@1") == "report@1"
    # A job may be called so.
    assert original_id("weird~rx@1") == "weird~rx@1"


async def test_a_replay_is_a_new_run_of_the_same_instant_under_the_present_job(bench: Bench) -> None:
    await bench.service.jobs.apply([a_job(retry=Retry(max=7))])
    name = await bench.service.runs.replay(DEAD.id, by="ann@desk", note="fixed")
    replay = await bench.run(name)
    assert name == f"{DEAD.id}~r1"
    assert (replay.kind, replay.state, replay.attempt) == (Kind.REPLAY, RunState.RETRYING, 0)
    assert (replay.fire_at, replay.args, replay.replay_of) == (DEAD.fire_at, {"region": "eu"}, DEAD.id)
    assert (replay.max_attempts, replay.job_ver, replay.next_check) == (8, 2, bench.clock.now())
    original = await bench.run()
    assert original.resolution is not None
    assert (original.resolution.how, original.resolution.run) == (Settled.REPLAYED, name)
    assert (original.resolution.by, original.resolution.note) == ("ann@desk", "fixed")
    assert replace(original, resolution=None) == DEAD
    assert await bench.service.backends.dead_letters.count() == 0


async def test_given_arguments_replace_the_originals(bench: Bench) -> None:
    replay = await bench.run(await bench.service.runs.replay(DEAD.id, {"region": "us"}))
    assert replay.args == {"region": "us"}


async def test_replays_of_replays_count_on(bench: Bench) -> None:
    first = await bench.service.runs.replay(DEAD.id)
    runs = bench.backends.documents.runs
    runs[first] = replace(runs[first], state=RunState.FAILED, check_at=None, outcome=Outcome.ERROR)
    second = await bench.service.runs.replay(first)
    assert second == f"{DEAD.id}~r2"
    assert (await bench.run(second)).replay_of == first
    # A run that went well may be replayed as often as somebody wishes.
    third = await bench.service.runs.replay(DEAD.id)
    assert third == f"{DEAD.id}~r3"
    assert [(await bench.run(name)).replay_of for name in (first, third)] == [DEAD.id] * 2


async def test_more_replays_than_are_looked_at_at_once(bench: Bench) -> None:
    for number in range(1, 20):
        assert await bench.service.runs.replay(DEAD.id) == f"{DEAD.id}~r{number}"


async def test_concurrent_replays_of_a_dead_letter_replay_it_once(bench: Bench) -> None:
    found = await asyncio.gather(*(bench.service.runs.replay(DEAD.id) for _ in range(3)))
    assert set(found) == {f"{DEAD.id}~r1"}
    assert await bench.ids() == {DEAD.id, f"{DEAD.id}~r1"}


async def test_a_replay_that_died_before_the_mark_is_completed_and_not_repeated(bench: Bench) -> None:
    bench.backends.faults.fail_before("dead_letters.settle")
    with pytest.raises(BackendUnavailable):
        await bench.service.runs.replay(DEAD.id)
    assert await bench.service.backends.dead_letters.count() == 1
    assert await bench.service.runs.replay(DEAD.id) == f"{DEAD.id}~r1"
    assert await bench.ids() == {DEAD.id, f"{DEAD.id}~r1"}
    assert await bench.service.backends.dead_letters.count() == 0


async def test_an_insert_whose_answer_was_lost_is_not_repeated_under_another_number(bench: Bench) -> None:
    bench.backends.faults.fail_after("runs.insert")
    with pytest.raises(BackendUnavailable):
        await bench.service.runs.replay(DEAD.id)
    assert await bench.service.runs.replay(DEAD.id) == f"{DEAD.id}~r1"


async def test_an_open_or_missing_run_is_not_replayed(bench: Bench) -> None:
    open_run = a_run(fire=T0 + MINUTE)
    await bench.backends.runs.insert([open_run])
    with pytest.raises(Conflict, match="only a run that has ended"):
        await bench.service.runs.replay(open_run.id)
    with pytest.raises(NotFound, match="no run"):
        await bench.service.runs.replay("report@1")
    await bench.backends.runs.insert([a_dead_run(job="gone")])
    with pytest.raises(NotFound, match="no job 'gone'"):
        await bench.service.runs.replay(a_dead_run(job="gone").id)
    assert len(await bench.ids()) == 3


async def test_only_dead_refuses_a_run_that_was_settled_in_the_meantime(bench: Bench) -> None:
    await bench.service.runs.acknowledge([DEAD.id])
    with pytest.raises(Conflict, match="is not a dead letter"):
        await bench.service.runs.replay(DEAD.id, only_dead=True)
    assert await bench.service.runs.replay(DEAD.id) == f"{DEAD.id}~r1"


async def test_an_acknowledgement_is_written_with_name_instant_and_note(bench: Bench) -> None:
    assert await bench.service.runs.acknowledge([DEAD.id, "nobody@1"], by="ann@desk", note="known") == {DEAD.id}
    settled = (await bench.run()).resolution
    assert settled is not None
    assert (settled.how, settled.by, settled.note, settled.at) == (
        Settled.ACKNOWLEDGED,
        "ann@desk",
        "known",
        bench.clock.now(),
    )
    assert await bench.service.runs.acknowledge([DEAD.id], by="bob") == set()


async def test_the_report_reads_page_by_page_and_reports_when_it_is_cut(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronflow.usecases.failures.PAGE", 2)
    await bench.backends.runs.insert([a_dead_run(k, error=f"order {k}") for k in range(1, 6)])
    await bench.backends.runs.insert([a_dead_run(9, state=RunState.SUCCEEDED), a_dead_run(-900)])
    failures, more = await bench.service.runs.report(T0)
    assert [(failure.reason, failure.count) for failure in failures] == [("order <n>", 5), ("no", 1)]
    assert not more
    monkeypatch.setattr("cronflow.usecases.failures.MOST_REPORTED", 4)
    failures, more = await bench.service.runs.report(T0)
    assert (sum(failure.count for failure in failures), more) == (4, True)
