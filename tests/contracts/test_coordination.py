"""The contract of the coordination, on memory, on a real Redis and on fakeredis."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.nodes import RedisElection
from cronflow.backends.redis.queue import RedisQueue
from cronflow.domain import transitions
from cronflow.domain.capabilities import Capabilities
from cronflow.domain.cluster import Backlog, Renewal
from cronflow.domain.errors import Conflict, Deposed
from cronflow.domain.job import Delivery, Overlap, Retry
from cronflow.domain.placement import Placement
from cronflow.domain.recovery import Dispatch
from cronflow.domain.run import AttemptResult, Covers, Outcome, RunState
from cronflow.domain.transitions import ClaimedRun, Transition
from cronflow.ports import JobLock, Signal
from tests.contracts.builders import T0, a_job, a_pend, a_report, a_run, an_assignment
from tests.contracts.conftest import Coordination, Stores
from tests.waiting import eventually

EPOCH = "epoch-1"
ME, OTHER = "n1#a#x", "n2#b#y"
N1, N2 = "n1#a", "n2#b"


async def leading(coordination: Coordination, holder: str = ME, term: int = 1, redis_epoch: str = EPOCH) -> None:
    assert await coordination.election.acquire(holder, 5)
    assert await coordination.election.install(holder, term, redis_epoch)


# ----------------------------------------------------------------------------------------------------------- election


async def test_one_holder_at_a_time(coordination: Coordination) -> None:
    assert await coordination.election.acquire(ME, 5)
    assert not await coordination.election.acquire(OTHER, 5)
    held = await coordination.election.holder()
    assert held is not None
    assert held[0] == ME
    assert 4 < held[1] <= 5


async def test_the_key_expires_by_itself(coordination: Coordination) -> None:
    assert await coordination.election.acquire(ME, 0.05)

    async def taken_over() -> bool:
        return await coordination.election.acquire(OTHER, 5)

    await eventually(taken_over)
    assert (await coordination.election.holder() or ("", 0))[0] == OTHER


async def test_redbeat_127_renew_requires_ownership(coordination: Coordination) -> None:
    """redbeat #127: a lock was renewed without comparing its holder, so two processes had it."""
    await leading(coordination, OTHER, term=2)
    assert await coordination.election.renew(ME, 5, 2, EPOCH) is Renewal.LOST
    assert (await coordination.election.holder() or ("", 0))[0] == OTHER


async def test_a_renewal_prolongs_the_key(coordination: Coordination) -> None:
    assert await coordination.election.acquire(ME, 1)
    assert await coordination.election.install(ME, 1, EPOCH)
    assert await coordination.election.renew(ME, 9, 1, EPOCH) is Renewal.OK
    held = await coordination.election.holder()
    assert held is not None
    assert held[1] > 8


async def test_a_renewal_against_a_redis_that_forgot_sets_the_key_again(coordination: Coordination) -> None:
    assert await coordination.election.renew(ME, 5, 3, EPOCH) is Renewal.AGAIN
    assert await coordination.election.renew(ME, 5, 3, EPOCH) is Renewal.OK
    assert not await coordination.election.acquire(OTHER, 5)


async def test_a_leader_of_an_older_term_cannot_renew(coordination: Coordination) -> None:
    await leading(coordination, term=7)
    assert await coordination.election.renew(ME, 5, 6, EPOCH) is Renewal.LOST


async def test_installing_needs_the_key_and_the_newest_term(coordination: Coordination) -> None:
    assert not await coordination.election.install(ME, 1, EPOCH)
    await leading(coordination, term=5)
    assert not await coordination.election.install(ME, 4, EPOCH)
    assert not await coordination.election.install(OTHER, 6, EPOCH)


async def test_installing_again_is_harmless(coordination: Coordination) -> None:
    await leading(coordination, term=5)
    assert await coordination.election.install(ME, 5, EPOCH)


async def test_a_renewal_after_the_key_expired_sets_it_again(coordination: Coordination) -> None:
    async def led() -> bool:
        # On a busy machine the key may have expired between the two.
        return await coordination.election.acquire(ME, 0.05) and await coordination.election.install(ME, 1, EPOCH)

    async def expired() -> bool:
        return await coordination.election.holder() is None

    await eventually(led)
    await eventually(expired)
    assert await coordination.election.renew(ME, 5, 1, EPOCH) is Renewal.AGAIN
    assert (await coordination.election.holder() or ("", 0))[0] == ME


