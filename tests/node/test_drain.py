"""Nodes that take no more work, on virtual time: given back, declined, drained."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from cronflow.domain.capabilities import Capabilities
from cronflow.domain.cluster import node_name
from cronflow.domain.errors import InvalidInput
from cronflow.domain.events import DrainDeadlinePassed, RunsUnplaced
from cronflow.domain.job import CommandTarget, Delivery, Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import Assignment
from tests.node.cluster import Cluster, Recording, Steady, a_cluster

SECOND = timedelta(seconds=1)


@dataclass
class Choosing(Recording):
    """An executor that some nodes do not have."""

    refusing: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """Those that refuse say so."""
        self.asked.append(node_name(node))
        return f"no shell on {node_name(node)}" if node_name(node) in self.refusing else None


def a_job(name: str = "long", **fields: object) -> Job:
    return Job(name=name, target=PythonTarget("jobs:long"), **fields)  # type: ignore[arg-type]


def named(cluster: Cluster, name: str) -> object:
    return next(node for node in cluster.nodes if node_name(node.id) == name)


def declined(run: Run) -> list[str]:
    return [node_name(attempt.node) for attempt in run.attempts if attempt.outcome is Outcome.DECLINED]


# ------------------------------------------------------------------------------------------------------- given back


async def test_asynq_1144_orphan_active() -> None:
    """asynq #1144, #1158: what a process had taken and not begun when it stopped stayed active for ever. What lies in
    the list of a node that stops is placed elsewhere within a second, not at its check_at.
    """
    async with a_cluster("leader") as cluster:
        stopping = cluster.start("a", work="yes")
        await cluster.elapse(0.5)
        stall = cluster.backends.faults.stall("queue.take")
        await cluster.service.jobs.apply([a_job(overlap=Overlap.ALLOW, require={"work": "yes"})])
        asked = [await cluster.service.jobs.trigger("long") for _ in range(3)]
        await cluster.elapse(1.5)
        assert {run.state for run in cluster.runs} == {RunState.DISPATCHED}
        cluster.start("b", work="yes")
        await cluster.elapse(0.5)
        stopping.stop()
        # It was just asking for work; the reply comes when it is already stopping.
        await cluster.clock.advance(0.01)
        cluster.backends.faults.heal()
        assert stall.reached.is_set()
        await cluster.elapse(1.25)
        assert sorted(cluster.executor.runs_started) == sorted(asked)
        assert {node_name(where) for _, _, where, _ in cluster.executor.starts} == {"b"}
        assert {(run.attempt, run.redispatches) for run in cluster.runs} == {(1, 0)}
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


async def test_what_is_given_back_frees_its_lock_and_at_most_once_runs_once() -> None:
    async with a_cluster("leader") as cluster:
        stopping = cluster.start("a", work="yes")
        await cluster.elapse(0.5)
        cluster.backends.faults.stall("queue.take", acted=True)
        job = a_job(delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0), require={"work": "yes"})
        await cluster.service.jobs.apply([job])
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(1.5)
        assert cluster.backends.memory.locks
        cluster.start("b", work="yes")
        await cluster.elapse(0.5)
        stopping.stop()
        await cluster.clock.advance(0.01)
        cluster.backends.faults.heal()
        await cluster.elapse(2)
        assert cluster.executor.runs_started == [run_id]
        assert (await cluster.service.runs.get(run_id)).state is RunState.SUCCEEDED
        assert cluster.backends.memory.locks == {}


async def test_what_is_pushed_to_a_node_after_it_stopped_taking_comes_back() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(overlap=Overlap.ALLOW)])
        await cluster.service.jobs.trigger("long")
        await cluster.elapse(1)
        stopping = next(node for node in cluster.nodes if node.id == cluster.runs[0].node)
        stopping.stop()
        await cluster.elapse(1)
        late = Assignment(
            run="x@1", fence=9_000_000_000_000_000, term=99, attempt=1, fire_at=cluster.clock.now(), job=a_job()
        )
        cluster.backends.memory.lists[stopping.id] = [(1e9, late)]
        await cluster.elapse(1.25)
        assert not cluster.backends.memory.lists.get(stopping.id)
        assert "x@1" not in cluster.executor.runs_started


# ---------------------------------------------------------------------------------------------------------- declined


async def test_a_node_that_cannot_run_it_declines_and_another_one_does() -> None:
    async with a_cluster() as cluster:
        executor = cluster.executor = Choosing(cluster.clock, refusing={"a", "b"})
        for name in "abc":
            cluster.start(name)
        await cluster.elapse(1)
        await cluster.service.jobs.apply([a_job(overlap=Overlap.ALLOW, retry=Retry(max=0))])
        for _ in range(6):
            await cluster.service.jobs.trigger("long")
        await cluster.elapse(6)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert {node_name(where) for _, _, where, _ in executor.starts} == {"c"}
        for run in cluster.runs:
            assert run.attempt == 1
            assert len(declined(run)) == len(set(declined(run)))
        assert any(declined(run) for run in cluster.runs)


async def test_a_run_that_every_node_declines_waits_for_one_that_can_run_it() -> None:
    async with a_cluster() as cluster:
        cluster.executor = Choosing(cluster.clock, refusing={"a", "b"})
        for name in "ab":
            cluster.start(name)
        await cluster.elapse(1)
        await cluster.service.jobs.apply([a_job(delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0))])
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(60)
        run = await cluster.service.runs.get(run_id)
        assert (run.state, run.attempt, sorted(declined(run))) == (RunState.RETRYING, 0, ["a", "b"])
        assert run.waiting is not None
        assert [reason for _, reason in run.waiting.nodes] == ["no shell on a", "no shell on b"]
        assert cluster.executor.starts == []
        cluster.start("c")
        await cluster.elapse(5)
        assert (await cluster.service.runs.get(run_id)).state is RunState.SUCCEEDED


async def test_a_retrying_run_waits_while_the_nodes_that_can_run_it_restart() -> None:
    """A job of five attempts failed after the first, because the only nodes that allow its command were restarting and
    the third one had declined it.
    """
    no_shell, shell = Capabilities(shell=False), Capabilities(shell=True)

    def fails(_: Assignment) -> AttemptResult:
        return AttemptResult(Outcome.ERROR, error="exit 1")

    async with a_cluster() as cluster:
        executor = cluster.executor = Choosing(cluster.clock, fails, refusing={"a"})
        cluster.start("a", capabilities=no_shell)
        able = [cluster.start(name, capabilities=shell) for name in "bc"]
        await cluster.elapse(1)
        job = Job(name="fails", target=CommandTarget("exit 1"), retry=Retry(delays=["20s"] * 5))
        await cluster.service.jobs.apply([job])
        run_id = await cluster.service.jobs.trigger("fails")
        await cluster.elapse(5)
        assert len(executor.starts) == 1
        for node in able:
            await cluster.kill(node)
        await cluster.elapse(90)
        run = await cluster.service.runs.get(run_id)
        assert (run.state, run.attempt) == (RunState.RETRYING, 1)
        assert run.waiting is not None
        assert [(node_name(node), why) for node, why in run.waiting.nodes] == [
            ("a", "does not run commands (ALLOW_SHELL)")
        ]
        # One event for the whole wait.
        found = [happened.event for happened in await cluster.backends.events.find(limit=1000)]
        reason = f"no node can run this job ({run.waiting.nodes[0][0]}: does not run commands (ALLOW_SHELL))"
        assert [event for event in found if isinstance(event, RunsUnplaced)] == [RunsUnplaced(1, run_id, reason)]
        for name in "bc":
            cluster.start(name, capabilities=shell)
        await cluster.elapse(120)
        run = await cluster.service.runs.get(run_id)
        assert (run.state, run.outcome, run.attempt, run.error) == (RunState.FAILED, Outcome.ERROR, 6, "exit 1")
        # The node without commands was never asked.
        assert "a" not in executor.asked


async def test_a_node_short_of_memory_defers_and_the_run_goes_elsewhere() -> None:
    class Full(Steady):
        def memory(self) -> float:
            return 0.97

    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job(overlap=Overlap.ALLOW)])
        for node in cluster.nodes:
            if node_name(node.id) == "a":
                # Its leader believes the report before; the node itself knows better.
                node._heartbeat.memory = 0.97
        for _ in range(4):
            await cluster.service.jobs.trigger("long")
        await cluster.elapse(3)
        assert {node_name(where) for _, _, where, _ in cluster.executor.starts} == {"b"}
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        outcomes = {attempt.outcome for run in cluster.runs for attempt in run.attempts}
        assert outcomes == {Outcome.OK, Outcome.DEFERRED}


# ----------------------------------------------------------------------------------------------------------- drained


async def test_a_drained_node_ends_what_runs_takes_no_more_and_comes_back() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(overlap=Overlap.ALLOW)])
        first = await cluster.service.jobs.trigger("long")
        await cluster.elapse(1)
        name = node_name((await cluster.service.runs.get(first)).node or "")
        other = "b" if name == "a" else "a"
        member = await cluster.service.cluster.drain(name)
        assert member.draining
        await cluster.elapse(0.25)
        for _ in range(3):
            await cluster.service.jobs.trigger("long")
        await cluster.elapse(20)
        member, taken = await cluster.service.cluster.node(name)
        assert (member.report.draining, member.drained, set(taken)) == (True, False, {first})
        assert [node_name(where) for _, _, where, _ in cluster.executor.starts] == [name, other, other, other]
        cluster.executor.release.set()
        await cluster.elapse(1)
        assert (await cluster.service.cluster.node(name))[0].drained
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        await cluster.service.cluster.undrain(name)
        await cluster.service.cluster.drain(other)
        await cluster.elapse(1)
        await cluster.service.jobs.trigger("long")
        await cluster.elapse(2)
        assert node_name(cluster.executor.starts[-1][2]) == name


async def test_a_node_that_is_drained_gives_the_lead_to_another_and_does_not_take_it_back() -> None:
    async with a_cluster("a", "b") as cluster:
        (leader,) = cluster.leaders
        await cluster.service.cluster.drain(node_name(leader.id))
        await cluster.elapse(1.5)
        (successor,) = cluster.leaders
        assert successor is not leader
        await cluster.service.cluster.stepdown()
        await cluster.elapse(60)
        assert cluster.leaders == [successor]
        # It stood for no election in between: there were three terms, of which it had the first alone.
        record = cluster.backends.documents.leader
        assert record is not None
        assert record.term == 3


async def test_a_node_that_is_drained_and_alone_leads_on_until_another_one_can() -> None:
    async with a_cluster("a") as cluster:
        (leader,) = cluster.leaders
        await cluster.service.cluster.drain("a")
        await cluster.elapse(40)
        assert cluster.leaders == [leader]
        cluster.start("b")
        await cluster.elapse(3)
        assert [node_name(node.id) for node in cluster.leaders] == ["b"]


async def test_draining_lasts_over_a_restart_and_a_flushed_redis() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.cluster.drain("a")
        await cluster.elapse(1)
        first = next(node for node in cluster.nodes if node_name(node.id) == "a")
        first.stop()
        await cluster.elapse(2)
        await cluster.kill(first)
        again = cluster.start("a")
        await cluster.elapse(2)
        cluster.backends.memory.flush()
        await cluster.elapse(12)
        assert (await cluster.service.cluster.node("a"))[0].draining
        await cluster.service.jobs.apply([a_job("tick", schedule=Every("5s"), overlap=Overlap.ALLOW)])
        await cluster.elapse(21)
        assert {node_name(where) for _, _, where, _ in cluster.executor.starts} == {"b"}
        assert not again.leads


async def test_what_lies_in_the_list_of_a_drained_node_runs_elsewhere_within_a_second() -> None:
    async with a_cluster("leader") as cluster:
        cluster.start("a", work="yes")
        await cluster.elapse(0.5)
        cluster.backends.faults.stall("queue.take")
        await cluster.service.jobs.apply([a_job(require={"work": "yes"})])
        await cluster.service.jobs.trigger("long")
        await cluster.elapse(1.5)
        cluster.start("b", work="yes")
        await cluster.elapse(0.5)
        await cluster.service.cluster.drain("a")
        await cluster.clock.advance(0.05)
        cluster.backends.faults.heal()
        await cluster.elapse(1.25)
        ((_, _, where, _),) = cluster.executor.starts
        assert node_name(where) == "b"


# ---------------------------------------------------------------------------------------------------------- deadlines


async def test_at_its_deadline_a_drained_node_hands_on_what_runs_and_keeps_what_may_run_once() -> None:
    async with a_cluster("leader") as cluster:
        cluster.start("a", work="yes")
        await cluster.elapse(0.5)
        cluster.executor.release = asyncio.Event()
        again = a_job("again", overlap=Overlap.ALLOW, require={"work": "yes"})
        once = a_job("once", delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0), require={"work": "yes"})
        await cluster.service.jobs.apply([again, once])
        moved, kept = [await cluster.service.jobs.trigger(name) for name in ("again", "once")]
        await cluster.elapse(2)
        cluster.start("b", work="yes")
        await cluster.elapse(1)
        until = cluster.clock.now() + 30 * SECOND
        await cluster.service.cluster.drain("a", until=until)
        await cluster.elapse(25)
        assert cluster.executor.cancelled == []
        # Redis forgets the request, and the node does not.
        cluster.backends.memory.drain_deadlines.clear()
        await cluster.elapse(8)
        assert cluster.executor.cancelled == [moved]
        assert [node_name(where) for run, _, where, _ in cluster.executor.starts if run == moved] == ["a", "b"]
        assert [run for run, *_ in cluster.executor.starts].count(kept) == 1
        cluster.executor.release.set()
        await cluster.elapse(3)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        [run] = [run for run in cluster.runs if run.id == moved]
        # The interrupted attempt used none of its retries.
        assert [one.outcome for one in run.attempts] == [Outcome.DRAINED, Outcome.OK]
        assert run.attempt == 1
        events = [one.event for one in await cluster.backends.events.find(kinds=["drain_deadline_passed"])]
        assert events == [DrainDeadlinePassed("a", 1)]


async def test_a_further_request_replaces_the_deadline() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job()])
        await cluster.service.jobs.trigger("long")
        await cluster.elapse(1)
        name = node_name(cluster.executor.starts[0][2])
        with pytest.raises(InvalidInput, match="has passed"):
            await cluster.service.cluster.drain(name, until=cluster.clock.now())
        await cluster.service.cluster.drain(name, until=cluster.clock.now() + 5 * SECOND)
        await cluster.service.cluster.drain(name)
        await cluster.elapse(10)
        assert cluster.executor.cancelled == []
        await cluster.service.cluster.drain(name, until=cluster.clock.now() + 2 * SECOND)
        await cluster.elapse(4)
        assert len(cluster.executor.cancelled) == 1
        cluster.executor.release.set()
