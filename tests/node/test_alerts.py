"""Alerts on whole nodes and virtual time: what is reported, once through any crash, and the cost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest

from cronflow.bootstrap.api import missing_leader_roles
from cronflow.config import Settings
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert, Answer, Notification, NotificationState
from cronflow.domain.events import AlertGaveUp
from cronflow.domain.job import Delivery, Misfire, MisfirePolicy, Overlap, Retry
from cronflow.domain.run import AttemptResult, Outcome, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.node.event_log import EventLog
from cronflow.node.role_loop import Outages, repeat
from cronflow.testing.clock import FakeClock
from tests.contracts.builders import a_job
from tests.node.cluster import Cluster, a_cluster

TAKEN = Answer(204, None, 3)
REFUSED = Answer(500, "answered 500: oh no", 3)
HOOK = Webhook("http://hooks")
DEAD_LETTER_KINDS = (AlertKind.FAILED, AlertKind.DEAD_LETTER)


class Receiver:
    """A NotificationSender: it records what it is sent and answers as configured, or never."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.answers: dict[str, list[Answer]] = {}
        self.hangs = False
        self.slow: tuple[str, FakeClock] | None = None

    sends_mail = True

    async def send(self, alert: Alert, notification: Notification, at: datetime) -> Answer:
        """Record it."""
        webhook = alert.webhook
        assert webhook is not None
        self.got.append(orjson.loads(notification.body))
        assert self.got[-1]["id"] == notification.id
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.slow is not None and self.slow[0] == webhook.url:
            await self.slow[1].sleep(10)
        answers = self.answers.get(webhook.url, [TAKEN])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    @property
    def kinds(self) -> list[str]:
        return [body["kind"] for body in self.got]


@asynccontextmanager
async def alerted(*names: str, alert: bool = True, **fields: Any) -> AsyncIterator[tuple[Cluster, Receiver]]:
    """A cluster whose nodes send notices, and an alert on what `fields` say; without `alert`, none."""
    receiver = Receiver()
    async with a_cluster(*names, notifier=receiver) as cluster:
        if alert:
            await define(cluster, **fields)
        yield cluster, receiver


async def define(cluster: Cluster, **fields: Any) -> None:
    wanted: dict[str, Any] = {"name": "all", "webhook": HOOK, "on": DEAD_LETTER_KINDS, **fields}
    await cluster.service.alerts.define(Alert(**wanted))


async def fire(cluster: Cluster, name: str = "job", outcome: Outcome = Outcome.PERMANENT) -> str:
    """Run a job once, to this end."""
    cluster.executor.attempt_result = lambda _: AttemptResult(
        outcome, error=None if outcome is Outcome.OK else "no rows"
    )
    run = await cluster.service.jobs.trigger(name)
    await cluster.elapse(8)
    return run


def notifications(cluster: Cluster) -> list[Notification]:
    return list(cluster.backends.documents.notifications.values())


# -------------------------------------------------------------------------------------------- failures and recoveries


async def test_a_run_that_failed_for_good_is_reported_once_and_its_retries_are_not() -> None:
    async with alerted("a", on=(AlertKind.FAILED,)) as (cluster, receiver):
        await cluster.service.jobs.apply(
            [a_job("job", schedule=None, retry=Retry(max=2, initial=timedelta(seconds=5)))]
        )
        run = await fire(cluster, outcome=Outcome.ERROR)
        assert receiver.got == []
        await cluster.elapse(30)
        [body] = receiver.got
        assert (body["kind"], body["job"], body["alert"], body["namespace"]) == ("failed", "job", "all", "default")
        assert (body["run"]["id"], body["run"]["state"], body["run"]["attempt"]) == (run, "failed", 3)
        assert body["run"]["error"] == "no rows"
        assert body["text"] == f"{run} failed after 3 attempts: no rows"
        assert [one.state for one in notifications(cluster)] == [NotificationState.DELIVERED]


