"""Spreading jobs: propose other minutes, and apply them as one change.

The rule: the versions of all jobs are compared before the first is written, and each is compared again as it is
written. So usually all jobs are moved, or none is. MongoDB writes jobs one by one: if somebody changes a job in
between, or this process dies, some jobs are moved and the others are as before. Applying the same moves again finishes
the rest, because a job that has its new expression counts as moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cronflow.domain.errors import MOST_PROBLEMS, Conflict, CronFlowError, InvalidInput, NotFound, Problem
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.spread import MinuteMove, SpreadBy, SpreadPlan, moved
from cronflow.ports import JobStore
from cronflow.usecases.audit import Auditor, Changed
from cronflow.usecases.edit import Edited
from cronflow.usecases.jobs import JobUseCases
from cronflow.usecases.schedule_load import ScheduleLoadUseCases
from cronflow.usecases.search import JobFilter

MOST_NAMED = 5
AGAIN = "plan again and apply the new plan"


@dataclass(frozen=True, slots=True)
class SpreadProposal:
    """A plan, the number of jobs that were `selected`, and whether there are `more` of them, because a plan moves a
    limited number. `applied`: the moves are written, and have the new versions.
    """

    plan: SpreadPlan
    selected: int
    more: bool
    applied: bool = False


class SpreadUseCases:
    def __init__(self, store: JobStore, audit: Auditor, jobs: JobUseCases, load: ScheduleLoadUseCases) -> None:
        self._store = store
        self._audit = audit
        self._jobs = jobs
        self._load = load

    async def propose(
        self, wanted: JobFilter, by: SpreadBy = SpreadBy.SHIFT, may_change: Callable[[Job], bool] = lambda job: True
    ) -> SpreadProposal:
        """Other minutes for the jobs that match; nothing is written. `may_change` tells which jobs may be moved. Raises
        InvalidInput.
        """
        plan, selected, more = await self._load.spread(wanted, by, may_change)
        return SpreadProposal(plan, selected, more)

    async def spread(
        self,
        wanted: JobFilter,
        how: SpreadBy = SpreadBy.SHIFT,
        may_change: Callable[[Job], bool] = lambda job: True,
        *,
        by: str = "",
    ) -> SpreadProposal:
        """Propose moves and apply them. Raises Conflict and InvalidInput."""
        found = await self.propose(wanted, how, may_change)
        moves = await self.apply(found.plan.moves, by=by)
        return replace(found, plan=replace(found.plan, moves=moves), applied=True)

    async def apply(
        self, moves: Sequence[MinuteMove], check: Callable[[Sequence[Job]], None] = lambda jobs: None, *, by: str = ""
    ) -> list[MinuteMove]:
        """Write the moves; `check` gets the jobs as they would be, and may raise. Returns the moves with the new
        versions. Raises Conflict when a job has neither the version nor the new expression of its move, NotFound, and
        InvalidInput for an expression that differs in more than the minute.
        """
        records, wanted = await self._read(moves)
        changed = [move.job for move in moves if not _fits(move, records[move.job], wanted.get(move.job))]
        if changed:
            raise Conflict(f"{_named(changed)} changed since the plan was made; nothing was moved ({AGAIN})")
        left = [move for move in moves if records[move.job].job != wanted[move.job]]
        jobs = [wanted[move.job] for move in left]
        check(jobs)
        done: dict[str, Edited] = {}
        try:
            await self._jobs.replace_versions(jobs, {move.job: move.version for move in left}, done, by=by)
        except CronFlowError as error:
            stays = [move.job for move in left if move.job not in done]
            what = (
                f"{len(done)} of {len(left)} jobs were moved, but not {_named(stays)}" if done else "nothing was moved"
            )
            if isinstance(error, Conflict):
                raise Conflict(f"{error}; {what} ({AGAIN})") from error
            error.add_note(f"{what}; apply the same moves again to finish")
            raise
        finally:
            self._load.forget()
            if done:
                before = {name: _expr(records[name].job) for name in done}
                after = {name: _expr(wanted[name]) for name in done}
                await self._audit.record(by, Changed("job.spread", "jobs", before, after))
        return [
            MinuteMove(
                name := move.job,
                done[name].after.ver if name in done else records[name].ver,
                _expr(records[name].job) if name in done else move.before,
                move.after,
            )
            for move in moves
        ]

    async def _read(self, moves: Sequence[MinuteMove]) -> tuple[Mapping[str, JobRecord], Mapping[str, Job]]:
        """The jobs of the moves, as they are and as they would be, without jobs that were changed so that they cannot
        be moved. Raises NotFound and InvalidInput.
        """
        names = [move.job for move in moves]
        if len(set(names)) < len(names):
            raise InvalidInput(Problem("moves", "a job is moved twice", "leave one of the two moves out"))
        found = {record.name: record for record in await self._store.get(names) if record.deleted_at is None}
        wanted: dict[str, Job] = {}
        problems = []
        for number, move in enumerate(moves):
            if move.job not in found:
                raise NotFound("job", move.job)
            try:
                wanted[move.job] = moved(found[move.job].job, move.after)
            except InvalidInput as error:
                if found[move.job].ver != move.version:
                    continue
                problems += [replace(one, place=f"moves[{number}].cron") for one in error.problems]
        if problems:
            raise InvalidInput(problems[:MOST_PROBLEMS])
        return found, wanted


def _expr(job: Job) -> str:
    return job.schedule.expr if isinstance(job.schedule, Cron) else ""


def _fits(move: MinuteMove, record: JobRecord, wanted: Job | None) -> bool:
    return record.ver == move.version or record.job == wanted


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"
