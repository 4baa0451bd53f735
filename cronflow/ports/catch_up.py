"""The store of the recovery plan and of the jobs that are held for it, in MongoDB."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from cronflow.domain.catch_up import CatchUpPlan, HeldSummary
from cronflow.domain.job import JobRecord


class HeldFire(NamedTuple):
    """Hold the fire at the cursor of a job that still has this `rev`: it is due again at `due_at`. `runs` is the number
    of its missed runs.
    """

    rev: int
    due_at: datetime
    since: datetime
    runs: int
    priority: int


class CatchUpStore(Protocol):
    """One plan at a time. A job is held by the reason of its wait, so that each move, edit or other wait of it ends
    that.
    """

    async def plan(self) -> CatchUpPlan | None:
        """The present plan, or the last one."""

    async def write(self, plan: CatchUpPlan) -> bool:
        """Replace the plan if its `rev` is still this one (0: if there is none); the stored one has the next `rev`.
        A repeated write returns False.
        """

    async def hold(self, fires: Mapping[str, HeldFire]) -> None:
        """By job. Leaves `rev` and the cursor as they are. Safe to repeat."""

    async def held(self, limit: int, *, among: Collection[str] = (), but: Collection[str] = ()) -> list[JobRecord]:
        """The held jobs by priority, then by age: those whose name matches one of the patterns `among` (none: all), and
        none of `but`.
        """

    async def summary(self, top: int, *, among: Collection[str] = ()) -> HeldSummary:
        """What is held now of the jobs that match one of the patterns (none: all), and the `top` jobs with the most
        missed runs.
        """
