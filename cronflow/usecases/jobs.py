"""Use cases for jobs: apply, compare, change, pause, delete, trigger and look up.

`edit.Editor` applies each change to the stores. This module checks names, records the change in the audit log, emits
the event and notifies the leader. A lost notification delays the leader by one poll at most.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Literal

from cronflow.documents import job_document
from cronflow.documents.differences import Difference, differences
from cronflow.documents.values import instant_text, under
from cronflow.domain.applied import Result
from cronflow.domain.capabilities import Needs, needs_of
from cronflow.domain.cluster import Member
from cronflow.domain.durations import to_the_minute
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.events import (
    Event,
    JobBreakerClosed,
    JobChanged,
    JobCreated,
    JobDeleted,
    JobPaused,
    JobResumed,
)
from cronflow.domain.job import SYSTEM_PREFIX, Job, JobRecord
from cronflow.domain.job_breaker import BreakerState
from cronflow.domain.job_problems import problems_of
from cronflow.domain.ownership import Prune
from cronflow.domain.placement import OTHERS_KEPT, unable
from cronflow.domain.planning import fires_text, first_fire, run_on_request
from cronflow.domain.resources import NOTHING, ResourceAmount
from cronflow.domain.run import MANUAL, Covers, Kind, Run, RunState
from cronflow.domain.schedule.comparison import DAYS, FireChanges
from cronflow.domain.schedule.fires import is_dynamic
from cronflow.domain.schedule.kinds import Once, Schedule
from cronflow.domain.schedule.pins import book_of, name_of_pin, pins_of
from cronflow.domain.schedule.preview import Preview, PreviewRow, just_before, preview, rows_after
from cronflow.ports import Backends, Bus, Clock, Signal
from cronflow.usecases.audit import Auditor, Changed
from cronflow.usecases.calendar_binding import bind_jobs, bind_schedule, bound_job
from cronflow.usecases.edit import (
    Edited,
    Editor,
    Guard,
    allow_any,
    consumed,
    deleted,
    is_same,
    left_behind,
    redefined,
)
from cronflow.usecases.job_breakers import JobBreakers
from cronflow.usecases.job_graph import JobGraphUseCases
from cronflow.usecases.limit_names import refuse_absent_limits
from cronflow.usecases.pruning import pruned_by
from cronflow.usecases.run_changes import check_days, never_again, run_changes

BATCH = 250
"""Jobs that are applied together: few enough to be written before plan recovery takes over their intent."""
BATCHES_AT_ONCE = 4
LONGEST_MAP = timedelta(weeks=53)
MOST_COUNTED = 50_000
"""At most this many runs of a job are counted for its day map."""

NONE_IMPLICIT: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of an edit, or of the edit that `compare` predicts. Only a prediction has `differences`: the path,
    old value and new value of each part that differs. `warnings` are sentences about what the edit skips, and about
    jobs that no live node can run. `runs` is what becomes of the runs of the coming days; None: it was not asked for,
    or the schedule does not change.
    """

    record: JobRecord
    result: Result | Literal["deleted"]
    differences: Sequence[Difference] = ()
    warnings: Sequence[str] = ()
    runs: FireChanges | None = None


