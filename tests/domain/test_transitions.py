"""The table of transitions, the changes that use it, and what the leader does with an overdue run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain import transitions
from cronflow.domain.job import Delivery, Job, Misfire, MisfirePolicy, Overlap, Retry
from cronflow.domain.recovery import (
    Dispatch,
    End,
    HeldBack,
    Holder,
    Postpone,
    decline_pause,
    held_back,
    never_starts,
    reconcile,
    refusals,
)
from cronflow.domain.run import ENDED, OPEN, Attempt, AttemptResult, Covers, Kind, Outcome, Run, RunState
from cronflow.domain.shadow import SHADOWED, JobMode
from cronflow.domain.transitions import TRANSITIONS, Change, ClaimedRun, Transition
from tests.contracts.builders import T0, a_job, a_record, a_run

SECOND = timedelta(seconds=1)
HELD = ClaimedRun(run="r@1", fence=100, node="n#a", attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE)


def finished(outcome: Outcome, claimed: ClaimedRun = HELD, **fields: object) -> Change:
    return transitions.finish(claimed, AttemptResult(outcome, **fields), "f1", T0, T0 + SECOND)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------ the table


def test_no_row_leads_out_of_an_ended_state() -> None:
    assert all(not transition.sources & ENDED for transition in TRANSITIONS.values())


def test_every_open_state_has_a_way_on_that_the_leader_alone_can_take() -> None:
    for state in OPEN:
        rows = [t for t in TRANSITIONS.values() if state in t.sources and "leader" in t.actors]
        assert any(t.targets - {state} for t in rows), state


def test_a_change_that_the_table_does_not_list_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="start does not lead from"):
        Change(
            run="r",
            transition=Transition.START,
            sources=frozenset({RunState.RUNNING}),
            target=RunState.RUNNING,
            fence=1,
            proof=None,
        )
    with pytest.raises(ValueError, match="finish must compare the fence"):
        Change(
            run="r",
            transition=Transition.FINISH,
            sources=frozenset({RunState.RUNNING}),
            target=RunState.FAILED,
            proof=None,
        )


# -------------------------------------------------------------------------------------------------- after an attempt


@pytest.mark.parametrize(
    ("outcome", "target"),
    [
        (Outcome.OK, RunState.SUCCEEDED),
        (Outcome.SKIPPED, RunState.SKIPPED),
        (Outcome.CANCELLED, RunState.CANCELLED),
        (Outcome.PERMANENT, RunState.FAILED),
        (Outcome.ERROR, RunState.RETRYING),
        (Outcome.TIMEOUT, RunState.RETRYING),
        (Outcome.DRAINED, RunState.RETRYING),
        (Outcome.DECLINED, RunState.RETRYING),
        (Outcome.DEFERRED, RunState.RETRYING),
    ],
)
def test_the_state_that_follows_from_an_outcome(outcome: Outcome, target: RunState) -> None:
    assert finished(outcome).target is target


def test_retries_come_after_30_60_and_120_seconds_and_then_it_has_failed() -> None:
    waits = [finished(Outcome.ERROR, replace(HELD, attempt=n)).check_in for n in (1, 2, 3)]
    assert waits == [30 * SECOND, 60 * SECOND, 120 * SECOND]
    assert finished(Outcome.ERROR, replace(HELD, attempt=4)).target is RunState.FAILED


def test_the_jobs_own_delay_is_honoured() -> None:
    assert finished(Outcome.ERROR, delay=7 * SECOND).check_in == 7 * SECOND


def test_what_was_drained_or_declined_uses_no_attempt() -> None:
    for outcome in (Outcome.DRAINED, Outcome.DECLINED, Outcome.DEFERRED):
        change = finished(outcome, replace(HELD, attempt=2))
        assert change.sets["attempt"] == 1
        assert change.check_in == timedelta(0)
    assert finished(Outcome.ERROR, replace(HELD, attempt=2)).sets["attempt"] == 2


def test_at_most_once_is_never_tried_again() -> None:
    once = replace(HELD, delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0))
    assert finished(Outcome.ERROR, once).target is RunState.FAILED
    drained = finished(Outcome.DRAINED, once)
    assert (drained.transition, drained.target, drained.sets["outcome"]) == (
        Transition.MARK_LOST,
        RunState.LOST,
        Outcome.INTERRUPTED,
    )


# -------------------------------------------------------------------------------------------------------------- retries


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry(), [30, 60, 120]),
        (Retry(max=5, initial="10s", multiplier=1.5), [10, 15, 22.5, 33.75, 50.625]),
        (Retry(max=2, initial="60s", multiplier=3.0), [60, 180]),
        (Retry(max=3, initial="20s", multiplier=1.0), [20, 20, 20]),
        (Retry(max=3, initial="10s", multiplier=2.0), [10, 20, 40]),
        (Retry(max=5, initial="60s", multiplier=1.5), [60, 90, 135, 202.5, 303.75]),
        (Retry(delays=["30s", "30s", "60s", "90s", "150s"]), [30, 30, 60, 90, 150]),
        (Retry(max=8, initial="1m", multiplier=10), [60, 600, 900, 900, 900, 900, 900, 900]),
    ],
)
def test_the_delays_of_a_retry_profile(retry: Retry, delays: list[float]) -> None:
    assert [retry.delay(n).total_seconds() for n in range(1, retry.max + 1)] == delays


def test_jitter_draws_from_half_to_whole_and_is_the_same_for_the_same_run() -> None:
    retry = Retry(jitter=True)
    drawn = [retry.delay(1, f"run-{k}").total_seconds() for k in range(200)]
    assert all(15 <= delay <= 30 for delay in drawn)
    assert max(drawn) - min(drawn) > 10
    assert retry.delay(1, "run-7") == retry.delay(1, "run-7")


# ---------------------------------------------------------------------------------------------------- reconciliation


def verdict(run: Run, holder: Holder, delivery: Delivery = Delivery.AT_LEAST_ONCE, after_s: float = 60) -> object:
    return reconcile(run, holder, delivery, timedelta(hours=1), T0 + after_s * SECOND)


RUNNING = a_run(state=RunState.RUNNING, started_at=T0)


def test_a_dispatched_run_that_a_live_node_holds_is_left_to_it_at_most_six_times() -> None:
    assert verdict(a_run(), Holder.HAS_IT) == Postpone(10 * SECOND)
    assert verdict(a_run(vetoes=6), Holder.HAS_IT) == Dispatch(Transition.REDISPATCH_UNTAKEN)


def test_a_dispatched_run_that_was_not_taken_is_placed_again_without_using_an_attempt() -> None:
    assert verdict(a_run(), Holder.WITHOUT_IT) == Dispatch(Transition.REDISPATCH_UNTAKEN)
    assert verdict(a_run(), Holder.DEAD) == Dispatch(Transition.REDISPATCH_UNTAKEN)


def test_a_dispatched_run_that_died_with_its_node_counts_as_lost() -> None:
    found = verdict(a_run(), Holder.DEAD_WITH_IT)
    assert isinstance(found, Dispatch)
    assert found.lost is not None
    assert found.lost.outcome is Outcome.LOST


def test_a_running_run_is_left_once_to_a_live_node_that_lists_it() -> None:
    assert verdict(RUNNING, Holder.HAS_IT) == Postpone(30 * SECOND)
    again = verdict(replace(RUNNING, vetoes=1), Holder.HAS_IT)
    assert isinstance(again, Dispatch)
    assert again.transition is Transition.REDISPATCH_LOST


def test_a_running_run_whose_node_is_gone_runs_again_or_is_lost_as_its_job_chose() -> None:
    again = verdict(RUNNING, Holder.DEAD)
    assert isinstance(again, Dispatch)
    assert again.transition is Transition.REDISPATCH_LOST
    lost = verdict(RUNNING, Holder.DEAD, Delivery.AT_MOST_ONCE)
    assert isinstance(lost, End)
    assert (lost.transition, lost.target) == (Transition.MARK_LOST, RunState.LOST)


def test_a_run_far_beyond_its_timeout_fails_even_if_its_node_insists() -> None:
    found = verdict(RUNNING, Holder.HAS_IT, after_s=3600 + 61)
    assert isinstance(found, End)
    assert (found.target, found.outcome) == (RunState.FAILED, Outcome.TIMEOUT)


def test_sidekiq_4633_a_run_that_took_three_nodes_with_it_is_poison() -> None:
    """sidekiq #4633: a job that killed its process was recovered for ever, and killed the next."""
    lost = tuple(Attempt(n, n, "n", T0, T0, Outcome.LOST) for n in (1, 2))
    found = verdict(replace(RUNNING, attempts=lost), Holder.DEAD)
    assert isinstance(found, End)
    assert (found.target, found.outcome) == (RunState.FAILED, Outcome.POISON)
    before = verdict(replace(a_run(), attempts=lost), Holder.DEAD_WITH_IT)
    assert isinstance(before, End)


