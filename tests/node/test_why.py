"""Explanations on whole nodes and virtual time: a chain for each way in which a fire can go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import pytest

from cronflow.domain import why as chain
from cronflow.domain.cluster import node_name
from cronflow.domain.errors import NotFound
from cronflow.domain.job import Job, Misfire, MisfirePolicy, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.late_start import Delay
from cronflow.domain.run import AttemptResult, Outcome, RunState, run_id
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.domain.why import Link, Why
from cronflow.ports import RunQuery
from tests.node.cluster import Cluster, a_cluster
from tests.node.test_drain import Choosing

SECOND = timedelta(seconds=1)
Kind = TypeVar("Kind", bound=Link)


def a_job(name: str = "tick", every: str = "10s", **fields: object) -> Job:
    fields.setdefault("schedule", Every(every))
    return Job(name=name, target=PythonTarget("jobs:tick"), **fields)  # type: ignore[arg-type]


def kinds(why: Why) -> list[str]:
    return [type(link).__name__ for link in why.links]


def link(why: Why, kind: type[Kind]) -> Kind:
    [found] = [one for one in why.links if isinstance(one, kind)]
    return found


async def edited(cluster: Cluster, act: Awaitable[object]) -> None:
    """An edit waits a moment for runs to show that they have started."""
    task = asyncio.ensure_future(act)
    while not task.done():
        await cluster.clock.advance(0.25)
    task.result()


def at(cluster: Cluster, seconds: float) -> datetime:
    """Seconds after the last whole ten seconds."""
    now = cluster.clock.now().replace(microsecond=0)
    return now - timedelta(seconds=now.second % 10) + timedelta(seconds=seconds)


async def test_a_run_that_was_late_because_of_a_failover_names_the_gap_and_both_leaders() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job(every="30s")])
        await cluster.elapse(3)
        (leader,) = cluster.leaders
        other = next(node for node in cluster.nodes if node is not leader)
        await cluster.kill(leader)
        await cluster.elapse(60)
        found = await cluster.backends.runs.find(RunQuery(job="tick"))
        late = max(found, key=lambda run: run.lateness or timedelta(0))
        why = await cluster.service.explain.why_run(late.id)
        assert why.late is not None
        gap = next(part for part in why.late.parts if part.delay is Delay.NO_LEADER)
        assert gap.recorded
        assert node_name(leader.id) in gap.words
        assert gap.words.endswith(f"{node_name(other.id)} became leader (term 2)")
        assert sum((part.until - part.since for part in why.late.parts), timedelta(0)) == late.lateness


async def test_a_run_that_waited_for_a_slot_names_the_wait_and_its_node() -> None:
    async with a_cluster("a", slots=1) as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("first", schedule=None), a_job("second", schedule=None)])
        await cluster.service.jobs.trigger("first")
        await cluster.elapse(2)
        second = await cluster.service.jobs.trigger("second")
        await cluster.elapse(30)
        cluster.executor.release.set()
        await cluster.elapse(10)
        why = await cluster.service.explain.why_run(second)
        assert why.late is not None
        waits = [part for part in why.late.parts if part.delay in (Delay.WAITING, Delay.SLOT)]
        assert sum((part.until - part.since for part in waits), timedelta(0)) > timedelta(seconds=25)
        assert "no free slot" in waits[0].words


async def test_a_fire_that_ran_is_explained_from_its_schedule_to_its_outcome() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.start("c", gpu="yes")
        await cluster.elapse(1)
        await cluster.service.jobs.apply([a_job(require={"gpu": "yes"})], by="ann@desk")
        await cluster.elapse(12)
        why = await cluster.service.explain.why("tick")
        assert kinds(why) == [
            "Due", "Lateness", "Overlapping", "Placed", "Dispatched", "Started", "Tried", "Ended",
        ]  # fmt: skip
        due = link(why, chain.Due)
        assert (due.ver, due.by, due.schedule) == (1, "ann@desk", "every 10 seconds")
        assert why.instant == at(cluster, 0)
        assert why.run == run_id("tick", why.instant)
        late = link(why, chain.Lateness)
        assert (late.missed, late.skipped, late.covers) == (False, False, None)
        placed = link(why, chain.Placed)
        assert placed.node.startswith("c#")
        assert placed.placement is not None
        assert {node[0]: standing for node, standing in placed.placement.others} == {
            "a": "no label gpu (needs gpu=yes)",
            "b": "no label gpu (needs gpu=yes)",
        }
        sent = link(why, chain.Dispatched)
        assert (sent.term, sent.node, sent.taken) == (1, placed.node, True)
        assert link(why, chain.Started).lateness < SECOND / 2
        ended = link(why, chain.Ended)
        assert (ended.state, ended.outcome, ended.dead) == (RunState.SUCCEEDED, Outcome.OK, False)


async def test_an_instant_outside_the_schedule_gets_the_nearest_ones() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(25)
        asked = at(cluster, -7)
        why = await cluster.service.explain.why("tick", asked)
        not_due = link(why, chain.NotDue)
        assert (not_due.before, not_due.after) == (asked - 3 * SECOND, asked + 7 * SECOND)
        assert not_due.reason == "the schedule has no fire at this time"
        roughly = await cluster.service.explain.why("tick", asked, exact=False)
        assert (roughly.instant, kinds(roughly)[-1]) == (asked - 3 * SECOND, "Ended")


async def test_an_overlapping_fire_names_the_run_that_was_in_the_way() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(25)
        first = cluster.runs[0]
        why = await cluster.service.explain.why("tick")
        overlap = link(why, chain.Overlapping)
        assert (overlap.skipped, overlap.blocked_by, overlap.policy) == (True, first.id, Overlap.FORBID)
        assert kinds(why) == ["Due", "Lateness", "Overlapping", "Ended"]
        assert link(await cluster.service.explain.why("tick", first.fire_at), chain.RunsNow).attempt == 1


async def test_a_queued_fire_names_the_run_it_waits_for_and_since_when() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(overlap=Overlap.QUEUE)])
        await cluster.elapse(40)
        first = cluster.runs[0]
        why = await cluster.service.explain.why("tick", first.fire_at + 10 * SECOND)
        waits = link(why, chain.Unplanned)
        assert (waits.reason, waits.blocked_by) == ("another run of this job is open", first.id)
        # Since it was due, not since it was looked at last.
        assert abs(waits.since - (first.fire_at + 10 * SECOND)) < SECOND
        cluster.executor.release.set()
        await cluster.elapse(10)
        record = await cluster.service.jobs.get("tick")
        assert record.waiting is None


async def test_a_fire_that_no_node_can_take_has_the_reason_of_each() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(require={"gpu": "yes"})])
        await cluster.elapse(15)
        waits = link(await cluster.service.explain.why("tick"), chain.Unplanned)
        assert waits.reason == "no node can run this job"
        assert [(node[0], reason) for node, reason in waits.nodes] == [("a", "no label gpu (needs gpu=yes)")]


async def test_a_fire_waits_when_no_node_has_a_free_slot() -> None:
    async with a_cluster("a", slots=1) as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("long"), a_job("other", every="20s")])
        await cluster.elapse(45)
        waits = link(await cluster.service.explain.why("other"), chain.Unplanned)
        assert waits.reason == "no free slot"
        assert [reason for _, reason in waits.nodes] == ["no free slot"]


async def test_a_fire_waits_when_the_cluster_has_no_leader() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(5)
        await cluster.kill(cluster.nodes[0])
        await cluster.elapse(40)
        why = await cluster.service.explain.why("tick")
        assert link(why, chain.Unplanned).reason == "the cluster has no leader"
        assert why.run is None


async def test_missed_fires_are_explained_by_the_run_that_stands_for_them() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(5)
        await cluster.kill(cluster.nodes[0])
        await cluster.elapse(120)
        cluster.start("b")
        await cluster.elapse(5)
        covering = next(run for run in cluster.runs if run.covers is not None)
        assert covering.covers is not None
        inside = covering.covers.first + 30 * SECOND
        why = await cluster.service.explain.why("tick", inside)
        assert why.run == covering.id
        late = link(why, chain.Lateness)
        assert (late.missed, late.policy, late.covers) == (True, MisfirePolicy.FIRE_ONCE, covering.covers)
        assert link(why, chain.Ended).state is RunState.SUCCEEDED


async def test_a_missed_fire_that_the_policy_skips_ends_there() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(misfire=Misfire(policy=MisfirePolicy.SKIP))])
        await cluster.elapse(5)
        await cluster.kill(cluster.nodes[0])
        await cluster.elapse(120)
        cluster.start("b")
        await cluster.elapse(5)
        skipped = next(run for run in cluster.runs if run.reason == "misfire")
        why = await cluster.service.explain.why("tick", skipped.fire_at)
        assert kinds(why) == ["Due", "Lateness", "Ended"]
        assert link(why, chain.Lateness).skipped


async def test_what_an_edit_kept_from_running_names_the_version_and_who_made_it() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()], by="ann@desk")
        await cluster.elapse(12)
        await edited(cluster, cluster.service.jobs.pause("tick", by="bob@desk"))
        await cluster.elapse(30)
        paused_at = at(cluster, -10)
        claimed = link(await cluster.service.explain.why("tick", paused_at), chain.KeptByEdit)
        assert (claimed.reason, claimed.ver, claimed.by, claimed.recorded) == ("paused", 2, "bob@desk", False)
        await edited(cluster, cluster.service.jobs.resume("tick", by="ann@desk"))
        why = await cluster.service.explain.why("tick", paused_at)
        claimed = link(why, chain.KeptByEdit)
        assert (claimed.reason, claimed.ver, claimed.by, claimed.recorded) == ("paused", 2, "bob@desk", True)
        assert link(why, chain.Ended).state is RunState.SKIPPED
        # And the fire before the pause still belongs to the first version.
        assert link(await cluster.service.explain.why("tick", cluster.runs[0].fire_at), chain.Due).ver == 1


async def test_what_a_deletion_or_an_edit_jumped_over_names_the_new_version() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("gone"), a_job("new")])
        await cluster.elapse(5)
        await cluster.kill(cluster.nodes[0])
        await cluster.elapse(20)
        jumped = at(cluster, 0)
        await edited(cluster, cluster.service.jobs.delete("gone", by="bob"))
        await edited(cluster, cluster.service.jobs.apply([a_job("new", every="1h")], by="ann"))
        for name, reason, by in (("gone", "deleted", "bob"), ("new", "edited", "ann")):
            claimed = link(await cluster.service.explain.why(name, jumped), chain.KeptByEdit)
            assert (claimed.reason, claimed.ver, claimed.by) == (reason, 2, by)
        # Under the old schedule it would have been due, under the new one it is not.
        later = link(await cluster.service.explain.why("new", jumped + 20 * SECOND), chain.NotDue)
        assert (later.ver, later.before) == (2, jumped)
        assert link(await cluster.service.explain.why("gone", jumped + 20 * SECOND), chain.NotDue).reason == (
            "the job was deleted"
        )


async def test_before_the_start_and_after_the_end_of_a_schedule_nothing_is_due() -> None:
    async with a_cluster("a") as cluster:
        begin = at(cluster, 20)
        bounded = Every("10s", start=begin, end=begin + 30 * SECOND)
        await cluster.service.jobs.apply([a_job(schedule=bounded), a_job("hand", schedule=None)])
        await cluster.elapse(60)
        cases: Sequence[tuple[datetime, str]] = [
            (begin - 10 * SECOND, "before the schedule's start"),
            (begin + 30 * SECOND, "after the schedule's end"),
            (begin - timedelta(days=1), "before the job was defined"),
        ]
        for instant, reason in cases:
            assert link(await cluster.service.explain.why("tick", instant), chain.NotDue).reason == reason
        assert (await cluster.service.explain.why("tick")).instant == begin + 20 * SECOND
        by_hand = link(await cluster.service.explain.why("hand"), chain.NotDue)
        assert by_hand.reason == "the job has no schedule"


async def test_a_future_instant_shows_when_and_whether_it_will_be_planned() -> None:
    async with a_cluster("a") as cluster:
        later = cluster.clock.now().replace(microsecond=0) + timedelta(hours=1)
        await cluster.service.jobs.apply([a_job(schedule=Once(later))])
        why = await cluster.service.explain.why("tick")
        assert (why.instant, kinds(why)) == (later, ["Due", "Upcoming"])
        await edited(cluster, cluster.service.jobs.pause("tick"))
        assert kinds(await cluster.service.explain.why("tick")) == ["Due", "KeptByEdit", "Upcoming"]


async def test_a_retrying_run_shows_when_it_is_tried_again() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.ERROR, error="no")
        await cluster.service.jobs.apply([a_job(every="10m", retry=Retry(max=1, initial="30s"))])
        await cluster.elapse(602)
        why = await cluster.service.explain.why("tick")
        again = link(why, chain.TriesAgain)
        assert (again.attempt, again.waiting) == (2, None)
        assert again.at is not None
        assert 25 * SECOND < again.at - cluster.clock.now() <= 30 * SECOND
        assert [tried.attempt.outcome for tried in why.links if isinstance(tried, chain.Tried)] == [Outcome.ERROR]


async def test_a_retry_that_no_node_can_take_remembers_the_reasons() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.ERROR, error="no")
        gpu = cluster.start("c", gpu="yes")
        await cluster.elapse(1)
        await cluster.service.jobs.apply([a_job(every="10m", require={"gpu": "yes"})])
        await cluster.elapse(602)
        await cluster.kill(gpu)
        await cluster.elapse(60)
        again = link(await cluster.service.explain.why("tick"), chain.TriesAgain)
        assert again.waiting is not None
        assert {reason for _, reason in again.waiting.nodes} == {"no label gpu (needs gpu=yes)"}
        assert again.waiting.since < cluster.clock.now() - 20 * SECOND


async def test_a_run_that_exists_only_as_a_pending_run_is_explained_too() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(start_guard=StartGuard.MONGO)])
        stall = cluster.backends.faults.stall("runs.insert")
        await cluster.elapse(12)
        assert stall.reached.is_set()
        why = await cluster.service.explain.why("tick")
        sent = link(why, chain.Dispatched)
        assert (sent.taken, why.run) == (False, run_id("tick", why.instant))


async def test_an_instant_whose_run_was_deleted_is_explained() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(35)
        first = cluster.runs[0]
        del cluster.backends.documents.runs[first.id]
        assert kinds(await cluster.service.explain.why("tick", first.fire_at)) == ["Due", "Unrecorded"]


async def test_there_is_no_chain_of_a_job_that_never_was() -> None:
    async with a_cluster("a") as cluster:
        with pytest.raises(NotFound):
            await cluster.service.explain.why("nobody")


async def test_a_manual_run_is_explained_and_is_the_default_when_it_is_the_latest() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(every="2m"), a_job("hand", schedule=None)])
        await cluster.elapse(1)
        for name in ("tick", "hand"):
            run = await cluster.service.jobs.trigger(name)
            await cluster.elapse(3)
            why = await cluster.service.explain.why(name)
            assert (why.run, kinds(why)) == (
                run, ["Requested", "Placed", "Dispatched", "Started", "Tried", "Ended"],
            )  # fmt: skip
            assert why == await cluster.service.explain.why_run(run)
        # A scheduled run is explained from its schedule on.
        await cluster.elapse(130)
        fire = await cluster.service.explain.why("tick")
        assert kinds(fire)[0] == "Due"
        assert fire.run is not None
        assert fire == await cluster.service.explain.why_run(fire.run)
        with pytest.raises(NotFound):
            await cluster.service.explain.why_run("nobody@manual-1")


async def test_a_waiting_manual_run_has_the_reason_of_every_live_node() -> None:
    """More nodes than a record keeps: their reasons are those of the moment."""
    async with a_cluster(*(f"n{k:02}" for k in range(12))) as cluster:
        cluster.start("gpu", gpu="yes")
        await cluster.elapse(1)
        await cluster.service.cluster.drain("gpu")
        await cluster.elapse(2)
        await cluster.service.jobs.apply([a_job(schedule=None, require={"gpu": "yes"})])
        run = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(20)
        waits = link(await cluster.service.explain.why_run(run), chain.TriesAgain).waiting
        assert waits is not None
        assert (waits.reason, waits.more, len(waits.nodes)) == ("no node can run this job", 0, 13)
        assert {reason for _, reason in waits.nodes} == {"draining", "no label gpu (needs gpu=yes)"}
        assert waits.since < cluster.clock.now() - 15 * SECOND
        # A fire lists them too.
        await cluster.service.jobs.apply([a_job("fire", schedule=Once(cluster.clock.now()), require={"gpu": "yes"})])
        await cluster.elapse(5)
        fire = link(await cluster.service.explain.why("fire"), chain.Unplanned)
        assert (len(fire.nodes), fire.more) == (13, 0)
        await cluster.service.cluster.undrain("gpu")
        await cluster.elapse(5)
        assert kinds(await cluster.service.explain.why_run(run))[-1] == "Ended"


async def test_a_waiting_manual_run_names_the_run_it_waits_for_and_a_missing_leader() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(schedule=None)])
        first, second = [await cluster.service.jobs.trigger("tick") for _ in range(2)]
        await cluster.elapse(5)
        blocked = {run.id for run in cluster.runs if run.state is RunState.RETRYING}
        assert len(blocked) == 1
        waits = link(await cluster.service.explain.why_run(blocked.copy().pop()), chain.TriesAgain).waiting
        assert waits is not None
        assert (waits.reason, {waits.blocked_by} | blocked) == ("another run of this job is open", {first, second})
    async with a_cluster() as cluster:
        await cluster.service.jobs.apply([a_job(schedule=None)])
        run = await cluster.service.jobs.trigger("tick")
        waits = link(await cluster.service.explain.why_run(run), chain.TriesAgain).waiting
        assert waits is not None
        assert waits.reason == "the cluster has no leader"


async def test_a_run_that_runs_well_does_not_carry_the_refusal_of_another_node() -> None:
    """`runs list` showed "commands are not allowed on the node machine-1" as the reason of a healthy run."""
    async with a_cluster() as cluster:
        cluster.executor = Choosing(cluster.clock, refusing={"a"})
        cluster.executor.release = asyncio.Event()
        cluster.start("a")
        await cluster.elapse(1)
        await cluster.service.jobs.apply([a_job(schedule=None)])
        run_id = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(3)
        waits = await cluster.service.runs.get(run_id)
        assert (waits.error, str(waits.waiting)) == (
            None,
            f"no node can run this job ({waits.attempts[0].node}: no shell on a)",
        )
        cluster.start("b")
        await cluster.elapse(5)
        runs = await cluster.service.runs.get(run_id)
        assert (runs.state, runs.error, runs.waiting) == (RunState.RUNNING, None, None)
