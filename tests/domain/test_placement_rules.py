"""Placement rules: which of the nodes gets a run, given what runs there."""

from __future__ import annotations

from typing import Any

from cronflow.domain.placement import NO_FREE_SLOT, NO_ROOM, Fleet, NoNode, Placement
from cronflow.domain.placement_rules import Occupancy, PlacedRun
from cronflow.domain.resources import NOTHING, ResourceAmount
from tests.contracts.builders import a_job
from tests.domain.test_placement import a_member

MIB = 1 << 20
GIB = 1 << 30


def place(fleet: Fleet, run: str = "report@1", **rules: Any) -> Placement:
    placed = fleet.place_run(run, a_job(run.partition("@")[0], **rules))
    assert isinstance(placed, Placement)
    return placed


def refused(fleet: Fleet, run: str = "report@1", **rules: Any) -> NoNode:
    placed = fleet.place_run(run, a_job(run.partition("@")[0], **rules))
    assert isinstance(placed, NoNode)
    return placed


def on(node: str, run: str, reserved: ResourceAmount = NOTHING) -> PlacedRun:
    return PlacedRun(run, run.partition("@")[0], f"{node}#x", reserved)


# -------------------------------------------------------------------------------------------------------------- prefer


def test_a_preferred_node_comes_first_however_busy_it_is_and_the_others_say_why_not() -> None:
    fleet = Fleet(
        [a_member("a", held=3, labels={"zone": "a"}), a_member("b", labels={"zone": "b"}), a_member("c")],
        occupancy=Occupancy(),
    )
    placed = place(fleet, prefer={"zone": "a"})
    assert placed.node == "a#x"
    assert dict(placed.others) == {
        "b#x": "label zone=b (prefers zone=a)",
        "c#x": "no label zone (prefers zone=a)",
    }


def test_a_preference_excludes_no_node() -> None:
    fleet = Fleet([a_member("a", held=4, labels={"zone": "a"}), a_member("b")], occupancy=Occupancy())
    placed = place(fleet, prefer={"zone": "a"})
    assert (placed.node, placed.others) == ("b#x", (("a#x", NO_FREE_SLOT),))


def test_of_several_preferred_labels_more_are_better() -> None:
    members = [a_member("a", labels={"zone": "a"}), a_member("b", held=3, labels={"zone": "a", "disk": "ssd"})]
    assert place(Fleet(members), prefer={"zone": "a", "disk": "ssd"}).node == "b#x"


# -------------------------------------------------------------------------------------------------------------- spread


def test_runs_of_one_batch_go_to_different_nodes() -> None:
    fleet = Fleet([a_member("a"), a_member("b", held=2), a_member("c", held=3)], occupancy=Occupancy())
    placed = [place(fleet, f"report@{k}", spread=True) for k in range(3)]
    assert {one.node for one in placed} == {"a#x", "b#x", "c#x"}
    assert dict(placed[2].others)["a#x"] == "already runs this job (spread)"


def test_consecutive_runs_change_their_node_even_after_a_restart_of_it() -> None:
    fleet = Fleet([a_member("a"), a_member("b", held=3)], occupancy=Occupancy(last={"report": "a#earlier"}))
    placed = place(fleet, spread=True)
    assert (placed.node, placed.others) == ("b#x", (("a#x", "ran this job last (spread)"),))


def test_a_spread_job_runs_again_on_the_only_node() -> None:
    fleet = Fleet([a_member("a")], occupancy=Occupancy([on("a", "report@0")], {"report": "a#x"}))
    assert place(fleet, spread=True).node == "a#x"


def test_a_spread_job_remembers_where_it_was_placed() -> None:
    last: dict[str, str] = {}
    place(Fleet([a_member("a")], occupancy=Occupancy(last=last)), spread=True)
    place(Fleet([a_member("a")], occupancy=Occupancy(last=last)), "other@1", prefer={"x": "y"})
    assert last == {"report": "a#x"}


# ---------------------------------------------------------------------------------------------------------- apart_from