def test_a_waiting_run_is_dispatched_as_its_next_attempt_with_a_new_fence() -> None:
    run = a_run(state=RunState.RETRYING, attempt=1)
    assert verdict(run, Holder.DEAD) == Dispatch(Transition.DISPATCH_RETRY)
    change = transitions.dispatch(
        run, Dispatch(Transition.DISPATCH_RETRY), fence=200, term=2, node="m#b", job_ver=1, at=T0
    )
    assert (change.sets["attempt"], change.sets["fence"], change.fence) == (2, 200, 100)


# -------------------------------------------------------------------------------------------------------- cancellation

CANCELLED = replace(RUNNING, cancel_requested=True, cancel_reason="too slow", cancel_by="ada")


def test_cancelling_ends_waiting_runs_and_asks_running_ones() -> None:
    made = {
        state: transitions.cancel(a_run(state=state), "", "", "f1", T0).transition
        for state in (RunState.DISPATCHED, RunState.RETRYING, RunState.RUNNING)
    }
    assert made == {
        RunState.DISPATCHED: Transition.CANCEL,
        RunState.RETRYING: Transition.CANCEL,
        RunState.RUNNING: Transition.REQUEST_CANCEL,
    }


def test_a_cancelled_attempt_has_its_reason_in_the_run() -> None:
    change = finished(Outcome.CANCELLED, error="cancelled by ada")
    assert (change.target, change.sets["reason"], change.sets["error"]) == (
        RunState.CANCELLED,
        "cancelled by ada",
        None,
    )


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_run_whose_worker_is_lost_ends_as_cancelled_if_that_was_asked_for(delivery: Delivery) -> None:
    found = verdict(CANCELLED, Holder.DEAD, delivery)
    assert isinstance(found, End)
    assert (found.transition, found.target, found.reason) == (
        Transition.CONFIRM_CANCEL,
        RunState.CANCELLED,
        "cancelled by ada: too slow",
    )
    assert found.lost is not None


