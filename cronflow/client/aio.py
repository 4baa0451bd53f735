"""The client for asyncio. `make client` generates `cronflow.client.blocking` from this file."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx2

from cronflow.client.admin import Alerts, Audit, Calendars, Keys, NamedLimits, Secrets, Sessions, Users
from cronflow.client.calls import (
    PAGE,
    PATIENCE_S,
    ApiError,
    Call,
    answer_of,
    checked_url,
    get,
    given,
    instant,
    page_size,
    path_of,
    pause_s,
    unreachable,
)

if TYPE_CHECKING:
    from cronflow.schemas.access import (
        DeviceLoginSchema,
        LoginOptionsSchema,
        LoopbackLoginSchema,
        PendingLoginSchema,
        PrincipalSchema,
    )
    from cronflow.schemas.backfills import BackfillSchema
    from cronflow.schemas.cluster import (
        ClusterSchema,
        DrainSchema,
        MaintenanceSchema,
        NodeDetailSchema,
        NodeSchema,
        SettingsSchema,
        StepdownSchema,
        UndrainSchema,
    )
    from cronflow.schemas.job_graph import JobGraphSchema
    from cronflow.schemas.job_health import JobHealthSchema
    from cronflow.schemas.jobs import AppliedSchema, DeletedSchema, FiresSchema, JobSchema, VersionSchema
    from cronflow.schemas.post_mortem import IncidentSchema
    from cronflow.schemas.recovery import RecoverySchema
    from cronflow.schemas.runs import AskedSchema, LogSchema, ReplaySchema, ReportSchema, RunDetailSchema, RunSchema
    from cronflow.schemas.schedule_load import MinuteMoveSchema, SpreadSchema, WeekLoadSchema
    from cronflow.schemas.schedules import PreviewSchema
    from cronflow.schemas.stream import EventSchema, LineMessage, RunMessage, StreamMessage
    from cronflow.schemas.why import WhySchema

POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a login. The refresh token changes with each use."""

    access: str
    refresh: str | None = None


