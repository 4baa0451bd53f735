"""The contract of alerts, notices, and what alerts look for, on every backend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.backends.redis.connection import RedisConnection
from cronflow.bootstrap.backends import adapters
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert, AlertRecord, Failing, Notification, NotificationState
from cronflow.domain.job import Delivery, Retry
from cronflow.domain.placement import Waiting
from cronflow.domain.recovery import Dispatch, End
from cronflow.domain.run import Attempt, AttemptResult, Outcome, Resolution, Run, RunState, Settled
from cronflow.domain.thresholds import AlertLevel, Crossing
from cronflow.domain.transitions import ClaimedRun, Transition, dispatch, end, finish
from cronflow.ports import Backends
from cronflow.testing.memory import memory_backends
from tests.contracts.builders import T0, a_record, a_run
from tests.contracts.conftest import emptied

ALERT = Alert(
    name="billing",
    on=(AlertKind.FAILED, AlertKind.RECOVERED),
    jobs=("billing-*",),
    webhook=Webhook("https://hooks/x", "${secret:HOOKS}"),
    late_after=timedelta(seconds=90),
    enabled=False,
)
RECORD = AlertRecord(alert=ALERT, since=T0, judged=T0, created_at=T0, updated_at=T0, updated_by="ada")
MINUTE = timedelta(minutes=1)
LONG_AGO = T0 - timedelta(days=300)


def a_notice(name: str = "msg_1", **fields: Any) -> Notification:
    """A notice that has been due for long, of a job of its own."""
    base = Notification(
        id=name,
        alert="billing",
        kind=AlertKind.FAILED,
        subject="report@1",
        job=name,
        body='{"$a.b": 1}',
        created_at=LONG_AGO,
    )
    return replace(base, **fields)


@pytest.fixture(params=["memory", "mongodb"])
async def stores(request: pytest.FixtureRequest, emptied_namespace: str) -> AsyncIterator[Backends]:
    """The stores of each backend."""
    if request.param == "memory":
        yield memory_backends(SystemClock())
        return
    async with emptied(request.getfixturevalue("mongo_url"), emptied_namespace) as database:
        yield adapters(RedisConnection("redis://nobody", emptied_namespace), database)


def a_crossing(number: int = 1, alert: str = "billing", **fields: Any) -> Crossing:
    base = Crossing(
        alert=alert,
        kind="dead_letters",
        number=number,
        before=AlertLevel.OK,
        level=AlertLevel.CRITICAL,
        figure=12.5,
        at=T0,
    )
    return replace(base, **fields)


# -------------------------------------------------------------------------------------------------------------- alerts


async def test_an_alert_is_created_once_and_comes_back_whole(stores: Backends) -> None:
    assert await stores.alerts.create(RECORD)
    assert not await stores.alerts.create(replace(RECORD, updated_by="bob"))
    assert await stores.alerts.get("billing") == RECORD
    assert await stores.alerts.get("other") is None


async def test_alerts_are_listed_by_name_and_page_by_page(stores: Backends) -> None:
    for name in "cab":
        await stores.alerts.create(replace(RECORD, alert=replace(ALERT, name=name)))
    assert [record.name for record in await stores.alerts.find(limit=2)] == ["a", "b"]
    assert [record.name for record in await stores.alerts.find(after="b")] == ["c"]


async def test_an_alert_is_replaced_only_as_it_was_read(stores: Backends) -> None:
    await stores.alerts.create(RECORD)
    changed = replace(RECORD, alert=replace(ALERT, enabled=True))
    assert await stores.alerts.replace(changed, 0)
    assert not await stores.alerts.replace(replace(RECORD, updated_by="late"), 0)
    assert await stores.alerts.get("billing") == replace(changed, rev=1)
    assert not await stores.alerts.replace(replace(RECORD, alert=replace(ALERT, name="other")), 0)


async def test_the_position_of_lateness_only_grows_and_is_no_edit(stores: Backends) -> None:
    await stores.alerts.create(RECORD)
    await stores.alerts.judge("billing", T0 + MINUTE)
    await stores.alerts.judge("billing", T0 - MINUTE)
    assert await stores.alerts.get("billing") == replace(RECORD, judged=T0 + MINUTE)
    await stores.alerts.judge("nobody", T0)


async def test_an_alert_goes_with_its_notices_and_its_failing_jobs_and_no_others(stores: Backends) -> None:
    other = replace(RECORD, alert=replace(ALERT, name="other"))
    for record in (RECORD, other):
        await stores.alerts.create(record)
        await stores.alerts.fail([Failing(record.name, "job", "job@1", T0, T0)])
    await stores.outbox.put([a_notice("m1"), a_notice("m2", alert="other")])
    assert await stores.alerts.delete("billing")
    assert not await stores.alerts.delete("billing")
    assert [one.alert for one in await stores.alerts.failing()] == ["other"]
    assert [one.id for one in await stores.outbox.of("billing")] == []
    assert [one.id for one in await stores.outbox.claim("c", MINUTE, 9)] == ["m2"]


# -------------------------------------------------------------------------------------------------------- failing jobs


async def test_of_the_failures_of_a_job_the_one_that_ended_last_is_kept(stores: Backends) -> None:
    first = Failing("billing", "job", "job@1", T0, T0)
    second = Failing("billing", "job", "job@2", T0 - MINUTE, T0 + MINUTE)
    await stores.alerts.fail([first])
    await stores.alerts.fail([second])
    await stores.alerts.fail([first])
    assert await stores.alerts.failing() == [second]
    await stores.alerts.fail([])


async def test_each_number_of_a_crossing_is_stored_once_and_only_after_the_one_before(stores: Backends) -> None:
    alerts = stores.alerts
    assert await alerts.crossings() == {}
    assert not await alerts.cross(a_crossing(2))
    assert await alerts.cross(a_crossing())
    assert not await alerts.cross(a_crossing(level=AlertLevel.WARN))
    assert not await alerts.cross(a_crossing(3))
    eased = a_crossing(2, before=AlertLevel.CRITICAL, level=AlertLevel.OK)
    assert await alerts.cross(eased)
    assert not await alerts.cross(a_crossing(2))
    other = a_crossing(kind="retry_rate")
    assert await alerts.cross(other)
    assert await alerts.crossings() == {"billing/dead_letters": eased, "billing/retry_rate": other}


async def test_crossings_go_with_their_alert_and_no_others(stores: Backends) -> None:
    for name in ("billing", "other"):
        await stores.alerts.create(replace(RECORD, alert=replace(ALERT, name=name)))
        await stores.alerts.cross(a_crossing(alert=name))
    await stores.alerts.delete("billing")
    assert list(await stores.alerts.crossings()) == ["other/dead_letters"]


async def test_failing_jobs_are_listed_page_by_page(stores: Backends) -> None:
    all_of_them = [Failing(alert, job, f"{job}@1", T0, T0) for alert in ("a", "a-b") for job in ("j", "j.k", "j-k")]
    await stores.alerts.fail(all_of_them)
    found: list[Failing] = []
    while page := await stores.alerts.failing(after=found[-1] if found else None, limit=2):
        found += page
    assert len(found) == 6
    assert set(found) == set(all_of_them)


async def test_a_recovery_does_not_forget_a_later_failure(stores: Backends) -> None:
    first = Failing("billing", "job", "job@1", T0, T0)
    second = Failing("billing", "job", "job@2", T0 + MINUTE, T0 + MINUTE)
    await stores.alerts.fail([second])
    await stores.alerts.recovered(first)
    assert await stores.alerts.failing() == [second]
    await stores.alerts.recovered(second)
    assert await stores.alerts.failing() == []


# ------------------------------------------------------------------------------------------------------------- notices


async def test_a_notice_is_put_there_once_and_comes_back_whole(stores: Backends) -> None:
    assert await stores.outbox.put([a_notice("m1"), a_notice("m2", job=None)]) == {"m1", "m2"}
    assert await stores.outbox.put([a_notice("m2", subject="another"), a_notice("m3")]) == {"m3"}
    found = {one.id: one for one in await stores.outbox.of("billing")}
    assert found["m2"] == a_notice("m2", job=None)
    assert len(found) == 3


async def test_held_notices_are_listed_in_order_and_never_claimed(stores: Backends) -> None:
    held = NotificationState.HELD
    # The ids are in another order than the times.
    second = a_notice("msg_2", state=held, created_at=LONG_AGO + MINUTE, job=None)
    first, third = (
        a_notice(name, state=held, created_at=LONG_AGO + k * MINUTE) for name, k in (("msg_9", 0), ("msg_1", 2))
    )
    other = a_notice("msg_4", state=held, alert="other")
    await stores.outbox.put([third, second, first, other, a_notice("msg_5")])
    assert await stores.outbox.held("billing", 2) == [first, second]
    assert await stores.outbox.held("billing", 2, after=(second.created_at, second.id)) == [third]
    assert await stores.outbox.held("billing", 2, after=(second.created_at, "msg_0")) == [second, third]
    assert [one.id for one in await stores.outbox.claim("c", MINUTE, 10)] == ["msg_5"]


async def test_held_notices_of_some_kinds_are_listed(stores: Backends) -> None:
    held, late = NotificationState.HELD, AlertKind.LATE
    kinds = (AlertKind.FAILED, late, AlertKind.FAILED, AlertKind.RECOVERED, late)
    notices = [
        a_notice(f"msg_{n}", state=held, kind=kind, created_at=LONG_AGO + n * MINUTE) for n, kind in enumerate(kinds)
    ]
    await stores.outbox.put(notices)
    assert await stores.outbox.held("billing", 9, kinds=(late,)) == [notices[1], notices[4]]
    both = (late, AlertKind.RECOVERED)
    assert await stores.outbox.held("billing", 2, kinds=both) == [notices[1], notices[3]]
    place = notices[1].created_at, notices[1].id
    assert await stores.outbox.held("billing", 2, kinds=both, after=place) == [notices[3], notices[4]]
    assert await stores.outbox.held("billing", 9, kinds=()) == []


async def test_held_notices_come_from_an_index_in_their_order(mongo_url: str, emptied_namespace: str) -> None:
    async with emptied(mongo_url, emptied_namespace) as database:
        match = {"alert": "billing", "held": True}
        for chosen in (match, match | {"kind": {"$in": ["failed", "late"]}}):
            found = await database["notices"].find(chosen).sort([("created_at", 1), ("_id", 1)]).limit(9).explain()
            plan = str(found["queryPlanner"]["winningPlan"])
            assert "COLLSCAN" not in plan
            assert "'SORT'" not in plan, plan


async def test_a_digest_settles_the_members_that_it_names_and_are_held(stores: Backends) -> None:
    members = [a_notice(f"msg_{n}", state=NotificationState.HELD) for n in (1, 2, 3)]
    named = tuple(one.id for one in members[:2])
    digests = [
        a_notice("msg_d1", number=1, group="job=a", members=named, created_at=LONG_AGO + MINUTE),
        a_notice("msg_d2", number=2, group="job=b"),
        a_notice("msg_d3", number=9, group="job=a", alert="other"),
    ]
    assert await stores.outbox.latest_digest("billing") is None
    await stores.outbox.put([*members, *digests])
    assert await stores.outbox.latest_digest("billing") == digests[1]
    assert await stores.outbox.latest_digest("billing", "job=a") == digests[0]
    assert await stores.outbox.latest_digest("billing", "job=c") is None
    for _ in range(2):
        await stores.outbox.settle("msg_d1", T0)
        await stores.outbox.settle("msg_missing", T0)
    found = {one.id: one for one in await stores.outbox.of("billing")}
    for one in members[:2]:
        grouped = replace(one, state=NotificationState.GROUPED, digest="msg_d1", ended_at=T0)
        assert found[one.id] == grouped
    assert await stores.outbox.held("billing", 9) == [members[2]]
    # A member that another digest has is not taken from it.
    await stores.outbox.put([a_notice("msg_d4", number=3, group="", members=named)])
    await stores.outbox.settle("msg_d4", T0 + MINUTE)
    assert {one.digest for one in await stores.outbox.of("billing") if one.id in named} == {"msg_d1"}


async def test_a_notice_is_claimed_by_one_and_counts_the_attempt(stores: Backends) -> None:
    await stores.outbox.put([a_notice("m1")])
    claims = await asyncio.gather(*(stores.outbox.claim(f"c{n}", MINUTE, 5) for n in range(8)))
    [[claimed]] = [found for found in claims if found]
    assert (claimed.id, claimed.attempts, (claimed.claim or "")[:1]) == ("m1", 1, "c")


async def test_what_is_due_longest_is_claimed_first_and_no_more_than_asked_for(stores: Backends) -> None:
    notifications = [a_notice(f"m{n}", created_at=LONG_AGO + n * MINUTE) for n in range(4)]
    await stores.outbox.put(notifications[::-1])
    assert [one.id for one in await stores.outbox.claim("c", MINUTE, 3)] == ["m0", "m1", "m2"]
    assert [one.id for one in await stores.outbox.claim("c", MINUTE, 3)] == ["m3"]


async def test_only_the_oldest_waiting_notice_of_an_alert_and_job_is_claimed(stores: Backends) -> None:
    lanes = {"one": ("billing", "job"), "two": ("other", "job"), "three": ("billing", None)}
    for name, (alert, job) in lanes.items():
        notices = [a_notice(f"{name}-{n}", alert=alert, job=job, created_at=LONG_AGO + n * MINUTE) for n in range(2)]
        await stores.outbox.put(notices[::-1])
    first = {one.id: one for one in await stores.outbox.claim("c", MINUTE, 9)}
    assert set(first) == {"one-0", "two-0", "three-0"}
    assert await stores.outbox.claim("d", MINUTE, 9) == []
    # A failed attempt holds the next one back; delivered and given up let it follow.
    assert await stores.outbox.record_attempt(replace(first["one-0"], status=500), timedelta(hours=1))
    for name, state in (("two-0", NotificationState.DELIVERED), ("three-0", NotificationState.GAVE_UP)):
        assert await stores.outbox.record_attempt(replace(first[name], state=state, ended_at=datetime.now(UTC)), None)
    assert {one.id for one in await stores.outbox.claim("e", MINUTE, 9)} == {"two-1", "three-1"}


async def test_a_notice_that_is_not_due_is_not_claimed(stores: Backends) -> None:
    await stores.outbox.put([a_notice(created_at=datetime.now(UTC) + timedelta(days=1))])
    assert await stores.outbox.claim("c", MINUTE, 3) == []


async def test_the_notices_of_alerts_that_rest_stay(stores: Backends) -> None:
    await stores.outbox.put([a_notice("m1"), a_notice("m2", alert="other")])
    assert [one.id for one in await stores.outbox.claim("c", MINUTE, 5, excluding=["billing"])] == ["m2"]
    assert [one.id for one in await stores.outbox.claim("c", MINUTE, 5)] == ["m1"]


async def test_an_expired_claim_writes_nothing_more(stores: Backends) -> None:
    await stores.outbox.put([a_notice()])
    [first] = await stores.outbox.claim("first", timedelta(0), 5)
    [second] = await stores.outbox.claim("second", MINUTE, 5)
    assert (second.id, second.attempts) == (first.id, 2)
    assert not await stores.outbox.record_attempt(replace(first, state=NotificationState.GAVE_UP, ended_at=T0), None)
    taken = replace(second, state=NotificationState.DELIVERED, status=204, tried_at=T0, ended_at=T0)
    assert await stores.outbox.record_attempt(taken, None)
    assert not await stores.outbox.record_attempt(taken, None)
    assert await stores.outbox.of("billing") == [replace(taken, claim=None)]


async def test_a_notice_that_was_not_taken_is_due_again_and_says_why(stores: Backends) -> None:
    await stores.outbox.put([a_notice("m1"), a_notice("m2")])
    first, second = sorted(await stores.outbox.claim("c", timedelta(0), 2), key=lambda one: one.id)
    tried: dict[str, Any] = {"status": 500, "error": "$oh no", "tried_at": T0}
    assert await stores.outbox.record_attempt(replace(first, **tried), timedelta(hours=1))
    assert await stores.outbox.record_attempt(replace(second, **tried), timedelta(0))
    [again] = await stores.outbox.claim("d", MINUTE, 5)
    assert again == replace(second, claim="d", attempts=2, **tried)


async def test_what_was_taken_or_given_up_is_never_claimed_again(stores: Backends) -> None:
    await stores.outbox.put([a_notice("m1"), a_notice("m2")])
    states = (NotificationState.DELIVERED, NotificationState.GAVE_UP)
    for notification, state in zip(await stores.outbox.claim("c", timedelta(0), 2), states, strict=True):
        assert await stores.outbox.record_attempt(replace(notification, state=state, ended_at=datetime.now(UTC)), None)
    assert await stores.outbox.claim("d", MINUTE, 5) == []
    assert {one.state for one in await stores.outbox.of("billing")} == set(states)


async def test_a_notice_can_be_forgotten(stores: Backends) -> None:
    await stores.outbox.put([a_notice("m1"), a_notice("m2")])
    await stores.outbox.forget(a_notice("m1"))
    await stores.outbox.forget(a_notice("m1"))
    assert [one.id for one in await stores.outbox.claim("c", MINUTE, 5)] == ["m2"]
    assert [one.id for one in await stores.outbox.of("billing")] == ["m2"]


async def test_the_notices_of_an_alert_are_listed_the_newest_first(stores: Backends) -> None:
    # Two at each instant, so that the order has to be whole.
    notifications = [a_notice(f"m{n}", created_at=LONG_AGO + (n // 2) * MINUTE) for n in range(6)]
    await stores.outbox.put([*notifications, a_notice("mx", alert="other")])
    found: list[Notification] = []
    while True:
        before = (found[-1].created_at, found[-1].id) if found else None
        page = await stores.outbox.of("billing", before=before, limit=3)
        if not page:
            break
        found += page
    assert [one.id for one in found] == ["m5", "m4", "m3", "m2", "m1", "m0"]


# --------------------------------------------------------------------------------------------------------------- signs


async def ended(stores: Backends, run: Run, state: RunState) -> None:
    """End a run that is there, as the leader would."""
    attempt_result = End(
        Transition.MARK_LOST if state is RunState.LOST else Transition.FAIL, state, Outcome.LOST, "gone"
    )
    assert await stores.runs.apply([end(run, attempt_result, f"finish of {run.id}", T0 + MINUTE)]) == {run.id}


async def test_a_run_that_failed_or_was_lost_is_untold_until_it_is_told(stores: Backends) -> None:
    runs = [a_run(job, state=RunState.RUNNING, started_at=T0, node="n#a") for job in ("failed", "lost", "open", "good")]
    await stores.runs.insert(runs)
    assert await stores.alert_conditions.unreported(9) == []
    await ended(stores, runs[0], RunState.FAILED)
    await ended(stores, runs[1], RunState.LOST)
    found = await stores.alert_conditions.unreported(9)
    assert {run.id: run.state for run in found} == {runs[0].id: RunState.FAILED, runs[1].id: RunState.LOST}
    assert len(await stores.alert_conditions.unreported(1)) == 1
    await stores.alert_conditions.mark_reported([runs[0].id])
    await stores.alert_conditions.mark_reported([runs[0].id])
    assert [run.id for run in await stores.alert_conditions.unreported(9)] == [runs[1].id]


async def test_a_run_that_is_inserted_as_its_failure_leaves_it_is_untold_too(stores: Backends) -> None:
    run = a_run("failed")
    claimed = ClaimedRun(
        run=run.id, fence=run.fence, node="n#a", attempt=1, retry=Retry(max=0), delivery=Delivery.AT_LEAST_ONCE
    )
    change = finish(claimed, AttemptResult(Outcome.ERROR, error="no"), "f1", T0, T0 + MINUTE)
    assert await stores.runs.insert_changed([(run, change)], T0) == {run.id}
    assert [(one.id, one.state) for one in await stores.alert_conditions.unreported(9)] == [(run.id, RunState.FAILED)]


async def test_a_run_that_was_skipped_or_cancelled_is_no_sign(stores: Backends) -> None:
    runs = [a_run("skipped", fence=1), a_run("cancelled", fence=1)]
    await stores.runs.insert(runs)
    for run, (transition, state) in zip(
        runs,
        [(Transition.SKIP_WAITING, RunState.SKIPPED), (Transition.CONFIRM_CANCEL, RunState.CANCELLED)],
        strict=True,
    ):
        change = end(run, End(transition, state, None, reason="r"), f"finish of {run.id}", T0)
        assert await stores.runs.apply([replace(change, only_when_due=False)]) == {run.id}
    assert await stores.alert_conditions.unreported(9) == []


@pytest.mark.parametrize(
    ("started", "is_late"), [(None, True), (MINUTE, False), (MINUTE + timedelta(milliseconds=1), True)]
)
async def test_a_run_is_late_when_its_start_is_not_within_the_time(
    stores: Backends, started: timedelta | None, is_late: bool
) -> None:
    run = a_run(started_at=None if started is None else T0 + started)
    await stores.runs.insert([run])
    found = await stores.alert_conditions.late((T0 - MINUTE, ""), T0 + MINUTE, MINUTE)
    assert [one.id for one in found] == ([run.id] if is_late else [])


async def test_late_runs_are_found_between_two_places_in_the_order_of_their_fires(stores: Backends) -> None:
    runs = [a_run(job, T0 + n * MINUTE) for n in range(3) for job in ("a", "b")]
    await stores.runs.insert(runs)
    found: list[Run] = []
    place = (T0, "")
    while page := await stores.alert_conditions.late(place, T0 + MINUTE, MINUTE, limit=3):
        found += page
        place = (page[-1].fire_at, page[-1].id)
    assert found == runs[:4]
    assert [run.id for run in await stores.alert_conditions.late((T0, runs[0].id), T0, MINUTE)] == [runs[1].id]


async def test_a_first_attempt_that_started_in_time_is_found_and_left_to_the_rule(stores: Backends) -> None:
    first = Attempt(1, 100, "n#a", T0, T0, Outcome.ERROR)
    await stores.runs.insert([a_run(started_at=T0 + 5 * MINUTE, attempts=(first,))])
    [found] = await stores.alert_conditions.late((T0 - MINUTE, ""), T0, MINUTE)
    assert found.attempts == (first,)


async def test_the_runs_that_wait_are_open_and_not_started_and_due_before(stores: Backends) -> None:
    waiting = [a_run(job, T0 - n * MINUTE) for n, job in ((1, "b"), (1, "a"), (2, "c"))]
    await stores.runs.insert(
        [
            *waiting,
            a_run("later", T0),
            a_run("started", T0 - MINUTE, state=RunState.RUNNING, started_at=T0, node="n#a"),
            a_run("over", T0 - MINUTE, state=RunState.SKIPPED, check_at=None, ended_at=T0),
        ]
    )
    found = await stores.alert_conditions.waiting(T0, 9)
    assert [run.job for run in found] == ["c", "a", "b"]
    assert [run.job for run in await stores.alert_conditions.waiting(T0, 1)] == ["c"]


async def test_runs_that_wait_for_a_node_are_found_by_the_length_of_their_wait(stores: Backends) -> None:
    def waits(name: str, minutes: int, blocked_by: str | None = None, **fields: Any) -> Run:
        wait = Waiting(fire=T0, since=T0 + minutes * MINUTE, reason="no node can run this job", blocked_by=blocked_by)
        return a_run(name, waiting=wait, **fields)

    ended: dict[str, Any] = {"state": RunState.CANCELLED, "check_at": None, "ended_at": T0}
    runs = [waits("b", 1), waits("a", 0), waits("later", 3), waits("other", 0, "a@1"), waits("ended", 0, **ended)]
    await stores.runs.insert([*runs, a_run("placed")])
    found = await stores.alert_conditions.unplaced(T0 + 2 * MINUTE, 9)
    assert found == [runs[1], runs[0]]
    assert await stores.alert_conditions.unplaced(T0 + 2 * MINUTE, 1) == [runs[1]]
    # Once it is placed, it waits no more.
    (run,) = await stores.runs.get([runs[1].id])
    change = dispatch(run, Dispatch(Transition.REDISPATCH_UNTAKEN), fence=200, term=2, node="n#b", job_ver=1, at=T0)
    assert await stores.runs.apply([replace(change, only_when_due=False)])
    assert await stores.alert_conditions.unplaced(T0 + 2 * MINUTE, 9) == [runs[0]]


async def test_a_job_is_behind_when_its_cursor_is_and_the_planner_looks_at_it(stores: Backends) -> None:
    for name, next_fire, due_at, rest in (
        ("deferred", T0, T0 + MINUTE, {}),
        ("ahead", T0 + MINUTE, T0, {}),
        ("far", T0, T0 + 9 * MINUTE, {}),
        ("paused", T0, T0, {"paused": True}),
        ("behind", T0, T0, {}),
    ):
        assert await stores.jobs.create(a_record(name, due_at, next_fire=next_fire, **rest))
    found = await stores.alert_conditions.behind(T0, T0 + MINUTE, 9)
    assert [record.name for record in found] == ["behind", "deferred"]
    assert [record.name for record in await stores.alert_conditions.behind(T0, T0 + MINUTE, 1)] == ["behind"]


async def test_open_runs_are_found_by_the_number_of_their_retries(stores: Backends) -> None:
    ended: dict[str, Any] = {"state": RunState.FAILED, "check_at": None, "ended_at": T0, "outcome": Outcome.ERROR}
    runs = [
        a_run("b", attempt=4, dispatched_at=T0),
        a_run("a", attempt=5, state=RunState.RETRYING, dispatched_at=T0 + MINUTE),
        a_run("few", attempt=3),
        a_run("ended", attempt=9, **ended),
    ]
    await stores.runs.insert(runs)
    assert await stores.alert_conditions.retried(2, 9) == [runs[1], runs[0]]
    assert await stores.alert_conditions.retried(2, 1) == [runs[1]]
    assert await stores.alert_conditions.retried(3, 9) == [runs[1]]


async def test_dead_letters_are_counted_by_job_up_to_a_number(stores: Backends) -> None:
    ended: dict[str, Any] = {"check_at": None, "ended_at": T0}
    await stores.runs.insert(
        [
            *(a_run("a", T0 + k * MINUTE, state=RunState.FAILED, outcome=Outcome.ERROR, **ended) for k in range(3)),
            a_run("b", state=RunState.LOST, outcome=Outcome.LOST, **ended),
            a_run("c", state=RunState.CANCELLED, outcome=Outcome.CANCELLED, **ended),
            a_run("d"),
        ]
    )
    assert dict(await stores.alert_conditions.dead_by_job(9)) == {"a": 3, "b": 1}
    assert sum((await stores.alert_conditions.dead_by_job(2)).values()) == 2
    await stores.dead_letters.settle([a_run("b").id], Resolution(Settled.ACKNOWLEDGED, T0))
    assert dict(await stores.alert_conditions.dead_by_job(9)) == {"a": 3}
