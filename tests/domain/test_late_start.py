"""Why a run started late, from records that are made up."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from cronflow.domain.events import (
    Event,
    LeaderElected,
    LeaderSteppedDown,
    MaintenanceEnded,
    MaintenanceStarted,
    RecordedEvent,
    event_id,
)
from cronflow.domain.late_start import Delay, LateFacts, LateStart, late_start
from cronflow.domain.placement import Waiting
from cronflow.domain.run import Attempt, Kind, NodeTimes, Outcome, Run, RunState
from tests.cli.scene import FENCE, NOON, run


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def happened(at: float, event: Event) -> RecordedEvent:
    return RecordedEvent(event_id(after(at), "t"), after(at), "node-a#5f1c", event)


def a_run(planned: float, sent: float, start: float, **fields: object) -> Run:
    """A run that was planned, dispatched and started so many seconds after its instant, and has ended."""
    one = run("report", NOON, RunState.SUCCEEDED, created_at=after(planned), dispatched_at=after(sent))
    attempt = Attempt(1, FENCE, "node-b#1", after(start), after(start + 5), Outcome.OK)
    return replace(one, started_at=after(start), attempts=(attempt,), **fields)  # type: ignore[arg-type]


def timed(one: Run, taken: float, slot: float, began: float) -> Run:
    return replace(one, attempts=(replace(one.attempts[0], times=NodeTimes(after(taken), after(slot), after(began))),))


def explained(one: Run, facts: LateFacts | None = None) -> LateStart:
    found = late_start(one, facts or LateFacts(), after(60))
    assert found is not None
    return found


def lengths(found: LateStart) -> list[tuple[Delay, float]]:
    return [(part.delay, (part.until - part.since).total_seconds()) for part in found.parts]


ELECTED = happened(-600, LeaderElected("node-a", 7))


def test_a_failover_is_a_lease_gap_from_the_last_renewal_to_the_election() -> None:
    facts = LateFacts(events=[ELECTED, happened(20, LeaderElected("node-b", 8, "node-a", after(-3).isoformat()))])
    found = explained(timed(a_run(20.4, 20.4, 21), 20.6, 20.6, 20.9), facts)
    assert lengths(found) == [
        (Delay.NO_LEADER, 20.0), (Delay.PLANNING, 0.4), (Delay.SENT, 0.2), (Delay.LOOP, 0.3), (Delay.START, 0.1),
    ]  # fmt: skip
    assert found.parts[0].words == (
        "No leader: node-a had last renewed its lease at 11:59:57 UTC; node-b became leader (term 8)"
    )
    assert all(part.recorded for part in found.parts)


def test_a_leader_that_stepped_down_led_until_then() -> None:
    facts = LateFacts(
        events=[
            ELECTED,
            happened(4, LeaderSteppedDown("node-a", 7, "drained")),
            happened(6, LeaderElected("node-b", 8)),
        ]
    )
    found = explained(a_run(6.5, 6.5, 6.5), facts)
    assert lengths(found) == [(Delay.PLANNING, 4.0), (Delay.NO_LEADER, 2.0), (Delay.PLANNING, 0.5)]
    # Why the old leader did not plan it within four seconds is nowhere recorded.
    assert [part.recorded for part in found.parts] == [False, True, True]


def test_an_election_of_an_earlier_version_does_not_contain_when_the_leader_was_lost() -> None:
    found = explained(a_run(20, 20, 20), LateFacts(events=[ELECTED, happened(20, LeaderElected("node-b", 8))]))
    assert lengths(found) == [(Delay.NO_LEADER, 20.0)]
    assert not found.parts[0].recorded
    assert found.parts[0].words.endswith("when node-a stopped leading is not recorded")


def test_without_any_record_of_a_leader_nothing_is_guessed() -> None:
    found = explained(a_run(5, 5, 5))
    assert lengths(found) == [(Delay.PLANNING, 5.0)]
    assert (found.parts[0].recorded, found.parts[0].words) == (
        False, "Not planned; the leader at that time is not recorded",
    )  # fmt: skip


def test_maintenance_and_a_recorded_wait_come_before_the_plan() -> None:
    waiting = Waiting(fire=NOON, since=after(6), reason="limit db is full", blocked_by="etl@1")
    facts = LateFacts(events=[ELECTED, happened(-60, MaintenanceStarted("ann")), happened(4, MaintenanceEnded("ann"))])
    found = explained(a_run(10, 10, 10, waited=waiting), facts)
    assert lengths(found) == [(Delay.MAINTENANCE, 4.0), (Delay.PLANNING, 2.0), (Delay.WAITING, 4.0)]
    assert found.parts[2].run == "etl@1"
    assert found.parts[2].words.startswith("limit db is full")


def test_on_its_node_a_run_waits_for_the_lock_for_a_slot_and_for_the_loop() -> None:
    facts = LateFacts(events=[ELECTED], lock=("report@0", after(2)), limited=True)
    found = explained(timed(a_run(0, 0, 9), 3, 7, 8), facts)
    assert lengths(found) == [
        (Delay.LOCK, 2.0), (Delay.SENT, 1.0), (Delay.SLOT, 4.0), (Delay.LOOP, 1.0), (Delay.START, 1.0),
    ]  # fmt: skip
    assert (found.parts[0].run, found.parts[-1].words) == ("report@0", "Waiting for permits of the job's limits")


def test_a_run_placed_before_its_instant_is_late_only_by_its_node() -> None:
    found = explained(timed(a_run(-4, -4, 0.4), -3, -3, 0.3))
    assert lengths(found) == [(Delay.LOOP, 0.3), (Delay.START, 0.1)]


def test_an_earlier_node_and_a_lost_dispatch_are_named() -> None:
    refused = Attempt(1, FENCE - 1, "node-a#1", None, after(3), Outcome.DECLINED, "no function jobs:report")
    one = a_run(0, 4, 5)
    found = explained(replace(one, attempts=(refused, *one.attempts), redispatches=1))
    assert lengths(found)[0] == (Delay.EARLIER_NODE, 3.0)
    assert found.parts[0].words == "Dispatched to node-a, which did not start the run: no function jobs:report"
    # A retry has replaced the record of the first dispatch.
    retried = replace(one, fence=FENCE + 9, dispatched_at=after(30))
    assert [part.recorded for part in explained(retried).parts] == [False]


def test_a_run_that_has_not_started_is_explained_until_now() -> None:
    waiting = Waiting(fire=NOON, since=after(10), reason="no free slot")
    one = run("report", NOON, RunState.RETRYING, kind=Kind.MANUAL, started_at=None, node=None, waiting=waiting)
    found = explained(one)
    assert (found.started, found.until) == (False, after(60))
    assert lengths(found) == [(Delay.PLACEMENT, 10.0), (Delay.WAITING, 50.0)]


def test_what_is_not_late_or_never_started_is_not_explained() -> None:
    assert late_start(a_run(0, 0, 0), LateFacts(), after(60)) is None
    assert late_start(replace(a_run(0, 0, 1), kind=Kind.REPLAY), LateFacts(), after(60)) is None
    skipped = run("report", NOON, RunState.SKIPPED, started_at=None)
    assert late_start(skipped, LateFacts(), after(60)) is None


SECONDS = st.floats(-20, 50, allow_nan=False)


@given(
    planned=SECONDS, sent=SECONDS, start=st.floats(0.001, 50), taken=SECONDS, slot=SECONDS, began=SECONDS,
    elected=st.lists(SECONDS, max_size=3), waited=st.none() | SECONDS, locked=st.none() | SECONDS,
)  # fmt: skip
def test_the_parts_follow_each_other_and_add_up_whatever_the_clocks_recorded(
    planned: float, sent: float, start: float, taken: float, slot: float, began: float,
    elected: list[float], waited: float | None, locked: float | None,
) -> None:  # fmt: skip
    waiting = None if waited is None else Waiting(fire=NOON, since=after(waited), reason="no free slot")
    facts = LateFacts(
        events=[ELECTED, *(happened(at, LeaderElected("node-b", 8)) for at in sorted(elected))],
        lock=None if locked is None else ("report@0", after(locked)),
    )
    found = explained(timed(a_run(planned, sent, start, waited=waiting), taken, slot, began), facts)
    assert found.parts[0].since == NOON
    assert found.parts[-1].until == found.until == after(start)
    assert all(one.until == two.since for one, two in zip(found.parts, found.parts[1:], strict=False))
    assert all(part.until > part.since for part in found.parts)