async def test_an_alert_on_failures_and_dead_letters_reports_a_failure_once() -> None:
    async with alerted("a", on=DEAD_LETTER_KINDS) as (cluster, receiver):
        await define(cluster, name="dead", on=(AlertKind.DEAD_LETTER,))
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        await fire(cluster)
        assert sorted((body["alert"], body["kind"]) for body in receiver.got) == [
            ("all", "failed"),
            ("dead", "dead_letter"),
        ]


async def test_a_lost_run_is_a_dead_letter_and_no_failure() -> None:
    async with alerted("a", "b", on=DEAD_LETTER_KINDS) as (cluster, receiver):
        await define(cluster, name="failures", on=(AlertKind.FAILED,))
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply(
            [a_job("job", schedule=None, retry=Retry(max=0), delivery=Delivery.AT_MOST_ONCE)]
        )
        await cluster.service.jobs.trigger("job")
        await cluster.elapse(2)
        [(run, _, holder, _)] = cluster.executor.starts
        await cluster.kill(next(node for node in cluster.nodes if node.id == holder))
        await cluster.elapse(120)
        assert [(body["alert"], body["kind"]) for body in receiver.got] == [("all", "dead_letter")]
        assert receiver.got[0]["run"]["state"] == "lost"
        assert receiver.got[0]["text"].startswith(f"{run} was lost")


async def test_only_jobs_that_match_its_patterns_are_reported() -> None:
    async with alerted("a", jobs=("billing-*",)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("billing-sums", schedule=None), a_job("other", schedule=None)])
        await fire(cluster, "other")
        await fire(cluster, "billing-sums")
        assert [body["job"] for body in receiver.got] == ["billing-sums"]


