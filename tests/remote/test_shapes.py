"""What a domain value says in its shape is still said after the way through JSON and back.

Not the values themselves are compared, which hold more than anybody is shown, but their shapes: a field that the way
back forgets, or reads as another one, makes the second shape another one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from cronflow.domain import why as chain
from cronflow.domain.access import ApiKey, Principal, Role, Secret, User
from cronflow.domain.cluster import Backlog, ClusterStatus, Member, NodeReport
from cronflow.domain.events import KINDS, RecordedEvent, event_of
from cronflow.domain.failures import Failure
from cronflow.domain.job import (
    CommandTarget,
    HttpTarget,
    Job,
    JobRecord,
    Misfire,
    MisfirePolicy,
    Overlap,
    PendingRun,
    PythonTarget,
    Retry,
    SystemTarget,
)
from cronflow.domain.placement import Placement, Waiting
from cronflow.domain.run import Attempt, AttemptResult, Covers, Kind, Outcome, Resolution, Run, RunState, Settled
from cronflow.domain.schedule.kinds import Cron, Every, Once
from cronflow.domain.sweep import Finding, Flaw, SweepReport
from cronflow.domain.version import Version
from cronflow.ports import LateResult, LogLine
from cronflow.remote.access import key_of, principal_of, secret_of, user_of
from cronflow.remote.cluster import happened_of, member_of, status_of
from cronflow.remote.jobs import comparison_of, record_of, version_of
from cronflow.remote.runs import failure_of, late_of, line_of, run_of
from cronflow.remote.why import why_of
from cronflow.schemas.access import key_schema, principal_schema, secret_schema, user_schema
from cronflow.schemas.cluster import cluster_schema, node_schema
from cronflow.schemas.events import event_schema
from cronflow.schemas.jobs import comparison_schema, job_schema, version_schema
from cronflow.schemas.runs import failure_schema, log_schema, run_detail_schema, run_schema
from cronflow.schemas.why import why_schema
from cronflow.usecases.compare import Comparison

HEARTBEAT = timedelta(seconds=5)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SOME = TEXT.filter(bool)
NAMES = st.sampled_from(["a", "report", "billing.nightly-run"])
INSTANTS = st.datetimes(datetime(2001, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
SECONDS = INSTANTS.map(lambda at: at.replace(microsecond=0))
COUNTS = st.integers(0, 2**40)
SHARES = st.floats(0, 1, allow_nan=False)
FLAGS = st.booleans()
RANKS = st.floats(0, 9, allow_nan=False)
JSON = st.recursive(st.none() | FLAGS | st.integers(-(2**31), 2**31) | TEXT, lambda inner: st.lists(inner, max_size=2))
KEYS = SOME.filter(lambda key: "\0" not in key)
"""A document refuses a key with a NUL: MongoDB could not keep it."""
PLAIN = st.dictionaries(KEYS, TEXT, max_size=2)
LENGTHS = st.integers(0, 10**9).map(lambda ms: timedelta(milliseconds=ms))


def maybe(some: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """It, or None."""
    return st.none() | some


def made(make: Callable[..., Any], /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values with these fields."""
    return st.builds(make, **fields)


