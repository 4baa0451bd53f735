"""Placement: chooses the node for a run, and explains why not each of the others.

Rule: free slots are given out by priority and age (`in_turn`), and a run goes to the least loaded eligible node, by
`in_flight/slots + 0.5 cpu + 0.3 memory`, rounded to hundredths. A `Fleet` is used for one batch and counts the runs
that it has placed, so that many runs at once spread although the next heartbeat is seconds away. A choice is stored as
a `Placement` and a wait as a `Waiting`, both of bounded size, in the documents of runs and jobs.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from cronflow.domain.capabilities import Needs, missing_function, needs_of
from cronflow.domain.cluster import Member
from cronflow.domain.placement_rules import KEEP_AFTER, Occupancy, PlacedRun, PlacementRules, rules_of

if TYPE_CHECKING:
    from cronflow.domain.job import Job
    from cronflow.domain.resources import ResourceAmount

STALE_AFTER = timedelta(seconds=10)
MEMORY_LIMIT = 0.95
LAG_LIMIT_S = 2.0
MONGO_AWAY_LIMIT_S = 10.0
OTHERS_KEPT = 8
OLDEST_EVERY = 8
NO_FREE_SLOT = "no free slot"
NO_ROOM = "no node has room for this job now"
BUSY = frozenset({NO_FREE_SLOT, NO_ROOM})
"""The reasons of waits that end when other runs do."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The chosen node and its rank (lower is better), the rank or reason of some others, and the number of nodes not
    listed.
    """

    node: str
    rank: float
    others: tuple[tuple[str, float | str], ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why the fire or retry of `fire` waits, and since when: for another run (`blocked_by`), or because no node can
    take it, with the reasons of some nodes.
    """

    fire: datetime
    since: datetime
    reason: str
    blocked_by: str | None = None
    nodes: tuple[tuple[str, str], ...] = ()
    more: int = 0

    def __str__(self) -> str:
        listed = "; ".join(f"{node}: {reason}" for node, reason in self.nodes)
        return f"{self.reason} ({listed})" if listed else self.reason

    def still(self, before: Waiting | None) -> Waiting:
        """This wait, with the beginning of an earlier one for the same instant."""
        if before is None or before.fire != self.fire:
            return self
        return replace(self, since=before.since)


@dataclass(frozen=True, slots=True)
class NoNode:
    """No node can take the run now. `reasons` has one for each node; `occupied` are those that could take it
    by the rules of its job if other runs were not there. `lacking` is the function that no node has, if that is why.
    """

    reasons: Mapping[str, str]
    occupied: frozenset[str] = frozenset()
    lacking: str = ""

    @property
    def lacks_slot(self) -> bool:
        """Whether some node can run it and only has no free slot."""
        return NO_FREE_SLOT in self.reasons.values()

    @property
    def busy(self) -> bool:
        """Whether some node can run it once other runs have ended."""
        return self.lacks_slot or bool(self.occupied)

    @property
    def summary(self) -> str:
        """The reason in a few words."""
        if not self.reasons:
            return "no node is up"
        if self.lacks_slot:
            return NO_FREE_SLOT
        if self.lacking:
            return f"no node has {self.lacking}; start one whose --app has it"
        return NO_ROOM if self.busy else "no node can run this job"

    def __str__(self) -> str:
        if not self.reasons:
            return self.summary
        return "; ".join(f"{node}: {reason}" for node, reason in sorted(self.reasons.items()))

    def waiting(self, fire: datetime, since: datetime, most: int | None = OTHERS_KEPT) -> Waiting:
        """The record of it, with the reasons of at most `most` nodes."""
        reasons = tuple(sorted(self.reasons.items()))
        kept = reasons[:most]
        return Waiting(fire=fire, since=since, reason=self.summary, nodes=kept, more=len(reasons) - len(kept))


def unable(member: Member, needs: Needs) -> str | None:
    """Why the node will never take a run with these needs, or None: a label, or something that it cannot run."""
    report = member.report
    for key, value in needs.labels:
        if report.labels.get(key) != value:
            found = report.labels.get(key)
            have = f"no label {key}" if found is None else f"label {key}={found}"
            return f"{have} (needs {key}={value})"
    if (needs.newer and not report.knows_newer_keys) or (needs.since_0_12 and not report.knows_keys_of_0_12):
        return f"does not support all keys of this job (runs {report.version or 'an older version'}); upgrade it"
    # A node of 0.6 announces nothing; it declines what it cannot run.
    return None if report.capabilities is None else report.capabilities.obstacle(needs)


