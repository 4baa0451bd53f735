"""Which node gets a run, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronflow.domain.capabilities import MOST_ANNOUNCED, Capabilities, Needs, announced, needs_of
from cronflow.domain.cluster import Member
from cronflow.domain.job import CommandTarget, HttpTarget, Job, PythonTarget, SystemTarget, Target
from cronflow.domain.placement import OTHERS_KEPT, Fleet, NoNode, Placement, Waiting, in_turn, ineligible, load
from tests.contracts.builders import T0, a_report


def a_member(
    name: str = "a", age_s: float = 0.0, queued: int = 0, held: int = 0, ahead: int = 0, **fields: object
) -> Member:
    return Member(a_report(name, "x", **fields), timedelta(seconds=age_s), queued, held, ahead=ahead)


NOTHING = Needs()


def labels(**require: str) -> Needs:
    return Needs(labels=tuple(sorted(require.items())))


def chosen_by(fleet: Fleet, needs: Needs = NOTHING, refused: Mapping[str, str] | None = None) -> str:
    answer = fleet.place(needs, refused)
    assert isinstance(answer, Placement)
    return answer.node


def test_the_least_loaded_node_takes_the_run() -> None:
    fleet = Fleet([a_member("busy", held=3), a_member("idle"), a_member("hot", cpu=0.9)])
    assert chosen_by(fleet) == "idle#x"


def test_a_placement_remembers_the_rank_of_the_others_or_what_stood_against_them() -> None:
    fleet = Fleet([a_member("idle", cpu=0.0, memory=0.0), a_member("hot", cpu=0.9), a_member("away", draining=True)])
    placed = fleet.place(NOTHING)
    assert placed == Placement("idle#x", 0.0, (("hot#x", 0.51), ("away#x", "draining")), 0)


def test_a_node_that_was_full_when_a_run_was_placed_is_remembered_as_full() -> None:
    fleet = Fleet([a_member("small", slots=1), a_member("large", held=3)])
    assert chosen_by(fleet) == "small#x"
    placed = fleet.place(NOTHING)
    assert isinstance(placed, Placement)
    assert (placed.node, placed.others) == ("large#x", (("small#x", "no free slot"),))


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 40))
def test_what_is_remembered_of_a_placement_is_bounded_and_counts_everybody(able: int, away: int) -> None:
    members = [a_member(f"a{k}") for k in range(able)] + [a_member(f"b{k}", draining=True) for k in range(away)]
    placed = Fleet(members).place(NOTHING)
    assert isinstance(placed, Placement)
    assert len(placed.others) == min(OTHERS_KEPT, able + away - 1)
    assert 1 + len(placed.others) + placed.more == able + away
    assert len({placed.node, *(node for node, _ in placed.others)}) == 1 + len(placed.others)
    reasons = sum(standing == "draining" for _, standing in placed.others)
    assert reasons >= min(away, OTHERS_KEPT // 2)


def test_a_wait_remembers_some_reasons_and_since_when_it_lasts() -> None:
    answer = Fleet([a_member(f"b{k}", draining=True) for k in range(10)]).place(NOTHING)
    assert isinstance(answer, NoNode)
    first = answer.waiting(T0, T0)
    assert (first.reason, len(first.nodes), first.more) == ("no node can run this job", OTHERS_KEPT, 2)
    later = T0 + timedelta(seconds=5)
    assert answer.waiting(T0, later).still(first) == first
    assert answer.waiting(later, later).still(first).since == later
    assert str(Waiting(fire=T0, since=T0, reason="no node is up")) == "no node is up"


def test_cpu_and_memory_count_beside_the_slots() -> None:
    assert load(a_member(cpu=0.5, memory=0.5)) == 0.5 * 0.5 + 0.3 * 0.5
    assert load(a_member(cpu=0.0, memory=0.0, held=1, queued=1), placed=1) == 3 / 4


def test_nodes_that_are_as_good_as_equal_take_turns_by_lot() -> None:
    members = [a_member("a", cpu=0.101), a_member("b", cpu=0.102), a_member("c", cpu=0.2)]
    for draws, first in (([0.1, 0.2, 0.0], "a#x"), ([0.2, 0.1, 0.0], "b#x")):
        lots = iter(draws).__next__
        assert chosen_by(Fleet(members, draw=lots)) == first


def test_placed_runs_count_so_that_many_runs_at_once_spread() -> None:
    fleet = Fleet([a_member(name) for name in "abc"])
    placed = [chosen_by(fleet) for _ in range(12)]
    assert {placed.count(f"{name}#x") for name in "abc"} == {4}
    assert fleet.capacity == 0


def test_a_full_cluster_has_a_reason_for_each_node() -> None:
    fleet = Fleet([a_member("a", held=4), a_member("b", held=2, queued=2)])
    answer = fleet.place(NOTHING)
    assert isinstance(answer, NoNode)
    assert str(answer) == "a#x: no free slot; b#x: no free slot"


def test_runs_that_a_node_accepts_ahead_count_as_capacity() -> None:
    assert a_member(held=4, ahead=2).capacity == 2


def test_runs_are_placed_early_into_what_a_node_announces_for_them_and_no_due_run_needs() -> None:
    fleet = Fleet([a_member(slots=2, held=1, accepts_early=1)])
    assert (fleet.capacity, fleet.early_capacity) == (1, 2)
    assert isinstance(fleet.place(NOTHING, early=True), Placement)
    # A run that waits uses no slot, and a due one takes it.
    assert (fleet.capacity, fleet.early_capacity) == (1, 1)
    assert isinstance(fleet.place(NOTHING), Placement)
    assert (fleet.capacity, fleet.early_capacity) == (0, 0)
    assert isinstance(fleet.place(NOTHING, early=True), NoNode)


def test_runs_that_wait_for_their_instant_leave_the_slots_to_due_ones() -> None:
    full = a_member("a", slots=2, held=3, queued=1, accepts_early=4)
    assert Fleet([full]).capacity == 0
    fleet = Fleet([full], early={"a#x": 3})
    assert (fleet.capacity, fleet.early_capacity) == (1, 2)
    assert isinstance(fleet.place(NOTHING), Placement)
    assert isinstance(fleet.place(NOTHING), NoNode)


def test_a_node_that_announces_no_early_runs_gets_none_and_is_no_obstacle_to_others() -> None:
    fleet = Fleet([a_member("old"), a_member("new", held=3, accepts_early=0)])
    placed = fleet.place(NOTHING, early=True)
    assert isinstance(placed, Placement)
    assert (placed.node, placed.others) == ("new#x", (("old#x", "no free slot"),))
    assert isinstance(fleet.place(NOTHING, {"new#x": "declined"}, early=True), NoNode)
    assert chosen_by(fleet) == "old#x"


def test_each_reason_against_a_node_is_reported() -> None:
    assert ineligible(a_member(), NOTHING) is None
    assert ineligible(a_member(labels={"region": "us"}), labels(region="eu")) == "label region=us (needs region=eu)"
    assert ineligible(a_member(age_s=11), NOTHING) == "last heartbeat 11 s ago"
    assert ineligible(a_member(draining=True), NOTHING) == "draining"
    assert ineligible(a_member(memory=0.96), NOTHING) == "memory at 96%"
    assert ineligible(a_member(mongo_away_s=11.0), NOTHING) == "MongoDB unavailable for 11 s"
    # A step-down of its primary is no reason.
    assert ineligible(a_member(mongo_away_s=9.0), NOTHING) is None


def test_labels_send_a_run_to_the_node_that_has_them_although_it_is_busier() -> None:
    fleet = Fleet([a_member("idle"), a_member("gpu", held=3, labels={"gpu": "yes"})])
    assert chosen_by(fleet, labels(gpu="yes")) == "gpu#x"
    answer = fleet.place(labels(gpu="yes"))
    assert isinstance(answer, NoNode)
    assert answer.reasons == {"idle#x": "no label gpu (needs gpu=yes)", "gpu#x": "no free slot"}


def test_a_node_that_refused_is_passed_over_and_still_counted() -> None:
    fleet = Fleet([a_member("idle"), a_member("busy", held=2), a_member("full", held=4)])
    assert chosen_by(fleet, refused={"idle#x": "no shell here"}) == "busy#x"
    assert chosen_by(fleet, refused={"idle#x": "no shell here"}) == "busy#x"
    answer = fleet.place(NOTHING, {"idle#x": "no shell here"})
    assert isinstance(answer, NoNode)
    assert answer.reasons == {"idle#x": "no shell here", "busy#x": "no free slot", "full#x": "no free slot"}
    assert fleet.capacity == 4
    assert chosen_by(fleet) == "idle#x"


def test_a_node_with_a_drain_request_gets_nothing_before_it_has_received_it() -> None:
    asked = replace(a_member("a"), drain_asked=True)
    assert ineligible(asked, NOTHING) == "draining"
    assert chosen_by(Fleet([asked, a_member("b", held=3)])) == "b#x"


def test_an_empty_cluster_has_a_reason() -> None:
    assert str(Fleet([]).place(NOTHING)) == "no node is up"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=6), st.data())
def test_in_any_order_every_run_goes_to_a_node_of_least_rank_within_its_capacity(
    nodes: list[tuple[int, float, int]], data: st.DataObject
) -> None:
    members = {
        member.id: member
        for k, (slots, cpu, held) in enumerate(nodes)
        for member in [a_member(f"n{k}", slots=slots, cpu=cpu, held=held, labels={"odd": str(k % 2)})]
    }
    fleet, placed = Fleet(members.values()), dict.fromkeys(members, 0)
    for _ in range(data.draw(st.integers(1, 20))):
        require = data.draw(st.sampled_from([{}, {"odd": "1"}]))
        able = {
            node: load(member, placed[node])
            for node, member in members.items()
            if ineligible(member, labels(**require)) is None and member.capacity > placed[node]
        }
        chosen = fleet.place(labels(**require))
        if not able:
            assert isinstance(chosen, NoNode)
        else:
            assert isinstance(chosen, Placement)
            assert able[chosen.node] == min(able.values())
            placed[chosen.node] += 1


# -------------------------------------------------------------------------------------------------------- capabilities


def needing(target: Target) -> Needs:
    system = isinstance(target, SystemTarget)
    return needs_of(Job(name="_sys:sweep" if system else "any", target=target))


def test_a_run_is_offered_only_to_nodes_that_announce_that_they_can_run_it() -> None:
    """Nodes were offered commands that they do not allow, and the run failed for good."""
    fleet = Fleet(
        [
            a_member("idle", capabilities=Capabilities(shell=False)),
            a_member("busy", held=3, capabilities=Capabilities(shell=True)),
        ]
    )
    shell = needing(CommandTarget("exit 1"))
    assert chosen_by(fleet, shell) == "busy#x"
    answer = fleet.place(shell)
    assert isinstance(answer, NoNode)
    assert answer.reasons == {"idle#x": "does not run commands (ALLOW_SHELL)", "busy#x": "no free slot"}
    assert answer.busy
    # What the others need is not affected.
    assert chosen_by(fleet, needing(PythonTarget("jobs:tick"))) == "idle#x"


def test_a_node_that_announces_nothing_is_offered_every_run() -> None:
    fleet = Fleet([a_member("new", capabilities=Capabilities(shell=False)), a_member("old")])
    assert chosen_by(fleet, needing(CommandTarget("true"))) == "old#x"


LIMITED = Capabilities(shell=False, modules=("shop.jobs",), hosts=("*.example.com", "10.0.0.0/8"), secrets=False)
NAMES = Capabilities(hosts=("api.example.com",))


@pytest.mark.parametrize(
    ("target", "capabilities", "obstacle"),
    [
        (CommandTarget("true"), LIMITED, "does not run commands (ALLOW_SHELL)"),
        (PythonTarget("shop.jobs:tick"), LIMITED, None),
        (PythonTarget("shop.jobs.daily:tick"), LIMITED, None),
        (PythonTarget("shop.jobsite:tick"), LIMITED, "does not have module shop.jobsite (--app, ALLOW_PYTHON)"),
        (HttpTarget("https://api.example.com/x"), LIMITED, None),
        (HttpTarget("http://10.1.2.3:8080"), LIMITED, None),
        (HttpTarget("http://11.1.2.3"), LIMITED, "may not call 11.1.2.3 (ALLOW_HTTP_HOSTS)"),
        # It may resolve to an address in 10.0.0.0/8; only the node can find out.
        (HttpTarget("http://inside"), LIMITED, None),
        (HttpTarget("http://other.example.com"), NAMES, "may not call other.example.com (ALLOW_HTTP_HOSTS)"),
        (HttpTarget("http://API.example.com"), NAMES, None),
        (PythonTarget("shop.jobs:tick", {"key": "${secret:TOKEN}"}), LIMITED, "cannot open secrets (SECRETS_KEY)"),
        (SystemTarget("sweep"), LIMITED, None),
        (CommandTarget("true"), Capabilities(), None),
    ],
    ids=str,
)
def test_each_obstacle_is_certain(target: Target, capabilities: Capabilities, obstacle: str | None) -> None:
    assert capabilities.obstacle(needing(target)) == obstacle
    assert ineligible(a_member(capabilities=capabilities), needing(target)) == obstacle


def test_a_function_that_no_node_has_is_named_with_the_remedy() -> None:
    job = Job(name="report", target=PythonTarget("billing.jobs:report"), schedule=None)
    others = [a_member("a", capabilities=LIMITED), a_member("b", capabilities=Capabilities(modules=("billing",)))]
    fleet = Fleet(others)
    older = {"b#x": "this node does not have billing.jobs:report: billing.jobs has no function report"}
    answer = fleet.place_run("report@1", job, older)
    assert isinstance(answer, NoNode)
    assert answer.summary == "no node has billing.jobs:report; start one whose --app has it"
    assert answer.reasons == {"a#x": "does not have module billing.jobs (--app, ALLOW_PYTHON)", **older}
    answer = fleet.place_run("report@1", job, {"b#x": "memory at 97%"})
    assert isinstance(answer, NoNode)
    assert answer.summary == "no node can run this job"
    assert isinstance(answer := Fleet([]).place_run("report@1", job), NoNode)
    assert answer.summary == "no node is up"


def test_a_heartbeat_stays_small_whatever_a_node_can_run() -> None:
    assert announced(["b", "a", "b"]) == ("a", "b")
    assert announced(f"module_{k}" for k in range(MOST_ANNOUNCED + 1)) is None


# ---------------------------------------------------------------------------------------------------------------- turns


def turns(waiting: Mapping[str, tuple[int, float]], turn: int = 0) -> list[str]:
    """The order of items with a priority and an age in seconds."""

    def rank(name: str) -> tuple[int, datetime]:
        priority, age = waiting[name]
        return priority, T0 - timedelta(seconds=age)

    return in_turn(list(waiting), rank, turn)


def test_free_slots_go_to_the_highest_priority_and_then_to_the_oldest() -> None:
    assert turns({"low": (0, 90), "new": (9, 1), "old": (9, 2), "middle": (5, 50)}) == ["old", "new", "middle", "low"]


def test_every_eighth_slot_goes_to_the_oldest_so_that_nothing_starves() -> None:
    waiting = {"starving": (0, 1000.0)} | {f"high-{k}": (9, 100.0 - k) for k in range(20)}
    assert turns(waiting).index("starving") == 7
    # The count goes on in the next round.
    assert turns(waiting, turn=7)[0] == "starving"
    assert sorted(turns(waiting)) == sorted(waiting)
