"""Edits a job: the only code path by which a user changes, pauses, resumes or deletes it.

Each step is a single-document write:

1. Read the job and store its current version in the history.
2. If the new cursor skips instants that are already due, write a plan intent.
3. Ensure that the run of the current `pending_run` exists.
4. Compare `rev` and write the change. If instants are skipped, the new `pending_run` is one skipped run over them.
5. Insert the skipped run and remove the intent.
6. Retire open runs of older versions: cancel or requeue runs that have not started, keep running ones.

Only then is the edit acknowledged, so no attempt starts under an older version afterwards. If the editor dies in
between, nothing was acknowledged, and plan recovery completes the intent.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Literal

from cronflow.domain import transitions
from cronflow.domain.errors import Conflict, NotFound
from cronflow.domain.events import FiresSkipped
from cronflow.domain.job import Job, JobRecord, PendingRun, PlanIntent
from cronflow.domain.planning import covers_until, fires_text, first_fire, kind_of, run_of_pending
from cronflow.domain.run import Covers, Run, RunState, run_id
from cronflow.domain.schedule.kinds import last_before
from cronflow.domain.transitions import Change
from cronflow.domain.version import version_of
from cronflow.ports import Clock, EventSink, JobStore, PlanStore, RunStore, VersionStore, discard_event

TRIES = 5
START_SHOWS_WITHIN_S = 0.5
START_POLL_S = 0.05
ABSENT = 0
"""The expected version of a job that must not exist."""

Result = Literal["created", "changed", "unchanged"]
Edit = Callable[[JobRecord, datetime], JobRecord]


class Editor:
    def __init__(
        self,
        jobs: JobStore,
        versions: VersionStore,
        plans: PlanStore,
        runs: RunStore,
        clock: Clock,
        emit: EventSink = discard_event,
    ) -> None:
        self._jobs, self._versions, self._plans, self._runs = jobs, versions, plans, runs
        self._clock = clock
        self._emit = emit

    async def define(self, job: Job, *, by: str = "", expected: int | None = None) -> Result:
        """Create or change a job. Raises Conflict unless its version is `expected`, and after losing several races."""
        now = self._clock.now()
        found = await self._jobs.get([job.name])
        _expect(job.name, found[0] if found else None, expected)
        if not found:
            fire = first_fire(job, now)
            record = JobRecord(
                job=job, next_fire=fire, due_at=fire, created_at=now, updated_at=now, since=fire, edited_by=by
            )
            if await self._jobs.create(record):
                return "created"
        elif found[0].deleted_at is None and found[0].job == job:
            return "unchanged"

        def change(record: JobRecord, now: datetime) -> JobRecord:
            _expect(job.name, record, expected)
            return _redefined(record, job, now)

        recreated = bool(found) and found[0].deleted_at is not None
        try:
            await self._edit(job.name, change, "edited", by, keep_waiting=True)
        except NotFound:
            # The clean-up removed the tombstone in the meantime.
            return await self.define(job, by=by, expected=expected)
        return "created" if recreated else "changed"

    async def amend(
        self, name: str, make: Callable[[Job], Job], *, by: str = "", expected: int | None = None
    ) -> JobRecord:
        """Replace the job with `make(job)`; `make` is called again after a lost race. Raises NotFound, Conflict, and
        whatever `make` raises.
        """

        def change(record: JobRecord, now: datetime) -> JobRecord:
            if record.deleted_at is not None:
                raise NotFound("job", name)
            _expect(name, record, expected)
            job = make(record.job)
            return record if job == record.job else _redefined(record, job, now)

        return await self._edit(name, change, "edited", by, keep_waiting=True)

    async def pause(self, name: str, *, by: str = "") -> JobRecord:
        """Stop planning fires until the job is resumed."""

        def change(record: JobRecord, now: datetime) -> JobRecord:
            return record if record.paused else replace(record, paused=True)

        return await self._edit(name, change, "paused", by)

    async def resume(self, name: str, *, by: str = "") -> JobRecord:
        """Continue with the next fire; fires that were due in the meantime are recorded as skipped."""

        def change(record: JobRecord, now: datetime) -> JobRecord:
            if not record.paused:
                return record
            fire = first_fire(record.job, now, consumed(record, now))
            return replace(record, paused=False, next_fire=fire, due_at=fire)

        return await self._edit(name, change, "paused", by, keep_waiting=True)

    async def delete(self, name: str, *, by: str = "", expected: int | None = None) -> JobRecord:
        """Delete the job; its history and a tombstone stay."""

        def change(record: JobRecord, now: datetime) -> JobRecord:
            _expect(name, record, expected)
            return replace(record, deleted_at=now, next_fire=None, due_at=None)

        return await self._edit(name, change, "deleted", by)

    async def _edit(self, name: str, edit: Edit, reason: str, by: str, *, keep_waiting: bool = False) -> JobRecord:
        for _ in range(TRIES):
            record = await self._read(name)
            now = self._clock.now()
            changed = edit(record, now)
            if changed is record:
                return record
            changed = replace(
                changed, ver=record.ver + 1, updated_at=now, since=changed.next_fire, edited_by=by, waiting=None
            )
            # Store the version before the change, so that no version is overwritten without being kept.
            await self._versions.keep([version_of(record)])
            changed, skipped = self._jump(record, changed, reason, now)
            intent = None
            if skipped is not None:
                intent = PlanIntent(id=f"edit-{secrets.token_hex(12)}", term=0, jobs=(name,))
                await self._plans.write(intent)
            await self._ensure_pending_run(record)
            won = await self._jobs.replace(changed, record.rev)
            if won and skipped is not None:
                await self._runs.insert([run_of_pending(record, skipped, record.term, now)])
                fires = fires_text(skipped.fire, skipped.covers)
                self._emit(FiresSkipped(name, fires, skipped.reason or reason, by))
            if intent is not None:
                await self._plans.remove([intent.id])
            if won:
                await self._retire(changed, reason, keep_waiting=keep_waiting)
                return replace(changed, rev=record.rev + 1)
        raise Conflict(f"job {name!r} keeps changing concurrently; try again")

    async def _read(self, name: str) -> JobRecord:
        found = await self._jobs.get([name])
        if not found:
            raise NotFound("job", name)
        return found[0]

    def _jump(
        self, record: JobRecord, changed: JobRecord, reason: str, now: datetime
    ) -> tuple[JobRecord, PendingRun | None]:
        """Add the skipped run over the due instants that the new cursor leaves behind."""
        left = left_behind(record, changed.next_fire, now)
        if left is None:
            return changed, None
        fire, covers = left
        reason = version_of(record).held or reason
        skipped = PendingRun(
            fire=fire,
            state=RunState.SKIPPED,
            fence=record.pending_run.fence if record.pending_run is not None else 0,
            job_ver=changed.ver,
            at=now,
            covers=covers,
            reason=reason,
            kind=kind_of(record.job.schedule),
        )
        return replace(changed, pending_run=skipped), skipped

    async def _ensure_pending_run(self, record: JobRecord) -> None:
        if record.pending_run is None:
            return
        if not await self._runs.existing([run_id(record.name, record.pending_run.fire)]):
            now = self._clock.now()
            await self._runs.insert([run_of_pending(record, record.pending_run, record.term, now, check_at=now)])

    async def _retire(self, record: JobRecord, reason: str, *, keep_waiting: bool) -> None:
        """Retire open runs of older versions until none is left.

        Running attempts finish. Runs that have not started are requeued under the new version, or cancelled if nothing
        may start any more. A recently dispatched run may have started without its record (`start_guard: redis`), so
        wait a moment for the record; otherwise the edit could start it twice.
        """
        deadline = self._clock.monotonic() + START_SHOWS_WITHIN_S
        for _ in range(1000):
            open_runs = (await self._runs.open_of([record.name])).get(record.name, [])
            found = await self._runs.get([run.id for run in open_runs])
            old = [run for run in found if run.is_open and run.job_ver < record.ver]
            if not old:
                return
            dispatched = [run for run in old if run.state is RunState.DISPATCHED]
            if dispatched and self._clock.monotonic() < deadline:
                old = [run for run in old if run not in dispatched]
                await self._clock.sleep(START_POLL_S)
            now = self._clock.now()
            await self._runs.apply([_retired(run, record.ver, reason, keep_waiting, now) for run in old])
        raise Conflict(f"runs of job {record.name!r} keep changing; the edit was saved, but older runs may still start")


def _redefined(record: JobRecord, job: Job, now: datetime) -> JobRecord:
    if record.deleted_at is None and record.job.schedule == job.schedule and record.job.enabled == job.enabled:
        return replace(record, job=job)
    fire = first_fire(job, now, consumed(record, now))
    # A paused job stays paused when it is redefined; a deleted job starts unpaused.
    paused = record.paused and record.deleted_at is None
    return replace(record, job=job, deleted_at=None, paused=paused, next_fire=fire, due_at=fire)


def _expect(name: str, record: JobRecord | None, expected: int | None) -> None:
    present = ABSENT if record is None or record.deleted_at is not None else record.ver
    if expected is None or expected == present:
        return
    if expected == ABSENT:
        raise Conflict(f"job {name!r} already exists")
    if present == ABSENT:
        raise Conflict(f"job {name!r} no longer exists; expected version {expected}")
    raise Conflict(f"job {name!r} is at version {present}, not {expected}: someone else changed it")


def _retired(run: Run, ver: int, reason: str, keep_waiting: bool, now: datetime) -> Change:
    if run.state is RunState.RUNNING or (keep_waiting and run.state is RunState.RETRYING):
        return transitions.keep(run, ver)
    finish_id = secrets.token_hex(12)
    if keep_waiting:
        return transitions.requeue(run, ver, finish_id)
    return transitions.cancel_old(run, ver, reason, finish_id, now)


def left_behind(record: JobRecord, next_fire: datetime | None, now: datetime) -> tuple[datetime, Covers | None] | None:
    """The first due fire, and the range of all of them, that a new cursor leaves behind; None without any."""
    fire, schedule = record.next_fire, record.job.schedule
    if fire is None or schedule is None or fire > now or record.deleted_at is not None:
        return None
    if next_fire is not None and next_fire <= fire:
        return None
    return fire, covers_until(schedule, fire, now)


def consumed(record: JobRecord, now: datetime) -> datetime | None:
    """The last instant covered by the current `pending_run`, or by the skipped run that a jump to now creates."""
    last = None
    if record.pending_run is not None:
        last = record.pending_run.fire if record.pending_run.covers is None else record.pending_run.covers.last
    fire, schedule = record.next_fire, record.job.schedule
    if fire is not None and schedule is not None and fire <= now and record.deleted_at is None:
        return last_before(schedule, now, not_before=fire) or fire
    return last
