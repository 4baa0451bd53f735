"""Splitting runs: what the parts of a parent are, how it ends, and which part waits for its node."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.capabilities import Needs
from cronflow.domain.cluster import Member
from cronflow.domain.placement import Waiting
from cronflow.domain.recovery import End
from cronflow.domain.run import Kind, Outcome, Run, RunState
from cronflow.domain.split import PartPlan, Shard, Split, SplitBy, parent_of
from cronflow.domain.splitting import (
    GONE_FOR,
    node_missing,
    nodes_for,
    part_run,
    parts_ended,
    replayed,
    split_now,
    sum_up,
)
from tests.contracts.builders import T0, a_job, a_record, a_report, a_run

ID = "report@manual-1"
SECOND = timedelta(seconds=1)
STALE = timedelta(seconds=10)


def a_parent(split: Split, **fields: Any) -> Run:
    return a_run(id=ID, kind=Kind.MANUAL, state=RunState.RETRYING, split=replace(split, begun=True), **fields)


def a_member(name: str, *, age: timedelta = SECOND, **fields: Any) -> Member:
    return Member(a_report(name, **fields), age, 0, 0)


SHARDS = Split(by=SplitBy.SHARDS, total=3)
NODES = Split(by=SplitBy.NODES, nodes=("a", "b.c"))


@pytest.mark.parametrize(
    ("run", "parent"),
    [
        (f"{ID}~s0", ID),
        (f"{ID}~s999", ID),
        (f"{ID}~n-a.b-c", ID),
        (f"{ID}~r1~s2", f"{ID}~r1"),
        ("report@20260102T030405Z~b1~n-a", "report@20260102T030405Z~b1"),
        (ID, None),
        (f"{ID}~r1", None),
        ("report@20260102T030405Z~b1", None),
        (f"{ID}~s", None),
    ],
)
def test_the_id_of_a_part_has_its_parent(run: str, parent: str | None) -> None:
    assert parent_of(run) == parent


def test_parts_follow_from_the_split() -> None:
    assert list(SHARDS.parts(ID)) == [PartPlan(f"{ID}~s{n}", Shard(n, 3)) for n in range(3)]
    assert list(replace(SHARDS, only=(2,)).parts(ID)) == [PartPlan(f"{ID}~s2", Shard(2, 3))]
    assert list(NODES.parts(ID)) == [
        PartPlan(f"{ID}~n-a", Shard(0, 2), "a"),
        PartPlan(f"{ID}~n-b.c", Shard(1, 2), "b.c"),
    ]
    counts = [split.count for split in (SHARDS, NODES, replace(SHARDS, only=(2,)), Split(by=SplitBy.NODES))]
    assert counts == [3, 2, 1, None]


def test_a_parent_ends_when_its_last_part_has() -> None:
    parent = a_parent(SHARDS)
    states = {f"{ID}~s0": RunState.SUCCEEDED, f"{ID}~s1": RunState.SUCCEEDED}
    assert parts_ended(parent, states) is None
    assert parts_ended(parent, {**states, f"{ID}~s2": RunState.RUNNING}) is None
    assert parts_ended(parent, {**states, f"{ID}~s2": RunState.LOST}) is not None


def ended(split: Split, *found: RunState, held: str | None = None, **fields: Any) -> dict[str, object]:
    parent = a_parent(split, **fields)
    states = {plan.id: state for plan, state in zip(parent.split.parts(ID), found, strict=True)}  # type: ignore[union-attr]
    how = parts_ended(parent, states)
    assert how is not None
    change = sum_up(parent, states, how, {f"{ID}~s1": "disk full\nat line 3"}, "finish", T0, held=held)
    return {"state": change.target, **change.sets}


OK, FAILED, CANCELLED = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED
SKIPPED = RunState.SKIPPED


def test_a_parent_whose_parts_were_not_to_start_is_cancelled_and_does_not_fail() -> None:
    found = ended(SHARDS, SKIPPED, OK, SKIPPED, held="shadow mode")
    assert (found["state"], found["outcome"], found["reason"]) == (CANCELLED, Outcome.CANCELLED, "shadow mode")
    assert "error" not in found
    assert ended(SHARDS, OK, OK, OK, held="shadow mode")["state"] is OK
    assert ended(SHARDS, SKIPPED, FAILED, SKIPPED, held="shadow mode")["state"] is FAILED
    # The handlers themselves have skipped them.
    assert ended(SHARDS, SKIPPED, OK, SKIPPED)["state"] is FAILED
    asked = ended(SHARDS, SKIPPED, OK, SKIPPED, held="shadow mode", cancel_requested=True, cancel_by="ada")
    assert (asked["state"], asked["reason"]) == (CANCELLED, "cancelled by ada")


def test_a_parent_succeeds_if_all_parts_did_and_names_an_example_otherwise() -> None:
    assert ended(SHARDS, OK, OK, OK)["state"] is OK
    failed = ended(SHARDS, CANCELLED, FAILED, OK)
    assert (failed["state"], failed["result"]) == (FAILED, {"cancelled": [0], "failed": [1], "succeeded": [2]})
    assert failed["error"] == (f"2 of 3 parts did not succeed: 1 cancelled, 1 failed (for example {ID}~s1: disk full)")
    assert ended(NODES, OK, RunState.SKIPPED)["result"] == {"succeeded": ["a"], "skipped": ["b.c"]}


def test_a_parent_that_was_to_be_cancelled_is_unless_all_parts_succeeded() -> None:
    asked: dict[str, Any] = {"cancel_requested": True, "cancel_reason": "no", "cancel_by": "ada"}
    assert ended(SHARDS, OK, OK, OK, **asked)["state"] is OK
    found = ended(SHARDS, OK, FAILED, CANCELLED, **asked)
    assert (found["state"], found["reason"]) == (CANCELLED, "cancelled by ada: no")


def test_a_result_that_would_be_too_long_has_numbers() -> None:
    many = Split(by=SplitBy.NODES, nodes=tuple(f"a-node-with-a-long-name-{n}" for n in range(400)))
    assert ended(many, *[OK] * 400)["result"] == {"succeeded": 400}


def test_a_replay_repeats_what_did_not_succeed() -> None:
    states = {f"{ID}~s0": OK, f"{ID}~s1": FAILED}
    again = replayed(a_parent(SHARDS), states)
    assert again == Split(by=SplitBy.SHARDS, total=3, only=(1, 2))
    assert replayed(a_parent(SHARDS), {f"{ID}~s{n}": OK for n in range(3)}) == SHARDS
    assert replayed(a_run(split=SHARDS), {}) is None
    # It keeps its shards, and a whole run is split as the job says.
    record = a_record(job=a_job(shards=8))
    assert again is not None
    assert split_now(a_run(split=again), record) == again
    assert split_now(a_run(split=SHARDS), record) == Split(by=SplitBy.SHARDS, total=8)
    assert split_now(a_run(split=SHARDS), a_record()) == SHARDS


def test_a_part_of_a_parent_that_is_to_be_cancelled_is_inserted_so() -> None:
    parent = a_parent(SHARDS, cancel_requested=True, cancel_reason="no", priority=-1)
    (part, *_) = [part_run(parent, plan, a_record(), T0) for plan in SHARDS.parts(ID)]
    assert (part.cancel_requested, part.cancel_reason, part.priority) == (True, "no", -1)
    assert (part.parent, part.kind, part.is_dead, part.lateness) == (ID, Kind.PART, False, None)


def test_a_broadcast_goes_to_the_nodes_that_are_up_and_able_also_if_they_are_busy() -> None:
    members = [
        a_member("d", age=20 * SECOND),
        a_member("c", memory=0.99, lag_s=9.0, labels={"disk": "ssd"}),
        a_member("b"),
        a_member("a", labels={"disk": "ssd"}),
        a_member("e", draining=True, labels={"disk": "ssd"}),
    ]
    nodes, left_out = nodes_for(members, Needs(labels=(("disk", "ssd"),)), STALE)
    assert nodes == ("a", "c")
    assert left_out.reasons["e#a"] == "draining"
    assert left_out.reasons["b#a"] == "no label disk (needs disk=ssd)"
    assert nodes_for([a_member("d", age=20 * SECOND)], Needs(), STALE)[1].reasons == {"d#a": "last heartbeat 20 s ago"}


def test_a_part_waits_for_its_node_for_a_minute() -> None:
    part = a_run(id=f"{ID}~n-a", kind=Kind.PART, only_node="a")
    assert node_missing(part, [a_member("a", memory=0.99)], Needs(), None, T0) is None
    first = node_missing(part, [], Needs(), None, T0)
    assert first == Waiting(fire=T0, since=T0, reason="node a has no heartbeat")
    assert isinstance(first, Waiting)
    waiting = replace(part, waiting=first)
    assert node_missing(waiting, [], Needs(), None, T0 + GONE_FOR) == first
    end = node_missing(waiting, [], Needs(), None, T0 + GONE_FOR + SECOND)
    assert isinstance(end, End)
    assert (end.target, end.error) == (RunState.FAILED, "node a has no heartbeat, for 1m")
    # Another reason begins anew.
    unable = node_missing(waiting, [a_member("a")], Needs(labels=(("x", "y"),)), None, T0 + GONE_FOR + SECOND)
    assert isinstance(unable, Waiting)
    assert unable.reason == "node a can no longer run this job: no label x (needs x=y)"