COVERS = made(Covers, first=INSTANTS, last=INSTANTS, count=maybe(COUNTS))
ATTEMPTS = made(
    Attempt,
    n=COUNTS,
    fence=COUNTS,
    node=TEXT,
    started_at=maybe(INSTANTS),
    ended_at=INSTANTS,
    outcome=st.sampled_from(Outcome),
    error=maybe(TEXT),
)
OTHERS = st.lists(st.tuples(TEXT, RANKS | TEXT), max_size=3).map(tuple)
PLACEMENTS = made(Placement, node=TEXT, rank=RANKS, others=OTHERS, more=COUNTS)
RESOLUTIONS = made(Resolution, how=st.sampled_from(Settled), at=INSTANTS, by=TEXT, note=TEXT, run=maybe(TEXT))
RUNS = made(
    Run,
    id=TEXT,
    job=TEXT,
    fire_at=INSTANTS,
    kind=st.sampled_from(Kind),
    state=st.sampled_from(RunState),
    fence=COUNTS,
    term=COUNTS,
    job_ver=COUNTS,
    node=maybe(TEXT),
    attempt=COUNTS,
    max_attempts=COUNTS,
    check_at=maybe(INSTANTS),
    created_at=INSTANTS,
    dispatched_at=maybe(INSTANTS),
    started_at=maybe(INSTANTS),
    ended_at=maybe(INSTANTS),
    covers=maybe(COVERS),
    args=maybe(PLAIN),
    reason=maybe(TEXT),
    outcome=maybe(st.sampled_from(Outcome)),
    result=JSON,
    result_size=maybe(COUNTS),
    error=maybe(TEXT),
    cancel_requested=FLAGS,
    cancel_reason=maybe(TEXT),
    cancel_by=maybe(TEXT),
    attempts=st.lists(ATTEMPTS, max_size=2).map(tuple),
    placement=maybe(PLACEMENTS),
    blocked_by=maybe(TEXT),
    replay_of=maybe(TEXT),
    resolution=maybe(RESOLUTIONS),
)
LATE = made(
    LateResult,
    run=TEXT,
    fence=COUNTS,
    node=TEXT,
    at=INSTANTS,
    attempt_result=made(
        AttemptResult, outcome=st.sampled_from(Outcome), result=JSON, error=maybe(TEXT), result_size=maybe(COUNTS)
    ),
    finish_id=TEXT,
)
LINES = made(
    LogLine, run=TEXT, job=TEXT, fence=COUNTS, attempt=COUNTS, n=COUNTS, at=INSTANTS, level=TEXT, text=TEXT, node=TEXT
)
FAILURES = made(
    Failure,
    reason=TEXT,
    count=COUNTS,
    open=COUNTS,
    first=INSTANTS,
    last=INSTANTS,
    jobs=st.dictionaries(TEXT, COUNTS, max_size=2),
    example=TEXT,
)
TARGETS = st.one_of(
    made(PythonTarget, ref=st.just("shop.jobs:do"), args=PLAIN, process=FLAGS),
    st.just(CommandTarget(("bin/x", "--all"), cwd="/srv", env={"A": "b"})),
    st.just(CommandTarget("echo $A | wc")),
    made(HttpTarget, url=st.just("https://x.example.com/p"), body=maybe(st.just("{}")), expect=st.just((200, 204))),
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin"])
SCHEDULES = st.one_of(
    st.none(),
    made(Cron, expr=st.sampled_from(["0 2 * * *", "*/5 9-17 * * MON-FRI", "@daily"]), tz=ZONES),
    made(Every, interval=st.sampled_from(["30s", "1h"])),
    made(Once, at=SECONDS),
)
RETRIES = st.one_of(
    made(Retry, max=st.integers(0, 9), initial=st.just("5s"), multiplier=st.floats(1, 9), jitter=FLAGS),
    st.just(Retry(delays=["30s", "5m"])),
)
OWN_JOBS = made(
    Job,
    name=NAMES,
    target=TARGETS,
    schedule=SCHEDULES,
    description=SOME.map(str.strip),
    retry=RETRIES,
    overlap=st.sampled_from(Overlap),
    misfire=made(Misfire, policy=st.sampled_from(MisfirePolicy), grace=maybe(st.just(timedelta(hours=1)))),
    priority=st.integers(0, 9),
    labels=st.just({"team": "billing"}),
    enabled=FLAGS,
)
JOBS = OWN_JOBS | st.just(Job(name="_sys:sweep", target=SystemTarget("sweep"), schedule=Cron("0 0 * * *")))
PENDS = made(
    PendingRun,
    fire=INSTANTS,
    state=st.sampled_from(RunState),
    fence=COUNTS,
    job_ver=COUNTS,
    at=INSTANTS,
    node=maybe(TEXT),
    covers=maybe(COVERS),
    reason=maybe(TEXT),
)
RECORDS = made(
    JobRecord,
    job=JOBS,
    rev=COUNTS,
    ver=COUNTS,
    term=COUNTS,
    next_fire=maybe(INSTANTS),
    due_at=maybe(INSTANTS),
    pending_run=maybe(PENDS),
    paused=FLAGS,
    created_at=INSTANTS,
    updated_at=INSTANTS,
)
VERSIONS = made(Version, job=JOBS, ver=COUNTS, at=INSTANTS, since=maybe(INSTANTS), paused=FLAGS, deleted=FLAGS, by=TEXT)
REPORTS = made(
    NodeReport,
    name=NAMES,
    incarnation=st.just("5f1c"),
    cpu=SHARES,
    memory=SHARES,
    slots=COUNTS,
    in_flight=COUNTS,
    rate=st.floats(0, 1000),
    labels=PLAIN,
    draining=FLAGS,
    version=TEXT,
    pid=COUNTS,
    host=TEXT,
    started_at=maybe(INSTANTS),
    breakers=PLAIN,
    spool=made(Backlog, outcomes=COUNTS, bytes=COUNTS, since=maybe(INSTANTS)),
    zones=TEXT,
)
# An age is told in milliseconds; one that is stale by less would be told as one that is not.
MEMBERS = made(Member, report=REPORTS, age=LENGTHS, queued=st.integers(0, 2), held=st.integers(0, 2), drain_asked=FLAGS)
SWEEPS = made(
    SweepReport,
    at=INSTANTS,
    run=TEXT,
    took_ms=COUNTS,
    checked=st.dictionaries(TEXT, COUNTS, max_size=2),
    found=COUNTS,
    findings=st.lists(made(Finding, kind=st.sampled_from(Flaw), where=TEXT, what=TEXT, repaired=FLAGS), max_size=2),
)
STATUSES = made(
    ClusterStatus,
    leader=maybe(NAMES),
    term=COUNTS,
    lease_left_s=maybe(st.floats(0, 100)),
    elected_at=maybe(INSTANTS),
    members=st.lists(MEMBERS, max_size=3),
    sweep=maybe(SWEEPS),
)
REFUSED = st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple)
WAITING = made(Waiting, fire=INSTANTS, since=INSTANTS, reason=TEXT, blocked_by=maybe(TEXT), nodes=REFUSED, more=COUNTS)
LINKS = st.one_of(
    made(chain.Due, instant=INSTANTS, ver=COUNTS, since=INSTANTS, by=TEXT, schedule=TEXT),
    made(
        chain.NotDue,
        instant=INSTANTS,
        reason=TEXT,
        ver=maybe(COUNTS),
        schedule=maybe(TEXT),
        before=maybe(INSTANTS),
        after=maybe(INSTANTS),
    ),
    made(chain.Upcoming, instant=INSTANTS, remaining=LENGTHS),
    made(chain.KeptByEdit, reason=TEXT, ver=COUNTS, since=INSTANTS, by=TEXT, recorded=FLAGS),
    made(
        chain.Lateness,
        late=LENGTHS,
        late_after=LENGTHS,
        missed=FLAGS,
        policy=st.sampled_from(MisfirePolicy),
        covers=maybe(COVERS),
        skipped=FLAGS,
    ),
    made(chain.Overlapping, policy=st.sampled_from(Overlap), blocked_by=maybe(TEXT), skipped=FLAGS),
    made(chain.Unplanned, since=INSTANTS, reason=TEXT, blocked_by=maybe(TEXT), nodes=REFUSED, more=COUNTS),
    made(chain.Placed, node=TEXT, placement=maybe(PLACEMENTS)),
    made(
        chain.Dispatched,
        at=INSTANTS,
        term=COUNTS,
        fence=COUNTS,
        node=TEXT,
        again=COUNTS,
        taken=FLAGS,
        check_at=maybe(INSTANTS),
    ),
    made(chain.Started, at=INSTANTS, lateness=LENGTHS),
    made(chain.Tried, attempt=ATTEMPTS),
    made(chain.RunsNow, since=INSTANTS, attempt=COUNTS, node=maybe(TEXT)),
    made(chain.TriesAgain, at=maybe(INSTANTS), attempt=COUNTS, waiting=maybe(WAITING)),
    made(
        chain.Ended,
        state=st.sampled_from(RunState),
        at=maybe(INSTANTS),
        outcome=maybe(st.sampled_from(Outcome)),
        reason=maybe(TEXT),
        error=maybe(TEXT),
        dead=FLAGS,
        resolution=maybe(RESOLUTIONS),
    ),
    made(chain.Unrecorded, reason=TEXT),
)
CHAINS = made(chain.Why, job=TEXT, instant=INSTANTS, links=st.lists(LINKS, max_size=3).map(tuple), run=maybe(TEXT))