def test_a_live_worker_gets_its_usual_respite_to_end_what_is_cancelled() -> None:
    assert verdict(CANCELLED, Holder.HAS_IT) == Postpone(30 * SECOND)
    found = verdict(replace(CANCELLED, vetoes=1), Holder.HAS_IT)
    assert isinstance(found, End)
    assert found.target is RunState.CANCELLED


def test_a_run_that_is_to_be_cancelled_is_not_tried_again() -> None:
    found = verdict(replace(CANCELLED, state=RunState.RETRYING), Holder.DEAD)
    assert isinstance(found, End)
    assert (found.transition, found.lost) == (Transition.CONFIRM_CANCEL, None)


def test_a_dispatch_does_not_apply_after_a_cancellation_request() -> None:
    for transition, run in (
        (Transition.REDISPATCH_UNTAKEN, a_run()),
        (Transition.REDISPATCH_LOST, RUNNING),
        (Transition.DISPATCH_RETRY, a_run(state=RunState.RETRYING)),
    ):
        change = transitions.dispatch(run, Dispatch(transition), fence=200, term=2, node="m#b", job_ver=1, at=T0)
        assert change.unless_cancelled


# ------------------------------------------------------------------------------------------------ what never starts

WAITS: dict[str, Any] = {"state": RunState.RETRYING}
STARTED = Attempt(1, 1, "n#a", T0, T0, Outcome.ERROR, "no")
DECLINED = Attempt(1, 1, "n#a", None, T0, Outcome.DECLINED, "no")


