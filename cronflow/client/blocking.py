"""Generated from `aio.py` by `make client`; edit that file."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx2

from cronflow.client.calls import (
    PATIENCE_S,
    ApiError,
    Call,
    answer_of,
    checked_url,
    get,
    given,
    instant,
    path_of,
    pause_s,
    unreachable,
)

if TYPE_CHECKING:
    from cronflow.schemas.cluster import (
        ClusterSchema,
        DrainSchema,
        NodeDetailSchema,
        NodeSchema,
        StepdownSchema,
        UndrainSchema,
    )
    from cronflow.schemas.events import EventSchema
    from cronflow.schemas.jobs import AppliedSchema, DeletedSchema, FiresSchema, JobSchema, VersionSchema
    from cronflow.schemas.preview import PreviewSchema
    from cronflow.schemas.runs import AskedSchema, LogSchema, ReplaySchema, ReportSchema, RunDetailSchema, RunSchema
    from cronflow.schemas.stream import LineMessage, RunMessage, StreamMessage
    from cronflow.schemas.why import WhySchema

PAGE = 200
POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a login gave. The refresh token changes with each use."""

    access: str
    refresh: str | None = None


class Client:
    """A client of the API at `url`; `with` it, or `close` it.

    `token` is an API key or an access token; without one, `login` first. `timeout_s` is for one request. A method
    raises ApiError when the API refuses, or does not answer after four tries.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Raises InvalidInput when the address is none. `transport` is for tests and proxies."""
        self.url = checked_url(url)
        self.tokens = None if token is None else Tokens(token)
        self._http = httpx2.Client(base_url=self.url, timeout=timeout_s, transport=transport)
        self._refreshing = threading.Lock()
        self.jobs = Jobs(self)
        self.runs = Runs(self)
        self.nodes = Nodes(self)
        self.cluster = Cluster(self)
        self.events = Events(self)
        self.logs = Logs(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def login(self, username: str, password: str) -> Tokens:
        """Get tokens for a user; they are renewed by themselves while this client lives."""
        body = {"username": username, "password": password}
        self.tokens = _tokens(self.send(Call("POST", path_of("auth", "token"), body=body)))
        return self.tokens

    def logout(self) -> None:
        """Give the tokens back, so that nobody can use them any more."""
        if self.tokens is not None and self.tokens.refresh is not None:
            self.send(Call("POST", path_of("auth", "logout"), body={"refresh_token": self.tokens.refresh}))
        self.tokens = None

    def preview(self, schedule: Mapping[str, object], count: int = 10, start: datetime | None = None) -> PreviewSchema:
        """What a schedule means: in words, as its next fires, and with what may surprise."""
        body = given(schedule=schedule, count=count, start=instant(start))
        answer: PreviewSchema = self.send(Call("POST", path_of("schedules", "preview"), body=body, repeatable=True))
        return answer

    def follow(
        self, *topics: str, since: str | None = None, tail: int = 0, patience_s: float | None = PATIENCE_S
    ) -> Generator[StreamMessage, None]:
        """The live stream: a snapshot of the cluster, then a tick each second with what happened, and the lines of
        these topics (`run:<id>`, `logs?level=warn&job=…&node=…`) after their last `tail` ones, at most 1000.

        `since`, the `seq` of a message, goes on behind it. A lost connection is replaced by itself; what was missed
        comes first, and where that is not there any more a gap says so. Raises ApiError when the login is over, a
        topic is refused, or nobody answers for `patience_s` (None: wait for ever). `close` it, or use `closing`.
        """
        # Here and below: most clients ask and go, and need no websockets.
        from cronflow.client.following_blocking import follow

        return follow(self, topics, since, tail, patience_s)

    def send(self, call: Call) -> Any:
        """Send a request, again where that is safe, and read the answer."""
        used = self.tokens
        response = self._send(call, used)
        if response.status_code == 401 and used is not None and used.refresh is not None:
            self._refresh(used)
            response = self._send(call, self.tokens)
        return answer_of(response)

    def pages(self, call: Call) -> Iterator[Any]:
        """The items of a list, page by page."""
        params = dict(call.params)
        while True:
            page = self.send(Call(call.method, call.path, params, repeatable=True))
            for item in page["items"]:
                yield item
            if page["next_cursor"] is None:
                return
            params["cursor"] = page["next_cursor"]

    def _send(self, call: Call, tokens: Tokens | None) -> httpx2.Response:
        made = call.request()
        if tokens is not None:
            made["headers"]["Authorization"] = f"Bearer {tokens.access}"
        tries = 0
        while True:
            tries += 1
            failure: httpx2.Response | httpx2.TransportError
            try:
                failure = self._http.request(**made)
            except httpx2.TransportError as error:
                failure = error
            pause = pause_s(call, tries, failure)
            if pause is None:
                if isinstance(failure, httpx2.TransportError):
                    raise unreachable(self.url, failure) from failure
                return failure
            time.sleep(pause)

    def renew(self, used: Tokens) -> Tokens:
        """New tokens for these. Who keeps them for others too, does that here."""
        call = Call("POST", path_of("auth", "refresh"), body={"refresh_token": used.refresh})
        return _tokens(answer_of(self._send(call, None)))

    def _refresh(self, used: Tokens) -> None:
        with self._refreshing:
            if self.tokens is used:
                # Else another request has done it meanwhile.
                self.tokens = self.renew(used)


class Jobs:
    """Define, look at, change and run jobs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, q: str = "", *, label: Sequence[str] = (), enabled: bool | None = None) -> Iterator[JobSchema]:
        """Jobs, by name: `q` in the name or description; labels as `key` or `key=value`."""
        call = get(path_of("jobs"), q=q, label=[*label], enabled=enabled, limit=PAGE)
        return self._client.pages(call)

    def get(self, name: str) -> JobSchema:
        """A job. Its `version` is what `put` and `delete` compare."""
        answer: JobSchema = self._client.send(get(path_of("jobs", name)))
        return answer

    def create(self, job: Mapping[str, object]) -> JobSchema:
        """Define a new job; 409 when the name exists."""
        answer: JobSchema = self._client.send(Call("POST", path_of("jobs"), body=job))
        return answer

    def put(self, job: Mapping[str, object], *, version: int | None = None) -> JobSchema:
        """Create or replace a job; with `version` only if it is still at that one, else 409."""
        call = Call(
            "PUT", path_of("jobs", str(job["name"])), body=job, headers=_if(version), repeatable=version is None
        )
        answer: JobSchema = self._client.send(call)
        return answer

    def patch(self, name: str, changes: Mapping[str, object], *, version: int | None = None) -> JobSchema:
        """Change a part of a job by a JSON merge patch (RFC 7396)."""
        call = Call("PATCH", path_of("jobs", name), body=changes, headers=_if(version), repeatable=version is None)
        answer: JobSchema = self._client.send(call)
        return answer

    def delete(self, name: str, *, version: int | None = None) -> DeletedSchema:
        """Remove a job."""
        answer: DeletedSchema = self._client.send(Call("DELETE", path_of("jobs", name), headers=_if(version)))
        return answer

    def plan(self, jobs: Sequence[Mapping[str, object]]) -> Sequence[AppliedSchema]:
        """What would change if these jobs were put; nothing is written."""
        call = Call("POST", path_of("jobs", "plan"), body={"jobs": [*jobs]}, repeatable=True)
        answer: dict[str, Sequence[AppliedSchema]] = self._client.send(call)
        return answer["jobs"]

    def run(self, name: str, args: Mapping[str, object] | None = None, *, key: str | None = None) -> AskedSchema:
        """Run a job now. One `key`, one run; without one it is made up, so a repeated request runs it once."""
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        call = Call("POST", path_of("jobs", name, "run"), body=given(args=args), headers=headers, repeatable=True)
        answer: AskedSchema = self._client.send(call)
        return answer

    def pause(self, name: str) -> JobSchema:
        """Plan no more of its fires."""
        answer: JobSchema = self._client.send(Call("POST", path_of("jobs", name, "pause"), repeatable=True))
        return answer

    def resume(self, name: str) -> JobSchema:
        """Go on with the next fire."""
        answer: JobSchema = self._client.send(Call("POST", path_of("jobs", name, "resume"), repeatable=True))
        return answer

    def next(self, name: str, n: int = 10) -> FiresSchema:
        """The next instants at which it falls due."""
        answer: FiresSchema = self._client.send(get(path_of("jobs", name, "next"), n=n))
        return answer

    def why(self, name: str, at: datetime | None = None) -> WhySchema:
        """Why an instant ran, did not run or waits."""
        answer: WhySchema = self._client.send(get(path_of("jobs", name, "why"), at=instant(at)))
        return answer

    def history(self, name: str) -> Iterator[VersionSchema]:
        """Every version, the oldest first."""
        return self._client.pages(get(path_of("jobs", name, "history")))

    def runs(self, name: str) -> Iterator[RunSchema]:
        """Its runs, those that fell due last first."""
        return self._client.pages(get(path_of("jobs", name, "runs"), limit=PAGE))


class Runs:
    """Look at runs, cancel, replay and acknowledge them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(
        self,
        *,
        job: str | None = None,
        state: Sequence[str] = (),
        node: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        dead: bool = False,
    ) -> Iterator[RunSchema]:
        """Runs, those that fell due last first."""
        call = get(
            path_of("runs"),
            job=job,
            state=[*state],
            node=node,
            since=instant(since),
            until=instant(until),
            dead=dead or None,
            limit=PAGE,
        )
        return self._client.pages(call)

    def get(self, id: str) -> RunDetailSchema:  # noqa: A002  the public name
        """A run."""
        answer: RunDetailSchema = self._client.send(get(path_of("runs", id)))
        return answer

    def wait(self, id: str, timeout_s: float | None = None) -> RunDetailSchema:  # noqa: A002
        """Until it has ended, by asking once a second. Raises TimeoutError."""
        waited = 0.0
        while (run := self.get(id))["ended_at"] is None:
            if timeout_s is not None and waited >= timeout_s:
                raise TimeoutError(f"run {id} is still {run['state']} after {timeout_s} s")
            time.sleep(POLL_S)
            waited += POLL_S
        return run

    def logs(self, id: str, q: str = "", *, follow: bool = False) -> Iterator[LogSchema]:  # noqa: A002
        """What it wrote, those lines with `q`. With `follow` until it has ended."""
        after: str | None = None
        while True:
            page = self._client.send(get(path_of("runs", id, "logs"), q=q, after=after, limit=PAGE))
            for line in page["items"]:
                yield line
            after = page["next_cursor"]
            if after is None:
                return
            if len(page["items"]) == 0:
                if not follow:
                    return
                time.sleep(POLL_S)

    def follow(
        self,
        id: str,  # noqa: A002
        *,
        patience_s: float | None = PATIENCE_S,
    ) -> Generator[RunMessage, None]:
        """Its states and its lines as they come, from the first line on, until it has ended: every line once, and in
        order. The last message is its last state. As `Client.follow` otherwise.
        """
        from cronflow.client.following_blocking import follow_run_of

        return follow_run_of(self._client, id, patience_s)

    def cancel(self, id: str, reason: str = "") -> RunSchema:  # noqa: A002
        """Cancel it; asking again is harmless."""
        call = Call("POST", path_of("runs", id, "cancel"), body=given(reason=reason or None), repeatable=True)
        answer: RunSchema = self._client.send(call)
        return answer

    def retry(self, id: str, args: Mapping[str, object] | None = None, note: str = "") -> ReplaySchema:  # noqa: A002
        """Replay one that has ended."""
        call = Call("POST", path_of("runs", id, "retry"), body=given(args=args, note=note or None))
        answer: ReplaySchema = self._client.send(call)
        return answer

    def ack(self, id: str, note: str = "") -> RunSchema:  # noqa: A002
        """Acknowledge a dead letter; asking again is harmless."""
        call = Call("POST", path_of("runs", id, "ack"), body=given(note=note or None), repeatable=True)
        answer: RunSchema = self._client.send(call)
        return answer

    def report(self, since: datetime, job: str | None = None) -> ReportSchema:
        """What failed since then, by reason."""
        answer: ReportSchema = self._client.send(get(path_of("runs", "report"), since=instant(since), job=job))
        return answer


class Logs:
    """The lines of all runs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def search(
        self,
        q: str = "",
        *,
        level: str | None = None,
        job: str | None = None,
        node: str | None = None,
        since: datetime | None = None,
    ) -> Iterator[LogSchema]:
        """Lines with this text, of this level or a graver one, the newest first."""
        call = get(path_of("logs"), q=q, level=level, job=job, node=node, since=instant(since), limit=PAGE)
        return self._client.pages(call)

    def follow(
        self,
        *,
        level: str | None = None,
        job: str | None = None,
        node: str | None = None,
        tail: int = 0,
        patience_s: float | None = PATIENCE_S,
    ) -> Generator[LineMessage, None]:
        """Lines as they are written, after the last `tail` ones (at most 1000), each once; and gaps where some are
        missing, which `search` finds. Lines of one run come in order; among runs there is none.
        """
        from cronflow.client.following_blocking import follow_lines_of

        return follow_lines_of(self._client, level, job, node, tail, patience_s)


class Events:
    """What happened in the cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, *, since: datetime | None = None, kind: Sequence[str] = ()) -> Iterator[EventSchema]:
        """What happened, the newest first. What happens from now on comes with `Client.follow`."""
        return self._client.pages(get(path_of("events"), since=instant(since), kind=[*kind], limit=PAGE))