@pytest.mark.parametrize(("term", "redis_epoch"), [(6, EPOCH), (5, "another"), (6, "another")])
async def test_a_renewal_restores_what_redis_lost(coordination: Coordination, term: int, redis_epoch: str) -> None:
    await leading(coordination, term=5)
    assert await coordination.election.renew(ME, 5, term, redis_epoch) is Renewal.AGAIN
    assert await coordination.election.renew(ME, 5, term, redis_epoch) is Renewal.OK
    assert await coordination.queue.dispatch(term, redis_epoch, {N1: [an_assignment(term=term)]})
    if redis_epoch != EPOCH:
        assert not await coordination.queue.dispatch(term, EPOCH, {N1: [an_assignment(term=term)]})
    if term != 5:
        with pytest.raises(Deposed):
            await coordination.queue.dispatch(5, redis_epoch, {N1: [an_assignment(term=5)]})


async def test_resigning_frees_only_my_own_key(coordination: Coordination) -> None:
    await leading(coordination)
    assert not await coordination.election.resign(OTHER)
    assert await coordination.election.resign(ME)
    assert await coordination.election.holder() is None


async def test_a_leader_who_was_asked_to_resign_learns_it_at_its_renewal(coordination: Coordination) -> None:
    await leading(coordination, term=5)
    await coordination.election.ask_to_resign(4)
    assert await coordination.election.renew(ME, 5, 5, EPOCH) is Renewal.OK
    await coordination.election.ask_to_resign(5)
    assert await coordination.election.renew(ME, 5, 5, EPOCH) is Renewal.ASKED


# --------------------------------------------------------------------------------------------------------- membership


async def test_nodes_that_are_gone_are_forgotten_only_on_request(coordination: Coordination) -> None:
    await coordination.membership.report(a_report(), 0.05)

    async def gone() -> bool:
        return await coordination.membership.members(forget=False) == []

    async def in_set() -> int:
        assert isinstance(coordination.election, RedisElection)
        redis, keys = coordination.election._redis, coordination.election._keys
        return int(await redis.command("ZCARD", keys.nodes))

    await eventually(gone)
    # The memory backend has no set of nodes.
    has_set = isinstance(coordination.election, RedisElection)
    assert not has_set or await in_set() == 1
    assert await coordination.membership.members() == []
    assert not has_set or await in_set() == 0


async def test_a_node_that_reports_is_a_member_until_its_heartbeat_expires(coordination: Coordination) -> None:
    report = a_report(
        labels={"region": "eu"},
        draining=True,
        rate=2.5,
        breakers={"MongoDB": "open"},
        spool=Backlog(2, 700, T0),
        zones="2026a",
        capabilities=Capabilities(shell=False, modules=("shop.jobs",), secrets=False),
    )
    await coordination.membership.report(report, 5)
    await coordination.membership.report(a_report("n2", "b"), 0.05)
    (member,) = [m for m in await coordination.membership.members() if m.report.name == "n1"]
    assert member.report == report
    assert member.age.total_seconds() < 1

    async def alone() -> bool:
        return [m.report.name for m in await coordination.membership.members()] == ["n1"]

    await eventually(alone)


async def test_oban_862_same_node_name_new_incarnation(coordination: Coordination) -> None:
    """oban #862: a new process under the name of an old one was taken for that one."""
    await coordination.membership.report(a_report("n1", "a"), 5)
    with pytest.raises(Conflict, match="already called 'n1'"):
        await coordination.membership.report(a_report("n1", "b"), 5)
    await coordination.membership.leave(a_report("n1", "a"))
    await coordination.membership.report(a_report("n1", "b"), 5)
    assert [m.id for m in await coordination.membership.members()] == ["n1#b"]


async def test_an_incarnation_that_leaves_late_does_not_free_the_name_of_its_successor(
    coordination: Coordination,
) -> None:
    await coordination.membership.report(a_report("n1", "a"), 0.05)

    async def free() -> bool:
        try:
            await coordination.membership.report(a_report("n1", "b"), 5)
        except Conflict:
            return False
        return True

    await eventually(free)
    await coordination.membership.leave(a_report("n1", "a"))
    with pytest.raises(Conflict):
        await coordination.membership.report(a_report("n1", "c"), 5)
    assert [m.id for m in await coordination.membership.members()] == ["n1#b"]