async def test_a_job_recovers_once_and_only_from_a_reported_failure() -> None:
    async with alerted("a", on=(AlertKind.FAILED, AlertKind.RECOVERED)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        await fire(cluster, outcome=Outcome.OK)
        assert receiver.kinds == []
        await fire(cluster)
        failed = await fire(cluster)
        good = await fire(cluster, outcome=Outcome.OK)
        await fire(cluster, outcome=Outcome.OK)
        assert receiver.kinds == ["failed", "failed", "recovered"]
        body = receiver.got[-1]
        assert (body["run"]["id"], body["run"]["state"]) == (good, "succeeded")
        assert failed in body["text"]
        await fire(cluster)
        await fire(cluster, outcome=Outcome.OK)
        assert receiver.kinds[3:] == ["failed", "recovered"]


async def test_many_failing_jobs_recover_although_a_round_looks_at_some_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cronflow.leader.alert_evaluator.BATCH", 3)
    async with alerted("a", on=(AlertKind.FAILED, AlertKind.RECOVERED)) as (cluster, receiver):
        names = [f"job-{n}" for n in range(8)]
        await cluster.service.jobs.apply([a_job(name, schedule=None) for name in names])
        for outcome in (Outcome.PERMANENT, Outcome.OK):
            cluster.executor.attempt_result = lambda _, outcome=outcome: AttemptResult(outcome)  # type: ignore[misc]
            for name in names:
                await cluster.service.jobs.trigger(name)
            await cluster.elapse(20)
        assert Counter(receiver.kinds) == {"failed": 8, "recovered": 8}


async def test_runs_that_ended_before_the_alert_was_created_or_enabled_are_not_reported() -> None:
    async with alerted("a", alert=False) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        await fire(cluster)
        await define(cluster, enabled=False)
        await fire(cluster)
        await define(cluster)
        await cluster.elapse(10)
        assert receiver.got == []
        # Another address is no reason to begin anew.
        await define(cluster, webhook=Webhook("http://elsewhere"))
        await fire(cluster)
        assert len(receiver.got) == 1


# ----------------------------------------------------------------------------------------------- whatever dies or errs


@pytest.mark.parametrize(
    "verb",
    ["outbox.put", "alerts.fail", "alert_conditions.mark_reported", "alert_conditions.unreported", "outbox.claim"],
)
@pytest.mark.parametrize("acted", [False, True])
async def test_a_leader_that_dies_at_any_step_leaves_exactly_one_notification(verb: str, acted: bool) -> None:
    async with alerted("a", "b", "c", on=(AlertKind.FAILED, AlertKind.RECOVERED)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        [leader] = cluster.leaders
        stall = cluster.backends.faults.stall(verb, acted=acted)
        await fire(cluster)
        assert stall.reached.is_set()
        await cluster.kill(leader)
        cluster.backends.faults.heal()
        await cluster.elapse(90)
        [notification] = notifications(cluster)
        assert notification.state is NotificationState.DELIVERED
        assert {body["id"] for body in receiver.got} == {notification.id}
        await fire(cluster, outcome=Outcome.OK)
        assert sorted(one.kind for one in notifications(cluster)) == ["failed", "recovered"]


@pytest.mark.parametrize("verb", ["alerts.recovered", "runs.find"])
async def test_a_leader_that_dies_while_it_reports_a_recovery_leaves_exactly_one_notification(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The next leader finds another success.
    monkeypatch.setattr("cronflow.leader.alert_evaluator.SUCCESSES", 1)
    async with alerted("a", "b", "c", on=(AlertKind.FAILED, AlertKind.RECOVERED)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        await fire(cluster)
        [leader] = cluster.leaders
        stall = cluster.backends.faults.stall(verb)
        await fire(cluster, outcome=Outcome.OK)
        assert stall.reached.is_set()
        await fire(cluster, outcome=Outcome.OK)
        await cluster.kill(leader)
        cluster.backends.faults.heal()
        await cluster.elapse(90)
        assert Counter(one.kind for one in notifications(cluster)) == {"failed": 1, "recovered": 1}
        assert set(receiver.kinds) == {"failed", "recovered"}


async def test_a_leader_that_resumes_deposed_reports_nothing_twice() -> None:
    async with alerted("a", "b", "c", on=(AlertKind.FAILED, AlertKind.RECOVERED)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        stall = cluster.backends.faults.stall("alerts.fail")
        await fire(cluster)
        assert stall.reached.is_set()
        # Another one leads, reports the failure and the recovery; then the first continues.
        await cluster.service.cluster.stepdown()
        await cluster.elapse(20)
        await fire(cluster, outcome=Outcome.OK)
        cluster.backends.faults.heal()
        await cluster.elapse(60)
        assert Counter(one.kind for one in notifications(cluster)) == {"failed": 1, "recovered": 1}
        assert Counter(receiver.kinds) == {"failed": 1, "recovered": 1}


async def test_a_failure_that_was_spooled_for_long_is_reported(tmp_path: Any) -> None:
    receiver = Receiver()
    async with a_cluster("a", notifier=receiver, spools=tmp_path) as cluster:
        await define(cluster)
        cluster.executor.release = asyncio.Event()
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.PERMANENT, error="no rows")
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        await cluster.service.jobs.trigger("job")
        await cluster.elapse(2)
        cluster.backends.faults.fail_before("MongoDB", times=100_000)
        cluster.executor.release.set()
        await cluster.elapse(120)
        cluster.backends.faults.heal()
        await cluster.elapse(60)
        assert receiver.kinds == ["failed"]


# ------------------------------------------------------------------------------------------------------------ lateness


LATE: dict[str, Any] = {"on": (AlertKind.LATE,), "late_after": timedelta(seconds=30)}


async def test_a_job_that_finds_no_node_is_late_once() -> None:
    async with alerted("a", **LATE) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=Every("10m"), require={"disk": "ssd"})])
        record = await cluster.service.jobs.get("job")
        assert record.next_fire is not None
        await cluster.elapse(600)
        assert receiver.got == []
        await cluster.elapse(120)
        [body] = receiver.got
        assert (body["kind"], body["job"], "run" in body) == ("late", "job", False)
        assert body["text"].startswith(f"job@{record.next_fire:%Y%m%dT%H%M%SZ} is late")
        # It starts now: the same fire, the same notice.
        cluster.start("b", disk="ssd")
        await cluster.elapse(120)
        assert len(receiver.got) == len(notifications(cluster)) == 1


async def test_a_retry_or_a_manual_run_that_no_node_can_run_is_late_once_for_each_wait() -> None:
    async with alerted("a", **LATE) as (cluster, receiver):
        able = cluster.start("b", disk="ssd")
        await cluster.elapse(1)
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.ERROR, error="no rows")
        job = a_job("retries", schedule=None, require={"disk": "ssd"}, retry=Retry(delays=["30s", "30s"]))
        await cluster.service.jobs.apply([job, a_job("manual", schedule=None, require={"disk": "tape"})])
        run = await cluster.service.jobs.trigger("retries")
        await cluster.elapse(5)
        await cluster.kill(able)
        await cluster.elapse(50)
        assert receiver.got == []
        manual = await cluster.service.jobs.trigger("manual")
        await cluster.elapse(60)
        assert {(body["kind"], body["run"]["id"]) for body in receiver.got} == {("late", run), ("late", manual)}
        assert len(receiver.got) == 2
        assert any("no label disk (needs disk=ssd)" in body["text"] for body in receiver.got)
        # The next wait is another one.
        cluster.start("b", disk="ssd")
        await cluster.elapse(5)
        await cluster.kill(cluster.nodes[-1])
        await cluster.elapse(80)
        assert [body["run"]["id"] for body in receiver.got].count(run) == 2