class Nodes:
    """The nodes that are up."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> Iterator[NodeSchema]:
        """By name."""
        return self._client.pages(get(path_of("nodes")))

    def get(self, name: str) -> NodeDetailSchema:
        """A node."""
        answer: NodeDetailSchema = self._client.send(get(path_of("nodes", name)))
        return answer

    def drain(self, name: str) -> DrainSchema:
        """Have it end what runs and take no more."""
        answer: DrainSchema = self._client.send(Call("POST", path_of("nodes", name, "drain"), repeatable=True))
        return answer

    def undrain(self, name: str) -> UndrainSchema:
        """Let it take work again."""
        answer: UndrainSchema = self._client.send(Call("POST", path_of("nodes", name, "undrain"), repeatable=True))
        return answer


class Cluster:
    """The cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self) -> ClusterSchema:
        """Who leads, and how full it is."""
        answer: ClusterSchema = self._client.send(get(path_of("cluster")))
        return answer

    def stepdown(self) -> StepdownSchema:
        """Ask the leader to give its lead to another node."""
        answer: StepdownSchema = self._client.send(Call("POST", path_of("cluster", "stepdown")))
        return answer

    def sweep(self) -> AskedSchema:
        """Check every record now; returns the run that does."""
        answer: AskedSchema = self._client.send(Call("POST", path_of("cluster", "sweep")))
        return answer


def _tokens(answer: Mapping[str, Any]) -> Tokens:
    try:
        return Tokens(answer["access_token"], answer["refresh_token"])
    except (KeyError, TypeError):
        raise ApiError(200, "the answer to a login has no tokens; is this the address of the API?") from None


def _if(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}