def ineligible(member: Member, needs: Needs, stale_after: timedelta = STALE_AFTER) -> str | None:
    """Why the node may not take a run with these needs now, or None. Free slots are checked elsewhere."""
    if (reason := unable(member, needs)) is not None:
        return reason
    report = member.report
    if member.age > stale_after:
        return f"last heartbeat {member.age.total_seconds():.0f} s ago"
    if member.draining:
        return "draining"
    if report.lag_s > LAG_LIMIT_S:
        return f"event loop blocked for {report.lag_s:.0f} s"
    if report.mongo_away_s > MONGO_AWAY_LIMIT_S:
        return f"MongoDB unavailable for {report.mongo_away_s:.0f} s"
    if report.memory >= MEMORY_LIMIT:
        return f"memory at {report.memory:.0%}"
    return None


Group = tuple[tuple[tuple[str, str], ...], tuple[bool, ...], bool, bool]
"""Needs that the same nodes meet: the labels, and whether each of the announced capabilities suffices; whether they
have keys that nodes of 0.9 do not know, and whether they are placed before their instant.
"""


def load(member: Member, placed: int = 0) -> float:
    """The rank of a node, lower is better. `placed` counts the runs that it was given since its report."""
    busy = (member.held + member.queued + placed) / max(member.report.slots, 1)
    return round(busy + 0.5 * member.report.cpu + 0.3 * member.report.memory, 2)


Item = TypeVar("Item")


def in_turn(items: Iterable[Item], rank: Callable[[Item], tuple[int, datetime]], turn: int) -> list[Item]:
    """The order in which waiting items get free slots: the highest priority first, then the oldest. Every eighth slot
    goes to the oldest of all, so that a low priority waits longer but not for ever. `rank` is the priority and since
    when an item waits, `turn` the number of slots given before.
    """
    by_age = sorted(items, key=lambda item: (rank(item)[1], -rank(item)[0]))
    by_priority = sorted(by_age, key=lambda item: -rank(item)[0])
    left = {id(item) for item in by_age}
    oldest, best = iter(by_age), iter(by_priority)
    found: list[Item] = []
    while left:
        line = oldest if (turn + len(found)) % OLDEST_EVERY == OLDEST_EVERY - 1 else best
        item = next(item for item in line if id(item) in left)
        left.discard(id(item))
        found.append(item)
    return found


