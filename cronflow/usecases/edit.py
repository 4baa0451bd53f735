"""Edits jobs: the only code path by which a user changes, pauses, resumes or deletes them.

Each step is one write for all jobs of a batch, except 4, which is one per job:

1. Read the job and store its current version in the history.
2. If the new cursor skips instants that are already due, write a plan intent, which covers all such jobs of the batch.
3. Ensure that the run of the current `pending_run` exists.
4. Compare `rev` and write the change. If instants are skipped, the new `pending_run` is one skipped run over them.
5. Insert the skipped run and remove the intent.
6. Retire open runs of older versions: cancel or requeue runs that have not started, keep running ones. Withdraw the
   dispatched ones in Redis, because a node may hold them for their instant.

Only then is the edit acknowledged, so no attempt starts under an older version afterwards. If the editor dies in
between, nothing was acknowledged, and plan recovery completes the intent.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from cronflow.domain import transitions
from cronflow.domain.applied import Result
from cronflow.domain.errors import BackendUnavailable, Conflict, NotFound
from cronflow.domain.events import FiresSkipped
from cronflow.domain.job import Job, JobRecord, Pause, PendingRun, PlanIntent
from cronflow.domain.planning import covers_until, fires_text, first_fire, kind_of, run_of_pending
from cronflow.domain.run import SCHEDULED, Covers, Kind, Run, RunState
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.fires import is_dynamic, last_before, next_after
from cronflow.domain.schedule.kinds import Rules, Schedule
from cronflow.domain.schedule.pins import pins_of, same_fires
from cronflow.domain.schedule.zones import SECOND
from cronflow.domain.shadow import SHADOWED
from cronflow.domain.transitions import Change
from cronflow.domain.version import version_of
from cronflow.ports import Clock, EventSink, JobStore, PlanStore, Queue, RunStore, VersionStore, discard_event
from cronflow.usecases.pending_runs import insert_pending_runs

TRIES = 5
START_SHOWS_WITHIN_S = 0.5
START_POLL_S = 0.05
STARTS_SOON = timedelta(seconds=0.1)
"""A run whose instant is nearer may start before its node learns that it was withdrawn."""
AT_ONCE = 16
"""Writes of a batch in flight."""
INSTANT_BEFORE = timedelta(microseconds=1)
ABSENT = 0
"""The expected version of a job that must not exist."""

Edit = Callable[[JobRecord, datetime], JobRecord]


class Edited(NamedTuple):
    """What became of a job: its record before, None if there was none, and after."""

    result: Result
    before: JobRecord | None
    after: JobRecord


Guard = Callable[[JobRecord], None]
"""Raises if the stored job may not be changed. The change is a compare-and-set on what it was given."""


def allow_any(_: JobRecord) -> None:
    """Every job may be changed."""


class Editor:
    def __init__(
        self,
        jobs: JobStore,
        versions: VersionStore,
        plans: PlanStore,
        runs: RunStore,
        queue: Queue,
        clock: Clock,
        emit: EventSink = discard_event,
    ) -> None:
        self._jobs, self._versions, self._plans, self._runs = jobs, versions, plans, runs
        self._queue = queue
        self._clock = clock
        self._emit = emit

    async def define(self, job: Job, *, by: str = "", expected: int | None = None) -> Result:
        """Create or change a job. Raises Conflict unless its version is `expected`, and after losing several races."""
        done: dict[str, Edited] = {}
        await self.define_all([job], done, by=by, expected=expected)
        return done[job.name].result

    async def define_all(
        self,
        jobs: Sequence[Job],
        done: dict[str, Edited],
        *,
        by: str = "",
        expected: int | Mapping[str, int] | None = None,
        followed: Collection[str] = (),
        guard: Guard = allow_any,
    ) -> None:
        """`define` for several jobs, which have different names, in a few writes for all of them. Each job is in `done`
        as soon as it is written, also when this raises. Other jobs follow those that are `followed`. `expected` may
        have the version of each job. `guard` is called with each job as it is stored before its change.
        """
        left = {job.name: job for job in jobs}
        for _ in range(TRIES):
            found = {record.name: record for record in await self._jobs.get(left)}
            now = self._clock.now()
            new: list[JobRecord] = []
            edits: list[_Planned] = []
            for name, job in left.items():
                record = found.get(name)
                _expect(name, record, expected[name] if isinstance(expected, Mapping) else expected)
                if record is not None and record.deleted_at is None:
                    guard(record)
                if record is None:
                    new.append(replace(_new(job, by, now), followed=name in followed))
                elif record.deleted_at is None and is_same(record.job, job):
                    done[name] = Edited("unchanged", record, record)
                else:
                    edits.append(_planned(record, redefined(record, job, now), "edited", by, now))
            if new:
                created = await self._jobs.create_all(new)
                done |= {record.name: Edited("created", None, record) for record in new if record.name in created}
            if edits:
                await self._write(edits, now, "edited", keep_waiting=True, done=done)
            left = {name: job for name, job in left.items() if name not in done}
            if not left:
                return
        more = f" and {len(left) - 1} more keep" if len(left) > 1 else " keeps"
        raise Conflict(f"job {min(left)!r}{more} changing concurrently; try again")

    async def amend_all(
        self, names: Collection[str], make: Callable[[Job], Job], done: dict[str, Edited], *, by: str = ""
    ) -> None:
        """`amend` for several jobs, in a few writes for all of them. Those that do not exist are left out. Each job is
        in `done` as soon as it is written, also when this raises.
        """
        left = set(names)
        for _ in range(TRIES):
            found = [record for record in await self._jobs.get(left) if record.deleted_at is None]
            now = self._clock.now()
            edits: list[_Planned] = []
            for record in found:
                job = make(record.job)
                if is_same(record.job, job):
                    done[record.name] = Edited("unchanged", record, record)
                else:
                    edits.append(_planned(record, redefined(record, job, now), "edited", by, now))
            if edits:
                await self._write(edits, now, "edited", keep_waiting=True, done=done)
            left = {record.name for record in found if record.name not in done}
            if not left:
                return
        raise Conflict(f"job {min(left)!r} keeps changing concurrently; try again")

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
            return record if is_same(record.job, job) else redefined(record, job, now)

        return await self._edit(name, change, "edited", by, keep_waiting=True)

    async def pause(
        self, name: str, *, by: str = "", note: str = "", until: datetime | None = None, expected: int | None = None
    ) -> JobRecord:
        """Stop planning fires until the job is resumed, or until this instant. A paused job gets the new note and end,
        if there are any. Raises Conflict unless its version is `expected`.
        """

        def change(record: JobRecord, now: datetime) -> JobRecord:
            _expect(name, record, expected)
            present = record.pause
            if record.paused and (not (note or until) or (present and (present.note, present.until) == (note, until))):
                return record
            since = present.at if record.paused and present else now
            return replace(record, paused=True, pause=Pause(at=since, by=by, note=note, until=until))

        return await self._edit(name, change, "paused", by)

    async def resume(self, name: str, *, by: str = "", ended: Pause | None = None) -> JobRecord:
        """Continue with the next fire; fires that were due in the meantime are recorded as skipped. With `ended`: only
        if the job is still in this pause.

        A pause that was to end by itself ends at its instant, however late this is called: the fires from there on are
        not skipped, but late.
        """

        def change(record: JobRecord, now: datetime) -> JobRecord:
            if not record.paused or (ended is not None and record.pause != ended):
                return record
            until = None if record.pause is None else record.pause.until
            over = until is not None and until <= now
            end = until if over and until is not None else now
            fire = record.next_fire
            if fire is None or fire <= end or not is_dynamic(record.job.schedule):
                fire = _first_fire(record, end, consumed(record, end - INSTANT_BEFORE if over else end))
            return replace(record, paused=False, pause=None, next_fire=fire, due_at=fire)

        return await self._edit(name, change, "paused", by, keep_waiting=True)

    async def delete(
        self, name: str, *, by: str = "", expected: int | None = None, guard: Guard = allow_any
    ) -> JobRecord:
        """Delete the job; its history and a tombstone stay. For `guard` see `define_all`."""

        def change(record: JobRecord, now: datetime) -> JobRecord:
            _expect(name, record, expected)
            guard(record)
            return deleted(record, now)

        return await self._edit(name, change, "deleted", by)

    async def _edit(self, name: str, edit: Edit, reason: str, by: str, *, keep_waiting: bool = False) -> JobRecord:
        for _ in range(TRIES):
            record = await self._read(name)
            now = self._clock.now()
            changed = edit(record, now)
            if changed is record:
                return record
            planned = _planned(record, changed, reason, by, now)
            if await self._write([planned], now, reason, keep_waiting=keep_waiting):
                return replace(planned.changed, rev=record.rev + 1)
        raise Conflict(f"job {name!r} keeps changing concurrently; try again")

    async def _write(
        self,
        edits: Sequence[_Planned],
        now: datetime,
        reason: str,
        *,
        keep_waiting: bool,
        done: dict[str, Edited] | None = None,
    ) -> list[_Planned]:
        """Write the edits whose job has not changed since it was read; one intent covers all that skip instants.
        Returns them, and puts them into `done` as soon as they are written.
        """
        # Store the versions before the change, so that no version is overwritten without being kept.
        await self._versions.keep([version_of(edit.record) for edit in edits])
        intent = None
        if skipping := tuple(edit.record.name for edit in edits if edit.skipped is not None):
            intent = PlanIntent(id=f"edit-{secrets.token_hex(12)}", term=0, jobs=skipping)
            await self._plans.write(intent)
        await insert_pending_runs(self._runs, [edit.record for edit in edits])
        won: list[_Planned] = []
        at_once = asyncio.Semaphore(AT_ONCE)

        async def write(edit: _Planned) -> None:
            async with at_once:
                # One by one: a bulk write does not return which of its jobs matched.
                if await self._jobs.replace(edit.changed, edit.record.rev):
                    won.append(edit)
                    if done is not None:
                        done[edit.record.name] = _edited(edit)

        outcomes = await asyncio.gather(*(write(edit) for edit in edits), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                # The intent stays: plan recovery inserts the skipped runs of the edits that were written.
                raise outcome
        skipped = [
            run_of_pending(edit.record.job, edit.skipped, edit.record.term) for edit in won if edit.skipped is not None
        ]
        if skipped:
            await self._runs.insert(skipped)
        for edit in won:
            if edit.skipped is not None:
                fires = fires_text(edit.skipped.fire, edit.skipped.covers)
                self._emit(FiresSkipped(edit.record.name, fires, edit.skipped.reason or reason, edit.changed.edited_by))
        if intent is not None:
            await self._plans.remove([intent.id])
        await self._retire(won, reason, keep_waiting=keep_waiting)
        return won

    async def _read(self, name: str) -> JobRecord:
        found = await self._jobs.get([name])
        if not found:
            raise NotFound("job", name)
        return found[0]

    async def _retire(self, edits: Sequence[_Planned], reason: str, *, keep_waiting: bool) -> None:
        """Retire open runs of older versions until none is left.

        Running attempts finish. Runs that have not started are requeued under the new version, or cancelled if nothing
        may start any more. A run that was planned before its instant is cancelled too if the new version has no instant
        for it. A recently dispatched run may have started without its record (`start_guard: redis`), so wait a moment
        for the record; otherwise the edit could start it twice.
        """
        edited = {edit.record.name: edit for edit in edits}
        versions = {name: edit.changed.ver for name, edit in edited.items()}
        deadline = self._clock.monotonic() + START_SHOWS_WITHIN_S
        for _ in range(1000):
            if not versions:
                return
            open_runs = [run.id for runs in (await self._runs.open_of(versions)).values() for run in runs]
            if not open_runs:
                return
            found = await self._runs.get(open_runs)
            old = [run for run in found if run.is_open and run.job_ver < versions[run.job]]
            # A job without old runs cannot get one any more.
            versions = {name: versions[name] for name in {run.job for run in old}}
            early = _early(found, self._clock.now())
            dispatched = [run for run in old if run.state is RunState.DISPATCHED and run not in early]
            if dispatched and self._clock.monotonic() < deadline:
                old = [run for run in old if run not in dispatched]
                await self._clock.sleep(START_POLL_S)
            now = self._clock.now()
            if old:
                gone = {run.id: _obsolete(edited[run.job], run, early, now) for run in old} if keep_waiting else {}
                changes = [
                    _retired(
                        run,
                        edited[run.job].changed,
                        gone.get(run.id) or reason,
                        # A pause stops a backfill, and does not thin it out.
                        (keep_waiting and not gone[run.id]) or (reason == "paused" and run.ranked_as is Kind.BACKFILL),
                        now,
                    )
                    for run in old
                ]
                applied = await self._runs.apply(changes)
                await self._withdraw([run for run in old if run.id in applied])
        raise Conflict(
            f"runs of job {min(versions)!r} keep changing; the edit was saved, but older runs may still start"
        )

    async def _withdraw(self, runs: Sequence[Run]) -> None:
        """Take the items of these runs back. They were dispatched under the fences that were read."""
        fences = {run.id: run.fence for run in runs if run.state is RunState.DISPATCHED}
        if not fences:
            return
        try:
            await self._queue.withdraw(fences)
        except BackendUnavailable:
            # The start is refused, or the items are soon too old.
            return


@dataclass(frozen=True, slots=True)
class _Planned:
    """A job before and after its edit, and the skipped run over the due instants that the new cursor leaves behind."""

    record: JobRecord
    changed: JobRecord
    skipped: PendingRun | None


def _planned(record: JobRecord, changed: JobRecord, reason: str, by: str, now: datetime) -> _Planned:
    since = _since(record, changed, now)
    changed = replace(
        changed,
        ver=record.ver + 1,
        updated_at=now,
        since=since,
        edited_by=by,
        waiting=None,
        closed=record.exhausted_from,
    )
    left = left_behind(record, changed.next_fire, now)
    if left is None:
        return _Planned(record, changed, None)
    fire, covers = left
    skipped = PendingRun(
        fire=fire,
        state=RunState.SKIPPED,
        fence=record.pending_run.fence if record.pending_run is not None else 0,
        job_ver=changed.ver,
        at=now,
        covers=covers,
        reason=version_of(record).held or (SHADOWED if record.job.is_shadow else reason),
        kind=kind_of(record.job.schedule),
        followed=record.followed,
    )
    return _Planned(record, replace(changed, pending_run=skipped), skipped)


def _since(record: JobRecord, changed: JobRecord, now: datetime) -> datetime | None:
    """The first instant of the new version: its cursor, or an earlier instant of an unchanged schedule whose run was
    planned already and is yet to start.
    """
    planned, schedule = record.pending_run, changed.job.schedule
    if planned is None or planned.fire <= now or schedule is None or not _same_instants(record.job, changed.job):
        return changed.next_fire
    return None if changed.deleted_at is not None else next_after(schedule, now)


def _early(runs: Iterable[Run], now: datetime) -> list[Run]:
    """The runs that were planned before their instant, which is yet to come, by instant."""
    soon = now + STARTS_SOON
    return sorted((run for run in runs if run.kind in SCHEDULED and run.fire_at > soon), key=lambda run: run.fire_at)


def _obsolete(edit: _Planned, run: Run, early: Sequence[Run], now: datetime) -> str | None:
    """Why the run must not start under the new version although runs that wait are kept: its instant is yet to come,
    and the job is held, or its new schedule has no instant that this run could stand for. None if it may start.
    """
    if run not in early:
        return None
    changed = edit.changed
    if (held := version_of(changed).held) is not None:
        return held
    if changed.job.is_shadow:
        return SHADOWED
    schedule = changed.job.schedule
    if _same_instants(changed.job, edit.record.job):
        # After an earlier edit, the run may stand for an instant that is past by now.
        excluded = exclusion(schedule, run.fire_at)
        return None if excluded is None else excluded.reason
    # The cursor has passed the run's instant. So the run stands for what the new schedule has up to there.
    before = max(
        (other.fire_at for other in early if other.job == run.job and other.fire_at < run.fire_at), default=None
    )
    first = first_fire(changed.job, now, before)
    if first is None or first > run.fire_at:
        return "edited"
    excluded = exclusion(schedule, first)
    return None if excluded is None else excluded.reason


def _edited(edit: _Planned) -> Edited:
    result: Result = "created" if edit.record.deleted_at is not None else "changed"
    return Edited(result, edit.record, replace(edit.changed, rev=edit.record.rev + 1))


def _new(job: Job, by: str, now: datetime) -> JobRecord:
    fire = first_fire(job, now)
    return JobRecord(job=job, next_fire=fire, due_at=fire, created_at=now, updated_at=now, since=fire, edited_by=by)


def redefined(record: JobRecord, job: Job, now: datetime) -> JobRecord:
    """The record after an edit that replaces the job. A schedule that has the same instants keeps its cursor, unless it
    has reached `max_runs`, and its count. A job that leaves the shadow mode begins anew, because another scheduler did
    the work of the instants that are due.
    """
    same = record.deleted_at is None and _same_instants(record.job, job)
    takes_over = record.job.is_shadow and not job.is_shadow
    counted = replace(record, job=job, fired=record.fired if same else 0)
    keeps = same_fires(record.job.schedule, job.schedule) or (record.next_fire is not None and counted.runs_left != 0)
    if same and keeps and record.job.enabled == job.enabled and not takes_over:
        return counted
    fire = _first_fire(counted, now, consumed(record, now))
    # A paused job stays paused when it is redefined; a deleted job starts unpaused.
    paused = record.paused and record.deleted_at is None
    pause = record.pause if paused else None
    return replace(counted, deleted_at=None, paused=paused, pause=pause, next_fire=fire, due_at=fire)


def deleted(record: JobRecord, now: datetime) -> JobRecord:
    """The record after the deletion of its job."""
    return replace(record, deleted_at=now, next_fire=None, due_at=None, pause=None)


def _first_fire(record: JobRecord, now: datetime, consumed: datetime | None) -> datetime | None:
    return None if record.runs_left == 0 else first_fire(record.job, now, consumed)


def _same_instants(before: Job, after: Job) -> bool:
    """Whether the schedules differ at most in `max_runs`, and in which fires are excluded."""
    return same_fires(_without_max_runs(before.schedule), _without_max_runs(after.schedule))


def _without_max_runs(schedule: Schedule | None) -> Schedule | None:
    if not isinstance(schedule, Rules) or schedule.max_runs is None:
        return schedule
    return replace(schedule, max_runs=None)


def is_same(job: Job, other: Job) -> bool:
    """Whether nothing would change, the revisions of calendars included."""
    return job == other and pins_of(job.schedule) == pins_of(other.schedule)


def _expect(name: str, record: JobRecord | None, expected: int | None) -> None:
    present = ABSENT if record is None or record.deleted_at is not None else record.ver
    if expected is None or expected == present:
        return
    if expected == ABSENT:
        raise Conflict(f"job {name!r} already exists")
    if present == ABSENT:
        raise Conflict(f"job {name!r} no longer exists; expected version {expected}")
    raise Conflict(f"job {name!r} is at version {present}, not {expected}: someone else changed it")


def _retired(run: Run, changed: JobRecord, reason: str, keep_waiting: bool, now: datetime) -> Change:
    has_begun = run.state is RunState.RUNNING or (run.split is not None and run.split.begun)
    if has_begun or (keep_waiting and run.state is RunState.RETRYING):
        return transitions.keep(run, changed)
    finish_id = secrets.token_hex(12)
    if keep_waiting:
        return transitions.requeue(run, changed, finish_id)
    return transitions.cancel_old(run, changed.ver, reason, finish_id, now)


def left_behind(record: JobRecord, next_fire: datetime | None, now: datetime) -> tuple[datetime, Covers | None] | None:
    """The first due fire, and the range of all of them, that a new cursor leaves behind; None without any. The new
    cursor may be due too.
    """
    fire, schedule = record.next_fire, record.job.schedule
    if fire is None or schedule is None or fire > now or record.deleted_at is not None:
        return None
    if next_fire is not None and next_fire <= fire:
        return None
    return fire, covers_until(schedule, fire, now if next_fire is None else min(now, next_fire - SECOND))


def consumed(record: JobRecord, now: datetime) -> datetime | None:
    """The last instant covered by the current `pending_run`, or by the skipped run that a jump to now creates."""
    last = None
    if record.pending_run is not None:
        last = record.pending_run.fire if record.pending_run.covers is None else record.pending_run.covers.last
    fire, schedule = record.next_fire, record.job.schedule
    if fire is not None and schedule is not None and fire <= now and record.deleted_at is None:
        return last_before(schedule, now, not_before=fire) or fire
    return last
