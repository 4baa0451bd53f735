"""The use-cases, each as a request to the API or a few.

The rule: the same values and errors as from `cronflow.usecases.service.Service`. `by` is passed over, because the API
knows who asks. Several runs are dealt with one by one, so that what a key is for is checked for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson

from cronflow.client.aio import AsyncClient
from cronflow.client.calls import Call, get, given, path_of
from cronflow.documents import job_document
from cronflow.domain.access import Principal
from cronflow.domain.cluster import ClusterStatus, Member
from cronflow.domain.errors import Conflict, NotFound
from cronflow.domain.events import RecordedEvent
from cronflow.domain.failures import Failure
from cronflow.domain.job import Job, JobRecord, Retry
from cronflow.domain.run import Run, Settled
from cronflow.domain.sweep import SweepReport
from cronflow.domain.version import Version
from cronflow.domain.why import Why
from cronflow.ports import LateResult, LogLine, RunQuery
from cronflow.remote.access import RemoteKeys, RemoteSecrets, RemoteUsers, principal_of
from cronflow.remote.alerts import RemoteAlerts
from cronflow.remote.cluster import happened_of, member_of, status_of
from cronflow.remote.jobs import comparison_of, record_of, version_of
from cronflow.remote.pages import MOST, Pages
from cronflow.remote.plain import instant, length, understood
from cronflow.remote.runs import failure_of, late_of, line_of, run_of
from cronflow.remote.usecases import Deployed
from cronflow.remote.why import why_of
from cronflow.schemas.base import iso, optional_iso
from cronflow.schemas.cluster import SettingsSchema
from cronflow.usecases.compare import Comparison

MOST_JOBS = 1000
MOST_BYTES = 900_000
"""Of the jobs of one request: below what the API takes at once, with room for what is around them."""
FIRST_LINE = (0, -1)


class RemoteService:
    """The use-cases through the API."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._jobs = Pages(client, record_of, lambda record: record.name)
        self._runs = Pages(client, run_of, lambda run: (run.fire_at, run.id))
        self._lines = Pages(client, line_of, lambda line: (line.run, line.fence, line.n), cursor="after")
        self.users = RemoteUsers(client)
        self.keys = RemoteKeys(client)
        self.secrets = RemoteSecrets(client)
        self.alerts = RemoteAlerts(client)

    async def deployed(self) -> Deployed:
        """What the API says of the settings of its cluster."""
        return understood(_deployed, await self._client.send(get(path_of("cluster", "settings"))))

    async def principal(self) -> Principal:
        """Who is logged in."""
        return understood(principal_of, await self._client.send(get(path_of("auth", "me"))))

    # ------------------------------------------------------------------------------------------------------- jobs

    async def jobs(self, *, after: str = "", limit: int = 500) -> list[JobRecord]:
        """By name, those behind `after`."""
        return await self._jobs.page(path_of("jobs"), after or None, limit)

    async def job(self, name: str) -> JobRecord:
        """Raises NotFound."""
        return understood(record_of, await self._client.jobs.get(name))

    async def compare(self, jobs: Sequence[Job]) -> list[Comparison]:
        """What `applied` would do now. Raises InvalidInput as it does."""
        return await self._each_part("plan", jobs, lambda: None)

    async def applied(
        self, jobs: Sequence[Job], *, by: str = "", each: Callable[[], None] = lambda: None
    ) -> list[Comparison]:
        """Create or change jobs. All are checked before the first is changed, however many requests they take. Raises
        InvalidInput, Conflict.
        """
        if len(list(_parts(jobs))) > 1:
            await self.compare(jobs)
        return await self._each_part("apply", jobs, each)

    async def _each_part(self, verb: str, jobs: Sequence[Job], each: Callable[[], None]) -> list[Comparison]:
        now = datetime.now(UTC)
        found: list[Comparison] = []
        for part in _parts(jobs):
            body = {"jobs": [job_document(job) for job in part]}
            answer: Any = await self._client.send(Call("POST", path_of("jobs", verb), body=body, repeatable=True))
            found += understood(partial(_comparisons, part, now), answer)
            for _ in part:
                each()
        return found

    async def pause(self, name: str, *, by: str = "") -> JobRecord:
        """Raises NotFound, Conflict, InvalidInput."""
        return understood(record_of, await self._client.jobs.pause(name))

    async def resume(self, name: str, *, by: str = "") -> JobRecord:
        """Raises NotFound, Conflict, InvalidInput."""
        return understood(record_of, await self._client.jobs.resume(name))

    async def delete(self, name: str, *, by: str = "") -> JobRecord:
        """Raises NotFound, Conflict, InvalidInput."""
        record = await self.job(name)
        answer = await self._client.jobs.delete(name)
        return understood(
            lambda shape: replace(
                record, deleted_at=None if shape["deleted_at"] is None else instant(shape["deleted_at"])
            ),
            answer,
        )

    async def next_fires(self, name: str, count: int) -> list[datetime]:
        """The next instants. Raises NotFound."""
        answer = await self._client.jobs.next(name, count)
        return understood(lambda shape: [instant(fire) for fire in shape["fires"]], answer)

    async def versions(self, name: str) -> list[Version]:
        """The history of a job, the oldest first. Raises NotFound."""
        return [understood(version_of, shape) async for shape in self._client.jobs.history(name)]

    async def why(self, name: str, at: datetime | None = None, *, exact: bool = True) -> Why:
        """Why the instant ran, did not run or waits. Raises NotFound."""
        call = get(path_of("jobs", name, "why"), at=optional_iso(at), exact=exact)
        return understood(why_of, await self._client.send(call))

    async def trigger(self, name: str, args: Mapping[str, object] | None = None, *, by: str = "") -> str:
        """Run a job now. Returns the run's id. Raises NotFound, InvalidInput."""
        return (await self._client.jobs.run(name, args))["id"]

    # ------------------------------------------------------------------------------------------------------- runs

    async def runs(self, query: RunQuery) -> list[Run]:
        """The newest fire first."""
        narrowed: dict[str, object] = {
            "state": [*query.states],
            "node": query.node,
            "since": optional_iso(query.since),
            "until": optional_iso(query.until),
            "dead": query.dead or None,
        }
        if query.job is None or any(narrowed.values()):
            return await self._runs.page(path_of("runs"), query.before, query.limit, job=query.job, **narrowed)
        try:
            # The address that a key for this job may ask, too.
            return await self._runs.page(path_of("jobs", query.job, "runs"), query.before, query.limit)
        except NotFound:
            return []

    async def run(self, run_id: str) -> Run:
        """Raises NotFound."""
        return understood(run_of, await self._client.runs.get(run_id))

    async def whole(self, run: Run) -> Run:
        """The run with its result, also where that is kept apart."""
        if run.result_size is None:
            return run
        return understood(run_of, await self._client.send(get(path_of("runs", run.id), whole=True)))

    async def late(self, run_id: str) -> list[LateResult]:
        """Outcomes of the run that came too late."""
        return understood(late_of, await self._client.runs.get(run_id))

    async def dead_letters(self, job: str | None = None) -> int:
        """How many failed or were lost, and nobody has settled."""
        # A report over no time at all counts them for little.
        call = get(path_of("runs", "report"), since=iso(datetime.now(UTC)), job=job, limit=1)
        return understood(lambda shape: int(shape["dead"]), await self._client.send(call))

    async def replay(
        self,
        run_id: str,
        args: Mapping[str, object] | None = None,
        *,
        by: str = "",
        note: str = "",
        only_dead: bool = False,
    ) -> str:
        """Run it again. Returns the replay's id. Raises NotFound, Conflict, InvalidInput."""
        body = given(args=args, note=note or None, only_dead=only_dead or None)
        answer: Any = await self._client.send(Call("POST", path_of("runs", run_id, "retry"), body=body))
        return understood(lambda shape: str(shape["id"]), answer)

    async def acknowledge(self, run_ids: Sequence[str], *, by: str = "", note: str = "") -> set[str]:
        """Nothing more is to be done about these. Returns those that are acknowledged now."""
        done: set[str] = set()
        for run_id in run_ids:
            try:
                run = understood(run_of, await self._client.runs.ack(run_id, note))
            except (Conflict, NotFound):
                continue
            if run.resolution is not None and run.resolution.how is Settled.ACKNOWLEDGED:
                done.add(run_id)
        return done

    async def report(self, since: datetime, job: str | None = None) -> tuple[Sequence[Failure], bool]:
        """What failed since then, by reason; and whether there was more than is looked at."""
        call = get(path_of("runs", "report"), since=iso(since), job=job, limit=MOST)
        answer = await self._client.send(call)
        return understood(lambda shape: ([failure_of(one) for one in shape["failures"]], bool(shape["more"])), answer)

    async def cancel(self, run_id: str, reason: str = "", *, by: str = "") -> Run:
        """Cancel a run. Raises NotFound, Conflict when it has ended."""
        return understood(run_of, await self._client.runs.cancel(run_id, reason))

    async def cancel_all(self, ids: Collection[str], reason: str = "", *, by: str = "") -> list[Run]:
        """The same for several; those that have ended are left as they are."""
        runs: list[Run] = []
        for run_id in ids:
            try:
                runs.append(await self.cancel(run_id, reason))
            except Conflict:
                runs.append(await self.run(run_id))
        return runs

    async def logs(self, run_id: str, *, after: tuple[int, int] = FIRST_LINE, limit: int = 1000) -> list[LogLine]:
        """The lines of a run behind (fence, number), in order. Raises NotFound."""
        behind = None if after == FIRST_LINE else (run_id, *after)
        return await self._lines.page(path_of("runs", run_id, "logs"), behind, limit)

    # ---------------------------------------------------------------------------------------------------- cluster

    async def members(self) -> list[Member]:
        """The nodes that are up, by name."""
        return [understood(member_of, shape) async for shape in self._client.nodes.list()]

    async def node(self, name: str) -> tuple[Member, Collection[str]]:
        """A node that is up, and the runs that it has taken. Raises NotFound."""
        answer = await self._client.nodes.get(name)
        return understood(lambda shape: (member_of(shape), [*shape["runs"]]), answer)

    async def drain(self, name: str, *, by: str = "") -> Member:
        """Have a node end what runs and take no more. Raises NotFound."""
        await self._client.nodes.drain(name)
        return (await self.node(name))[0]

    async def undrain(self, name: str, *, by: str = "") -> Member | None:
        """Let the node take work again. Returns it, or None when no node of this name is up now."""
        await self._client.nodes.undrain(name)
        try:
            return (await self.node(name))[0]
        except NotFound:
            return None

    async def status(self) -> ClusterStatus:
        """Who leads, since when, and who is up."""
        return understood(status_of, await self._client.cluster.get())

    async def sweep(self, *, by: str = "") -> str:
        """Sweep now. Returns the run's id; raises NotFound when nobody has led this cluster yet."""
        return (await self._client.cluster.sweep())["id"]

    async def last_sweep(self) -> SweepReport | None:
        """What the last sweep found; None before the first."""
        return (await self.status()).sweep

    async def stepdown(self, *, by: str = "") -> str:
        """Ask the leader to give its lead to another node. Returns its name; raises NotFound when nobody leads."""
        return (await self._client.cluster.stepdown())["asked"]

    async def events(
        self,
        *,
        kinds: Collection[str] = (),
        since: datetime | None = None,
        limit: int = 100,
    ) -> list[RecordedEvent]:
        """What happened, the newest first. Raises InvalidInput for a kind that there is not."""
        call = get(path_of("events"), kind=[*kinds], since=optional_iso(since), limit=limit)
        answer = await self._client.send(call)
        found = understood(lambda shape: [happened_of(one) for one in shape["items"]], answer)
        return [one for one in found if one is not None]


def _parts(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """The jobs in as many parts as requests are needed."""
    first = size = 0
    for place, job in enumerate(jobs):
        more = len(orjson.dumps(job_document(job)))
        if place > first and (size + more > MOST_BYTES or place - first == MOST_JOBS):
            yield jobs[first:place]
            first, size = place, 0
        size += more + 1
    yield jobs[first:]


def _comparisons(jobs: Sequence[Job], now: datetime, answer: Mapping[str, Any]) -> list[Comparison]:
    return [comparison_of(shape, job, now) for shape, job in zip(answer["jobs"], jobs, strict=True)]


def _deployed(shape: SettingsSchema) -> Deployed:
    return Deployed(
        namespace=shape["namespace"],
        heartbeat=length(shape["heartbeat_ms"]),
        retry=Retry(
            max=shape["retry_max"], initial=length(shape["retry_initial_ms"]), multiplier=shape["retry_multiplier"]
        ),
        version=shape["version"],
    )