async def test_a_run_that_waits_for_the_one_before_it_is_late_and_one_that_starts_in_time_is_not() -> None:
    async with alerted("a", **LATE) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=Every("1m"), overlap=Overlap.QUEUE)])
        await cluster.elapse(185)
        assert len(cluster.executor.starts) >= 3
        assert receiver.got == []
        cluster.executor.release = asyncio.Event()
        await cluster.elapse(160)
        assert [body["job"] for body in receiver.got] == ["job"]


async def test_fires_of_a_time_without_nodes_are_late_once_there_is_a_leader() -> None:
    async with alerted("a", **LATE) as (cluster, receiver):
        jobs = [
            a_job("once", schedule=Every("1m")),
            a_job("each", schedule=Every("1m"), misfire=Misfire(MisfirePolicy.CATCH_UP)),
            a_job("skips", schedule=Every("1m"), misfire=Misfire(MisfirePolicy.SKIP)),
        ]
        await cluster.service.jobs.apply(jobs)
        await cluster.elapse(70)
        for node in list(cluster.nodes):
            await cluster.kill(node)
        await cluster.elapse(600)
        cluster.start("b")
        await cluster.elapse(120)
        reported = Counter(body["job"] for body in receiver.got)
        assert reported["once"] == reported["skips"] == 1
        assert reported["each"] >= 9
        assert len({one.id for one in notifications(cluster)}) == len(receiver.got)


async def test_a_late_fire_is_reported_once_although_the_leader_dies() -> None:
    async with alerted("a", "b", **LATE) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=Every("10m"), require={"disk": "ssd"})])
        await cluster.elapse(600 + 25)
        stall = cluster.backends.faults.stall("outbox.put", acted=True)
        await cluster.elapse(20)
        assert stall.reached.is_set()
        [leader] = cluster.leaders
        await cluster.kill(leader)
        cluster.backends.faults.heal()
        await cluster.elapse(120)
        assert receiver.kinds == ["late"]


async def test_overlapping_manual_and_earlier_runs_are_not_late() -> None:
    async with alerted("a", alert=False) as (cluster, receiver):
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("job", schedule=Every("1m")), a_job("hand", schedule=None)])
        await cluster.elapse(70)
        await define(cluster, **LATE)
        # The second one waits for the first.
        for _ in range(2):
            await cluster.service.jobs.trigger("hand")
        await cluster.elapse(300)
        assert [run.reason for run in cluster.runs if run.job == "job"][1:] == ["overlap"] * 5
        assert receiver.got == []


