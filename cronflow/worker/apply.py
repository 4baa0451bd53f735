"""Applying changes of runs of which several may be of one run.

A store answers with the runs that were changed, so it takes one change of a run at a time. A node may hold a run twice:
an item is doubled, or the leader places a run again on the node that has not taken it yet. Whoever asked for both at
once would be told of the one that won that both did, and two handlers would start.
"""

from __future__ import annotations

from collections.abc import Sequence

from cronflow.domain.transitions import Change
from cronflow.ports import RunStore


async def apply_each(runs: RunStore, changes: Sequence[Change]) -> list[bool]:
    """Whether each of them applied, now or before; those of one run one after another."""
    results = [False] * len(changes)
    rounds: list[dict[str, int]] = [{}]
    for k, change in enumerate(changes):
        free = next((chosen for chosen in rounds if change.run not in chosen), None)
        if free is None:
            free = {}
            rounds.append(free)
        free[change.run] = k
    for chosen in rounds:
        won = await runs.apply([changes[k] for k in chosen.values()])
        for run, k in chosen.items():
            results[k] = run in won
    return results
