"""The placement rules of a job: which of the nodes that can run it gets the run, given what runs there already.

Rules: `apart_from` and `resources` are hard, so a run waits rather than break them. `prefer` and `spread` only order
the nodes: first those with more of the preferred labels, then those with fewer runs of the job, then those that did
not run it last. A rule holds for the placements of the job that has it: a job without `apart_from` may be placed next
to one that is kept apart from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, MutableMapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cronflow.domain.cluster import Member, node_name
from cronflow.domain.resources import NOTHING, ResourceAmount

if TYPE_CHECKING:
    from cronflow.domain.job import Job

KEEP_AFTER = timedelta(minutes=1)
"""A run that has waited for so long for the resources that it reserves has a node kept for it."""
KEPT_FOR = timedelta(seconds=15)
"""A waiting run is looked at every few seconds."""

Standing = tuple[int, int, int]
"""How well a node meets the soft rules, best first: missing labels, runs of the job, whether it had the last."""


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """An open run on a node, and what it reserves there."""

    id: str
    job: str
    node: str
    reserved: ResourceAmount = NOTHING


@dataclass(slots=True)
class KeptNode:
    """The node on which nothing else is placed that reserves, so that `run` finds its resources there in the end. There
    is one at a time. `at` is when the run was last looked at; None: no node is kept.
    """

    run: str = ""
    node: str = ""
    resources: ResourceAmount = NOTHING
    at: datetime | None = None

    def expire(self, now: datetime) -> None:
        """Keep the node no longer if nobody has looked at the run lately: it was cancelled, or waits for something
        else.
        """
        if self.at is not None and abs(now - self.at) > KEPT_FOR:
            self.at = None

    def free(self, run: str) -> None:
        """The run was placed."""
        if self.run == run:
            self.at = None


class Occupancy:
    """What runs where during one batch of placements. It counts what the batch has placed.

    `last` has the node of the latest run of each spread job, by name; placing such a run writes it. What `kept` keeps
    counts like a reservation of its run, and is written when a run has waited long or was placed.
    """

    def __init__(
        self,
        runs: Iterable[PlacedRun] = (),
        last: MutableMapping[str, str] | None = None,
        kept: KeptNode | None = None,
    ) -> None:
        self.last: MutableMapping[str, str] = {} if last is None else last
        self.kept = kept or KeptNode()
        self._runs: dict[str, PlacedRun] = {}
        self._reserved: dict[str, ResourceAmount] = {}
        self._jobs: dict[str, Counter[str]] = {}
        for run in runs:
            self.add(run)
        if self.kept.at is not None and self.kept.run not in self._runs:
            self._count_kept()

    def keep(self, run: str, nodes: Collection[str], resources: ResourceAmount, now: datetime) -> None:
        """Keep one of these nodes for the run, unless one is kept for another run: the same as before, or the one with
        the least reserved.
        """
        kept = self.kept
        if not nodes or (kept.at is not None and kept.run != run):
            return
        if kept.at is None or kept.node not in nodes:
            kept.node = min(nodes, key=lambda node: (self.reserved(node).memory, self.reserved(node).cpu, node))
        kept.run, kept.resources, kept.at = run, resources, now
        self._count_kept()

    def _count_kept(self) -> None:
        self.add(PlacedRun(self.kept.run, "", self.kept.node, self.kept.resources))

    def add(self, run: PlacedRun) -> None:
        """Count a run on its node; a run that was counted is counted anew."""
        self.remove(run.id)
        self._runs[run.id] = run
        self._jobs.setdefault(run.node, Counter())[run.job] += 1
        if run.reserved:
            self._reserved[run.node] = self.reserved(run.node).plus(run.reserved)

    def remove(self, run_id: str) -> bool:
        """Stop counting a run. False if it was not counted."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            self._jobs[run.node][run.job] -= 1
            if run.reserved:
                left = self.reserved(run.node).plus(ResourceAmount(-run.reserved.cpu, -run.reserved.memory))
                self._reserved[run.node] = left
        return run is not None

    def reserved(self, node: str) -> ResourceAmount:
        """What the runs on this node reserve."""
        return self._reserved.get(node, NOTHING)

    def runs_of(self, job: str, node: str) -> int:
        """How many runs of the job are on this node."""
        return self._jobs[node][job] if node in self._jobs else 0


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """The rules of one job."""

    job: str
    prefer: tuple[tuple[str, str], ...] = ()
    spread: bool = False
    apart_from: tuple[str, ...] = ()
    resources: ResourceAmount = NOTHING

    @property
    def neighbours(self) -> frozenset[str]:
        """The jobs whose open runs matter."""
        return frozenset((*self.apart_from, self.job) if self.spread else self.apart_from)

    def never(self, member: Member) -> str | None:
        """Why the node is too small for the run, or None."""
        return self.resources.lack(member.report.capacity, NOTHING)

    def fits(self, node: str, member: Member, occupancy: Occupancy) -> bool:
        """Whether the run may be placed there: what `objection` explains, for each node of each placement."""
        if any(occupancy.runs_of(job, node) for job in self.apart_from):
            return False
        return not self.resources or self.resources.fits(member.report.capacity, occupancy.reserved(node))

    def objection(self, node: str, member: Member, occupancy: Occupancy) -> str | None:
        """Why the run may not be placed there, or None."""
        for job in self.apart_from:
            if occupancy.runs_of(job, node):
                return f"runs {job} (apart_from)"
        return self.resources.lack(member.report.capacity, occupancy.reserved(node))

    def standing(self, node: str, member: Member, occupancy: Occupancy) -> Standing:
        """How well the node meets the soft rules. The lowest is chosen; the rank decides between equal ones."""
        missing = sum(member.report.labels.get(key) != value for key, value in self.prefer)
        if not self.spread:
            return missing, 0, 0
        last = occupancy.last.get(self.job, "")
        return missing, occupancy.runs_of(self.job, node), int(node_name(last) == member.report.name)

    def passed_over(self, member: Member, standing: Standing, chosen: Standing) -> str:
        """Why a node that could take the run was not chosen."""
        if standing[0] > chosen[0]:
            key, value = next((key, value) for key, value in self.prefer if member.report.labels.get(key) != value)
            found = member.report.labels.get(key)
            have = f"no label {key}" if found is None else f"label {key}={found}"
            return f"{have} (prefers {key}={value})"
        return "already runs this job (spread)" if standing[1] > chosen[1] else "ran this job last (spread)"


def has_rules(job: Job) -> bool:
    """Whether the job has any rule. It is asked for each run that is placed."""
    return bool(job.prefer or job.spread or job.apart_from or job.resources)


def rules_of(job: Job) -> PlacementRules | None:
    """The job's rules; None if it has none, which costs its placement nothing."""
    if not has_rules(job):
        return None
    return PlacementRules(job.name, tuple(sorted(job.prefer.items())), job.spread, job.apart_from, job.resources)