async def test_jobs_and_runs_that_already_waited_when_the_alert_was_created_are_late() -> None:
    async with alerted("a", alert=False) as (cluster, receiver):
        cluster.executor.release = asyncio.Event()
        jobs = [
            a_job("no-node", schedule=Every("10m"), require={"disk": "ssd"}),
            a_job("running", schedule=Every("10m")),
            a_job("waiting", schedule=Every("10m")),
        ]
        await cluster.service.jobs.apply(jobs)
        await cluster.elapse(600 + 60)
        # As if its node had been lost before it started.
        [run] = [run for run in cluster.runs if run.job == "waiting"]
        cluster.backends.documents.runs[run.id] = replace(
            run, state=RunState.DISPATCHED, started_at=None, check_at=cluster.clock.now() + timedelta(hours=1)
        )
        await define(cluster, **LATE)
        await cluster.elapse(60)
        assert sorted(body["job"] for body in receiver.got) == ["no-node", "waiting"]
        assert receiver.kinds == ["late", "late"]


@pytest.mark.parametrize("failover", ["in maintenance", pytest.param("after it", marks=pytest.mark.prove)])
async def test_fires_that_maintenance_holds_are_late_only_if_they_do_not_start_afterwards(failover: str) -> None:
    async with alerted("a", "b", on=(AlertKind.LATE,), late_after=timedelta(seconds=90)) as (cluster, receiver):
        api = EventLog(cluster.backends.events, cluster.backends.feed, cluster.clock, "api")
        cluster.service.audit.emit = api.emit
        able = cluster.start("c", disk="ssd")
        await cluster.elapse(1)
        jobs = [
            a_job("once", schedule=Every("1m")),
            a_job("each", schedule=Every("1m"), misfire=Misfire(MisfirePolicy.CATCH_UP)),
            a_job("skips", schedule=Every("1m"), misfire=Misfire(MisfirePolicy.SKIP)),
            a_job("before", schedule=Every("4m"), require={"disk": "tape"}),
            a_job("stuck", schedule=Every("4m"), require={"disk": "ssd"}),
        ]
        await cluster.service.jobs.apply(jobs)
        # The fires of the fourth minute: one is late when maintenance begins.
        await cluster.elapse(240 + 100)
        assert [body["job"] for body in receiver.got] == ["before"]
        await cluster.service.cluster.begin_maintenance(by="ada")
        await api.flush()
        await cluster.elapse(120)
        if failover == "in maintenance":
            await cluster.kill(next(node for node in cluster.leaders if node is not able))
        await cluster.kill(able)
        await cluster.elapse(160)
        await cluster.service.cluster.end_maintenance(by="ada")
        await api.flush()
        await cluster.elapse(4)
        if failover == "after it":
            await cluster.kill(cluster.leaders[0])
        await cluster.elapse(80)
        assert [body["job"] for body in receiver.got] == ["before"]
        await cluster.elapse(60)
        # Its node is gone.
        assert [body["job"] for body in receiver.got] == ["before", "stuck"]


# ----------------------------------------------------------------------------------------------------------- no leader


LEADERLESS: dict[str, Any] = {"on": (AlertKind.NO_LEADER,), "no_leader_after": timedelta(seconds=60)}


async def test_an_outage_of_redis_without_a_leader_is_reported_once() -> None:
    async with alerted("a", "b", "c", **LEADERLESS) as (cluster, receiver):
        await cluster.elapse(120)
        assert receiver.got == []
        cluster.backends.faults.fail_before("Redis", times=1_000_000)
        await cluster.elapse(50)
        assert receiver.got == []
        await cluster.elapse(120)
        [body] = receiver.got
        assert (body["kind"], "job" in body, "run" in body) == ("no_leader", False, False)
        assert "the cluster has had no leader since" in body["text"]
        cluster.backends.faults.heal()
        await cluster.elapse(60)
        assert len(cluster.leaders) == 1
        # Another outage is another subject.
        cluster.backends.faults.fail_before("Redis", times=1_000_000)
        await cluster.elapse(180)
        assert receiver.kinds == ["no_leader"] * 2
        assert len({one.subject for one in notifications(cluster)}) == 2


async def test_no_node_leads_while_all_clocks_are_wrong_and_that_is_reported() -> None:
    async with alerted(**LEADERLESS) as (cluster, receiver):
        first = cluster.start("first")
        await cluster.elapse(5)
        cluster.start("off", skew=timedelta(hours=1))
        await cluster.elapse(30)
        await cluster.kill(first)
        await cluster.elapse(180)
        assert receiver.kinds == ["no_leader"]