def same(value: Any, shape: Callable[[Any], Any], back: Callable[[Any], Any]) -> None:
    """The shape of what is read back is the shape that was sent."""
    sent = orjson.loads(orjson.dumps(shape(value)))
    assert orjson.loads(orjson.dumps(shape(back(sent)))) == sent


@given(RUNS)
def test_a_run(run: Run) -> None:
    same(run, run_schema, run_of)
    assert run_of(run_schema(run)).lateness == run.lateness
    assert run_of(run_schema(run)).duration == run.duration


@given(RUNS, st.lists(LATE, max_size=2))
def test_what_came_too_late(run: Run, late: list[LateResult]) -> None:
    same(late, lambda some: run_detail_schema(run, some), late_of)


@given(LINES)
def test_a_line(line: LogLine) -> None:
    same(line, log_schema, line_of)
    assert line_of(log_schema(line)) == line


@given(FAILURES)
def test_a_failure(failure: Failure) -> None:
    same(failure, failure_schema, failure_of)
    assert failure_of(failure_schema(failure)) == failure


@given(RECORDS)
def test_a_job(record: JobRecord) -> None:
    same(record, job_schema, record_of)
    assert record_of(job_schema(record)).job == record.job


@given(VERSIONS)
def test_a_version(version: Version) -> None:
    same(version, version_schema, version_of)