async def test_what_a_node_holds_is_known_although_it_is_dead(coordination: Coordination) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment(fence=100)]})
    await coordination.queue.take(N1, 5)
    assert await coordination.membership.holdings([N1, N2]) == {N1: (False, {"report@1": 100}), N2: (False, {})}
    await coordination.membership.report(a_report("n1", "a"), 5)
    (member,) = await coordination.membership.members()
    assert (member.held, member.queued, member.capacity) == (1, 0, 3)
    assert (await coordination.membership.holdings([N1]))[N1][0]


async def test_a_node_that_is_to_be_drained_is_told_so_until_it_no_longer_is(coordination: Coordination) -> None:
    assert not await coordination.membership.report(a_report("n1", "a"), 5)
    await coordination.membership.report(a_report("n2", "b"), 5)
    await coordination.membership.drain("n1", wanted=True)
    found = {member.report.name: member for member in await coordination.membership.members()}
    assert (found["n1"].draining, found["n2"].draining) == (True, False)
    assert not found["n1"].drained  # it has not heard of it yet
    assert await coordination.membership.report(a_report("n1", "a", draining=True), 5)
    assert not await coordination.membership.report(a_report("n2", "b"), 5)
    (mark_reported,) = [member for member in await coordination.membership.members() if member.report.name == "n1"]
    assert mark_reported.drained
    await coordination.membership.drain("n1", wanted=False)
    assert not await coordination.membership.report(a_report("n1", "a"), 5, asked=True)
    assert not any(member.draining for member in await coordination.membership.members())


async def test_a_request_to_drain_may_have_a_deadline_that_the_node_remembers(coordination: Coordination) -> None:
    membership, until = coordination.membership, datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert await membership.drain_deadline("n1", None) is None
    # Redis has lost it.
    assert await membership.drain_deadline("n1", until) == until
    await membership.drain("n1", wanted=True, until=until)
    assert await membership.drain_deadline("n1", None) == until
    assert await membership.drain_deadline("n2", None) is None
    for wanted in (True, False):
        await membership.drain("n1", wanted=wanted)
        assert await membership.drain_deadline("n1", until) is None


async def test_a_request_to_drain_returns_whether_there_was_one_before(coordination: Coordination) -> None:
    wanted = [True, True, False, False]
    assert [await coordination.membership.drain("n1", wanted=one) for one in wanted] == [False, True, True, False]


async def test_draining_survives_a_restart_of_the_node_under_a_new_incarnation(coordination: Coordination) -> None:
    await coordination.membership.report(a_report("n1", "a"), 5)
    await coordination.membership.drain("n1", wanted=True)
    await coordination.membership.leave(a_report("n1", "a"))
    assert await coordination.membership.report(a_report("n1", "b"), 5)


async def test_a_redis_that_forgot_the_draining_is_told_by_the_node(coordination: Coordination) -> None:
    assert await coordination.membership.report(a_report("n1", "a"), 5, asked=True)
    assert await coordination.membership.report(a_report("n1", "a"), 5)


async def test_draining_rings_the_nodes(coordination: Coordination) -> None:
    notified: list[str] = []
    listening = asyncio.create_task(coordination.bus.listen(N1, {Signal.STOP: lambda: notified.append("stop")}))
    try:
        await eventually(lambda: notified == ["stop"], what="it looks once connected")
        await coordination.membership.drain("n1", wanted=True)
        await eventually(lambda: notified == ["stop"] * 2)
        await coordination.queue.cancel(["report@1"])
        await eventually(lambda: notified == ["stop"] * 3)
        await coordination.queue.withdraw({"report@1": 100})
        await eventually(lambda: notified == ["stop"] * 4)
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


# -------------------------------------------------------------------------------------------------------------- queue


async def test_an_assignment_arrives_as_it_was_sent(coordination: Coordination) -> None:
    await leading(coordination)
    sent = an_assignment(job=a_job(description="späte Läufe\x1f", timeout=timedelta(seconds=90)))
    assert await coordination.queue.dispatch(1, EPOCH, {N1: [sent]})
    taken = await coordination.queue.take(N1, 5)
    assert list(taken.assignments) == [sent]
    assert (taken.put_back, taken.dropped) == (0, 0)