async def test_two_apis_report_once_that_every_node_is_down() -> None:
    async with alerted("a", "b", **LEADERLESS) as (cluster, receiver), asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(repeat(role, cluster.clock, Outages()))
            for _ in range(2)
            for role in missing_leader_roles(Settings(), cluster.backends, cluster.clock, receiver)
        ]
        await cluster.elapse(120)
        assert receiver.got == []
        for node in list(cluster.nodes):
            await cluster.kill(node)
        await cluster.elapse(300)
        assert receiver.kinds == ["no_leader"]
        cluster.start("c")
        await cluster.elapse(120)
        assert receiver.kinds == ["no_leader"]
        for task in tasks:
            task.cancel()


async def test_a_takeover_is_no_outage() -> None:
    async with alerted("a", "b", **LEADERLESS) as (cluster, receiver):
        await cluster.kill(cluster.leaders[0])
        await cluster.elapse(180)
        assert len(cluster.leaders) == 1
        assert receiver.got == []


# ------------------------------------------------------------------------------------------------------------ delivery


async def test_a_notice_is_tried_again_more_and_more_rarely_and_given_up_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cronflow.domain.alert_kinds.GIVE_UP_AFTER", timedelta(minutes=5))
    async with alerted("a") as (cluster, receiver):
        receiver.answers[HOOK.url] = [REFUSED]
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        run = await fire(cluster)
        await cluster.elapse(330)
        [notification] = notifications(cluster)
        # At once, and after 10, 20, 40 and 80 s; the next one would come after more than five minutes.
        assert (notification.state, notification.status, notification.error) == (
            NotificationState.GAVE_UP,
            500,
            REFUSED.error,
        )
        assert notification.attempts == len(receiver.got) == 5
        assert {body["id"] for body in receiver.got} == {notification.id}
        [recorded] = await cluster.service.cluster.events(kinds=["alert_gave_up"])
        assert recorded.event == AlertGaveUp("all", run, 5, REFUSED.error or "")


async def test_a_recovery_never_overtakes_its_failure_and_other_jobs_are_not_delayed() -> None:
    async with alerted("a", on=(AlertKind.FAILED, AlertKind.RECOVERED)) as (cluster, receiver):
        receiver.answers[HOOK.url] = [REFUSED, REFUSED, TAKEN]
        await cluster.service.jobs.apply([a_job("job", schedule=None), a_job("other", schedule=None)])
        first = await fire(cluster)
        second = await fire(cluster)
        await fire(cluster, outcome=Outcome.OK)
        await fire(cluster, "other")
        await cluster.elapse(60)
        sent = [(body["kind"], body["run"]["id"]) for body in receiver.got if body["job"] == "job"]
        assert sent[:3] == [("failed", first)] * 3
        assert sent[3] == ("failed", second)
        assert [kind for kind, _ in sent[4:]] == ["recovered"]
        assert [body["kind"] for body in receiver.got if body["job"] == "other"] == ["failed"]


async def test_notifications_that_are_created_together_are_delivered_in_their_order() -> None:
    async with alerted("a") as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=None, overlap=Overlap.ALLOW)])
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.PERMANENT)
        for _ in range(6):
            await cluster.service.jobs.trigger("job")
        await cluster.elapse(8)
        created = sorted(notifications(cluster), key=lambda one: one.created_at)
        assert len({one.created_at for one in created}) == 6
        assert [body["id"] for body in receiver.got] == [one.id for one in created]


async def test_a_receiver_that_fails_and_then_answers_gets_the_notice_with_the_same_id() -> None:
    async with alerted("a") as (cluster, receiver):
        receiver.answers[HOOK.url] = [Answer(None, "no answer within 10 s", 10_000), REFUSED, TAKEN]
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        await fire(cluster)
        await cluster.elapse(60)
        [notification] = notifications(cluster)
        assert (notification.state, notification.attempts, notification.error) == (NotificationState.DELIVERED, 3, None)
        assert [body["id"] for body in receiver.got] == [notification.id] * 3


