"""Split runs: a parent run whose work is done by its parts, as shards of it or once on every node.

A parent never goes to a node. Once the leader has begun it, its parts follow from `Split` alone: their ids, their
indexes and their nodes. So whoever inserts them inserts the same ones, and inserting them twice is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from cronflow.domain.errors import InvalidInput, Problem

FEWEST_SHARDS, MOST_SHARDS = 2, 1000
SHARD_MARK, NODE_MARK = "~s", "~n-"


class RunOn(StrEnum):
    """Where a run of a job executes: on one node, or once on every node that can run it."""

    ONE_NODE = "one_node"
    EVERY_NODE = "every_node"


def check_split(shards: int | None, run_on: RunOn) -> None:
    """Raises InvalidInput for what no job can be."""
    if shards is None:
        return
    if not FEWEST_SHARDS <= shards <= MOST_SHARDS:
        raise InvalidInput(f"shards is {shards}; it must be {FEWEST_SHARDS} to {MOST_SHARDS:,}")
    if run_on is RunOn.EVERY_NODE:
        what = "a run is split into shards, or executes on every node, not both"
        raise InvalidInput(Problem("run_on", what, "remove shards, or run_on: every_node"))


class SplitBy(StrEnum):
    """What the parts of a parent are: shards of its work, or the same work on each node."""

    SHARDS = "shards"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Shard:
    """Which part of a run this is: `index` counts from 0 to `total` - 1."""

    index: int
    total: int


@dataclass(frozen=True, slots=True)
class PartPlan:
    """A part as it is to be inserted. `node` is the name of the only node that may run it."""

    id: str
    shard: Shard
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How a parent is split. `total` is the number of shards, and `nodes` has the names of the nodes, in order; the
    leader chooses them when the parent begins. A replay repeats only some parts: `only` has their indexes, None for
    all. `begun`: its parts may exist.
    """

    by: SplitBy
    total: int = 0
    nodes: tuple[str, ...] = ()
    only: tuple[int, ...] | None = None
    begun: bool = False

    @property
    def count(self) -> int | None:
        """The number of parts; None if it is not known before the parent begins."""
        if self.only is not None:
            return len(self.only)
        if self.by is SplitBy.SHARDS:
            return self.total
        return len(self.nodes) or None

    def label(self, index: int) -> int | str:
        """What a part is called in the result of its parent: the index of the shard, or the name of the node."""
        return index if self.by is SplitBy.SHARDS else self.nodes[index]

    def parts(self, parent: str) -> Iterator[PartPlan]:
        """The parts of this parent, in order."""
        total = self.total if self.by is SplitBy.SHARDS else len(self.nodes)
        for index in range(total) if self.only is None else self.only:
            if self.by is SplitBy.SHARDS:
                yield PartPlan(f"{parent}{SHARD_MARK}{index}", Shard(index, total))
            else:
                node = self.nodes[index]
                yield PartPlan(f"{parent}{NODE_MARK}{node}", Shard(index, total), node)


def parent_of(run: str) -> str | None:
    """The parent in the id of a part; None for any other id. Names of jobs and of nodes contain no `~`."""
    head, mark, tail = run.rpartition("~")
    if not mark:
        return None
    if tail.startswith("n-") or (tail.startswith("s") and tail[1:].isdecimal()):
        return head
    return None