def test_a_job_is_kept_apart_from_the_runs_of_others_and_waits_for_them_otherwise() -> None:
    members = [a_member("a"), a_member("b", held=3)]
    fleet = Fleet(members, occupancy=Occupancy([on("a", "import@1")]))
    placed = place(fleet, apart_from=("import",))
    assert (placed.node, placed.others) == ("b#x", (("a#x", "runs import (apart_from)"),))
    fleet = Fleet(members, occupancy=Occupancy([on("a", "import@1"), on("b", "import@2")]))
    answer = refused(fleet, apart_from=("import",))
    assert (answer.busy, answer.lacks_slot, answer.summary) == (True, False, NO_ROOM)


def test_a_run_of_the_same_batch_counts_although_its_job_has_no_rules() -> None:
    fleet = Fleet([a_member("a"), a_member("b", held=3)], occupancy=Occupancy())
    assert place(fleet, "import@1").node == "a#x"
    assert place(fleet, apart_from=("import",)).node == "b#x"


def test_a_job_that_names_itself_has_one_run_per_node_and_a_run_does_not_block_itself() -> None:
    fleet = Fleet([a_member("a")], occupancy=Occupancy([on("a", "report@1")]))
    assert refused(fleet, "report@2", apart_from=("report",)).reasons == {"a#x": "runs report (apart_from)"}
    assert place(fleet, "report@1", apart_from=("report",)).node == "a#x"


# ----------------------------------------------------------------------------------------------------------- resources


def a_node(name: str = "a", memory: int = GIB, **fields: Any) -> Any:
    return a_member(name, capacity=ResourceAmount(2, memory), **fields)


def test_runs_reserve_until_nothing_is_left_and_then_wait() -> None:
    fleet = Fleet([a_node()], occupancy=Occupancy([on("a", "other@1", ResourceAmount(0, 512 * MIB))]))
    half = ResourceAmount(0, 256 * MIB)
    assert [place(fleet, f"report@{k}", resources=half).node for k in range(2)] == ["a#x", "a#x"]
    answer = refused(fleet, "report@3", resources=half)
    assert answer.reasons == {"a#x": "memory: needs 256 MiB, 0 B of 1 GiB free"}
    assert (answer.busy, answer.lacks_slot) == (True, False)


def test_a_run_that_no_node_can_ever_hold_does_not_wait_for_others_to_end() -> None:
    fleet = Fleet([a_node(), a_member("old")], occupancy=Occupancy())
    answer = refused(fleet, resources=ResourceAmount(0, 2 * GIB))
    assert (answer.busy, answer.summary) == (False, "no node can run this job")
    assert answer.reasons == {
        "a#x": "memory: needs 2 GiB, has 1 GiB",
        "old#x": "does not announce its CPU and memory (an older version)",
    }


def test_a_run_that_is_placed_again_gives_back_what_it_reserved() -> None:
    whole = ResourceAmount(0, GIB)
    fleet = Fleet([a_node()], occupancy=Occupancy([on("a", "report@1", whole)]))
    assert place(fleet, "report@1", resources=whole).node == "a#x"
    assert isinstance(refused(fleet, "report@2", resources=whole), NoNode)


def test_a_run_that_is_placed_again_and_finds_no_node_keeps_no_room_from_others() -> None:
    occupancy = Occupancy([on("a", f"report@{k}", ResourceAmount(0, GIB)) for k in range(2)])
    fleet = Fleet([a_node()], occupancy=occupancy)
    # More is reserved than there is: two leaders had stored these runs, and neither has reached its node.
    assert refused(fleet, "report@0", resources=ResourceAmount(0, GIB)).busy
    assert place(fleet, "report@1", resources=ResourceAmount(0, GIB)).node == "a#x"


def test_a_full_node_lacks_a_slot_and_not_resources() -> None:
    answer = refused(Fleet([a_node(held=4)], occupancy=Occupancy()), resources=ResourceAmount(1))
    assert (answer.lacks_slot, answer.summary) == (True, NO_FREE_SLOT)


def test_a_job_without_rules_ignores_reservations() -> None:
    fleet = Fleet([a_node()], occupancy=Occupancy([on("a", "other@1", ResourceAmount(2, GIB))]))
    assert place(fleet).node == "a#x"
