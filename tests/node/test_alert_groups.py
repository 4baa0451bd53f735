"""Held notifications on whole nodes and virtual time: groups, quiet times, and each notification in one message, also
when leaders die; and the conditions of the cluster: lost nodes, waits for limits, signs of life.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.alert_grouping import Grouping, QuietTime
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook, WebhookFormat
from cronflow.domain.alerts import Answer, NotificationState
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.permits import NamedLimit
from cronflow.domain.run import AttemptResult, Outcome
from tests.node.cluster import Cluster
from tests.node.test_alerts import alerted, define, notifications

FAILURES = (AlertKind.FAILED, AlertKind.RECOVERED)
GROUP = Grouping(("label:team",), timedelta(seconds=30), timedelta(minutes=2))


def a_job(name: str, **fields: Any) -> Job:
    wanted: dict[str, Any] = {"overlap": Overlap.ALLOW, "retry": Retry(max=0), **fields}
    return Job(name=name, target=PythonTarget("jobs:any"), **wanted)


async def jobs(cluster: Cluster) -> None:
    await cluster.service.jobs.apply(
        [a_job("a", labels={"team": "x"}), a_job("b", labels={"team": "x"}), a_job("c", labels={"team": "y"})]
    )


async def run(cluster: Cluster, *names: str, good: bool = False) -> None:
    outcome = Outcome.OK if good else Outcome.PERMANENT
    cluster.executor.attempt_result = lambda _: AttemptResult(outcome, error=None if good else "no rows")
    for name in names:
        await cluster.service.jobs.trigger(name)
    await cluster.elapse(6)


def once(cluster: Cluster) -> Counter[str]:
    """How often each notification that is no digest was sent, alone or in a digest."""
    everything = notifications(cluster)
    sent = Counter(member for digest in everything if digest.number is not None for member in digest.members)
    alone = [one for one in everything if one.number is None and one.state is NotificationState.DELIVERED]
    return sent + Counter(one.id for one in alone)


async def test_failures_of_a_group_become_one_message_with_figures_and_examples() -> None:
    async with alerted("n", on=FAILURES, group=GROUP) as (cluster, receiver):
        await jobs(cluster)
        await run(cluster, *["a"] * 8, *["b"] * 6, "c")
        assert receiver.got == []
        await cluster.elapse(30)
        many, single = receiver.got
        assert (many["digest"]["group"], many["digest"]["count"]) == ("team=x", 14)
        assert many["digest"]["jobs"] == {"a": 8, "b": 6}
        assert len(many["digest"]["examples"]) == 10
        assert many["text"].startswith("14 notifications of team=x, ")
        # One notification alone is sent as it is.
        assert ("digest" in single, single["job"], single["kind"]) == (False, "c", "failed")
        await run(cluster, "a")
        await run(cluster, "a", good=True)
        await cluster.elapse(60)
        assert len(receiver.got) == 2, "two messages of a group are two minutes apart"
        await cluster.elapse(60)
        assert receiver.got[2]["digest"]["kinds"] == {"failed": 1, "recovered": 1}
        assert set(once(cluster).values()) == {1}
        states = Counter(one.state for one in notifications(cluster))
        assert states == {NotificationState.GROUPED: 17, NotificationState.DELIVERED: 3}


async def test_a_quiet_time_ends_with_one_message_and_urgent_kinds_pass() -> None:
    async with alerted("n", alert=False) as (cluster, receiver):
        await jobs(cluster)
        now = cluster.clock.now()
        quiet = QuietTime(f"{now:%H:%M}", f"{now + timedelta(minutes=5):%H:%M}", urgent=(AlertKind.RUNNING_LONG,))
        await define(cluster, on=(*FAILURES, AlertKind.RUNNING_LONG), quiet=quiet, group=GROUP)
        await define(cluster, name="other", on=FAILURES)
        await run(cluster, "a", "b", "c")
        await run(cluster, "a", "b", "c", good=True)
        await cluster.elapse(60)
        assert {body["alert"] for body in receiver.got} == {"other"}
        await cluster.elapse(240)
        [digest] = [body for body in receiver.got if body["alert"] == "all"]
        assert digest["digest"]["kinds"] == {"failed": 3, "recovered": 3}
        assert digest["digest"]["group"] == "quiet"
        assert set(once(cluster).values()) == {1}


async def test_what_is_held_is_sent_when_the_alert_holds_nothing_any_more() -> None:
    async with alerted("n", on=FAILURES, group=Grouping(wait=timedelta(hours=1))) as (cluster, receiver):
        await jobs(cluster)
        await run(cluster, "a", "b")
        await define(cluster, on=FAILURES)
        await cluster.elapse(6)
        assert [body["digest"]["count"] for body in receiver.got] == [2]
        await run(cluster, "c")
        assert [body["job"] for body in receiver.got[1:]] == ["c"]


@pytest.mark.parametrize("acted", [False, True])
@pytest.mark.parametrize("verb", ["outbox.put", "outbox.settle", "outbox.held", "outbox.latest_digest"])
async def test_every_failure_is_in_one_message_when_the_leader_dies_at_any_step(verb: str, acted: bool) -> None:
    async with alerted("n", "m", on=FAILURES, group=GROUP) as (cluster, receiver):
        await jobs(cluster)
        await run(cluster, "a", "b", "c")
        await cluster.elapse(18)
        [leader] = cluster.leaders
        stall = cluster.backends.faults.stall(verb, acted=acted)
        await cluster.elapse(12)
        assert stall.reached.is_set()
        await cluster.kill(leader)
        cluster.backends.faults.heal()
        await run(cluster, "b")
        await cluster.elapse(240)
        assert once(cluster) == Counter({one.id: 1 for one in notifications(cluster) if one.number is None})
        assert len(once(cluster)) == 4
        assert len({body["id"] for body in receiver.got}) == sum(
            one.number is not None for one in notifications(cluster)
        )


async def test_a_deposed_leader_that_resumes_puts_nothing_into_a_second_message() -> None:
    async with alerted("n", "m", on=FAILURES, group=GROUP) as (cluster, receiver):
        await jobs(cluster)
        await run(cluster, "a", "b")
        stall = cluster.backends.faults.stall("outbox.latest_digest", acted=True)
        await cluster.elapse(4)
        assert stall.reached.is_set()
        await cluster.service.cluster.stepdown()
        await cluster.elapse(60)
        cluster.backends.faults.heal()
        await cluster.elapse(6)
        assert [body["digest"]["count"] for body in receiver.got] == [2]
        await run(cluster, "a")
        await cluster.elapse(180)
        assert set(once(cluster).values()) == {1}
        assert len(once(cluster)) == 3


async def test_a_final_refusal_is_given_up_at_once_and_visibly() -> None:
    async with alerted("n", on=FAILURES) as (cluster, receiver):
        receiver.answers["http://hooks"] = [Answer(554, "mail.example.com:587 answered 554 spam", 3, final=True)]
        await jobs(cluster)
        await run(cluster, "a")
        [one] = notifications(cluster)
        assert (one.state, one.attempts, one.status) == (NotificationState.GAVE_UP, 1, 554)
        assert "554 spam" in (one.error or "")


# ------------------------------------------------------------------------------------------ conditions of the cluster


async def test_a_lost_node_is_reported_once_also_if_it_led() -> None:
    async with alerted("n", "m", "o", on=(AlertKind.NODE_LOST,)) as (cluster, receiver):
        [leader] = cluster.leaders
        follower = next(node for node in cluster.nodes if node is not leader)
        lost = [leader.id.partition("#")[0], follower.id.partition("#")[0]]
        await cluster.kill(leader)
        await cluster.kill(follower)
        await cluster.elapse(180)
        assert sorted(body["node"] for body in receiver.got) == sorted(lost)


async def test_a_run_that_waits_long_for_a_named_limit_is_reported_once() -> None:
    wait = timedelta(minutes=2)
    async with alerted("n", on=(AlertKind.LIMIT_WAIT,), limit_wait_after=wait) as (cluster, receiver):
        await cluster.service.limits.define(NamedLimit(name="database", limit=1))
        await cluster.service.jobs.apply([a_job("a", concurrency=("database",))])
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.trigger("a")
        await cluster.elapse(2)
        second = await cluster.service.jobs.trigger("a")
        await cluster.elapse(110)
        assert receiver.got == []
        await cluster.elapse(60)
        assert [(body["job"], body["limit"]) for body in receiver.got] == [("a", "database")]
        assert receiver.got[0]["text"].startswith(f"{second} has been waiting for the limit database since ")


async def test_signs_of_life_are_sent_while_the_cluster_does_its_work() -> None:
    ping = Webhook("http://hooks", format=WebhookFormat.PING)
    on = (AlertKind.HEARTBEAT, AlertKind.SUCCEEDED, AlertKind.FAILED)
    async with alerted("n", on=on, jobs=("a",), webhook=ping, heartbeat_every=timedelta(minutes=1)) as (
        cluster,
        receiver,
    ):
        await jobs(cluster)
        await cluster.elapse(180)
        assert receiver.kinds == ["heartbeat"] * 3
        receiver.got.clear()
        await run(cluster, "a", "b", good=True)
        await run(cluster, "a")
        assert [body["kind"] for body in receiver.got if body["kind"] != "heartbeat"] == ["succeeded", "failed"]
        await cluster.service.cluster.drain("n")
        await cluster.elapse(60)
        receiver.got.clear()
        await cluster.elapse(180)
        assert receiver.got == [], "no node takes runs"