async def test_the_pending_run_of_an_assignment_arrives_as_it_was_sent(coordination: Coordination) -> None:
    await leading(coordination)
    placement = Placement("n1#a", 0.2, (("n2#b", 0.4), ("n3#c", "draining")), 2)
    for covers in (None, Covers(T0, T0 + timedelta(hours=1), 60), Covers(T0, T0 + timedelta(hours=1), None)):
        pending_run = a_pend(covers=covers, placement=placement, at=T0 + timedelta(microseconds=1500))
        assignment = replace(an_assignment(fence=pending_run.fence), pending_run=pending_run)
        assert await coordination.queue.dispatch(1, EPOCH, {N1: [assignment]})
        assert await coordination.queue.give_back(N1) == [assignment]


async def test_the_instant_of_an_early_assignment_arrives_as_it_was_sent(coordination: Coordination) -> None:
    await leading(coordination)
    sent = replace(an_assignment(), not_before=T0 + timedelta(seconds=2))
    assert await coordination.queue.dispatch(1, EPOCH, {N1: [sent]})
    assert list((await coordination.queue.take(N1, 5)).assignments) == [sent]


async def test_a_node_takes_no_more_than_it_asks_for_and_in_order(coordination: Coordination) -> None:
    await leading(coordination)
    jobs = [an_assignment(f"job-{k}@1", job=a_job(f"job-{k}")) for k in range(3)]
    await coordination.queue.dispatch(1, EPOCH, {N1: jobs})
    first = await coordination.queue.take(N1, 2)
    assert [taken.run for taken in first.assignments] == ["job-0@1", "job-1@1"]
    assert [taken.run for taken in (await coordination.queue.take(N1, 2)).assignments] == ["job-2@1"]


async def test_a_deposed_leader_cannot_push(coordination: Coordination) -> None:
    await leading(coordination, term=5)
    with pytest.raises(Deposed):
        await coordination.queue.dispatch(4, EPOCH, {N1: [an_assignment(term=4)]})
    assert (await coordination.queue.take(N1, 5)).assignments == []


async def test_a_push_to_a_redis_that_forgot_tells_so_and_pushes_nothing(coordination: Coordination) -> None:
    assert not await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment()]})
    assert (await coordination.queue.take(N1, 5)).assignments == []


async def test_an_item_that_lay_too_long_is_dropped(coordination: Coordination) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment()]})
    await asyncio.sleep(Coordination.START_BY_S + 0.05)
    taken = await coordination.queue.take(N1, 5)
    assert (taken.assignments, taken.dropped) == ([], 1)


async def test_what_is_left_of_the_time_to_start_counts_from_when_the_leader_read_the_job(
    coordination: Coordination,
) -> None:
    await leading(coordination)
    jobs = [an_assignment(f"job-{k}@1", job=a_job(f"job-{k}")) for k in range(2)]
    await coordination.queue.dispatch(1, EPOCH, {N1: jobs[:1]})
    await coordination.queue.dispatch(1, EPOCH, {N1: jobs[1:]}, Coordination.START_BY_S / 2)
    taken = await coordination.queue.take(N1, 5)
    assert list(taken.assignments) == jobs
    whole, half = taken.start_within
    assert 0 < half <= Coordination.START_BY_S / 2
    assert half < whole <= Coordination.START_BY_S


async def test_a_withdrawn_run_is_not_taken_up_to_the_fence_of_the_withdrawal(coordination: Coordination) -> None:
    await leading(coordination)
    fences = {"older": 99, "same": 100, "newer": 101, "other": 1}
    items = {name: an_assignment(f"{name}@1", fence, job=a_job(name)) for name, fence in fences.items()}
    await coordination.queue.dispatch(1, EPOCH, {N1: list(items.values())})
    await coordination.queue.withdraw({f"{name}@1": 100 for name in ("older", "same", "newer")})
    taken = await coordination.queue.take(N1, 5)
    assert (list(taken.assignments), taken.dropped) == ([items["newer"], items["other"]], 2)


async def test_which_runs_were_withdrawn_is_told_among_those_asked_for(coordination: Coordination) -> None:
    await coordination.queue.withdraw({"report@1": 100, "report@2": 200})
    await coordination.queue.withdraw({"report@1": 300})
    assert await coordination.queue.withdrawn(["report@1", "report@3"]) == {"report@1": 300}
    assert await coordination.queue.withdrawn([]) == {}