class JobUseCases:
    """`implicit_misfires` is the place of `at` by job, for documents that leave out `misfire`: such a job is refused
    with InvalidInput if the change would start it although its `at` is missed.
    """

    def __init__(self, backends: Backends, clock: Clock, audit: Auditor) -> None:
        self._backends = backends
        self._clock = clock
        self._audit = audit
        self._editor = Editor(
            backends.jobs, backends.versions, backends.plans, backends.runs, backends.queue, clock, audit.emit
        )
        self._breakers = JobBreakers(backends.breakers, backends.runs, clock)
        self._graph = JobGraphUseCases(backends.chains, backends.jobs)

    async def apply(
        self,
        jobs: Sequence[Job],
        *,
        by: str = "",
        each: Callable[[], None] = lambda: None,
        implicit_misfires: Mapping[str, str] = NONE_IMPLICIT,
    ) -> list[tuple[str, Result]]:
        """Create or change jobs and return the name and result of each. `by` is stored as the author of the version;
        `each` is called after every job.

        Raises InvalidInput before any change if a name is used twice or is reserved. Raises Conflict if a job keeps
        changing concurrently; the message has the number of jobs that are applied, and applying again is safe.
        """
        done = await self._apply(jobs, by, each, implicit_misfires)
        return [(job.name, done[job.name].result) for job in jobs]

    async def applied(
        self,
        jobs: Sequence[Job],
        *,
        by: str = "",
        each: Callable[[], None] = lambda: None,
        implicit_misfires: Mapping[str, str] = NONE_IMPLICIT,
        days: int = 0,
        prune: Prune | None = None,
    ) -> list[Comparison]:
        """Like `apply`, but return each job as it was left, with its result, and what becomes of its runs in these
        days. With `prune`, the jobs that are deleted follow; they are checked before anything is written. Raises
        Conflict if one of them is changed concurrently: the others may be applied, and applying again is safe.
        """
        check_days(days)
        gone: Sequence[JobRecord] = ()
        if prune is not None:
            _check(jobs)
            gone = await self._pruned(jobs, prune)
        guard = allow_any if prune is None else prune.guard
        done = await self._apply(jobs, by, each, implicit_misfires, guard)
        edited = [done[job.name] for job in jobs]
        found = [Comparison(one.after, one.result, warnings=_skipped(one.after, one.result)) for one in edited]
        before = [one.before for one in edited]
        for record in gone:
            assert prune is not None
            found.append(Comparison(await self._delete_pruned(record, by, prune), "deleted"))
            before.append(record)
        return await self._with_warnings(await self._with_runs(before, found, days))

    async def _delete_pruned(self, record: JobRecord, by: str, prune: Prune) -> JobRecord:
        try:
            return await self._delete(record.name, by, record.ver, prune.guard_deletion)
        except NotFound:
            return deleted(record, self._clock.now())  # somebody else has deleted it

    async def _pruned(self, jobs: Sequence[Job], prune: Prune) -> list[JobRecord]:
        """The jobs that a change deletes. Raises InvalidInput as `pruned_by` does."""
        found = await self._backends.jobs.get([job.name for job in jobs])
        stored = {record.name: record for record in found if record.deleted_at is None}
        return await pruned_by(self._backends, _places(jobs), prune, stored)

    async def _apply(
        self,
        jobs: Sequence[Job],
        by: str,
        each: Callable[[], None],
        implicit_misfires: Mapping[str, str],
        guard: Guard = allow_any,
    ) -> Mapping[str, Edited]:
        """Apply batches, a few at a time. After a failure no further one is begun, and those in flight end first, so
        that every job that was written is in the audit log.
        """
        _check(jobs)
        await refuse_absent_limits(self._backends.limits, _places(jobs))
        jobs = await self._bound(jobs)
        await self._refuse_missed(jobs, implicit_misfires)
        followed = await self._graph.prepare(_places(jobs))
        done: dict[str, Edited] = {}
        waiting = deque(jobs[first : first + BATCH] for first in range(0, len(jobs), BATCH))

        async def work() -> None:
            while waiting:
                batch = waiting.popleft()
                try:
                    await self._apply_batch(batch, by, done, followed, guard=guard)
                except BaseException:
                    waiting.clear()
                    raise
                for _ in batch:
                    each()

        outcomes = await asyncio.gather(*(work() for _ in range(BATCHES_AT_ONCE)), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Conflict) and done:
                applied = f"{len(done)} of {len(jobs)} jobs were applied, and it is safe to apply all of them again"
                raise Conflict(f"{outcome} ({applied})") from outcome
            if isinstance(outcome, BaseException):
                raise outcome
        await notify_leader(self._backends.bus)
        return done

    async def _apply_batch(
        self,
        batch: Sequence[Job],
        by: str,
        done: dict[str, Edited],
        followed: Collection[str],
        versions: Mapping[str, int] | None = None,
        guard: Guard = allow_any,
    ) -> None:
        try:
            await self._editor.define_all(batch, done, by=by, expected=versions, followed=followed, guard=guard)
        finally:
            edited = [done[job.name] for job in batch if job.name in done]
            await self._graph.written(_changes(edited))
            await self._audit.record_events(by, *(_defined(one, by) for one in edited if one.result != "unchanged"))

    async def _refuse_missed(self, jobs: Sequence[Job], implicit_misfires: Mapping[str, str]) -> None:
        suspects = [job for job in jobs if job.name in implicit_misfires]
        if suspects:
            stored = {record.name: record for record in await self._backends.jobs.get([job.name for job in suspects])}
            _refuse_missed(suspects, stored, implicit_misfires, self._clock.now())

    async def define(
        self,
        job: Job,
        *,
        by: str = "",
        expected: int | None = None,
        implicit_misfires: Mapping[str, str] = NONE_IMPLICIT,
    ) -> tuple[JobRecord, Result]:
        """Create or change one job. Raises Conflict unless its version is `expected` (`edit.ABSENT`: the job must not
        exist), and InvalidInput for a reserved name.
        """
        _check([job])
        await refuse_absent_limits(self._backends.limits, _places([job]))
        [job] = await self._bound([job])
        await self._refuse_missed([job], implicit_misfires)
        await self._graph.prepare(_places([job]))
        done: dict[str, Edited] = {}
        await self._editor.define_all([job], done, by=by, expected=expected)
        edited = done[job.name]
        await self._graph.written(_changes([edited]))
        if edited.result != "unchanged":
            await self._audit.record_events(by, _defined(edited, by))
        await notify_leader(self._backends.bus)
        return await self.get(job.name), edited.result

    async def amend(
        self,
        name: str,
        make: Callable[[Job], Job],
        *,
        by: str = "",
        expected: int | None = None,
        implicit_misfires: Mapping[str, str] = NONE_IMPLICIT,
    ) -> JobRecord:
        """Replace a job with `make(job)`. Raises NotFound, whatever `make` raises, Conflict unless its version is
        `expected`, and InvalidInput for a system job.
        """

        def checked(job: Job) -> Job:
            made = make(job)
            _check([made])
            return bound_job(made, calendars)

        before = await self._editable(name)
        await refuse_absent_limits(self._backends.limits, _places([make(before.job)]))
        [wanted] = await self._bound([make(before.job)])
        calendars = book_of(wanted.schedule)
        await self._graph.prepare(_places([make(before.job)]))
        if implicit_misfires:
            _refuse_missed([make(before.job)], {name: before}, implicit_misfires, self._clock.now())
        after = await self._editor.amend(name, checked, by=by, expected=expected)
        await self._graph.written([(before.job, after.job)])
        if after.ver != before.ver:
            await self._audit.record_events(by, _defined(Edited("changed", before, after), by))
        await notify_leader(self._backends.bus)
        return after

    async def replace_versions(
        self, jobs: Sequence[Job], versions: Mapping[str, int], done: dict[str, Edited], *, by: str = ""
    ) -> None:
        """Replace jobs, each only at this version. All are compared before the first is written; each is in `done` as
        soon as it is written. Raises Conflict when one has another version, InvalidInput as `apply` does.
        """
        _check(jobs)
        for first in range(0, len(jobs), BATCH):
            await self._apply_batch(jobs[first : first + BATCH], by, done, (), versions)
        await notify_leader(self._backends.bus)

    async def compare(
        self,
        jobs: Sequence[Job],
        implicit_misfires: Mapping[str, str] = NONE_IMPLICIT,
        *,
        days: int = 0,
        prune: Prune | None = None,
    ) -> list[Comparison]:
        """Predict what `applied` would do now, and what becomes of the runs in these days. Raises InvalidInput as
        `applied` does.
        """
        check_days(days)
        _check(jobs)
        await refuse_absent_limits(self._backends.limits, _places(jobs))
        jobs = await self._bound(jobs)
        await self._graph.check(_places(jobs))
        now = self._clock.now()
        found = await self._backends.jobs.get([job.name for job in jobs])
        _refuse_missed(jobs, {record.name: record for record in found}, implicit_misfires, now)
        stored = {record.name: record for record in found if record.deleted_at is None}
        gone = [] if prune is None else await pruned_by(self._backends, _places(jobs), prune, stored)
        compared = [compare(stored.get(job.name), job, now) for job in jobs]
        compared += [_compare_deleted(record, now) for record in gone]
        return await self._with_warnings(
            await self._with_runs([*(stored.get(job.name) for job in jobs), *gone], compared, days)
        )

    async def _with_runs(
        self, before: Sequence[JobRecord | None], comparisons: Sequence[Comparison], days: int
    ) -> list[Comparison]:
        """Add what becomes of the runs, and a warning to each job that never runs again."""
        now = self._clock.now()
        changes = [(old, one.record) for old, one in zip(before, comparisons, strict=True)]
        runs = await run_changes(changes, now, days) if days else [None] * len(changes)
        return [
            one
            if one.result == "unchanged"
            else replace(one, runs=changed)
            if one.result == "deleted"
            else replace(one, warnings=[*one.warnings, *never_again(one.record, now)], runs=changed)
            for one, changed in zip(comparisons, runs, strict=True)
        ]

    async def _bound(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs, bound to the calendars that they name. Raises InvalidInput for those that do not exist."""
        return list((await bind_jobs(self._backends.calendars, _places(jobs))).values())

    async def _with_warnings(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """Add a warning to each job that no live node can run, and to those that follow others if an older node may
        lead. Without any node there is none: jobs may come first.
        """
        try:
            members = await self._backends.membership.members()
        except BackendUnavailable:
            return list(comparisons)
        if not members:
            return list(comparisons)
        older = sorted(member.report.name for member in members if not member.report.knows_newer_keys)
        found: dict[tuple[Needs, ResourceAmount], list[str]] = {}
        warned = []
        for comparison in comparisons:
            if comparison.result == "deleted":
                warned.append(comparison)
                continue
            job = comparison.record.job
            wanted = needs_of(job), job.resources
            if wanted not in found:
                found[wanted] = _no_node(members, *wanted)
            more = found[wanted]
            if job.after and older:
                more = [*more, _older_nodes(older)]
            warned.append(replace(comparison, warnings=[*comparison.warnings, *more]) if more else comparison)
        return warned

    async def get(self, name: str) -> JobRecord:
        """Raises NotFound, also for a deleted job."""
        found = await self._backends.jobs.get([name])
        if not found or found[0].deleted_at is not None:
            raise NotFound("job", name)
        return found[0]

    async def pause(self, name: str, *, by: str = "", note: str = "", until: datetime | None = None) -> JobRecord:
        """Plan no fires until the job is resumed, or until this instant. A paused job gets the new note and end. Raises
        NotFound, Conflict, and InvalidInput for a system job and for an end that has passed.
        """
        if until is not None and until <= self._clock.now():
            raise InvalidInput(Problem("until", f"{to_the_minute(until)} has passed", "choose a later time"))
        before = await self._editable(name)
        after = await self._editor.pause(name, by=by, note=note, until=until)
        event = JobPaused(name, by, note, "" if until is None else instant_text(until))
        return await self._edited("pause", before, after, event)

    async def resume(self, name: str, *, by: str = "") -> JobRecord:
        """Raises NotFound, Conflict, and InvalidInput for a system job."""
        before = await self._editable(name)
        return await self._edited("resume", before, await self._editor.resume(name, by=by), JobResumed(name, by))

    async def delete(self, name: str, *, by: str = "", expected: int | None = None) -> JobRecord:
        """Raises NotFound, Conflict (unless its version is `expected`, and if other jobs follow it), and InvalidInput
        for a system job.
        """
        return await self._delete(name, by, expected)

    async def _delete(self, name: str, by: str, expected: int | None, guard: Guard = allow_any) -> JobRecord:
        before = await self._editable(name)
        await self._graph.refuse_followed(name)
        after = await self._editor.delete(name, by=by, expected=expected, guard=guard)
        await self._backends.breakers.remove([name])
        await self._backends.chains.forget_joins_of(name)
        return await self._edited("delete", before, after, JobDeleted(name, by))

    async def open_breakers(self, records: Sequence[JobRecord]) -> Mapping[str, BreakerState]:
        """The open circuit breakers of these jobs, by job. Jobs without a breaker cost no read."""
        return await self._breakers.open(record.job for record in records)

    async def close_breaker(self, name: str, *, by: str = "") -> JobRecord:
        """Close the job's circuit breaker: its failing runs are retried again. Raises NotFound, Conflict, and
        InvalidInput for a job without a breaker.
        """
        record = await self.get(name)
        if record.job.breaker is None:
            raise InvalidInput(Problem("", f"{name} has no circuit breaker", "add breaker: {} to its definition"))
        before = await self._breakers.close(name)
        if before is not None:
            changed = Changed(
                "job.close_breaker", f"job:{name}", {"failed": before.failed, "attempts": before.attempts}, None
            )
            await self._audit.record_events(by, (changed, JobBreakerClosed(name, f"requested by {by or 'somebody'}")))
        return record

    async def next_fires(
        self, name: str, count: int, start: datetime | None = None, until: datetime | None = None
    ) -> tuple[JobRecord, list[PreviewRow]]:
        """The job and its fires before `until`, starting at the cursor, or with those of its schedule from `start` on;
        none for a job without a schedule. They end with the last run of `max_runs`, and at the cursor if the next one
        depends on when its run ends. Raises NotFound, and InvalidInput when `start` is out of reach.
        """
        record = await self.get(name)
        after = record.next_fire if start is None else start
        if record.job.schedule is None or after is None:
            return record, []
        left = 1 if is_dynamic(record.job.schedule) else record.runs_left
        most = count if left is None else min(count, left)
        return record, rows_after(record.job.schedule, just_before(after), most, until)

    async def preview(
        self, schedule: Schedule, count: int, start: datetime | None = None, until: datetime | None = None
    ) -> Preview:
        """Describe a schedule and list its fires before `until` from `start` on, by default from now. Raises
        InvalidInput.
        """
        schedule = await bind_schedule(self._backends.calendars, schedule)
        return preview(schedule, self._clock.now(), count, start, until)

    async def preview_change(self, name: str, schedule: Schedule, days: int = DAYS) -> FireChanges | None:
        """What would become of the runs of the coming days if the job had this schedule. Raises NotFound."""
        check_days(days)
        record, now = await self.get(name), self._clock.now()
        schedule = await bind_schedule(self._backends.calendars, schedule)
        changed = compare(record, replace(record.job, schedule=schedule), now)
        [found] = await run_changes([(record, changed.record)], now, days)
        return found

    async def days(self, name: str) -> tuple[Mapping[date, Mapping[RunState, int]], bool]:
        """Count the runs of a job by UTC day and state over the last 53 weeks. The flag is true if the job has more
        runs than are counted. Raises NotFound; a deleted job is found while its history is kept.
        """
        found = await self._backends.runs.days(name, self._clock.now() - LONGEST_MAP, MOST_COUNTED)
        if not found and not await self._backends.jobs.get([name]):
            raise NotFound("job", name)
        return found, sum(sum(states.values()) for states in found.values()) == MOST_COUNTED

    async def trigger(
        self, name: str, args: Mapping[str, object] | None = None, key: str | None = None, *, by: str = ""
    ) -> str:
        """Run a job now, independently of its schedule, and return the run id. Repeating a `key` returns the same run.
        Raises NotFound.
        """
        return (await self.request(name, args, key, by=by))[0].id

    async def request(
        self, name: str, args: Mapping[str, object] | None = None, key: str | None = None, *, by: str = ""
    ) -> tuple[Run, bool]:
        """Like `trigger`, but return the run and whether it is new."""
        record = await self.get(name)
        now = self._clock.now()
        run_id = f"{name}{MANUAL}{key or secrets.token_hex(8)}"
        run = run_on_request(
            record,
            run_id,
            Kind.MANUAL,
            now.replace(microsecond=0),
            dict(args) if args else None,
            now,
            followed=record.followed,
        )
        if await self._backends.runs.insert([run]):
            await self._audit.record(by, Changed("job.run", f"job:{name}", None, {"run": run.id, "args": run.args}))
            await notify_leader(self._backends.bus)
            return run, True
        [present] = await self._backends.runs.get([run.id])
        return present, False

    async def _editable(self, name: str) -> JobRecord:
        record = await self.get(name)
        if name.startswith(SYSTEM_PREFIX):
            what = f"{name} is a system job and cannot be changed, paused, resumed or deleted"
            raise InvalidInput(Problem("", what, "set SWEEP_AT and CLEANUP_AT to choose when system jobs run"))
        return record

    async def _edited(
        self, verb: str, before: JobRecord, after: JobRecord, event: JobPaused | JobResumed | JobDeleted
    ) -> JobRecord:
        if after.ver != before.ver:
            changed = Changed(f"job.{verb}", f"job:{after.name}", _state(before), _state(after))
            await self._audit.record_events(event.by, (changed, event))
        await notify_leader(self._backends.bus)
        return after


async def notify_leader(bus: Bus) -> None:
    """Ask the leader to look at jobs and runs now. If Redis is unavailable, the leader notices at its next poll."""
    try:
        await bus.notify(Signal.JOBS)
    except BackendUnavailable:
        return


def compare(stored: JobRecord | None, job: Job, now: datetime) -> Comparison:
    """Predict exactly what `Editor.define` would do at this moment. `stored` is None for a job that does not exist or
    was deleted.
    """
    if stored is None:
        new = JobRecord(job=job, next_fire=first_fire(job, now), created_at=now, updated_at=now)
        return Comparison(new, "created")
    if is_same(stored.job, job):
        return Comparison(stored, "unchanged")
    planned, warnings = redefined(stored, job, now), []
    left = left_behind(stored, planned.next_fire, now)
    if left is not None and stored.active:
        warnings.append(_skip_text(*left))
    changed = [*_differences(stored.job, job), *_pin_differences(stored.job, job)]
    return Comparison(planned, "changed", changed, warnings)


def _compare_deleted(stored: JobRecord, now: datetime) -> Comparison:
    """Predict what `delete` would do at this moment."""
    left = left_behind(stored, None, now)
    warnings = [] if left is None or not stored.active else [_skip_text(*left)]
    gone = differences(job_document(stored.job, compact=True), None)
    return Comparison(deleted(stored, now), "deleted", gone, warnings)


def _skipped(record: JobRecord, result: Result) -> list[str]:
    """What the edit has skipped."""
    pending = record.pending_run
    if result != "changed" or pending is None or pending.state is not RunState.SKIPPED or pending.reason != "edited":
        return []
    if pending.job_ver != record.ver:
        return []
    return [_skip_text(pending.fire, pending.covers)]


def _skip_text(first: datetime, covers: Covers | None) -> str:
    return f"skips {fires_text(first, covers)}: the schedule changes before a run is planned"


def _older_nodes(names: Sequence[str]) -> str:
    shown = ", ".join(names[:OTHERS_KEPT]) + (" and others" if len(names) > OTHERS_KEPT else "")
    return f"runs that an older node plans while it leads are not followed; upgrade {shown}"


def _no_node(members: Sequence[Member], needs: Needs, resources: ResourceAmount) -> list[str]:
    reasons = {
        member.report.name: unable(member, needs) or resources.lack(member.report.capacity, NOTHING)
        for member in members
    }
    if None in reasons.values():
        return []
    shown = [f"{node}: {reason}" for node, reason in sorted(reasons.items())][:OTHERS_KEPT]
    more = f"; and {len(reasons) - len(shown)} more" if len(reasons) > len(shown) else ""
    return [f"no live node can run this job, so its runs will wait ({'; '.join(shown)}{more})"]


def _refuse_missed(
    jobs: Sequence[Job], stored: Mapping[str, JobRecord], implicit_misfires: Mapping[str, str], now: datetime
) -> None:
    problems = []
    for job in jobs:
        place = implicit_misfires.get(job.name)
        if place is not None and (fire := _missed_at(stored.get(job.name), job, now)) is not None:
            what = f"{to_the_minute(fire)} has passed, so the job would run at once"
            remedy = "choose a later time, or add misfire: fire_once to run it now or misfire: skip to record it only"
            problems.append(Problem(place, what, remedy))
    if problems:
        raise InvalidInput(problems)


def _missed_at(stored: JobRecord | None, job: Job, now: datetime) -> datetime | None:
    """The one-time fire that this edit would put at the cursor although it is missed; None: there is none."""
    if not isinstance(job.schedule, Once) or not job.enabled:
        return None
    live = stored is not None and stored.deleted_at is None
    if live and stored is not None and (stored.job.schedule, stored.job.enabled) == (job.schedule, job.enabled):
        return None
    fire = first_fire(job, now, None if stored is None else consumed(stored, now))
    return fire if fire is not None and now - fire > job.misfire.late_after else None


def _differences(before: Job, after: Job) -> list[Difference]:
    return differences(job_document(before), job_document(after))


def _pin_differences(before: Job, after: Job) -> list[Difference]:
    """The calendars that both name, and of which they have different revisions."""
    old, new = ({name_of_pin(pin): pin for pin in pins_of(job.schedule)} for job in (before, after))
    return [(f"calendar {name}", old[name], pin) for name, pin in new.items() if old.get(name, pin) != pin]


def _changes(edited: Sequence[Edited]) -> list[tuple[Job | None, Job]]:
    return [(None if one.before is None else one.before.job, one.after.job) for one in edited]


def _defined(edited: Edited, by: str) -> tuple[Changed, Event]:
    verb, event = ("create", JobCreated) if edited.result == "created" else ("change", JobChanged)
    gone = edited.before is None or edited.before.deleted_at is not None
    before = None if gone or edited.before is None else job_document(edited.before.job, compact=True)
    job = edited.after.job
    return Changed(f"job.{verb}", f"job:{job.name}", before, job_document(job, compact=True)), event(job.name, by)


def _state(record: JobRecord) -> Mapping[str, object]:
    state: dict[str, object] = {
        "version": record.ver,
        "paused": record.paused,
        "deleted": record.deleted_at is not None,
    }
    if record.pause is not None:
        until = record.pause.until
        state |= {"note": record.pause.note, "until": None if until is None else instant_text(until)}
    return state


def _check(jobs: Sequence[Job]) -> None:
    """Raises InvalidInput for names that are not allowed, for targets that no node can run, and for parts that have no
    effect on the target.
    """
    _check_names([job.name for job in jobs])
    problems = [problem for place, job in _places(jobs).items() for problem in under(place, problems_of(job))]
    if problems:
        raise InvalidInput(problems)


def _places(jobs: Sequence[Job]) -> dict[str, Job]:
    """The jobs by their places; a single one has none."""
    return {"": jobs[0]} if len(jobs) == 1 else {f"jobs[{n}]": job for n, job in enumerate(jobs)}


def _check_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InvalidInput(f"more than one job is called {', '.join(map(repr, twice))}; names must be unique")
    if any(name.startswith(SYSTEM_PREFIX) for name in names):
        raise InvalidInput(f"names that begin with {SYSTEM_PREFIX} are reserved for system jobs")