def never(run: Run, **fields: Any) -> str | None:
    """Why a run of this job must not start."""
    held = {name: fields.pop(name) for name in ("paused", "ver") if name in fields}
    found = never_starts(run, a_record(job=a_job(**fields), **held))
    if found is None:
        return None
    assert (found.transition, found.target) == (Transition.SKIP_WAITING, RunState.SKIPPED)
    return found.reason


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (a_run(**WAITS), SHADOWED),
        (a_run(**WAITS, kind=Kind.AFTER, id="report@after-0123456789"), SHADOWED),
        (a_run(**WAITS, attempts=(DECLINED,)), SHADOWED),
        (a_run(**WAITS, attempts=(DECLINED, STARTED)), None),
        (a_run(state=RunState.DISPATCHED), None),
        (a_run(**WAITS, kind=Kind.MANUAL), None),
        (a_run(**WAITS, kind=Kind.REPLAY), None),
        (a_run(**WAITS, kind=Kind.BACKFILL), None),
        (a_run(**WAITS, kind=Kind.PART, id="report@20261121T120000Z~s0"), SHADOWED),
        (a_run(**WAITS, kind=Kind.PART, id="report@after-0123456789~n-node-1"), SHADOWED),
        (a_run(**WAITS, kind=Kind.PART, id="report@manual-x~s0"), None),
        (a_run(**WAITS, kind=Kind.PART, id="report@20261121T120000Z~r1~s0"), None),
        (a_run(**WAITS, kind=Kind.PART, id="report@20261121T120000Z~b1~s0"), None),
        (a_run(**WAITS, kind=Kind.PART, id="report@after-0123456789~r1~s0"), None),
    ],
    ids=lambda value: value.id + value.kind + value.state if isinstance(value, Run) else "",
)
def test_in_shadow_mode_only_what_was_requested_or_has_started_may_start(run: Run, reason: str | None) -> None:
    assert never(run, mode=JobMode.SHADOW) == reason
    assert never(run) is None


def test_a_run_that_follows_others_does_not_start_once_its_job_is_held() -> None:
    follows = a_run(**WAITS, kind=Kind.AFTER, job_ver=1)
    assert never(follows, paused=True, ver=2) == "paused"
    assert never(follows, paused=True, ver=1) is None
    assert never(a_run(**WAITS, job_ver=1), paused=True, ver=2) is None
    assert never(replace(follows, state=RunState.DISPATCHED), paused=True, ver=2) is None


# ------------------------------------------------------------------------------------------ held back at a dispatch

WAITING = a_run(state=RunState.RETRYING)
HOUR = timedelta(hours=1)


def checked(run: Run, job: Job, late: timedelta, *others: RunState) -> object:
    found = held_back(run, a_record(job=job), T0 + late, others)
    return found.verdict if isinstance(found, HeldBack) else found


def test_temporal_11281_deadline_on_retry() -> None:
    """temporal #11281, #11316, #11530, #4332: a deadline was checked at the first attempt and at none after it."""
    job = a_job(misfire=Misfire(grace=HOUR))
    assert checked(WAITING, job, HOUR) is None
    found = checked(WAITING, job, HOUR + SECOND)
    assert isinstance(found, End)
    assert (found.transition, found.target, found.reason, found.outcome) == (
        Transition.SKIP_WAITING,
        RunState.SKIPPED,
        "misfire",
        None,
    )
    tried = replace(WAITING, attempt=2, attempts=(Attempt(1, 1, "n", T0, T0, Outcome.ERROR, "no"),))
    assert isinstance(checked(tried, job, HOUR + SECOND), End)
    assert isinstance(checked(a_run(), job, HOUR + SECOND), End)


