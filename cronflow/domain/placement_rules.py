"""The placement rules of a job: which of the nodes that can run it gets the run, given what runs there already.

Rules: `apart_from` and `resources` are hard, so a run waits rather than break them. `prefer` and `spread` only order
the nodes: first those with more of the preferred labels, then those with fewer runs of the job, then those that did
not run it last. A rule holds for the placements of the job that has it: a job without `apart_from` may be placed next
to one that is kept apart from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cronflow.domain.cluster import Member, node_name
from cronflow.domain.resources import NOTHING, ResourceAmount

if TYPE_CHECKING:
    from cronflow.domain.job import Job

Standing = tuple[int, int, int]
"""How a node stands by the soft rules, the lowest first: missing labels, runs of the job, whether it had the last."""


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """An open run on a node, and what it reserves there."""

    id: str
    job: str
    node: str
    reserved: ResourceAmount = NOTHING


class Occupancy:
    """What runs where during one batch of placements. It counts what the batch has placed.

    `last` has the node of the latest run of each spread job, by name; placing such a run writes it.
    """

    def __init__(self, runs: Iterable[PlacedRun] = (), last: MutableMapping[str, str] | None = None) -> None:
        self.last: MutableMapping[str, str] = {} if last is None else last
        self._runs: dict[str, PlacedRun] = {}
        self._reserved: dict[str, ResourceAmount] = {}
        self._jobs: dict[str, Counter[str]] = {}
        for run in runs:
            self.add(run)

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
        """Where the node stands among those that can take the run; the lowest is chosen, before the rank counts."""
        missing = sum(member.report.labels.get(key) != value for key, value in self.prefer)
        if not self.spread:
            return missing, 0, 0
        last = occupancy.last.get(self.job, "")
        return missing, occupancy.runs_of(self.job, node), int(node_name(last) == member.report.name)

    def passed_over(self, member: Member, standing: Standing, chosen: Standing) -> str:
        """Why a node that stands behind the chosen one was passed over."""
        if standing[0] > chosen[0]:
            key, value = next((key, value) for key, value in self.prefer if member.report.labels.get(key) != value)
            found = member.report.labels.get(key)
            have = f"no label {key}" if found is None else f"label {key}={found}"
            return f"{have} (prefers {key}={value})"
        return "runs this job already (spread)" if standing[1] > chosen[1] else "had the last run (spread)"


def has_rules(job: Job) -> bool:
    """Whether the job has any rule. It is asked for each run that is placed."""
    return bool(job.prefer or job.spread or job.apart_from or job.resources)


def rules_of(job: Job) -> PlacementRules | None:
    """The job's rules; None if it has none, which costs its placement nothing."""
    if not has_rules(job):
        return None
    return PlacementRules(job.name, tuple(sorted(job.prefer.items())), job.spread, job.apart_from, job.resources)