@given(OWN_JOBS, RECORDS, st.sampled_from(["created", "changed", "unchanged"]), JSON, INSTANTS)
def test_what_became_of_a_job(job: Job, record: JobRecord, result: Any, value: object, now: datetime) -> None:
    record = JobRecord(
        job=job, paused=record.paused, next_fire=record.next_fire, created_at=record.created_at, updated_at=now
    )
    one = Comparison(record, result, [("schedule.cron", value, "x")] if result == "changed" else ())
    same(one, comparison_schema, lambda shape: comparison_of(shape, job, now))


@given(MEMBERS, maybe(NAMES))
def test_a_node(member: Member, leader: str | None) -> None:
    same(member, lambda one: node_schema(one, leader, HEARTBEAT), member_of)
    back = member_of(node_schema(member, leader, HEARTBEAT))
    assert (back.capacity, back.draining, back.drained) == (member.capacity, member.draining, member.drained)


@given(STATUSES)
def test_a_cluster(status: ClusterStatus) -> None:
    same(status, lambda one: cluster_schema("x", one, HEARTBEAT), status_of)


@given(CHAINS)
def test_a_chain(why: chain.Why) -> None:
    same(why, why_schema, why_of)


@given(st.sampled_from(sorted(KINDS)), INSTANTS, TEXT, st.data())
def test_an_event(kind: str, at: datetime, source: str, data: st.DataObject) -> None:
    fields = {
        name: data.draw(COUNTS if str(hint) in ("int", "float") else SOME)
        for name, hint in KINDS[kind].__annotations__.items()
        if "ClassVar" not in str(hint)
    }
    event = event_of(kind, fields)
    assert event is not None
    same(RecordedEvent("id", at, source, event), event_schema, happened_of)


def test_an_event_of_a_kind_that_this_version_does_not_know_is_left_out() -> None:
    shape: Any = {"id": "1", "at": "2026-11-21T12:00:00Z", "kind": "moon_landed", "source": "x", "fields": {}}
    assert happened_of(shape) is None


@given(made(Principal, name=TEXT, role=st.sampled_from(Role), jobs=st.lists(TEXT, max_size=2).map(tuple)))
def test_who_is_logged_in(principal: Principal) -> None:
    assert principal_of(principal_schema(principal)) == principal


@given(
    made(
        User, name=TEXT, role=st.sampled_from(Role), password_hash=TEXT, stamp=TEXT, created_at=INSTANTS, enabled=FLAGS
    )
)
def test_a_user(user: User) -> None:
    same(user, user_schema, user_of)


@given(
    made(
        ApiKey,
        name=TEXT,
        role=st.sampled_from(Role),
        key_hash=TEXT,
        created_at=INSTANTS,
        created_by=TEXT,
        jobs=st.lists(TEXT, max_size=2).map(tuple),
        expires_at=maybe(INSTANTS),
        last_used_at=maybe(INSTANTS),
    )
)
def test_a_key(key: ApiKey) -> None:
    same(key, key_schema, key_of)


@given(made(Secret, name=TEXT, sealed=TEXT, updated_at=INSTANTS, updated_by=TEXT))
def test_a_secret(secret: Secret) -> None:
    same(secret, secret_schema, secret_of)
