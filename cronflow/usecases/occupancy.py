"""Reads what runs on the nodes, for the placement of jobs with placement rules."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence

from cronflow.domain.job import JobRecord
from cronflow.domain.placement_rules import KeptNode, Occupancy, PlacedRun, PlacementRules, rules_of
from cronflow.ports import RunStore


def all_rules(records: Iterable[JobRecord]) -> list[PlacementRules]:
    """The placement rules of those jobs that have any."""
    return [rules for record in records if (rules := rules_of(record.job)) is not None]


async def read_occupancy(
    runs: RunStore,
    records: Sequence[JobRecord],
    last: MutableMapping[str, str] | None = None,
    kept: KeptNode | None = None,
) -> Occupancy:
    """What the rules of these jobs take into account: the open runs of their neighbours, and every reservation.

    `last` has the nodes of the latest runs of spread jobs as far as they are known; the last planned run of each job
    completes it.
    """
    found = all_rules(records)
    last = {} if last is None else last
    for record in records:
        if record.job.spread and record.pending_run is not None and record.pending_run.node is not None:
            last.setdefault(record.name, record.pending_run.node)
    neighbours = {job for rules in found for job in rules.neighbours}
    placed: list[PlacedRun] = []
    if neighbours:
        opened = await runs.taken_of(neighbours)
        placed = [
            PlacedRun(run.id, job, run.node)
            for job, several in opened.items()
            for run in several
            if run.node is not None
        ]
    # Counted last, with what they reserve: a run of a neighbour may be among them.
    reserving = await runs.reserving() if any(rules.resources for rules in found) else ()
    return Occupancy([*placed, *reserving], last, kept)