async def test_a_node_that_is_killed_while_it_sends_leaves_the_notice_to_another_one() -> None:
    async with alerted("a", "b") as (cluster, receiver):
        receiver.hangs = True
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        await fire(cluster)
        assert len(receiver.got) == 1
        receiver.hangs = False
        await cluster.kill(cluster.leaders[0])
        await cluster.elapse(120)
        [notification] = notifications(cluster)
        assert (notification.state, notification.attempts) == (NotificationState.DELIVERED, 2)
        assert [body["id"] for body in receiver.got] == [notification.id] * 2


async def test_a_failing_receiver_does_not_delay_the_notifications_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronflow.node.alert_sender.AT_ONCE", 2)
    async with alerted("a", webhook=Webhook("http://down")) as (cluster, receiver):
        await define(cluster, name="good")
        receiver.answers["http://down"] = [REFUSED]
        receiver.slow = ("http://down", cluster.clock)
        names = [f"job-{n}" for n in range(10)]
        await cluster.service.jobs.apply([a_job(name, schedule=None) for name in names])
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.PERMANENT)
        for name in names:
            await cluster.service.jobs.trigger(name)
        # The first two take ten seconds; then all of the others have their turn.
        await cluster.elapse(18)
        assert (
            sum(one.alert == "good" and one.state is NotificationState.DELIVERED for one in notifications(cluster))
            == 10
        )


async def test_a_waiting_notification_is_not_sent_when_its_alert_is_disabled_or_deleted() -> None:
    async with alerted("a") as (cluster, receiver):
        await define(cluster, name="gone")
        receiver.answers[HOOK.url] = [REFUSED]
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        await fire(cluster)
        sent = len(receiver.got)
        await define(cluster, enabled=False)
        await cluster.service.alerts.delete("gone")
        await cluster.elapse(120)
        assert len(receiver.got) == sent
        [notification] = notifications(cluster)
        assert (notification.state, notification.error) == (NotificationState.GAVE_UP, "the alert is disabled")


async def test_a_notification_whose_alert_was_deleted_is_forgotten() -> None:
    async with alerted("a") as (cluster, receiver):
        orphan = Notification(
            id="msg_1",
            alert="gone",
            kind=AlertKind.FAILED,
            subject="x",
            job="x",
            body="{}",
            created_at=cluster.clock.now(),
        )
        await define(cluster)
        await cluster.backends.outbox.put([orphan, replace(orphan, id="msg_2")])
        await cluster.elapse(10)
        assert (notifications(cluster), receiver.got) == ([], [])


async def test_mongodb_away_while_notices_are_sent_is_survived() -> None:
    async with alerted("a") as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("job", schedule=None)])
        cluster.backends.faults.fail_before("outbox.record_attempt", times=1)
        await fire(cluster)
        await cluster.elapse(60)
        [notification] = notifications(cluster)
        assert notification.state is NotificationState.DELIVERED
        assert [body["id"] for body in receiver.got] == [notification.id] * 2


# ---------------------------------------------------------------------------------------------------------------- cost


async def test_without_alerts_the_leader_reads_once_in_three_seconds_and_followers_nothing() -> None:
    async with alerted("a", "b", "c", alert=False) as (cluster, _):
        await cluster.service.jobs.apply([a_job("job", schedule=Every("5s"))])
        before = cluster.backends.faults.calls.copy()
        await cluster.elapse(60)
        calls = cluster.backends.faults.calls - before
        alerting = {
            verb: count
            for verb, count in calls.items()
            if verb.split(".")[0] in ("alerts", "outbox", "alert_conditions")
        }
        # The health of jobs is read with or without alerts.
        health = {"alert_conditions.behind", "alert_conditions.unplaced"}
        assert set(alerting) == {"alerts.find", *health}
        assert 18 <= alerting["alerts.find"] <= 22
        assert all(alerting[verb] <= 8 for verb in health), alerting
        assert calls["control.leader"] == calls["store_admin.time"] == 0
