"""Placement: which node takes a run, and why each of the others does not.

The rule: the least loaded eligible node, by `in_flight/slots + 0.5 cpu + 0.3 memory`. `Fleet` is what a leader
believes during one batch; it counts what it has just placed, so that a herd spreads although the next heartbeat is
seconds away. It forgets everything afterwards.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from cronflow.domain.cluster import Member

STALE_AFTER = timedelta(seconds=10)
MEMORY_LIMIT = 0.95


@dataclass(frozen=True, slots=True)
class NoNode:
    """Nobody can take the run now: each node's reason."""

    reasons: Mapping[str, str]

    def __str__(self) -> str:
        if not self.reasons:
            return "no node is up"
        return "; ".join(f"{node}: {reason}" for node, reason in sorted(self.reasons.items()))


def ineligible(member: Member, require: Mapping[str, str], stale_after: timedelta = STALE_AFTER) -> str | None:
    """Why the node may not take a run with these requirements, or None. Room is not asked here."""
    report = member.report
    for key, value in require.items():
        if report.labels.get(key) != value:
            return f"label {key} is {report.labels.get(key)!r}, not {value!r}"
    if member.age > stale_after:
        return f"last heartbeat {member.age.total_seconds():.0f} s ago"
    if member.draining:
        return "draining"
    if report.memory >= MEMORY_LIMIT:
        return f"memory at {report.memory:.0%}"
    return None


def load(member: Member, placed: int = 0) -> float:
    """The rank of a node, lower is better. `placed` counts what it was given since its report."""
    busy = (member.held + member.queued + placed) / max(member.report.slots, 1)
    return busy + 0.5 * member.report.cpu + 0.3 * member.report.memory


class Fleet:
    """The nodes during one batch of placements. `room` is how many runs without requirements could still be placed."""

    def __init__(self, members: Iterable[Member], stale_after: timedelta = STALE_AFTER) -> None:
        self._members = {member.id: member for member in members}
        self._placed = dict.fromkeys(self._members, 0)
        self._stale_after = stale_after
        self._heaps: dict[tuple[tuple[str, str], ...], list[tuple[float, str]]] = {}
        able = [node for node, member in self._members.items() if ineligible(member, {}, stale_after) is None]
        self.room = sum(max(0, self._room(node)) for node in able)

    def able(self, require: Mapping[str, str]) -> set[str]:
        """The nodes that have the labels, whatever else speaks against them now."""
        return {
            node
            for node, member in self._members.items()
            if all(member.report.labels.get(key) == value for key, value in require.items())
        }

    def place(self, require: Mapping[str, str], refused: Mapping[str, str] | None = None) -> str | NoNode:
        """Choose a node and count the run as its own. A lazy heap per requirement: an entry whose rank has changed is
        pushed back. `refused` are nodes that will not take this run, with their reasons.
        """
        if refused:
            return self._place_elsewhere(require, refused)
        key = tuple(sorted(require.items()))
        heap = self._heaps.get(key)
        if heap is None:
            heap = self._heaps[key] = [
                (self._rank(node), node)
                for node, member in self._members.items()
                if ineligible(member, require, self._stale_after) is None
            ]
            heapq.heapify(heap)
        while heap:
            rank, node = heapq.heappop(heap)
            if self._room(node) <= 0:
                continue
            if rank != self._rank(node):
                heapq.heappush(heap, (self._rank(node), node))
                continue
            self._placed[node] += 1
            self.room -= 1
            heapq.heappush(heap, (self._rank(node), node))
            return node
        return NoNode(
            {
                node: ineligible(member, require, self._stale_after) or "no free slot"
                for node, member in self._members.items()
            }
        )

    def _place_elsewhere(self, require: Mapping[str, str], refused: Mapping[str, str]) -> str | NoNode:
        """Rare, so it looks at every node."""
        reasons = {
            node: refused.get(node)
            or ineligible(member, require, self._stale_after)
            or ("no free slot" if self._room(node) <= 0 else None)
            for node, member in self._members.items()
        }
        free = [node for node, reason in reasons.items() if reason is None]
        if not free:
            return NoNode({node: reason for node, reason in reasons.items() if reason is not None})
        node = min(free, key=self._rank)
        self._placed[node] += 1
        self.room -= 1
        return node

    def _room(self, node: str) -> int:
        return self._members[node].room - self._placed[node]

    def _rank(self, node: str) -> float:
        return load(self._members[node], self._placed[node])