def test_the_grace_of_a_run_that_covers_a_range_counts_from_its_end() -> None:
    job = a_job(misfire=Misfire(grace=HOUR))
    ranged = replace(WAITING, covers=Covers(T0, T0 + HOUR, 60))
    assert checked(ranged, job, 2 * HOUR) is None
    assert isinstance(checked(ranged, job, 2 * HOUR + SECOND), End)


def test_what_skips_missed_fires_may_try_again_what_began_in_time() -> None:
    job = a_job(misfire=Misfire(policy=MisfirePolicy.SKIP))
    assert checked(WAITING, job, 60 * SECOND) is None
    assert isinstance(checked(WAITING, job, 61 * SECOND), End)
    began = replace(WAITING, attempts=(Attempt(1, 1, "n", T0, T0, Outcome.ERROR, "no"),))
    assert checked(began, job, 61 * SECOND) is None


def test_what_catches_up_and_what_was_asked_for_by_hand_is_never_too_late() -> None:
    policy = Misfire(policy=MisfirePolicy.CATCH_UP, grace=SECOND)
    assert checked(WAITING, a_job(misfire=policy), 24 * HOUR) is None
    by_hand = replace(WAITING, kind=Kind.MANUAL)
    assert checked(by_hand, a_job(misfire=Misfire(grace=SECOND)), 24 * HOUR) is None


@pytest.mark.parametrize("overlap", [Overlap.FORBID, Overlap.QUEUE, Overlap.REPLACE])
def test_what_waits_comes_after_what_runs_and_what_was_dispatched(overlap: Overlap) -> None:
    job = a_job(overlap=overlap)
    for ahead in (RunState.RUNNING, RunState.DISPATCHED):
        assert checked(WAITING, job, SECOND, ahead) == Postpone(SECOND)
    assert checked(WAITING, job, SECOND, RunState.RETRYING) is None
    # What was dispatched waits for what runs alone: two that were dispatched do not wait for each other for ever.
    assert checked(a_run(), job, SECOND, RunState.RUNNING) == Postpone(SECOND)
    assert checked(a_run(), job, SECOND, RunState.DISPATCHED, RunState.RETRYING) is None


def test_runs_that_may_overlap_do_not_wait_for_each_other() -> None:
    assert checked(WAITING, a_job(overlap=Overlap.ALLOW), SECOND, RunState.RUNNING) is None


# ----------------------------------------------------------------------------------------------------------- declined


def declining(*refusing: tuple[str, Outcome, float]) -> Run:
    attempts = tuple(Attempt(1, 1, node, None, T0 + at * SECOND, how, f"not {node}") for node, how, at in refusing)
    return replace(WAITING, attempts=attempts)


def test_a_node_that_declined_is_not_asked_again_and_one_that_deferred_not_for_a_while() -> None:
    run = declining(("a#1", Outcome.DECLINED, 0), ("b#1", Outcome.DEFERRED, 0), ("c#1", Outcome.ERROR, 0))
    assert refusals(run, T0 + 5 * SECOND) == {"a#1": "not a#1", "b#1": "not b#1"}
    assert refusals(run, T0 + 31 * SECOND) == {"a#1": "not a#1"}


def test_a_run_that_many_nodes_declined_is_offered_again_after_a_pause() -> None:
    few, many = (declining(*((f"n{k}#1", Outcome.DECLINED, k) for k in range(count))) for count in (19, 20))
    assert decline_pause(few, T0 + 20 * SECOND) is None
    assert decline_pause(many, T0 + 20 * SECOND) == 29 * SECOND
    assert decline_pause(many, T0 + 49 * SECOND) is None
