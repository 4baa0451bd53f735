"""The client of a process that reaches Redis and MongoDB itself: the resources and methods of `AsyncClient`, without
HTTP.

The rule: an answer is the one that the API gives, and an error is the domain error itself. `by` is the author of every
change. Following needs the live stream, a `Hub` that runs in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cronflow.client.local_admin import (
    LocalAlerts,
    LocalAudit,
    LocalCalendars,
    LocalKeys,
    LocalLimits,
    LocalSecrets,
    LocalSessions,
    LocalUsers,
    Resource,
    page_size,
    paged,
)
from cronflow.documents import FORMAT_ZONE, implicit_misfires, parse_job
from cronflow.domain.backfill import BackfillScope, parse_rate
from cronflow.domain.catch_up import CatchUpProgress
from cronflow.domain.errors import BackendUnavailable, Conflict, NotFound
from cronflow.domain.job import Job, JobRecord, Retry
from cronflow.domain.job_health import JobHealth
from cronflow.domain.ownership import Prune
from cronflow.domain.run import Kind, RunState, at_least
from cronflow.domain.schedule.comparison import DAYS
from cronflow.domain.shadow import JobMode
from cronflow.domain.spread import MinuteMove, SpreadBy
from cronflow.ports import LineQuery, RunQuery
from cronflow.schemas import milliseconds
from cronflow.schemas.backfills import BackfillSchema, backfill_schema
from cronflow.schemas.cluster import (
    ClusterSchema,
    DrainSchema,
    MaintenanceSchema,
    NodeDetailSchema,
    NodeSchema,
    SettingsSchema,
    StepdownSchema,
    UndrainSchema,
    cluster_schema,
    drain_schema,
    maintenance_schema,
    node_detail_schema,
    node_schema,
    undrain_schema,
)
from cronflow.schemas.job_graph import JobGraphSchema, job_graph_schema
from cronflow.schemas.job_health import JobHealthSchema, job_health_schema
from cronflow.schemas.jobs import (
    AppliedSchema,
    DeletedSchema,
    FiresSchema,
    JobSchema,
    VersionSchema,
    comparison_schema,
    deleted_schema,
    fires_schema,
    job_schema,
    version_schemas,
)
from cronflow.schemas.post_mortem import IncidentSchema, incident_schema
from cronflow.schemas.recovery import RecoverySchema, recovery_schema
from cronflow.schemas.runs import (
    AskedSchema,
    LogSchema,
    ReplaySchema,
    ReportSchema,
    RunDetailSchema,
    RunSchema,
    asked_schema,
    log_schema,
    report_schema,
    run_detail_schema,
    run_schema,
)
from cronflow.schemas.schedule_load import (
    MinuteMoveSchema,
    SpreadSchema,
    WeekLoadSchema,
    minute_move_schema,
    spread_schema,
    week_load_schema,
)
from cronflow.schemas.stream import EventSchema, event_schema
from cronflow.schemas.why import WhySchema, why_schema
from cronflow.usecases import UseCases
from cronflow.usecases.backfills import BackfillProgress
from cronflow.usecases.run_search import RunFilter
from cronflow.usecases.search import JobFilter, labels_of

if TYPE_CHECKING:
    from cronflow.live.hub import Hub
    from cronflow.schemas.stream import LineMessage, RunMessage, StreamMessage

READY_S = 10.0


class LocalClient:
    """A client on these use-cases. `namespace`, `heartbeat`, `retry` and `timezone` are settings of the cluster."""

    def __init__(
        self,
        service: UseCases,
        *,
        by: str = "",
        namespace: str = "default",
        heartbeat: timedelta = timedelta(seconds=5),
        retry: Retry | None = None,
        timezone: str = FORMAT_ZONE,
        hub: Hub | None = None,
    ) -> None:
        self.service, self.by = service, by
        self.namespace, self.heartbeat, self.retry = namespace, heartbeat, retry or Retry()
        self.timezone = timezone
        self._hub = hub
        self.jobs = LocalJobs(self)
        self.runs = LocalRuns(self)
        self.backfills = LocalBackfills(self)
        self.nodes = LocalNodes(self)
        self.cluster = LocalCluster(self)
        self.events = LocalEvents(self)
        self.logs = LocalLogs(self)
        self.limits = LocalLimits(self)
        self.calendars = LocalCalendars(self)
        self.alerts = LocalAlerts(self)
        self.users = LocalUsers(self)
        self.keys = LocalKeys(self)
        self.secrets = LocalSecrets(self)
        self.sessions = LocalSessions(self)
        self.audit = LocalAudit(self)

    async def follow(self, *topics: str, tail: int = 0) -> AsyncGenerator[StreamMessage, None]:
        """The live stream. A gap precedes every snapshot but the first."""
        import orjson

        assert self._hub is not None, "this client was opened without the live stream"
        try:
            async with asyncio.timeout(READY_S):
                await self._hub.ready.wait()
        except TimeoutError:
            raise BackendUnavailable("Redis", "the live stream", "it does not answer") from None
        session = self._hub.open(None)
        try:
            for topic in topics:
                await self._hub.following.subscribe(session, topic, tail)
            began = False
            while True:
                message = orjson.loads(await session.next())
                if began and message["t"] == "snap":
                    yield {"t": "gap", "missed": None}
                began = True
                yield message
        finally:
            self._hub.close(session)


class LocalJobs(Resource):
    async def list(
        self,
        q: str = "",
        *,
        label: Sequence[str] = (),
        enabled: bool | None = None,
        health: str | None = None,
        deleted: bool = False,
    ) -> AsyncIterator[JobSchema]:
        names = None if health is None else (await self._service.health.report()).names(JobHealth(health))
        wanted = JobFilter(text=q, labels=labels_of(label), enabled=enabled, names=names, deleted=deleted)
        after: str | None = ""
        while after is not None:
            found, after = await self._service.search.jobs(wanted, after=after, limit=page_size(None))
            breakers = await self._service.jobs.open_breakers(found)
            followers = await self._service.graph.followers(found)
            for record in found:
                yield job_schema(record, breakers.get(record.name), followers.get(record.name, ()))

    async def get(self, name: str) -> JobSchema:
        return await self._shown(await self._service.jobs.get(name))

    async def plan(
        self, jobs: Sequence[Mapping[str, object]], *, days: int = DAYS, prune: str | None = None
    ) -> Sequence[AppliedSchema]:
        gone = None if prune is None else Prune(prune)
        found = await self._service.jobs.compare(self._parsed(jobs), _implicit_misfires(jobs), days=days, prune=gone)
        return [comparison_schema(one) for one in found]

    async def apply(
        self, jobs: Sequence[Mapping[str, object]], *, days: int = DAYS, prune: str | None = None
    ) -> Sequence[AppliedSchema]:
        done = await self._service.jobs.applied(
            self._parsed(jobs),
            by=self._by,
            implicit_misfires=_implicit_misfires(jobs),
            days=days,
            prune=None if prune is None else Prune(prune),
        )
        return [comparison_schema(one) for one in done]

    def _parsed(self, jobs: Sequence[Mapping[str, object]]) -> Sequence[Job]:
        retry, tz = self._client.retry, self._client.timezone
        return [parse_job(document, f"jobs[{n}]", retry=retry, tz=tz) for n, document in enumerate(jobs)]

    async def delete(self, name: str, *, version: int | None = None) -> DeletedSchema:
        return deleted_schema(await self._service.jobs.delete(name, by=self._by, expected=version))

    async def run(self, name: str, args: Mapping[str, object] | None = None, *, key: str | None = None) -> AskedSchema:
        return asked_schema((await self._service.jobs.request(name, args, key, by=self._by))[0])

    async def pause(self, name: str, *, note: str = "", until: datetime | None = None) -> JobSchema:
        return await self._shown(await self._service.jobs.pause(name, by=self._by, note=note, until=until))

    async def resume(self, name: str) -> JobSchema:
        return await self._shown(await self._service.jobs.resume(name, by=self._by))

    async def activate(self, name: str) -> JobSchema:
        def active(job: Job) -> Job:
            return replace(job, mode=JobMode.ACTIVE)

        return await self._shown(await self._service.jobs.amend(name, active, by=self._by))

    async def close_breaker(self, name: str) -> JobSchema:
        return await self._shown(await self._service.jobs.close_breaker(name, by=self._by))

    async def _shown(self, record: JobRecord) -> JobSchema:
        breakers = await self._service.jobs.open_breakers([record])
        followers = await self._service.graph.followers([record])
        return job_schema(record, breakers.get(record.name), followers.get(record.name, ()))

    async def backfill(
        self,
        name: str,
        first: datetime,
        last: datetime,
        *,
        only: str = "missing",
        rate: str | None = None,
        excluded: bool = False,
        dry_run: bool = False,
    ) -> BackfillSchema:
        scope, limit = BackfillScope(only), None if rate is None else parse_rate(rate)
        if dry_run:
            planned = await self._service.backfills.plan(name, first, last, scope, limit, with_excluded=excluded)
            return backfill_schema(planned, planned=True)
        found, started = await self._service.backfills.request(
            name, first, last, scope, limit, with_excluded=excluded, by=self._by
        )
        return backfill_schema(BackfillProgress(found), planned=not started)

    async def next(
        self, name: str, n: int = 10, *, first: datetime | None = None, until: datetime | None = None
    ) -> FiresSchema:
        return fires_schema(*await self._service.jobs.next_fires(name, n, first, until))

    async def why(self, name: str, at: datetime | None = None, *, exact: bool = True) -> WhySchema:
        return why_schema(await self._service.explain.why(name, at, exact=exact))

    async def load(
        self,
        name: str | None = None,
        *,
        label: Sequence[str] = (),
        frequent: bool = False,
        hour: datetime | None = None,
    ) -> WeekLoadSchema:
        wanted = JobFilter(name=name or "", labels=labels_of(label))
        return week_load_schema(await self._service.schedule_load.report(wanted, frequent=frequent, hour=hour))

    async def spread(
        self, name: str | None = None, *, label: Sequence[str] = (), by: str = "shift", dry_run: bool = False
    ) -> SpreadSchema:
        wanted, how = JobFilter(name=name or "", labels=labels_of(label)), SpreadBy(by)
        use = self._service.spread
        found = await (use.propose(wanted, how) if dry_run else use.spread(wanted, how, by=self._by))
        return spread_schema(found, how)

    async def move(self, moves: Sequence[MinuteMoveSchema]) -> Sequence[MinuteMoveSchema]:
        wanted = [MinuteMove(move["job"], move["version"], move["before"], move["after"]) for move in moves]
        return [minute_move_schema(move) for move in await self._service.spread.apply(wanted, by=self._by)]

    async def health(self, job: str | None = None) -> JobHealthSchema:
        return job_health_schema(await self._service.health.report(), job=job or "")

    async def graph(self, job: str | None = None) -> JobGraphSchema:
        return job_graph_schema(await self._service.graph.graph(job or ""))

    async def history(self, name: str, *, calendars: bool = False) -> AsyncIterator[VersionSchema]:
        for version in version_schemas(await self._service.explain.versions(name), calendars=calendars):
            yield version

    async def runs(self, name: str, *, limit: int | None = None) -> AsyncIterator[RunSchema]:
        empty = True
        async for run in self._client.runs.list(job=name, limit=limit):
            empty = False
            yield run
        if empty:
            await self._service.explain.versions(name)


class LocalRuns(Resource):
    def list(
        self,
        *,
        job: str | None = None,
        q: str = "",
        label: Sequence[str] = (),
        kind: Sequence[str] = (),
        state: Sequence[str] = (),
        node: str | None = None,
        backfill: str | None = None,
        parent: str | None = None,
        chain: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        dead: bool = False,
        oldest_first: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[RunSchema]:
        query = RunQuery(
            job=job,
            states=[RunState(one) for one in state],
            node=node,
            backfill=backfill,
            parent=parent,
            chain=chain,
            since=since,
            until=until,
            dead=dead,
            oldest_first=oldest_first,
        )
        return self._found(RunFilter(query=query, name=q, labels=labels_of(label), kinds=[*map(Kind, kind)]), limit)

    async def _found(self, wanted: RunFilter, limit: int | None) -> AsyncIterator[RunSchema]:
        left = limit
        while True:
            runs, after = await self._service.run_search.find(wanted, page_size(left))
            for run in runs:
                yield run_schema(run)
            left = None if left is None else left - len(runs)
            if after is None or left == 0:
                return
            wanted = replace(wanted, query=replace(wanted.query, before=after))

    async def get(self, id: str, *, whole: bool = False) -> RunDetailSchema:  # noqa: A002  the public name
        run = await self._service.runs.get(id)
        shown = await self._service.runs.whole(run) if whole else run
        return run_detail_schema(shown, await self._service.runs.late(id), await self._service.runs.part_counts(run))

    async def why(self, id: str) -> WhySchema:  # noqa: A002
        return why_schema(await self._service.explain.why_run(id))

    async def logs(self, id: str) -> AsyncIterator[LogSchema]:  # noqa: A002
        async for line in paged(
            lambda after, size: self._service.runs.logs(id, after=after, limit=size),
            (0, -1),
            lambda line: (line.fence, line.n),
            log_schema,
            None,
        ):
            yield line

    async def follow(self, id: str) -> AsyncGenerator[RunMessage, None]:  # noqa: A002
        from cronflow.client.following import follow_run, run_topic

        await self._service.runs.get(id)
        async with (
            aclosing(self._client.follow(run_topic(id), tail=1)) as messages,
            aclosing(follow_run(run_topic(id), messages, _RunReader(self._client, id))) as found,
        ):
            async for message in found:
                yield message

    async def cancel(self, id: str, reason: str = "") -> RunSchema:  # noqa: A002
        return run_schema(await self._service.runs.cancel(id, reason, by=self._by))

    async def retry(
        self,
        id: str,  # noqa: A002
        args: Mapping[str, object] | None = None,
        note: str = "",
        *,
        only_dead: bool = False,
        followers: bool = False,
    ) -> ReplaySchema:
        replay = await self._service.runs.replay(
            id, args, by=self._by, note=note, only_dead=only_dead, followers=followers
        )
        return {"id": replay, "replay_of": id}

    async def ack(self, id: str, note: str = "") -> RunSchema:  # noqa: A002
        done = await self._service.runs.acknowledge([id], by=self._by, note=note)
        run = await self._service.runs.get(id)
        if not done and run.resolution is None:
            raise Conflict(f"run {id} has state {run.state.value}; only failed or lost runs can be acknowledged")
        return run_schema(run)

    async def report(self, since: datetime, job: str | None = None, *, limit: int = 100) -> ReportSchema:
        failures, more = await self._service.runs.report(since, job)
        return report_schema(
            since, job, await self._service.backends.dead_letters.count(job), failures, limit, more=more
        )


class LocalBackfills(Resource):
    def list(self, *, job: str | None = None, limit: int | None = None) -> AsyncIterator[BackfillSchema]:
        def page(before: tuple[datetime, str] | None, size: int) -> Awaitable[Sequence[BackfillProgress]]:
            return self._service.backfills.find(job=job, before=before, limit=size)

        return paged(page, None, lambda one: (one.backfill.created_at, one.backfill.id), backfill_schema, limit)

    async def get(self, id: str) -> BackfillSchema:  # noqa: A002  the public name
        return backfill_schema(await self._service.backfills.get(id))

    async def cancel(self, id: str, reason: str = "") -> BackfillSchema:  # noqa: A002
        return backfill_schema(await self._service.backfills.cancel(id, reason, by=self._by))


class _RunReader:
    """See `following.RunReader`."""

    def __init__(self, client: LocalClient, run_id: str) -> None:
        self._client = client
        self._id = run_id

    async def run(self) -> RunDetailSchema:
        return await self._client.runs.get(self._id)

    async def lines(self, after: tuple[int, int]) -> tuple[Sequence[LogSchema], bool]:
        size = page_size(None)
        found = await self._client.service.runs.logs(self._id, after=after, limit=size)
        return [log_schema(line) for line in found], len(found) == size


class LocalLogs(Resource):
    async def search(
        self,
        q: str = "",
        *,
        level: str | None = None,
        job: str | None = None,
        node: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[LogSchema]:
        levels = () if level is None else at_least(level)
        left, before = limit, None
        while True:
            size = page_size(left)
            query = LineQuery(text=q, levels=levels, job=job, node=node, since=since, before=before, limit=size)
            page = await self._service.backends.logs.find(query)
            for line in page.lines:
                yield log_schema(line)
            left = None if left is None else left - len(page.lines)
            before = page.following
            if before is None or left == 0:
                return

    async def follow(
        self, *, level: str | None = None, job: str | None = None, node: str | None = None, tail: int = 0
    ) -> AsyncGenerator[LineMessage, None]:
        from cronflow.client.following import follow_lines, lines_topic

        topic = lines_topic(level, job, node)
        async with (
            aclosing(self._client.follow(topic, tail=tail)) as messages,
            aclosing(follow_lines(topic, messages)) as found,
        ):
            async for message in found:
                yield message


class LocalEvents(Resource):
    def list(
        self, *, since: datetime | None = None, kind: Sequence[str] = (), limit: int | None = None
    ) -> AsyncIterator[EventSchema]:
        return paged(
            lambda before, size: self._service.cluster.events(kinds=kind, since=since, before=before, limit=size),
            "",
            lambda happened: happened.id,
            event_schema,
            limit,
        )

    async def incident(self, since: datetime, until: datetime | None = None) -> IncidentSchema:
        return incident_schema(await self._service.post_mortem.incident(since, until))


class LocalNodes(Resource):
    async def list(self) -> AsyncIterator[NodeSchema]:
        status = await self._service.cluster.status()
        for member in status.members:
            yield node_schema(member, status.leader, self._client.heartbeat)

    async def get(self, name: str) -> NodeDetailSchema:
        member, runs = await self._service.cluster.node(name)
        return node_detail_schema(member, runs, (await self._service.cluster.status()).leader, self._client.heartbeat)

    async def drain(self, name: str, *, until: datetime | None = None) -> DrainSchema:
        return drain_schema(name, await self._service.cluster.drain(name, until=until, by=self._by))

    async def undrain(self, name: str) -> UndrainSchema:
        return undrain_schema(name, await self._service.cluster.undrain(name, by=self._by))


class LocalCluster(Resource):
    async def get(self) -> ClusterSchema:
        return cluster_schema(self._client.namespace, await self._service.cluster.status(), self._client.heartbeat)

    async def settings(self) -> SettingsSchema:
        from importlib.metadata import version

        retry = self._client.retry
        return {
            "namespace": self._client.namespace,
            "heartbeat_ms": milliseconds(self._client.heartbeat),
            "retry_max": retry.max,
            "retry_initial_ms": milliseconds(retry.initial),
            "retry_multiplier": retry.multiplier,
            "timezone": self._client.timezone,
            "version": version("cronflow"),
            "chaos": False,
        }

    async def stepdown(self) -> StepdownSchema:
        term = (await self._service.cluster.status()).term
        return {"asked": await self._service.cluster.stepdown(by=self._by), "term": term}

    async def maintenance(self, *, on: bool, note: str = "", until: datetime | None = None) -> MaintenanceSchema:
        if not on:
            await self._service.cluster.end_maintenance(by=self._by)
            return maintenance_schema(None)
        mode = await self._service.cluster.begin_maintenance(note=note, until=until, by=self._by)
        return maintenance_schema(mode)

    async def recovery(self) -> RecoverySchema:
        return self._recovery(await self._service.catch_up.show())

    async def approve_recovery(self, *, rate: str | None = None, by_job: str | None = None) -> RecoverySchema:
        limit = None if rate is None else parse_rate(rate)
        return self._recovery(await self._service.catch_up.approve(rate=limit, only=by_job or "", by=self._by))

    async def skip_recovery(self, *, note: str = "", by_job: str | None = None) -> RecoverySchema:
        return self._recovery(await self._service.catch_up.skip(note=note, only=by_job or "", by=self._by))

    def _recovery(self, progress: CatchUpProgress | None) -> RecoverySchema:
        return recovery_schema(progress, self._service.catch_up.now())

    async def sweep(self) -> AskedSchema:
        try:
            return asked_schema(await self._service.runs.get(await self._service.cluster.sweep(by=self._by)))
        except NotFound as error:
            raise NotFound("leader") from error


def _implicit_misfires(jobs: Sequence[object]) -> Mapping[str, str]:
    return implicit_misfires({f"jobs[{n}]": document for n, document in enumerate(jobs)})