class AsyncClient:
    """A client of the API at `url`; `async with` it, or `aclose` it.

    `token` is an API key or an access token; without one, `login` first. `timeout_s` is for one request. A method
    raises ApiError when the API refuses, or does not answer after four tries.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Raises InvalidInput when the URL is invalid. `transport` is for tests and proxies."""
        self.url = checked_url(url)
        self.tokens = None if token is None else Tokens(token)
        # Without TLS there is nothing to verify, and reading the certificates takes longer than most requests.
        verify = httpx2.URL(self.url).scheme != "http"
        self._http = httpx2.AsyncClient(base_url=self.url, timeout=timeout_s, transport=transport, verify=verify)
        self._refreshing = asyncio.Lock()
        self.jobs = Jobs(self)
        self.runs = Runs(self)
        self.backfills = Backfills(self)
        self.nodes = Nodes(self)
        self.cluster = Cluster(self)
        self.events = Events(self)
        self.logs = Logs(self)
        self.limits = NamedLimits(self)
        self.calendars = Calendars(self)
        self.alerts = Alerts(self)
        self.users = Users(self)
        self.keys = Keys(self)
        self.secrets = Secrets(self)
        self.sessions = Sessions(self)
        self.audit = Audit(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def login(self, username: str, password: str) -> Tokens:
        """Get tokens for a user; the client renews them automatically."""
        body = {"username": username, "password": password}
        self.tokens = _tokens(await self.send(Call("POST", path_of("auth", "token"), body=body)))
        return self.tokens

    async def login_options(self) -> LoginOptionsSchema:
        """How people can log in."""
        return await self.send(get(path_of("auth", "options")))

    async def start_device_login(self) -> DeviceLoginSchema:
        """Begin a login with a code that is entered in a browser; 404 when the identity provider does not offer it."""
        return await self.send(Call("POST", path_of("auth", "oidc", "device")))

    async def poll_device_login(self, handle: str) -> Tokens | PendingLoginSchema:
        """The tokens once the code was entered, which the client uses from then on."""
        return self._admitted(
            await self.send(Call("POST", path_of("auth", "oidc", "device", "token"), body={"handle": handle}))
        )

    async def start_loopback_login(self, port: int) -> LoopbackLoginSchema:
        """Begin a login in a browser of this machine, whose answer arrives at this port."""
        return await self.send(Call("POST", path_of("auth", "oidc", "loopback"), body={"port": port}))

    async def finish_loopback_login(self, handle: str, state: str, code: str, iss: str | None = None) -> Tokens:
        """The tokens for the answer, which the client uses from then on."""
        body = given(handle=handle, state=state, code=code, iss=iss)
        found = self._admitted(await self.send(Call("POST", path_of("auth", "oidc", "loopback", "token"), body=body)))
        assert isinstance(found, Tokens)
        return found

    def _admitted(self, answer: Any) -> Tokens | PendingLoginSchema:
        if "access_token" not in answer:
            return answer
        self.tokens = _tokens(answer)
        return self.tokens

    async def logout(self) -> None:
        """Revoke the tokens."""
        if self.tokens is not None and self.tokens.refresh is not None:
            await self.send(Call("POST", path_of("auth", "logout"), body={"refresh_token": self.tokens.refresh}))
        self.tokens = None

    async def me(self) -> PrincipalSchema:
        return await self.send(get(path_of("auth", "me")))

    async def preview(
        self,
        schedule: Mapping[str, object],
        count: int = 10,
        start: datetime | None = None,
        *,
        until: datetime | None = None,
        zones: Sequence[str] = (),
        job: str | None = None,
    ) -> PreviewSchema:
        """A schedule in words, with its next fires in these time zones, and warnings. With the name of a `job` also
        what would become of its runs if it had this schedule.
        """
        body = given(
            schedule=schedule,
            count=count,
            start=instant(start),
            until=instant(until),
            zones=[*zones] or None,
            job=job,
        )
        return await self.send(Call("POST", path_of("schedules", "preview"), body=body, repeatable=True))

    def follow(
        self, *topics: str, since: str | None = None, tail: int = 0, patience_s: float | None = PATIENCE_S
    ) -> AsyncGenerator[StreamMessage, None]:
        """The live stream: a snapshot of the cluster, then a tick each second with events, and the lines of these
        topics (`run:<id>`, `logs?level=warn&job=…&node=…`) after their last `tail` ones, at most 1000.

        `since`, the `seq` of a message, continues after it. The client reconnects automatically and replays what is
        still buffered; a gap marks what is lost. Raises ApiError when the login has ended, a topic is refused, or the
        API does not answer for `patience_s` (None: wait forever). `aclose` it, or use `aclosing`.
        """
        # Imported here and below: most programs need no websockets.
        from cronflow.client.following import follow

        return follow(self, topics, since, tail, patience_s)

    async def send(self, call: Call) -> Any:
        """Send a request, again where that is safe, and read the answer."""
        used = self.tokens
        response = await self._send(call, used)
        if response.status_code == 401 and used is not None and used.refresh is not None:
            await self._refresh(used)
            response = await self._send(call, self.tokens)
        return answer_of(response)

    async def pages(self, call: Call, most: int | None = None) -> AsyncIterator[Any]:
        """The items of a list, page by page; at most `most` of them."""
        params, found = dict(call.params), 0
        while True:
            page = await self.send(Call(call.method, call.path, params, repeatable=True))
            for item in page["items"]:
                yield item
                found += 1
                if found == most:
                    return
            if page["next_cursor"] is None:
                return
            params["cursor"] = page["next_cursor"]

    async def _send(self, call: Call, tokens: Tokens | None) -> httpx2.Response:
        made = call.request()
        if tokens is not None:
            made["headers"]["Authorization"] = f"Bearer {tokens.access}"
        tries = 0
        while True:
            tries += 1
            failure: httpx2.Response | httpx2.TransportError
            try:
                failure = await self._http.request(**made)
            except httpx2.TransportError as error:
                failure = error
            pause = pause_s(call, tries, failure)
            if pause is None:
                if isinstance(failure, httpx2.TransportError):
                    raise unreachable(self.url, failure) from failure
                return failure
            await asyncio.sleep(pause)

    async def renew(self, used: Tokens) -> Tokens:
        """New tokens for these. A subclass that stores tokens overrides this."""
        call = Call("POST", path_of("auth", "refresh"), body={"refresh_token": used.refresh})
        return _tokens(answer_of(await self._send(call, None)))

    async def _refresh(self, used: Tokens) -> None:
        async with self._refreshing:
            if self.tokens is used:
                # Otherwise another request has renewed them meanwhile.
                self.tokens = await self.renew(used)


class Jobs:
    """Define, read, change and run jobs."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(
        self,
        q: str = "",
        *,
        label: Sequence[str] = (),
        enabled: bool | None = None,
        health: str | None = None,
        deleted: bool = False,
    ) -> AsyncIterator[JobSchema]:
        """Jobs, by name: `q` in the name or description; labels as `key` or `key=value`; `health` as in `health`;
        `deleted`: also deleted jobs, as long as they are stored.
        """
        call = get(
            path_of("jobs"),
            q=q,
            label=[*label],
            enabled=enabled,
            health=health,
            deleted=deleted or None,
            limit=PAGE,
        )
        return self._client.pages(call)

    async def get(self, name: str) -> JobSchema:
        """A job. `put` and `delete` compare its `version`."""
        return await self._client.send(get(path_of("jobs", name)))

    async def create(self, job: Mapping[str, object]) -> JobSchema:
        """Define a new job; 409 when the name exists."""
        return await self._client.send(Call("POST", path_of("jobs"), body=job))

    async def put(self, job: Mapping[str, object], *, version: int | None = None) -> JobSchema:
        """Create or replace a job; with `version` only if it still has that one, else 409."""
        call = Call(
            "PUT", path_of("jobs", str(job["name"])), body=job, headers=_if(version), repeatable=version is None
        )
        return await self._client.send(call)

    async def patch(self, name: str, changes: Mapping[str, object], *, version: int | None = None) -> JobSchema:
        """Change a part of a job by a JSON merge patch (RFC 7396)."""
        call = Call("PATCH", path_of("jobs", name), body=changes, headers=_if(version), repeatable=version is None)
        return await self._client.send(call)

    async def delete(self, name: str, *, version: int | None = None) -> DeletedSchema:
        return await self._client.send(Call("DELETE", path_of("jobs", name), headers=_if(version)))

    async def plan(
        self, jobs: Sequence[Mapping[str, object]], *, days: int = 7, prune: str | None = None
    ) -> Sequence[AppliedSchema]:
        """What would change if these jobs were applied, and which runs of the coming days would appear and vanish;
        nothing is written. `prune` as in `apply`.
        """
        body = {"jobs": [*jobs], **given(prune=None if prune is None else {"owner": prune})}
        call = Call("POST", path_of("jobs", "plan"), params={"days": days}, body=body, repeatable=True)
        return (await self._client.send(call))["jobs"]

    async def apply(
        self, jobs: Sequence[Mapping[str, object]], *, days: int = 7, prune: str | None = None
    ) -> Sequence[AppliedSchema]:
        """Create or replace these jobs; nothing is written unless all of them are valid. Returns also which runs of the
        coming days appear and vanish. `prune`: delete the other jobs with this value of the label `owner`.
        """
        body = {"jobs": [*jobs], **given(prune=None if prune is None else {"owner": prune})}
        call = Call("POST", path_of("jobs", "apply"), params={"days": days}, body=body, repeatable=True)
        return (await self._client.send(call))["jobs"]

    async def run(self, name: str, args: Mapping[str, object] | None = None, *, key: str | None = None) -> AskedSchema:
        """Run a job now. One `key`, one run; the default is a random key, so a repeated request runs it once."""
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        call = Call("POST", path_of("jobs", name, "run"), body=given(args=args), headers=headers, repeatable=True)
        return await self._client.send(call)

    async def pause(self, name: str, *, note: str = "", until: datetime | None = None) -> JobSchema:
        """Stop planning it until it is resumed, or until an instant."""
        body = given(note=note or None, until=instant(until))
        return await self._client.send(Call("POST", path_of("jobs", name, "pause"), body=body, repeatable=True))

    async def resume(self, name: str) -> JobSchema:
        """Continue with the next fire."""
        return await self._client.send(Call("POST", path_of("jobs", name, "resume"), repeatable=True))

    async def activate(self, name: str) -> JobSchema:
        """End its shadow mode, so that its fires are executed."""
        return await self._client.send(Call("PATCH", path_of("jobs", name), body={"mode": "active"}, repeatable=True))

    async def close_breaker(self, name: str) -> JobSchema:
        """Close its circuit breaker, so that failing runs are retried again."""
        return await self._client.send(Call("POST", path_of("jobs", name, "close-breaker"), repeatable=True))

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
        """Run it for its instants from `first` to `last`: those without a run that succeeded or is open (`missing`),
        those whose run failed or was lost (`failed`), or `all`; at a rate such as `10/m`. Those that calendars exclude
        only with `excluded`. 409 while another backfill of the job is running. With `dry_run`, or without such
        instants, nothing is started, and the `id` is None.
        """
        body = given(
            first=instant(first),
            last=instant(last),
            only=only,
            rate=rate,
            excluded=excluded or None,
            dry_run=dry_run or None,
        )
        call = Call("POST", path_of("jobs", name, "backfill"), body=body, repeatable=dry_run)
        return await self._client.send(call)

    async def next(
        self, name: str, n: int = 10, *, first: datetime | None = None, until: datetime | None = None
    ) -> FiresSchema:
        """The next instants at which it is due, or those of its schedule from `first` on; before `until`."""
        params = {"n": n, "from": instant(first), "until": instant(until)}
        return await self._client.send(get(path_of("jobs", name, "next"), **params))

    async def why(self, name: str, at: datetime | None = None, *, exact: bool = True) -> WhySchema:
        """Why an instant ran, did not run or waits: the latest one that was due, or a later manual run, unless `at` is
        given. Not `exact`: the last instant until then.
        """
        return await self._client.send(get(path_of("jobs", name, "why"), at=instant(at), exact=exact))

    async def load(
        self,
        name: str | None = None,
        *,
        label: Sequence[str] = (),
        frequent: bool = False,
        hour: datetime | None = None,
    ) -> WeekLoadSchema:
        """The starts in each minute of the next seven days, of the jobs whose names match the pattern `name`; jobs that
        start more often than every 5 minutes only if `frequent`. `hour`: an instant of the hour to show in detail.
        """
        call = get(path_of("schedules", "load"), name=name, label=[*label], frequent=frequent, hour=instant(hour))
        return await self._client.send(call)

    async def spread(
        self, name: str | None = None, *, label: Sequence[str] = (), by: str = "shift", dry_run: bool = False
    ) -> SpreadSchema:
        """Move jobs that start together to quieter minutes: by a `shift`, or by `hash`, which writes `H`. The jobs
        match the pattern `name` (`*` matches all) and the labels. 409 when a job changes meanwhile. With `dry_run`
        nothing is written, and `move` applies the plan.
        """
        body = given(name=name, label=[*label] or None, by=by, dry_run=dry_run)
        return await self._client.send(Call("POST", path_of("jobs", "spread"), body=body, repeatable=dry_run))

    async def move(self, moves: Sequence[MinuteMoveSchema]) -> Sequence[MinuteMoveSchema]:
        """Apply the moves of a plan as one change. Returns them with the new versions. 409 when a job was changed
        since; then nothing is written. Applying the same moves again does no harm.
        """
        sent = [{"job": move["job"], "version": move["version"], "cron": move["after"]} for move in moves]
        call = Call("POST", path_of("jobs", "spread", "apply"), body={"moves": sent}, repeatable=True)
        return (await self._client.send(call))["moves"]

    async def health(self, job: str | None = None) -> JobHealthSchema:
        """The jobs that need attention, or what is the matter with `job`: `stuck`, `overdue`, `failing`, `paused` or
        `never_ran`.
        """
        return await self._client.send(get(path_of("job-health"), job=job))

    async def graph(self, job: str | None = None) -> JobGraphSchema:
        """The jobs that follow other jobs; with `job` the part that leads to it or follows it."""
        return await self._client.send(get(path_of("job-graph"), job=job))

    def history(self, name: str, *, calendars: bool = False) -> AsyncIterator[VersionSchema]:
        """Every version, the oldest first; with `calendars` also the calendars of each, as they were."""
        return self._client.pages(get(path_of("jobs", name, "history"), calendars=calendars or None))

    def runs(self, name: str, *, limit: int | None = None) -> AsyncIterator[RunSchema]:
        """Its runs, the latest due first."""
        return self._client.pages(get(path_of("jobs", name, "runs"), limit=page_size(limit)), limit)


class Runs:
    """Read, cancel, replay and acknowledge runs."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

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
        """Runs, the latest due first; at most `limit`. `q`: of jobs whose name contains this text or matches a pattern
        such as `etl-*`; `label`: of jobs with these labels; `parent`: the parts of this run; `chain`: the runs of the
        chain that began in this one.
        """
        call = get(
            path_of("runs"),
            job=job,
            q=q or None,
            label=[*label],
            kind=[*kind],
            state=[*state],
            node=node,
            backfill=backfill,
            parent=parent,
            chain=chain,
            since=instant(since),
            until=instant(until),
            dead=dead or None,
            order="oldest" if oldest_first else None,
            limit=page_size(limit),
        )
        return self._client.pages(call, limit)

    async def get(self, id: str, *, whole: bool = False) -> RunDetailSchema:  # noqa: A002  the public name
        """A run. `whole`: with its result even if that is so large that it is stored separately."""
        return await self._client.send(get(path_of("runs", id), whole=whole or None))

    async def why(self, id: str) -> WhySchema:  # noqa: A002
        """Why it ran, ended or waits: every decision."""
        return await self._client.send(get(path_of("runs", id, "why")))

    async def wait(self, id: str, timeout_s: float | None = None) -> RunDetailSchema:  # noqa: A002
        """Wait until it has ended, polling once a second. Raises TimeoutError."""
        waited = 0.0
        while (run := await self.get(id))["ended_at"] is None:
            if timeout_s is not None and waited >= timeout_s:
                raise TimeoutError(f"run {id} is still {run['state']} after {timeout_s} s")
            await asyncio.sleep(POLL_S)
            waited += POLL_S
        return run

    async def logs(self, id: str, q: str = "", *, follow: bool = False) -> AsyncIterator[LogSchema]:  # noqa: A002
        """Its log lines, or those that contain `q`. With `follow` until it has ended."""
        after: str | None = None
        while True:
            page = await self._client.send(get(path_of("runs", id, "logs"), q=q, after=after, limit=PAGE))
            for line in page["items"]:
                yield line
            after = page["next_cursor"]
            if after is None:
                return
            if len(page["items"]) == 0:
                if not follow:
                    return
                await asyncio.sleep(POLL_S)

    def follow(
        self,
        id: str,  # noqa: A002
        *,
        patience_s: float | None = PATIENCE_S,
    ) -> AsyncGenerator[RunMessage, None]:
        """Its states and lines as they arrive, from the first line until it has ended: every line once, in order. The
        last message is its last state. See `AsyncClient.follow`.
        """
        from cronflow.client.following import follow_run_of

        return follow_run_of(self._client, id, patience_s)

    async def cancel(self, id: str, reason: str = "") -> RunSchema:  # noqa: A002
        """Cancel it; repeating this is harmless."""
        call = Call("POST", path_of("runs", id, "cancel"), body=given(reason=reason or None), repeatable=True)
        return await self._client.send(call)

    async def retry(
        self,
        id: str,  # noqa: A002
        args: Mapping[str, object] | None = None,
        note: str = "",
        *,
        only_dead: bool = False,
        followers: bool = False,
    ) -> ReplaySchema:
        """Replay one that has ended; with `only_dead` 409 unless it is an open dead letter. With `followers`, the jobs
        that follow its job run again too.
        """
        body = given(args=args, note=note or None, only_dead=only_dead or None, followers=followers or None)
        call = Call("POST", path_of("runs", id, "retry"), body=body)
        return await self._client.send(call)

    async def ack(self, id: str, note: str = "") -> RunSchema:  # noqa: A002
        """Acknowledge a dead letter; repeating this is harmless."""
        call = Call("POST", path_of("runs", id, "ack"), body=given(note=note or None), repeatable=True)
        return await self._client.send(call)

    async def report(self, since: datetime, job: str | None = None, *, limit: int = 100) -> ReportSchema:
        """What failed since then, by reason; at most `limit` reasons."""
        return await self._client.send(get(path_of("runs", "report"), since=instant(since), job=job, limit=limit))


class Backfills:
    """Follow and cancel backfills. `Jobs.backfill` requests one."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(self, *, job: str | None = None, limit: int | None = None) -> AsyncIterator[BackfillSchema]:
        """Backfills with their progress, the newest first; at most `limit`."""
        return self._client.pages(get(path_of("backfills"), job=job, limit=page_size(limit)), limit)

    async def get(self, id: str) -> BackfillSchema:  # noqa: A002
        return await self._client.send(get(path_of("backfills", id)))

    async def cancel(self, id: str, reason: str = "") -> BackfillSchema:  # noqa: A002
        """Start no more runs of it, and cancel those that are open; repeating this is harmless."""
        call = Call("POST", path_of("backfills", id, "cancel"), body=given(reason=reason or None), repeatable=True)
        return await self._client.send(call)


class Logs:
    """The lines of all runs."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def search(
        self,
        q: str = "",
        *,
        level: str | None = None,
        job: str | None = None,
        node: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[LogSchema]:
        """Lines with this text, of this level or a more severe one, the newest first; at most `limit`."""
        size = page_size(limit)
        call = get(path_of("logs"), q=q, level=level, job=job, node=node, since=instant(since), limit=size)
        return self._client.pages(call, limit)

    def follow(
        self,
        *,
        level: str | None = None,
        job: str | None = None,
        node: str | None = None,
        tail: int = 0,
        patience_s: float | None = PATIENCE_S,
    ) -> AsyncGenerator[LineMessage, None]:
        """New lines after the last `tail` ones (at most 1000), each once. A gap marks missing lines, which `search`
        finds. Lines of one run are in order; lines of different runs are not.
        """
        from cronflow.client.following import follow_lines_of

        return follow_lines_of(self._client, level, job, node, tail, patience_s)


class Events:
    """Events of the cluster."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(
        self, *, since: datetime | None = None, kind: Sequence[str] = (), limit: int | None = None
    ) -> AsyncIterator[EventSchema]:
        """Events, the newest first; at most `limit`. New ones come with `AsyncClient.follow`."""
        call = get(path_of("events"), since=instant(since), kind=[*kind], limit=page_size(limit))
        return self._client.pages(call, limit)

    async def incident(self, since: datetime, until: datetime | None = None) -> IncidentSchema:
        """The summary of a time range, until now by default: what failed, was lost or was late, and what happened to
        the cluster.
        """
        return await self._client.send(get(path_of("incident"), since=instant(since), until=instant(until)))


class Nodes:
    """The nodes that are up."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(self) -> AsyncIterator[NodeSchema]:
        return self._client.pages(get(path_of("nodes")))

    async def get(self, name: str) -> NodeDetailSchema:
        return await self._client.send(get(path_of("nodes", name)))

    async def drain(self, name: str, *, until: datetime | None = None) -> DrainSchema:
        """Let a node finish its running jobs and accept no new ones; what still runs at `until` moves to other nodes,
        except jobs with `at_most_once`.
        """
        body = given(until=instant(until))
        return await self._client.send(Call("POST", path_of("nodes", name, "drain"), body=body, repeatable=True))

    async def undrain(self, name: str) -> UndrainSchema:
        """Let it accept runs again."""
        return await self._client.send(Call("POST", path_of("nodes", name, "undrain"), repeatable=True))


class Cluster:
    """The cluster."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def get(self) -> ClusterSchema:
        """The leader, the nodes and the load."""
        return await self._client.send(get(path_of("cluster")))

    async def settings(self) -> SettingsSchema:
        """The settings of the cluster that its clients depend on."""
        return await self._client.send(get(path_of("cluster", "settings")))

    async def stepdown(self) -> StepdownSchema:
        """Ask the leader to step down."""
        return await self._client.send(Call("POST", path_of("cluster", "stepdown")))

    async def maintenance(self, *, on: bool, note: str = "", until: datetime | None = None) -> MaintenanceSchema:
        """Turn the maintenance mode on, at most until an instant, or off: while it is on, no new runs start."""
        body = given(on=on, note=note or None, until=instant(until))
        return await self._client.send(Call("PUT", path_of("cluster", "maintenance"), body=body, repeatable=True))

    async def recovery(self) -> RecoverySchema:
        """The missed runs that are held back after an outage, or the last recovery."""
        return await self._client.send(get(path_of("cluster", "recovery")))

    async def approve_recovery(self, *, rate: str | None = None, by_job: str | None = None) -> RecoverySchema:
        """Let missed runs start, at a rate such as `100/s`, those of jobs that match a pattern, or all."""
        body = given(rate=rate, by_job=by_job)
        return await self._client.send(
            Call("POST", path_of("cluster", "recovery", "approve"), body=body, repeatable=True)
        )

    async def skip_recovery(self, *, note: str = "", by_job: str | None = None) -> RecoverySchema:
        """Record missed runs as skipped, those of jobs that match a pattern, or all."""
        body = given(note=note or None, by_job=by_job)
        return await self._client.send(Call("POST", path_of("cluster", "recovery", "skip"), body=body, repeatable=True))

    async def sweep(self) -> AskedSchema:
        """Check every record now; returns the run of the sweep."""
        return await self._client.send(Call("POST", path_of("cluster", "sweep")))


def _tokens(answer: Mapping[str, Any]) -> Tokens:
    try:
        return Tokens(answer["access_token"], answer["refresh_token"])
    except (KeyError, TypeError):
        raise ApiError(200, "the answer to a login has no tokens; is this the address of the API?") from None


def _if(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}