async def test_an_item_of_an_older_term_is_not_taken_and_told_apart(coordination: Coordination) -> None:
    await leading(coordination, term=1)
    old = an_assignment(term=1)
    cancelled = an_assignment("other@1", 101, term=1, job=a_job("other"))
    await coordination.queue.dispatch(1, EPOCH, {N1: [old, cancelled]})
    await coordination.queue.cancel(["other@1"])
    await coordination.election.resign(ME)
    await leading(coordination, OTHER, term=2)
    taken = await coordination.queue.take(N1, 5)
    assert (taken.assignments, taken.dropped, taken.outdated) == ([], 1, [old])
    # It left no lock behind.
    again = an_assignment(term=2)
    await coordination.queue.dispatch(2, EPOCH, {N1: [again]})
    assert (await coordination.queue.take(N1, 5)).assignments == [again]


async def test_a_cancelled_run_is_not_taken(coordination: Coordination) -> None:
    await leading(coordination)
    other = an_assignment("other@1", 101, job=a_job("other"))
    await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment(), other]})
    await coordination.queue.cancel(["report@1"])
    taken = await coordination.queue.take(N1, 5)
    assert ([assignment.run for assignment in taken.assignments], taken.dropped) == (["other@1"], 1)


async def test_which_runs_were_cancelled_is_told_among_those_asked_for(coordination: Coordination) -> None:
    await coordination.queue.cancel(["report@1", "report@2"])
    await coordination.queue.cancel(["report@1"])
    assert await coordination.queue.cancelled(["report@1", "report@3"]) == {"report@1"}
    assert await coordination.queue.cancelled([]) == set()


async def test_a_list_that_is_given_back_is_empty_and_its_items_are_known(coordination: Coordination) -> None:
    await leading(coordination)
    sent = [an_assignment(f"job-{k}@1", job=a_job(f"job-{k}")) for k in range(3)]
    await coordination.queue.dispatch(1, EPOCH, {N1: sent[:2], N2: sent[2:]})
    assert await coordination.queue.give_back(N1) == sent[:2]
    assert await coordination.queue.give_back(N1) == []
    assert (await coordination.queue.take(N1, 5)).assignments == []
    assert list((await coordination.queue.take(N2, 5)).assignments) == sent[2:]


async def test_two_runs_of_one_job_exclude_each_other(coordination: Coordination) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment("report@1")], N2: [an_assignment("report@2", 101)]})
    assert len((await coordination.queue.take(N1, 5)).assignments) == 1
    blocked = await coordination.queue.take(N2, 5)
    assert (blocked.assignments, blocked.put_back) == ([], 1)
    await coordination.queue.release(N1, [JobLock("report", "", "report@1", 100)])
    assert [taken.run for taken in (await coordination.queue.take(N2, 5)).assignments] == ["report@2"]


async def test_runs_that_may_overlap_do_not_exclude_each_other(coordination: Coordination) -> None:
    await leading(coordination)
    job = a_job(overlap=Overlap.ALLOW)
    await coordination.queue.dispatch(
        1, EPOCH, {N1: [an_assignment("report@1", job=job), an_assignment("report@2", job=job)]}
    )
    assert len((await coordination.queue.take(N1, 5)).assignments) == 2


async def test_a_newer_fence_of_the_same_run_wins_the_lock_and_an_older_one_is_dropped(
    coordination: Coordination,
) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment(fence=100)], N2: [an_assignment(fence=200)]})
    await coordination.queue.dispatch(1, EPOCH, {"n3#c": [an_assignment(fence=150)]})
    assert len((await coordination.queue.take(N1, 5)).assignments) == 1
    assert len((await coordination.queue.take(N2, 5)).assignments) == 1
    older = await coordination.queue.take("n3#c", 5)
    assert (older.assignments, older.dropped) == ([], 1)


async def test_a_doubled_item_is_taken_once(coordination: Coordination) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment()], N2: [an_assignment()]})
    assert len((await coordination.queue.take(N1, 5)).assignments) == 1
    again = await coordination.queue.take(N2, 5)
    assert (again.assignments, again.put_back, again.dropped) == ([], 0, 1)


