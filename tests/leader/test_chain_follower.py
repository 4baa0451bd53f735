"""Two chain followers on the same stores: paused, interrupted, and each late for the other."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.chain import ChainLink, RunEnd, Upstream
from cronflow.domain.cluster import Tenure
from cronflow.domain.following import JoinRecord, arrive, finish
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.run import Kind, Run, RunState, replay_id
from cronflow.leader.chain_follower import ChainFollower
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from tests.contracts.builders import T0, a_run

SECOND = timedelta(seconds=1)


class Leads:
    """An elector that always leads."""

    tenure = Tenure(term=1, holder="a", redis_epoch="", fences=None)  # type: ignore[arg-type]


class Slow:
    """A port whose calls take turns at random with other tasks, before and after they act."""

    def __init__(self, port: object, chance: random.Random) -> None:
        self._port, self._chance = port, chance

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._port, name)

        async def call(*args: object) -> object:
            for _ in range(self._chance.randrange(6)):
                await asyncio.sleep(0)
            found = await act(*args)
            for _ in range(self._chance.randrange(6)):
                await asyncio.sleep(0)
            return found

        return call


def a_follower(backends: MemoryBackends, clock: FakeClock, chance: random.Random) -> ChainFollower:
    chains, jobs, runs = (Slow(port, chance) for port in (backends.chains, backends.jobs, backends.runs))
    return ChainFollower(chains, jobs, runs, Leads(), clock, lambda: None)  # type: ignore[arg-type]


async def apply(backends: MemoryBackends, clock: FakeClock, *jobs: tuple[str, tuple[str, ...]]) -> None:
    await UseCases(backends, clock).jobs.apply(
        [Job(name=name, target=PythonTarget("a:b"), after=tuple(map(Upstream, after))) for name, after in jobs]
    )


def ended(job: str, n: int, chain: ChainLink | None = None) -> Run:
    at = T0 + n * SECOND
    base = a_run(job, at, kind=Kind.MANUAL, state=RunState.SUCCEEDED, check_at=None, ended_at=at)
    return replace(base, followed=True, chain=chain)


async def disorder(backends: MemoryBackends, clock: FakeClock, runs: list[Run], chance: random.Random) -> None:
    """End the runs one after the other while two followers work, each of which dies at any moment and comes back. At
    last one of them works alone.
    """
    busy: list[asyncio.Task[float] | None] = [None, None]
    left = list(runs)
    for _ in range(60 * len(runs)):
        if left and chance.random() < 0.1:
            await backends.runs.insert([left.pop(0)])
        k = chance.randrange(2)
        task = busy[k]
        if task is None or task.done():
            busy[k] = asyncio.create_task(a_follower(backends, clock, chance).step())
        elif chance.random() < 0.05:
            task.cancel()
        await asyncio.sleep(0)
    await backends.runs.insert(left)
    for task in busy:
        if task is not None:
            await asyncio.wait({task})
    for _ in range(3):
        await a_follower(backends, clock, chance).step()


def following(backends: MemoryBackends, job: str) -> list[Run]:
    return [run for run in backends.documents.runs.values() if run.job == job]


def uses(runs: list[Run]) -> Counter[str]:
    return Counter(one.run for run in runs if run.chain is not None for one in run.chain.of)


@pytest.mark.parametrize("seed", range(16))
async def test_each_end_is_used_at_most_once_and_none_is_forgotten(seed: int) -> None:
    chance, clock = random.Random(seed), FakeClock()
    backends = memory_backends(clock)
    await apply(backends, clock, ("x", ()), ("y", ()), ("single", ("x",)), ("both", ("x", "y")))
    runs = [ended(job, n) for n in range(5) for job in ("x", "y")]
    chance.shuffle(runs)
    await disorder(backends, clock, runs, chance)
    assert await backends.chains.ended(100) == []
    assert sorted(uses(following(backends, "single"))) == sorted(run.id for run in runs if run.job == "x")
    both = following(backends, "both")
    assert set(uses(both).values()) <= {1}
    assert {frozenset(one.job for one in run.chain.of) for run in both if run.chain} <= {frozenset("xy")}
    [join] = await backends.chains.joins(["both"])
    assert join.completed == ()
    # What is neither used nor waits was replaced by a later end of its job.
    waiting = {end.run for end in join.arrived}
    assert len(waiting) <= 1
    assert both
    pairs = min(sum(run.job == job for run in runs) for job in "xy")
    assert 1 <= len(both) <= pairs


@pytest.mark.parametrize("seed", range(14))
async def test_a_fan_in_of_each_chain_runs_once_and_once_more_for_a_replay(seed: int) -> None:
    chance, clock = random.Random(seed), FakeClock()
    backends = memory_backends(clock)
    await apply(backends, clock, ("root", ()), ("x", ("root",)), ("y", ("root",)), ("both", ("x", "y")))
    runs = []
    for n in range(3):
        link = ChainLink(f"root@{n}", 1)
        first, other = ended("x", n, link), ended("y", n, link)
        replay = replace(first, id=replay_id(first.id, 1), kind=Kind.REPLAY, ended_at=T0)
        runs += [first, other, replay]
    chance.shuffle(runs)
    await disorder(backends, clock, runs, chance)
    assert await backends.chains.ended(100) == []
    for n in range(3):
        found = [run for run in following(backends, "both") if run.chain_id == f"root@{n}"]
        # The replay counts in the newest one, whatever the clocks of the nodes were.
        assert 1 <= len(found) <= 2
        assert any(f"x@{T0 + n * SECOND:%Y%m%dT%H%M%SZ}~r1" in uses([run]) for run in found)


async def test_an_end_that_arrives_late_does_not_replace_a_later_one() -> None:
    job = Job(name="both", target=PythonTarget("a:b"), after=(Upstream("x"), Upstream("y")))
    early, late, other = (
        RunEnd(f"{name}@{n}", name, RunState.SUCCEEDED, T0, T0 + n * SECOND)
        for name, n in (("x", 1), ("x", 2), ("y", 3))
    )
    join = JoinRecord(id="both", job="both", chain=None)
    for end in (late, early, other):
        join = arrive(join, job, end)
    assert {end.run for end in join.completed} == {"x@2", "y@3"}
    assert set(join.recent) == {"x@1", "x@2", "y@3"}
    assert finish(join).completed == ()


async def test_a_run_whose_leader_died_before_it_was_inserted_is_inserted_without_a_further_end() -> None:
    clock = FakeClock()
    backends = memory_backends(clock)
    job = Job(name="both", target=PythonTarget("a:b"), after=(Upstream("x", within=SECOND), Upstream("y")))
    await UseCases(backends, clock).jobs.apply([replace(job, name=name, after=()) for name in "xy"])
    await UseCases(backends, clock).jobs.apply([job])
    await backends.runs.insert([replace(ended("x", 0), ended_at=clock.now())])
    follower = a_follower(backends, clock, random.Random(1))
    await follower.step()
    await clock.advance(2)
    backends.faults.stall("runs.insert", acted=False)
    dying = asyncio.create_task(a_follower(backends, clock, random.Random(2)).step())
    for _ in range(200):
        await asyncio.sleep(0)
    dying.cancel()
    await asyncio.wait({dying})
    backends.faults.heal()
    assert following(backends, "both") == []
    await a_follower(backends, clock, random.Random(3)).step()
    assert [run.state for run in following(backends, "both")] == [RunState.SKIPPED]
    assert await backends.chains.due_joins(clock.now(), 10) == []