class Fleet:
    """The nodes during one batch of placements. `slots` are those of the nodes that accept runs; `capacity` is how many
    runs without needs can still be placed, and `early_capacity` how many before their instant. `early` has the number
    of runs of each node that wait for their instant: they use no slot, so a due run goes before them. `occupancy` is
    what runs on the nodes; it is needed for jobs with placement rules.

    Ties are broken at random, by `draw` (0 to 1): on idle machines, a tiny difference in CPU use would otherwise send
    every run to the same node.
    """

    def __init__(
        self,
        members: Iterable[Member],
        stale_after: timedelta = STALE_AFTER,
        draw: Callable[[], float] = random.random,
        early: Mapping[str, int] | None = None,
        occupancy: Occupancy | None = None,
    ) -> None:
        early = early or {}
        self._occupancy = occupancy
        self._members = {member.id: member for member in members}
        self._placed = dict.fromkeys(self._members, 0)
        self._free = {node: member.capacity + early.get(node, 0) for node, member in self._members.items()}
        self._free_early = {node: member.early_capacity for node, member in self._members.items()}
        self._ranks = {node: load(member) for node, member in self._members.items()}
        self._lots = {node: draw() for node in self._members}
        self._stale_after = stale_after
        # Most nodes announce the same, so these are few.
        announced = (member.report.capabilities for member in self._members.values())
        self._announced = tuple({one for one in announced if one is not None})
        self._groups: dict[tuple[Needs, bool], Group] = {}
        self._heaps: dict[Group, list[tuple[float, float, str]]] = {}
        self._refused: dict[Group, list[str]] = {}
        self._ineligible: dict[Group, dict[str, str | None]] = {}
        self._no_room: dict[tuple[Group, ResourceAmount], NoNode] = {}
        able = [node for node, member in self._members.items() if ineligible(member, Needs(), stale_after) is None]
        self.slots = sum(self._members[node].report.slots for node in able)
        self.capacity = sum(max(0, self._free[node]) for node in able)
        self.early_capacity = sum(max(0, self._free_early[node]) for node in able)

    def place_run(
        self,
        run: str,
        job: Job,
        refused: Mapping[str, str] | None = None,
        *,
        early: bool = False,
        waiting: Waiting | None = None,
        now: datetime | None = None,
        only: str | None = None,
    ) -> Placement | NoNode:
        """Choose a node for a run of the job, by its needs and its placement rules, and count it there. `refused` and
        `early` as in `place`; with `only` no node of another name is chosen, or mentioned. If it is still `waiting`
        after KEEP_AFTER, a node is kept for it.
        """
        if only is not None:
            return self._place_on(only, run, job, refused or {})
        rules = rules_of(job)
        if rules is None:
            placed = self.place(needs_of(job), refused, early=early)
        else:
            placed = self._place_by_rules(run, needs_of(job), rules, refused or {}, early)
        if isinstance(placed, NoNode) and (lacking := missing_function(job, placed.reasons.values())):
            placed = replace(placed, lacking=lacking)
        if self._occupancy is not None and isinstance(placed, NoNode):
            waits_long = waiting is not None and now is not None and now - waiting.since > KEEP_AFTER
            # Where a job that it is kept apart from runs, free memory would not help.
            if waits_long and now is not None and job.resources and not job.apart_from:
                self._occupancy.keep(run, placed.occupied, job.resources, now)
        elif self._occupancy is not None and isinstance(placed, Placement):
            self._occupancy.kept.free(run)
            self._occupancy.add(PlacedRun(run, job.name, placed.node, job.resources))
            if job.spread:
                self._occupancy.last[job.name] = placed.node
        return placed

    def _place_on(self, name: str, run: str, job: Job, refused: Mapping[str, str]) -> Placement | NoNode:
        others = {node: f"not {name}" for node, member in self._members.items() if member.report.name != name}
        placed = self.place_run(run, job, {**refused, **others})
        if isinstance(placed, Placement):
            return Placement(placed.node, placed.rank)
        own = {node: reason for node, reason in placed.reasons.items() if node not in others}
        return NoNode(own, placed.occupied & own.keys())

    def named(self, name: str) -> list[Member]:
        """The incarnations of the node of this name that have a heartbeat."""
        return [member for member in self._members.values() if member.report.name == name]

    def place(
        self, needs: Needs, refused: Mapping[str, str] | None = None, *, early: bool = False
    ) -> Placement | NoNode:
        """Choose a node and count the run there. Needs that the same nodes meet share a lazy heap, in which an entry
        with a changed rank is pushed back. `refused` are nodes that will not take this run, with their reasons. With
        `early` the node is to hold the run until its instant.
        """
        if refused:
            return self._place_elsewhere(needs, refused, early)
        key = self._group(needs, early)
        room = self._free_early if early else self._free
        heap = self._heaps.get(key)
        if heap is None:
            why = {node: ineligible(member, needs, self._stale_after) for node, member in self._members.items()}
            self._refused[key] = [node for node, reason in why.items() if reason is not None]
            heap = self._heaps[key] = [self._entry(node) for node, reason in why.items() if reason is None]
            heapq.heapify(heap)
        while heap:
            rank, _, node = heapq.heappop(heap)
            if room[node] <= 0:
                self._refused[key].append(node)
                continue
            if rank != self._ranks[node]:
                heapq.heappush(heap, self._entry(node))
                continue
            refused_now = [(other, self._reason(other, needs)) for other in self._refused[key][:OTHERS_KEPT]]
            chosen = self._placement(node, rank, heap, refused_now, room)
            self._take(node, early)
            heapq.heappush(heap, self._entry(node))
            return chosen
        return NoNode({node: self._reason(node, needs) for node in self._members})

    def _reason(self, node: str, needs: Needs) -> str:
        return ineligible(self._members[node], needs, self._stale_after) or NO_FREE_SLOT

    def _group(self, needs: Needs, early: bool) -> Group:
        group = self._groups.get((needs, early))
        if group is None:
            suffices = tuple(announced.obstacle(needs) is None for announced in self._announced)
            group = self._groups[needs, early] = (needs.labels, suffices, needs.newer, early)
        return group

    def _placement(
        self,
        node: str,
        rank: float,
        heap: Sequence[tuple[float, float, str]],
        refused: Sequence[tuple[str, str]],
        room: Mapping[str, int],
    ) -> Placement:
        """The first entries of a heap are among its lowest, which is exact enough here and needs no sorting."""
        # At least half of the entries are for refusals, so that ranks do not crowd out reasons.
        reasons = min(len(refused), max(OTHERS_KEPT // 2, OTHERS_KEPT - len(heap)))
        ranked = (
            (other, NO_FREE_SLOT if room[other] <= 0 else self._ranks[other])
            for _, _, other in heap[: OTHERS_KEPT - reasons]
        )
        others: tuple[tuple[str, float | str], ...] = (*ranked, *refused[:reasons])
        return Placement(node, rank, others, len(self._members) - 1 - len(others))

    def _place_elsewhere(self, needs: Needs, refused: Mapping[str, str], early: bool) -> Placement | NoNode:
        """Rare, so it checks every node."""
        room = self._free_early if early else self._free
        reasons = {
            node: refused.get(node)
            or ineligible(member, needs, self._stale_after)
            or (NO_FREE_SLOT if room[node] <= 0 else None)
            for node, member in self._members.items()
        }
        free = sorted(self._entry(node) for node, reason in reasons.items() if reason is None)
        unable = [(node, reason) for node, reason in reasons.items() if reason is not None]
        if not free:
            return NoNode(dict(unable))
        (rank, _, node), *rest = free
        chosen = self._placement(node, rank, rest, unable, room)
        self._take(node, early)
        return chosen

    def _place_by_rules(
        self, run: str, needs: Needs, rules: PlacementRules, refused: Mapping[str, str], early: bool
    ) -> Placement | NoNode:
        """Looks at every node, with what runs there. A run that is placed again does not stand in its own way, nor in
        that of others if it finds no node.
        """
        room = self._free_early if early else self._free
        occupancy = self._occupancy or Occupancy()
        if occupancy.remove(run):
            self._no_room.clear()
        group = self._group(needs, early)
        # While runs are only added, what found no room finds none again.
        repeats = not refused and not rules.apart_from and run != occupancy.kept.run
        if repeats and (known := self._no_room.get((group, rules.resources))) is not None:
            return known
        unfit = self._eligibility(needs, group)
        able = [
            (rules.standing(node, member, occupancy), self._entry(node))
            for node, member in self._members.items()
            if unfit[node] is None and room[node] > 0 and node not in refused and rules.fits(node, member, occupancy)
        ]
        if not able:
            answer = self._no_node(rules, occupancy, refused, unfit)
            if repeats:
                self._no_room[group, rules.resources] = answer
            return answer
        (best, (rank, _, node)), *rest = heapq.nsmallest(OTHERS_KEPT + 1, able)
        equal = [entry for standing, entry in rest if standing == best]
        passed_over = [
            (other, rules.passed_over(self._members[other], standing, best))
            for standing, (_, _, other) in rest
            if standing != best
        ]
        taken = {other for _, (_, _, other) in able}
        reasons = (
            (other, refused.get(other) or unfit[other] or rules.objection(other, member, occupancy) or NO_FREE_SLOT)
            for other, member in self._members.items()
            if other not in taken
        )
        chosen = self._placement(node, rank, equal, [*passed_over, *itertools.islice(reasons, OTHERS_KEPT)], room)
        self._take(node, early)
        return chosen

    def _no_node(
        self,
        rules: PlacementRules,
        occupancy: Occupancy,
        refused: Mapping[str, str],
        unfit: Mapping[str, str | None],
    ) -> NoNode:
        reasons: dict[str, str] = {}
        occupied: set[str] = set()
        for node, member in self._members.items():
            reason = refused.get(node) or unfit[node] or rules.never(member)
            if reason is None and (reason := rules.objection(node, member, occupancy)) is not None:
                occupied.add(node)
            reasons[node] = reason or NO_FREE_SLOT
        return NoNode(reasons, frozenset(occupied))

    def _eligibility(self, needs: Needs, group: Group) -> Mapping[str, str | None]:
        """Why each node may not take a run with these needs, or None. Computed once for all needs of a group."""
        found = self._ineligible.get(group)
        if found is None:
            found = self._ineligible[group] = {
                node: ineligible(member, needs, self._stale_after) for node, member in self._members.items()
            }
        return found

    def _take(self, node: str, early: bool) -> None:
        self._placed[node] += 1
        self._ranks[node] = load(self._members[node], self._placed[node])
        self._free_early[node] -= 1
        self.early_capacity -= 1
        if not early:
            self._free[node] -= 1
            self.capacity -= 1

    def _entry(self, node: str) -> tuple[float, float, str]:
        return self._ranks[node], self._lots[node], node