async def test_what_redis_holds_and_cannot_be_read_is_dropped_and_the_rest_is_taken(
    redis_url: str, namespace: str
) -> None:
    async with RedisConnection(redis_url, namespace) as connection:
        election, queue = RedisElection(connection), RedisQueue(connection)
        assert await election.acquire(ME, 5)
        assert await election.install(ME, 1, EPOCH)
        await connection.command("RPUSH", connection.keys.queue(N1), "rubbish")
        await queue.dispatch(1, EPOCH, {N1: [an_assignment()]})
        taken = await queue.take(N1, 5)
        assert ([assignment.run for assignment in taken.assignments], taken.dropped) == (["report@1"], 1)


async def test_a_lock_that_is_not_renewed_expires(coordination: Coordination) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment("report@1")]})
    await coordination.queue.take(N1, 5)

    async def free() -> bool:
        await coordination.queue.dispatch(1, EPOCH, {N2: [an_assignment("report@2", 101)]})
        return bool((await coordination.queue.take(N2, 5)).assignments)

    await eventually(free)


async def test_renewing_returns_foreign_locks_and_restores_lost_ones(
    coordination: Coordination,
) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N2: [an_assignment("report@2", 200)]})
    await coordination.queue.take(N2, 5)
    mine = [JobLock("report", "", "report@1", 100), JobLock("other", "", "other@1", 101)]
    assert await coordination.queue.renew_locks(N1, mine) == {"report@1"}
    assert (await coordination.membership.holdings([N1]))[N1][1] == {"other@1": 101}


async def test_kleppmann_what_a_paused_holder_of_a_lock_writes_too_late_is_refused(
    coordination: Coordination, stores: Stores
) -> None:
    """Kleppmann and antirez on Redlock, 2016: a process that holds a lock with a time limit may be paused beyond it and
    then write what it believes to be allowed to. The lock cannot tell; the resource must compare a token.
    """
    job, run = a_job(), a_run(fire=T0 - timedelta(days=1))
    await stores.runs.insert([run])
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment(run.id, 100, job=job)]})
    assert (await coordination.queue.take(N1, 1)).assignments
    paused = ClaimedRun(run=run.id, fence=100, node=N1, attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE)
    # It sleeps. Nobody hears of it, the leader gives its run to another one, which takes the lock.
    again = transitions.dispatch(
        run, Dispatch(Transition.REDISPATCH_UNTAKEN), fence=200, term=1, node=N2, job_ver=1, at=T0
    )
    assert await stores.runs.apply([again]) == {run.id}
    await coordination.queue.dispatch(1, EPOCH, {N2: [an_assignment(run.id, 200, job=job)]})
    assert (await coordination.queue.take(N2, 1)).assignments
    # It wakes, and believes that it holds the lock.
    assert await stores.runs.apply([transitions.start(paused, "s1", T0, timedelta(seconds=45))]) == set()
    assert (
        await stores.runs.apply([transitions.finish(paused, AttemptResult(Outcome.PERMANENT), "f1", T0, T0)]) == set()
    )
    await coordination.queue.release(N1, [JobLock("report", "", run.id, 100)])
    holder = replace(paused, fence=200, node=N2)
    assert await coordination.queue.renew_locks(N2, [JobLock("report", "", run.id, 200)]) == set()
    assert await stores.runs.apply([transitions.finish(holder, AttemptResult(Outcome.OK), "f2", T0, T0)]) == {run.id}
    (found,) = await stores.runs.get([run.id])
    assert (found.state, found.fence) == (RunState.SUCCEEDED, 200)


async def test_my_own_lock_is_renewed_and_stays_mine(coordination: Coordination) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment()]})
    await coordination.queue.take(N1, 5)
    mine = [JobLock("report", "", "report@1", 100)]
    for _ in range(3):
        assert await coordination.queue.renew_locks(N1, mine) == set()
    # With another fence, or on another node, it is a foreign lock.
    assert await coordination.queue.renew_locks(N1, [JobLock("report", "", "report@1", 99)]) == {"report@1"}
    assert await coordination.queue.renew_locks(N2, mine) == {"report@1"}


