"""The use-cases that the command line, the API and Python code share.

Each is one method that takes and returns domain values and says what it raises. Nothing here prints, parses or knows
a server; whatever changes something rings the doorbell that lets the leader act at once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from cronflow.auth.passwords import Passwords
from cronflow.auth.vault import Vault
from cronflow.documents import job_document, nearest
from cronflow.domain.access import AuditEntry
from cronflow.domain.cluster import ClusterStatus, Member, node_name
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.events import (
    KINDS,
    Event,
    JobChanged,
    JobCreated,
    JobDeleted,
    JobPaused,
    JobResumed,
    RecordedEvent,
    RunCancelled,
    StepdownRequested,
    current_kind,
)
from cronflow.domain.failures import Failure
from cronflow.domain.job import SWEEP, SYSTEM_PREFIX, Job, JobRecord
from cronflow.domain.planning import run_on_request
from cronflow.domain.rollup import Span, Tally, over
from cronflow.domain.run import Kind, Run, RunState
from cronflow.domain.schedule.describe import Preview, preview
from cronflow.domain.schedule.kinds import Schedule, next_after
from cronflow.domain.sweep import SweepReport
from cronflow.domain.version import Version
from cronflow.domain.why import Why
from cronflow.ports import (
    AuditQuery,
    Backends,
    Clock,
    EventSink,
    Found,
    LateResult,
    LineQuery,
    LogLine,
    RedisConfig,
    ReplicaSet,
    RunQuery,
    Signal,
    WebhookSender,
    discard_event,
)
from cronflow.usecases.accounts import ApiKeys, UserAccounts
from cronflow.usecases.alerts import AlertRules
from cronflow.usecases.audit import Auditor, Changed
from cronflow.usecases.cancel import Canceller
from cronflow.usecases.compare import Comparison, compare
from cronflow.usecases.edit import Editor, Result
from cronflow.usecases.explain import Explainer
from cronflow.usecases.replay import Replayer
from cronflow.usecases.schedule_load import ScheduleLoadReport, schedule_load_report
from cronflow.usecases.search import JobFilter, Searcher
from cronflow.usecases.secrets import SecretValues

LONGEST_MAP = timedelta(weeks=53)
MOST_COUNTED = 50_000
"""So many runs of a job are counted for the map of its days."""


class Service:
    """The use-cases. `users`, `keys`, `secrets` and `alerts` are those of the people who manage them; `vault` is for
    secrets, `webhook_sender` for trying out alerts, and `admin` the name of the settings' admin. `emit` hears of what
    is done to jobs, runs and the cluster.
    """

    def __init__(
        self,
        backends: Backends,
        clock: Clock,
        emit: EventSink = discard_event,
        *,
        vault: Vault | None = None,
        admin: str = "admin",
        webhook_sender: WebhookSender | None = None,
        namespace: str = "default",
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._emit = emit
        self._editor = Editor(backends.jobs, backends.versions, backends.plans, backends.runs, clock)
        self._explainer = Explainer(backends, clock)
        self._replayer = Replayer(backends, clock)
        self._canceller = Canceller(backends.runs, backends.queue, clock)
        self._auditor = Auditor(backends.audit, clock)
        self.passwords = Passwords()
        self.users = UserAccounts(backends, clock, self.passwords, reserved=admin)
        self.keys = ApiKeys(backends, clock)
        self.secrets = SecretValues(backends, clock, vault)
        self.alerts = AlertRules(backends, clock, webhook_sender, namespace)
        self._searcher = Searcher(backends)

    # ------------------------------------------------------------------------------------------------------- jobs

    async def apply(
        self, jobs: Sequence[Job], *, by: str = "", each: Callable[[], None] = lambda: None
    ) -> list[tuple[str, Result]]:
        """Create or change jobs. Returns for each its name and what was done. `by` is kept with the version that this
        makes, here and in the other edits. `each` is called after each job.

        Raises InvalidInput, before anything is changed, when two have one name or a name is reserved; Conflict when
        others keep changing a job meanwhile: those before it stand, and applying again is harmless.
        """
        names = [job.name for job in jobs]
        _check_names(names)
        before = {record.name: record for record in await self._backends.jobs.get(names)}
        results: list[tuple[str, Result]] = []
        try:
            for job in jobs:
                results.append((job.name, await self._editor.define(job, by=by)))
                each()
        finally:
            made = zip(results, jobs, strict=False)
            done = [(result, job) for (_, result), job in made if result != "unchanged"]
            await self._account(by, *(_defined(result, before.get(job.name), job, by) for result, job in done))
        await self._notify()
        return results

    async def applied(
        self, jobs: Sequence[Job], *, by: str = "", each: Callable[[], None] = lambda: None
    ) -> list[Comparison]:
        """The same; returns each job as it then is, and what was done. Raises as `apply` does."""
        results = await self.apply(jobs, by=by, each=each)
        names = [name for name, _ in results]
        records = {record.name: record for record in await self._backends.jobs.get(names)}
        if gone := set(names) - records.keys():
            raise NotFound("job", min(gone))
        return [Comparison(records[name], result) for name, result in results]

    async def define(self, job: Job, *, by: str = "", expected: int | None = None) -> tuple[JobRecord, Result]:
        """Create or change one job, if its version is the `expected` one (`editing.ABSENT`: if it does not exist).

        Returns it, and what was done. Raises Conflict; InvalidInput for a reserved name.
        """
        _check_names([job.name])
        before = next(iter(await self._backends.jobs.get([job.name])), None)
        result = await self._editor.define(job, by=by, expected=expected)
        if result != "unchanged":
            await self._account(by, _defined(result, before, job, by))
        await self._notify()
        return await self.job(job.name), result

    async def amend(
        self, name: str, make: Callable[[Job], Job], *, by: str = "", expected: int | None = None
    ) -> JobRecord:
        """Make another job of the present one, if its version is the `expected` one. Raises NotFound, Conflict, what
        `make` raises; InvalidInput for the system's own.
        """
        before = await self._own(name)
        after = await self._editor.amend(name, make, by=by, expected=expected)
        if after.ver != before.ver:
            await self._account(by, _defined("changed", before, after.job, by))
        await self._notify()
        return after

    async def compare(self, jobs: Sequence[Job]) -> list[Comparison]:
        """What `apply` would do now. Raises InvalidInput as it does."""
        _check_names([job.name for job in jobs])
        now = self._clock.now()
        found = await self._backends.jobs.get([job.name for job in jobs])
        stored = {record.name: record for record in found if record.deleted_at is None}
        return [compare(stored.get(job.name), job, now) for job in jobs]

    async def search(
        self, wanted: JobFilter, *, after: str = "", limit: int = 100
    ) -> tuple[list[JobRecord], str | None]:
        """Those that match, by name, behind `after`; and behind which name to go on, None at the end. It looks at a
        bounded number, so it may find fewer than there are.
        """
        return await self._searcher.jobs(wanted, after=after, limit=limit)

    async def jobs(self, *, after: str = "", limit: int = 500) -> list[JobRecord]:
        """By name, those behind `after`."""
        return await self._backends.jobs.find(after=after, limit=limit)

    async def job(self, name: str) -> JobRecord:
        """Raises NotFound."""
        found = await self._backends.jobs.get([name])
        if not found or found[0].deleted_at is not None:
            raise NotFound("job", name)
        return found[0]

    async def pause(self, name: str, *, by: str = "") -> JobRecord:
        """Raises NotFound, Conflict; InvalidInput for the system's own."""
        before = await self._own(name)
        return await self._edited("pause", before, await self._editor.pause(name, by=by), JobPaused(name, by))

    async def resume(self, name: str, *, by: str = "") -> JobRecord:
        """Raises NotFound, Conflict; InvalidInput for the system's own."""
        before = await self._own(name)
        return await self._edited("resume", before, await self._editor.resume(name, by=by), JobResumed(name, by))

    async def delete(self, name: str, *, by: str = "", expected: int | None = None) -> JobRecord:
        """Raises NotFound, Conflict, also when its version is not the `expected` one; InvalidInput for the system's
        own.
        """
        before = await self._own(name)
        after = await self._editor.delete(name, by=by, expected=expected)
        return await self._edited("delete", before, after, JobDeleted(name, by))

    async def _own(self, name: str) -> JobRecord:
        record = await self.job(name)
        if name.startswith(SYSTEM_PREFIX):
            what = f"{name} is the system's own job and cannot be changed, paused, resumed or deleted"
            raise InvalidInput(Problem("", what, "SWEEP_AT and CLEANUP_AT say when such jobs run"))
        return record

    async def _edited(
        self, verb: str, before: JobRecord, after: JobRecord, event: JobPaused | JobResumed | JobDeleted
    ) -> JobRecord:
        if after.ver != before.ver:
            changed = Changed(f"job.{verb}", f"job:{after.name}", _state(before), _state(after))
            await self._account(event.by, (changed, event))
        await self._notify()
        return after

    async def next_fires(self, name: str, count: int) -> list[datetime]:
        """The next instants, beginning with the cursor; none for a job without a schedule. Raises NotFound."""
        record = await self.job(name)
        fires: list[datetime] = []
        fire = record.next_fire
        while fire is not None and len(fires) < count and record.job.schedule is not None:
            fires.append(fire)
            fire = next_after(record.job.schedule, fire)
        return fires

    def preview(self, schedule: Schedule, count: int, start: datetime | None = None) -> Preview:
        """What a schedule means, with its fires from `start` on, or those to come. Raises InvalidInput."""
        return preview(schedule, self._clock.now(), count, start)

    async def schedule_load(self, name: str = "", schedule: Schedule | None = None) -> ScheduleLoadReport:
        """The fires that all jobs have planned for a week, and where the job of this name or the schedule stands among
        them. Raises NotFound.
        """
        found = (await self.job(name)).job.schedule if name else schedule
        return await schedule_load_report(self._backends, self._clock.now(), name, found)

    async def days(self, name: str) -> tuple[Mapping[date, Mapping[RunState, int]], bool]:
        """How the runs of a job stand, by the day in UTC, over 53 weeks or as long as they are kept; and whether there
        are more than are counted. Raises NotFound for a job that is not remembered.
        """
        found = await self._backends.runs.days(name, self._clock.now() - LONGEST_MAP, MOST_COUNTED)
        if not found:
            await self.versions(name)
        return found, sum(sum(states.values()) for states in found.values()) == MOST_COUNTED

    async def versions(self, name: str) -> list[Version]:
        """The history of a job, also of a deleted one, the oldest first. Raises NotFound."""
        return await self._explainer.versions(name)

    async def why(self, name: str, at: datetime | None = None, *, exact: bool = True) -> Why:
        """Why the instant ran, did not run or waits; the latest that fell due, when none is given. Not `exact`: the
        last one until then. Raises NotFound.
        """
        return await self._explainer.why(name, at, exact=exact)

    async def trigger(
        self, name: str, args: Mapping[str, object] | None = None, key: str | None = None, *, by: str = ""
    ) -> str:
        """Run a job now, beside its schedule. Returns the run's id; one `key`, one run. Raises NotFound."""
        return (await self.request(name, args, key, by=by))[0].id

    async def request(
        self, name: str, args: Mapping[str, object] | None = None, key: str | None = None, *, by: str = ""
    ) -> tuple[Run, bool]:
        """The same; returns the run, and whether it is a new one. Raises NotFound."""
        record = await self.job(name)
        now = self._clock.now()
        run_id = f"{name}@manual-{key or secrets.token_hex(8)}"
        run = run_on_request(record, run_id, Kind.MANUAL, now.replace(microsecond=0), dict(args) if args else None, now)
        if await self._backends.runs.insert([run]):
            await self._auditor.record(by, Changed("job.run", f"job:{name}", None, {"run": run.id, "args": run.args}))
            await self._notify()
            return run, True
        [present] = await self._backends.runs.get([run.id])
        return present, False

    # ------------------------------------------------------------------------------------------------------- runs

    async def runs(self, query: RunQuery) -> list[Run]:
        """The newest fire first."""
        return await self._backends.runs.find(query)

    async def recent(self, names: Collection[str], limit: int) -> list[tuple[JobRecord, list[Run]]]:
        """Those of these jobs that exist, each with its last runs, the newest fire first."""
        records = [record for record in await self._backends.jobs.get(names) if record.deleted_at is None]
        found = await asyncio.gather(
            *(self._backends.runs.find(RunQuery(job=record.name, limit=limit)) for record in records)
        )
        return sorted(zip(records, found, strict=True), key=lambda pair: pair[0].name)

    async def run(self, run_id: str) -> Run:
        """Raises NotFound."""
        found = await self._backends.runs.get([run_id])
        if not found:
            raise NotFound("run", run_id)
        return found[0]

    async def whole(self, run: Run) -> Run:
        """The run with its result, also where that is so large that it is kept apart."""
        if run.result_size is None or run.finish_id is None:
            return run
        found = await self._backends.results.get([run.finish_id])
        return replace(run, result=found.get(run.finish_id))

    async def late(self, run_id: str) -> list[LateResult]:
        """Outcomes of the run that came too late and were not accepted, with their whole results."""
        late = await self._backends.late.of(run_id)
        large = [result.finish_id for result in late if result.attempt_result.result_size is not None]
        found = await self._backends.results.get(large) if large else {}
        return [
            replace(
                one,
                attempt_result=replace(one.attempt_result, result=found.get(one.finish_id, one.attempt_result.result)),
            )
            for one in late
        ]

    async def dead_letters(self, job: str | None = None) -> int:
        """How many runs failed or were lost and are neither replayed nor acknowledged."""
        return await self._backends.dead_letters.count(job)

    async def replay(
        self,
        run_id: str,
        args: Mapping[str, object] | None = None,
        *,
        by: str = "",
        note: str = "",
        only_dead: bool = False,
    ) -> str:
        """Run it again, for the same instant, under the job as it is now. Returns the replay's id. Raises NotFound;
        Conflict while the run is open, and with `only_dead` when it is no dead letter (any more).
        """
        replay = await self._replayer.replay(run_id, args, by=by, note=note, only_dead=only_dead)
        after = {"replay": replay, "args": args, "note": note}
        await self._auditor.record(by, Changed("run.retry", f"run:{run_id}", None, after))
        await self._notify()
        return replay

    async def acknowledge(self, run_ids: Sequence[str], *, by: str = "", note: str = "") -> set[str]:
        """Nothing more is to be done about these. Returns those that were dead letters until now."""
        done = await self._replayer.acknowledge(run_ids, by=by, note=note)
        await self._auditor.record(
            by, *(Changed("run.ack", f"run:{run}", None, {"note": note}) for run in sorted(done))
        )
        return done

    async def report(self, since: datetime, job: str | None = None) -> tuple[Sequence[Failure], bool]:
        """What failed since then, by reason, the most frequent first; and whether there was more than is looked at."""
        return await self._replayer.report(since, job)

    async def cancel(self, run_id: str, reason: str = "", *, by: str = "") -> Run:
        """Cancel a run: at once if it has not started, else its worker stops it. Returns the run as it then is.

        Cancelling it again is harmless. A run that ends by itself before it is stopped stays as it ended. Raises
        NotFound, and Conflict when it has already ended.
        """
        run = await self.run(run_id)
        if not run.is_open:
            raise Conflict(f"run {run_id} has already ended: {run.state.value}")
        (run,) = await self.cancel_all([run_id], reason, by=by)
        return run

    async def cancel_all(self, ids: Collection[str], reason: str = "", *, by: str = "") -> list[Run]:
        """The same for several; those that have ended are left as they are. Raises Conflict."""
        runs = await self._canceller.cancel(ids, reason, by)
        touched = [run for run in runs if run.is_open or run.state is RunState.CANCELLED]
        after = {"reason": reason}
        await self._account(
            by,
            *(
                (Changed("run.cancel", f"run:{run.id}", None, after), RunCancelled(run.id, by, reason))
                for run in touched
            ),
        )
        await self._notify()
        return runs

    async def logs(self, run_id: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]:
        """The lines of a run behind (fence, number), in order. Raises NotFound."""
        await self.run(run_id)
        return await self._backends.logs.read(run_id, after=after, limit=limit)

    async def find_lines(self, query: LineQuery) -> Found:
        """Lines of all runs, the newest first. A page may be short although others follow."""
        return await self._backends.logs.find(query)

    async def search_logs(
        self, run_id: str, text: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000
    ) -> tuple[list[LogLine], tuple[int, int], bool]:
        """The lines of a run that contain the text in any case; behind which one to go on, and whether there may be
        more now. It looks at a bounded number. Raises NotFound.
        """
        await self.run(run_id)
        return await self._searcher.lines(run_id, text, after=after, limit=limit)

    # ---------------------------------------------------------------------------------------------------- cluster

    async def members(self) -> list[Member]:
        """The nodes that are up, by name."""
        return sorted(await self._backends.membership.members(), key=lambda member: member.report.name)

    async def node(self, name: str) -> tuple[Member, Mapping[str, int]]:
        """A node that is up, and the runs that it has taken, with their fences. Raises NotFound."""
        found = [member for member in await self._backends.membership.members() if member.report.name == name]
        if not found:
            raise NotFound("node", name)
        holdings = await self._backends.membership.holdings([found[0].id])
        return found[0], holdings[found[0].id][1]

    async def drain(self, name: str, *, by: str = "") -> Member:
        """Have a node end what runs and take no more, also after a restart, until `undrain`. Raises NotFound."""
        await self.node(name)
        await self._backends.membership.drain(name, wanted=True)
        await self._auditor.record(by, Changed("node.drain", f"node:{name}"))
        # What the leader gave it a moment ago comes back; the leader should look.
        await self._notify()
        return (await self.node(name))[0]

    async def undrain(self, name: str, *, by: str = "") -> Member | None:
        """Let the node take work again. Returns it, or None when no node of this name is up now."""
        await self._backends.membership.drain(name, wanted=False)
        await self._auditor.record(by, Changed("node.undrain", f"node:{name}"))
        try:
            return (await self.node(name))[0]
        except NotFound:
            return None

    async def status(self) -> ClusterStatus:
        """Who leads, since when, and who is up."""
        record = await self._backends.control.leader()
        held = await self._backends.election.holder()
        return ClusterStatus(
            leader=None if held is None else node_name(held[0]),
            term=0 if record is None else record.term,
            lease_left_s=None if held is None else held[1],
            elected_at=None if held is None or record is None else record.elected_at,
            members=await self.members(),
            sweep=await self.last_sweep(),
        )

    async def sweep(self, *, by: str = "") -> str:
        """Sweep now. Returns the run's id; raises NotFound when nobody has led this cluster yet."""
        return await self.trigger(SWEEP, by=by)

    async def last_sweep(self) -> SweepReport | None:
        """What the last sweep found; None before the first."""
        return await self._backends.store_admin.report()

    async def events(
        self,
        *,
        kinds: Collection[str] = (),
        since: datetime | None = None,
        after: str = "",
        before: str = "",
        limit: int = 100,
    ) -> list[RecordedEvent]:
        """What happened behind the id `after`, the oldest first; without it the newest before `before`, newest first.

        Raises InvalidInput for a kind that there is not.
        """
        for kind in kinds:
            if current_kind(kind) not in KINDS:
                near = nearest(kind, KINDS)
                raise InvalidInput(
                    Problem("kind", f"there is no kind of event {kind!r}", f"did you mean {near}?" if near else "")
                )
        return await self._backends.events.find(kinds=kinds, since=since, after=after, before=before, limit=limit)

    async def series(self, span: Span) -> list[tuple[datetime, Tally]]:
        """What ended, how late it was and how long it took, over a span, the oldest point first."""
        now = self._clock.now()
        points = span.points(now)
        buckets = await self._backends.rollups.read(span.resolution, points[0], now)
        return list(zip(points, over(points, buckets), strict=True))

    async def stepdown(self, *, by: str = "") -> str:
        """Ask the leader to give its lead to another node. Returns its name; raises NotFound when nobody leads."""
        held = await self._backends.election.holder()
        record = await self._backends.control.leader()
        if held is None or record is None:
            raise NotFound("leader", "of this cluster")
        await self._backends.election.ask_to_resign(record.term)
        leader = node_name(held[0])
        changed = Changed("cluster.stepdown", f"node:{leader}", None, {"term": record.term})
        await self._account(by, (changed, StepdownRequested(leader, by)))
        return leader

    async def record(self, changed: Changed, *, by: str) -> None:
        """Put something into the audit log that was done beside the service."""
        await self._auditor.record(by, changed)

    async def audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Who changed what, the newest first."""
        return await self._backends.audit.find(query)

    async def health(self) -> Mapping[str, float | str]:
        """Seconds of a round trip, or the reason why there is none, per service."""
        found: dict[str, float | str] = {}
        for name, ping in (("redis", self._backends.queue.ping), ("mongodb", self._backends.control.ping)):
            try:
                found[name] = await ping()
            except BackendUnavailable as error:
                found[name] = str(error)
        return found

    async def redis_config(self) -> RedisConfig:
        """How Redis keeps what it was given."""
        return await self._backends.coordination_admin.redis_config()

    async def replica_set(self) -> ReplicaSet:
        """Who keeps the store."""
        return await self._backends.store_admin.replica_set()

    async def offsets(self) -> Mapping[str, float]:
        """By how many seconds the clock of each server is ahead of this machine's, give or take half a round trip."""
        found = {}
        for name, timepiece in self._backends.server_clocks.items():
            before = self._clock.now()
            theirs = await timepiece.now()
            found[name] = (theirs - before - (self._clock.now() - before) / 2).total_seconds()
        return found

    async def _account(self, by: str, *done: tuple[Changed, Event]) -> None:
        """What was done, told to whoever looks on and put into the audit log."""
        for _, event in done:
            self._emit(event)
        await self._auditor.record(by, *(changed for changed, _ in done))

    async def _notify(self) -> None:
        try:
            await self._backends.bus.notify(Signal.JOBS)
        except BackendUnavailable:
            # The change stands; a lost ring costs one poll of the leader.
            return


def _defined(result: Result, record: JobRecord | None, job: Job, by: str) -> tuple[Changed, Event]:
    verb, event = ("create", JobCreated) if result == "created" else ("change", JobChanged)
    gone = record is None or record.deleted_at is not None
    before = None if gone or record is None else job_document(record.job, compact=True)
    return Changed(f"job.{verb}", f"job:{job.name}", before, job_document(job, compact=True)), event(job.name, by)


def _state(record: JobRecord) -> Mapping[str, object]:
    return {"version": record.ver, "paused": record.paused, "deleted": record.deleted_at is not None}


def _check_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InvalidInput(f"more than one job is called {', '.join(map(repr, twice))}; names must be unique")
    if any(name.startswith(SYSTEM_PREFIX) for name in names):
        raise InvalidInput(f"names that begin with {SYSTEM_PREFIX} are the system's own")