async def test_runs_that_may_overlap_have_locks_of_their_own(coordination: Coordination) -> None:
    await leading(coordination)
    job = a_job(overlap=Overlap.ALLOW)
    items = [an_assignment(run, fence, job=job) for run, fence in (("report@1", 100), ("report@2", 101))]
    await coordination.queue.dispatch(1, EPOCH, {N1: items})
    assert len((await coordination.queue.take(N1, 5)).assignments) == 2
    holds = [JobLock("report", item.run, item.run, item.fence) for item in items]
    assert await coordination.queue.renew_locks(N1, holds) == set()
    await coordination.queue.release(N1, holds[:1])
    assert await coordination.queue.renew_locks(N2, holds) == {"report@2"}


async def test_a_node_forgets_the_runs_that_it_does_not_hold(coordination: Coordination) -> None:
    await leading(coordination)
    job = a_job(overlap=Overlap.ALLOW)
    items = [an_assignment(f"report@{k}", 100 + k, job=job) for k in range(4)]
    await coordination.queue.dispatch(1, EPOCH, {N1: items})
    assert len((await coordination.queue.take(N1, 5)).assignments) == 4
    # It holds the first, and an older attempt of the second.
    held = [JobLock("report", "report@0", "report@0", 100), JobLock("report", "report@1", "report@1", 99)]
    assert await coordination.queue.forget_ended(N1, held) == 3
    assert (await coordination.membership.holdings([N1]))[N1][1] == {"report@0": 100}
    assert await coordination.queue.forget_ended(N1, held) == 0
    assert await coordination.queue.forget_ended(N1, []) == 1
    assert await coordination.queue.forget_ended(N2, held) == 0


async def test_a_release_announces_what_the_node_accepts_ahead(coordination: Coordination) -> None:
    await leading(coordination)
    await coordination.membership.report(a_report(), 15)

    async def ahead() -> int:
        (member,) = await coordination.membership.members()
        return member.ahead

    assert await ahead() == 0
    await coordination.queue.release(N1, [], 250)
    assert await ahead() == 250
    await coordination.queue.release(N1, [], 0)
    assert await ahead() == 0


async def test_releasing_an_older_attempt_leaves_what_the_node_took_after_it(coordination: Coordination) -> None:
    await leading(coordination)
    for fence in (100, 200):
        await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment(fence=fence)]})
        assert len((await coordination.queue.take(N1, 5)).assignments) == 1
    await coordination.queue.release(N1, [JobLock("report", "", "report@1", 100)])
    assert (await coordination.membership.holdings([N1]))[N1][1] == {"report@1": 200}
    await coordination.queue.release(N1, [JobLock("report", "", "report@1", 200)])
    assert (await coordination.membership.holdings([N1]))[N1][1] == {}


async def test_a_fence_that_begins_like_another_is_another(coordination: Coordination) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N2: [an_assignment("report@1", 200)]})
    await coordination.queue.take(N2, 5)
    await coordination.queue.release(N1, [JobLock("report", "", "report@1", 20)])
    assert await coordination.queue.renew_locks(N1, [JobLock("report", "", "report@1", 20)]) == {"report@1"}


async def test_releasing_leaves_the_lock_of_a_newer_fence_alone(coordination: Coordination) -> None:
    await leading(coordination)
    await coordination.queue.dispatch(1, EPOCH, {N2: [an_assignment("report@1", 200)]})
    await coordination.queue.take(N2, 5)
    await coordination.queue.release(N1, [JobLock("report", "", "report@1", 100)])
    assert await coordination.queue.renew_locks(N1, [JobLock("report", "", "report@1", 100)]) == {"report@1"}


# ---------------------------------------------------------------------------------------------------------------- bus


async def test_a_ring_reaches_who_listens_and_only_that_bell(coordination: Coordination) -> None:
    notified: list[str] = []
    signals = {
        signal: lambda signal=signal: notified.append(signal.value)
        for signal in (Signal.JOBS, Signal.LEADER, Signal.NODE)
    }
    listening = asyncio.create_task(coordination.bus.listen(N1, signals))
    try:
        await eventually(lambda: set(notified) == {"jobs", "leader", "node"}, what="everybody looks once connected")
        notified.clear()
        await coordination.bus.notify(Signal.JOBS)
        await eventually(lambda: notified == ["jobs"])
        await leading(coordination)
        await coordination.queue.dispatch(1, EPOCH, {N1: [an_assignment()]})
        await eventually(lambda: notified == ["jobs", "node"])
        await coordination.election.resign(ME)
        await eventually(lambda: notified == ["jobs", "node", "leader"])
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
