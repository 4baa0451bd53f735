"""Conversion between domain values and BSON documents or JSON texts. Only this module uses stored field names.

A job's definition is stored as the JSON of its plain document (see `cronflow.documents`). The planner reads the same
jobs again and again, so each version is parsed once and cached, and jobs that differ only in their names share what was
parsed.

CronFlow 0.9 refuses a definition with a key that it does not know, and its planner would then plan nothing. So such
keys are stored as the value of a required label that no node has: a leader of 0.9 lets the job wait, and an API of 0.9
keeps them ([record 0070](../../docs/decisions/0070-limit-runs-by-permits.md)). A target that CronFlow 0.11 does not
know is stored in a label of its own, for the same reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum
from functools import lru_cache
from typing import Any

import orjson
from bson.dbref import DBRef

from cronflow.documents import job_document, parse_job
from cronflow.documents.alerts import alert_document, parse_alert
from cronflow.documents.calendars import calendar_document, parse_calendar
from cronflow.domain.access import ApiKey, Principal, Role, User
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import AlertRecord, Notification, NotificationState
from cronflow.domain.backfill import FireOutline
from cronflow.domain.capabilities import Capabilities
from cronflow.domain.chain import ChainLink, UpstreamRun
from cronflow.domain.cluster import Backlog, NodeReport
from cronflow.domain.concurrency import parse_rate
from cronflow.domain.events import RecordedEvent, event_of, fields_of
from cronflow.domain.identity_cache import IdentityCache
from cronflow.domain.job import DEFAULT_PRIORITY, RESERVED_LABEL, SYSTEM_PREFIX, Job, JobRecord, Pause, PendingRun
from cronflow.domain.permits import LimitState, NamedLimit, Permit
from cronflow.domain.placement import Placement, Waiting
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import (
    GRAVE,
    Attempt,
    AttemptResult,
    Covers,
    Kind,
    NodeTimes,
    Outcome,
    Resolution,
    ResourceUse,
    Run,
    RunState,
    Settled,
)
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.hashed import uses_hash
from cronflow.domain.schedule.kinds import bound, named
from cronflow.domain.schedule.pins import pins_of
from cronflow.domain.split import Shard, Split, SplitBy
from cronflow.domain.thresholds import AlertLevel, Crossing
from cronflow.domain.version import Version
from cronflow.ports import Assignment, LateResult, LogLine

Document = dict[str, Any]
JOBS_REMEMBERED = 20_000
NAME = re.compile(r'\{"name":"([^"\\]+)"')
"""How a stored definition begins, if this version wrote it."""
_definitions: IdentityCache[Job, str] = IdentityCache(JOBS_REMEMBERED)
UNBOUND: Mapping[str, Calendar] = {}
US = "\x1f"
NEWER_KEYS = RESERVED_LABEL + "newer"
"""The required label that contains the keys of a definition which CronFlow 0.9 does not know."""
UNKNOWN_TO_0_9 = (
    "concurrency", "rate", "breaker", "pause_after", "success_exit_codes",
    "prefer", "spread", "apart_from", "resources", "after", "join", "shards", "run_on",
)  # fmt: skip
UNKNOWN_TO_0_11 = ("mode", "replaces")
KEYS_SINCE_0_12 = RESERVED_LABEL + "since-0.12"
"""A label that contains the keys of a definition which CronFlow 0.11 does not know."""
NEWER_SCHEDULE = RESERVED_LABEL + "schedule"
"""A label that contains a schedule which CronFlow 0.10 does not know."""
SCHEDULE_KEYS_OF_0_10 = frozenset({"cron", "every", "at", "tz", "anchor", "time", "start", "end"})
NEWER_TARGET = RESERVED_LABEL + "run"
"""A label that contains a target which CronFlow 0.11 does not know."""
TARGET_KEYS_OF_0_11 = frozenset(
    {"python", "args", "process", "shell", "argv", "cwd", "env", "run_as", "limits", "http", "system"}
)
NO_TARGET = {"argv": ["needs-a-newer-version-of-cronflow"]}
"""Stored in place of such a target. No node has the label, so it is never executed."""
RETRY_KEYS_OF_0_9 = frozenset({"max", "initial", "multiplier", "cap", "jitter", "delays"})


def plain(value: Any) -> Any:
    """A domain value in BSON types: enums by value, dataclasses and tuples by content."""
    match value:
        case Enum():
            return value.value
        case Attempt():
            return attempt_document(value)
        case Covers():
            return {"first": value.first, "last": value.last, "count": value.count}
        case Placement():
            others = [list(other) for other in value.others]
            return {"node": value.node, "rank": value.rank, "others": others, "more": value.more}
        case Waiting() | Resolution() | Pause() | ResourceAmount() | Split() | Shard() | NodeTimes() | ResourceUse():
            return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
        case tuple() | list():
            return [plain(item) for item in value]
        case _:
            return value


def given(value: Any) -> Any:
    """A JSON value of a user as it was given. The driver makes a reference of a dict with `$ref` and `$id`, which JSON
    cannot represent: a run with one in its arguments could not be dispatched.
    """
    match value:
        case DBRef():
            return {name: given(item) for name, item in value.as_doc().items()}
        case dict():
            return {name: given(item) for name, item in value.items()}
        case list():
            return [given(item) for item in value]
    return value


# --------------------------------------------------------------------------------------------------------------- jobs


def record_document(record: JobRecord) -> Document:
    """A job's document. `active` and `priority` are stored for the planner's index."""
    document: Document = {
        "_id": record.name,
        "rev": record.rev,
        "ver": record.ver,
        "term": record.term,
        "next_fire": record.next_fire,
        "due_at": record.due_at,
        "pend": None if record.pending_run is None else pending_run_document(record.pending_run),
        "active": record.active,
        "priority": record.job.priority,
        "paused": record.paused,
        "deleted_at": record.deleted_at,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "definition": definition(record.job),
        "since": record.since,
        "edited_by": record.edited_by,
    }
    if record.waiting is not None:
        document["waiting"] = plain(record.waiting)
    if record.pause is not None:
        document["pause"] = plain(record.pause)
    if pins := pins_of(record.job.schedule):
        document["calendars"] = list(pins)
    if record.job.after:
        document["follows"] = [one.job for one in record.job.after]
    if record.followed:
        document["followed"] = True
    if record.fired:
        document["fired"] = record.fired
    if record.closed is not None:
        document["closed"] = record.closed
    return document


def record(document: Mapping[str, Any], calendars: Mapping[str, Calendar] = UNBOUND) -> JobRecord:
    """`calendars` has the revisions that the document pins."""
    pending_run = document["pend"]
    return JobRecord(
        job=_pinned_job(document, calendars),
        rev=document["rev"],
        ver=document["ver"],
        term=document["term"],
        next_fire=document["next_fire"],
        due_at=document["due_at"],
        pending_run=None if pending_run is None else _pending_run(pending_run),
        paused=document["paused"],
        deleted_at=document["deleted_at"],
        created_at=document["created_at"],
        updated_at=document["updated_at"],
        # Older releases did not store `since`; the version is known to apply from the cursor on.
        since=document.get("since", document["next_fire"]),
        edited_by=document.get("edited_by", ""),
        waiting=_waiting(document.get("waiting")),
        pause=None if (pause := document.get("pause")) is None else Pause(**pause),
        followed=document.get("followed", False),
        fired=document.get("fired", 0),
        closed=document.get("closed"),
    )


@lru_cache(maxsize=JOBS_REMEMBERED)
def job_of_definition(text: str) -> Job:
    """The job of a stored definition."""
    if (found := NAME.match(text)) is None or found[1].startswith(SYSTEM_PREFIX):
        job = parse_job(_with_newer_keys(orjson.loads(text)))
    else:
        job = _renamed(_nameless_job(text[found.end() :]), found[1])
    _definitions.put(job, text)
    return job


def _pinned_job(document: Mapping[str, Any], calendars: Mapping[str, Calendar]) -> Job:
    """The job of a document, bound to the calendars that it pins."""
    pins = document.get("calendars")
    if not pins or not calendars:
        return job_of_definition(document["definition"])
    return _bound_job(document["definition"], tuple(pins), tuple(calendars[pin] for pin in pins))


@lru_cache(maxsize=JOBS_REMEMBERED)
def _bound_job(text: str, pins: tuple[str, ...], calendars: tuple[Calendar, ...]) -> Job:
    """`pins` is part of the key because calendars of the same content are equal."""
    job = job_of_definition(text)
    copy = _copied(job, schedule=bound(job.schedule, calendars))
    _definitions.put(copy, text)
    return copy


@lru_cache(maxsize=JOBS_REMEMBERED)
def _nameless_job(rest: str) -> Job:
    return parse_job(_with_newer_keys(orjson.loads(f'{{"name":"x"{rest}')))


def _with_newer_keys(document: Any) -> Any:
    """The document that `_readable_by_older` was given."""
    require = document.get("require") or {}
    hidden = require.keys() & {NEWER_KEYS, KEYS_SINCE_0_12, NEWER_SCHEDULE, NEWER_TARGET}
    if not hidden:
        return document
    others = {label: value for label, value in require.items() if label not in hidden}
    newer = orjson.loads(require.get(NEWER_KEYS, "{}")) | orjson.loads(require.get(KEYS_SINCE_0_12, "{}"))
    if NEWER_SCHEDULE in require:
        newer["schedule"] = orjson.loads(require[NEWER_SCHEDULE])
    if NEWER_TARGET in require:
        newer["run"] = orjson.loads(require[NEWER_TARGET])
    return {**document, "require": others, **newer}


def _readable_by_older(document: Document) -> Document:
    """The document without what CronFlow 0.9 to 0.11 do not know, and with labels that contain them. A leader
    of 0.10 takes a job with a newer schedule to have none, and leaves its fires to a newer one; so does one of 0.11
    with a job in shadow mode, because no node has the label.
    """
    labels = {}
    newer = {key: document.pop(key) for key in UNKNOWN_TO_0_9 if key in document}
    if document.get("retry", {}).keys() - RETRY_KEYS_OF_0_9:
        newer["retry"] = document.pop("retry")
    if newer:
        labels[NEWER_KEYS] = orjson.dumps(newer).decode()
    if since_0_12 := {key: document.pop(key) for key in UNKNOWN_TO_0_11 if key in document}:
        labels[KEYS_SINCE_0_12] = orjson.dumps(since_0_12).decode()
    schedule = document.get("schedule") or {}
    if schedule.keys() - SCHEDULE_KEYS_OF_0_10 or uses_hash(schedule.get("cron", "")):
        labels[NEWER_SCHEDULE] = orjson.dumps(document.pop("schedule")).decode()
    if document["run"].keys() - TARGET_KEYS_OF_0_11:
        labels[NEWER_TARGET] = orjson.dumps(document["run"]).decode()
        document["run"] = NO_TARGET
    if labels:
        document["require"] = {**document.get("require", {}), **labels}
    return document


def _renamed(job: Job, name: str) -> Job:
    """A copy with another name."""
    return _copied(job, name=name, schedule=named(job.schedule, name))


def _copied(job: Job, **changes: object) -> Job:
    """`replace` would check every field again, which takes longer than all the rest."""
    copy = object.__new__(Job)
    for field in Job.__dataclass_fields__:
        object.__setattr__(copy, field, getattr(job, field))
    for field, value in changes.items():
        object.__setattr__(copy, field, value)
    return copy


def calendar_text(calendar: Calendar) -> str:
    """The content of a calendar as JSON."""
    return orjson.dumps(calendar_document(calendar)).decode()


def calendar(text: str, rev: int) -> Calendar:
    return replace(parse_calendar(orjson.loads(text)), rev=rev)


def definition(job: Job) -> str:
    """A job's definition as JSON. Cached, because `job_of_definition` returns the same objects again and again."""
    known = _definitions.get(job)
    if known is not None:
        return known
    document = _readable_by_older(dict(job_document(job, compact=True)))
    return _definitions.put(job, orjson.dumps(document).decode())


def pending_run_document(pending_run: PendingRun) -> Document:
    """`pending_run` inside a job's document."""
    document = {
        "fire": pending_run.fire,
        "state": pending_run.state.value,
        "fence": pending_run.fence,
        "job_ver": pending_run.job_ver,
        "at": pending_run.at,
        "node": pending_run.node,
        "covers": plain(pending_run.covers),
        "reason": pending_run.reason,
    }
    if pending_run.placement is not None:
        document["placement"] = plain(pending_run.placement)
    if pending_run.blocked_by is not None:
        document["blocked_by"] = pending_run.blocked_by
    if pending_run.kind is not None:
        document["kind"] = pending_run.kind.value
    if pending_run.followed:
        document["followed"] = True
    if pending_run.waited is not None:
        document["waited"] = plain(pending_run.waited)
    return document


def _pending_run(document: Mapping[str, Any]) -> PendingRun:
    return PendingRun(
        fire=document["fire"],
        state=RunState(document["state"]),
        fence=document["fence"],
        job_ver=document["job_ver"],
        at=document["at"],
        node=document["node"],
        covers=_covers(document["covers"]),
        reason=document["reason"],
        kind=None if (kind := document.get("kind")) is None else Kind(kind),
        placement=_placement(document.get("placement")),
        blocked_by=document.get("blocked_by"),
        followed=document.get("followed", False),
        waited=_waiting(document.get("waited")),
    )


def _placement(document: Mapping[str, Any] | None) -> Placement | None:
    if document is None:
        return None
    others = tuple((node, standing) for node, standing in document["others"])
    return Placement(document["node"], document["rank"], others, document["more"])


def _waiting(document: Mapping[str, Any] | None) -> Waiting | None:
    if document is None:
        return None
    return Waiting(**{**document, "nodes": tuple((node, reason) for node, reason in document["nodes"])})


def _resolution(document: Mapping[str, Any] | None) -> Resolution | None:
    return None if document is None else Resolution(**{**document, "how": Settled(document["how"])})


def _split(document: Mapping[str, Any] | None) -> Split | None:
    if document is None:
        return None
    only = document["only"]
    return Split(
        by=SplitBy(document["by"]),
        total=document["total"],
        nodes=tuple(document["nodes"]),
        only=None if only is None else tuple(only),
        begun=document["begun"],
    )


def amount(document: Mapping[str, Any] | None) -> ResourceAmount | None:
    """A stored amount of CPU and memory."""
    return None if document is None else ResourceAmount(document["cpu"], document["memory"])


def version_document(version: Version) -> Document:
    """A version of a job. The number in the id is padded, so that ids sort like versions."""
    pins = pins_of(version.job.schedule)
    ends = {name: end for name in ("closed", "until") if (end := getattr(version, name)) is not None}
    return ({"calendars": list(pins)} if pins else {}) | {
        **ends,
        "_id": f"{version.job.name}#{version.ver:010d}",
        "ver": version.ver,
        "at": version.at,
        "since": version.since,
        "paused": version.paused,
        "deleted": version.deleted,
        "by": version.by,
        "definition": definition(version.job),
    }


def version(document: Mapping[str, Any], calendars: Mapping[str, Calendar] = UNBOUND) -> Version:
    """`calendars` has the revisions that the document pins."""
    fields = {name: document[name] for name in ("ver", "at", "since", "paused", "deleted", "by")}
    fields |= {name: document.get(name) for name in ("closed", "until")}
    return Version(job=_pinned_job(document, calendars), **fields)


def _covers(document: Mapping[str, Any] | None) -> Covers | None:
    return None if document is None else Covers(document["first"], document["last"], document["count"])


# --------------------------------------------------------------------------------------------------------------- runs

_RUN_OPTIONAL = (
    "node", "check_at", "dispatched_at", "started_at", "ended_at", "start_id", "finish_id", "reason", "result_size",
    "error", "blocked_by", "replay_of", "cancel_reason", "cancel_by", "only_node",
)  # fmt: skip
_RUN_GIVEN = ("args", "result")
"""Of a user."""


NEWER_KINDS = frozenset({Kind.BACKFILL, Kind.AFTER, Kind.PART})
"""Each has a field of its own."""


def run_document(run: Run) -> Document:
    """A run's document, without None values."""
    document: Document = {
        "_id": run.id,
        "job": run.job,
        "fire_at": run.fire_at,
        # CronFlow 0.9 does not know the newer kinds, and reads such a run as a replay.
        "kind": (Kind.REPLAY if run.kind in NEWER_KINDS else run.kind).value,
        "state": run.state.value,
        "fence": run.fence,
        "term": run.term,
        "job_ver": run.job_ver,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "created_at": run.created_at,
        "priority": run.priority,
    }
    for name in (*_RUN_OPTIONAL, *_RUN_GIVEN, "backfill", "parent"):
        value = getattr(run, name)
        if value is not None:
            document[name] = value
    if run.backfill is not None:
        document["backfill"] = run.backfill
    if run.chain is not None:
        document["chain"] = chain_document(run.chain)
    # Indexes contain only those that are marked.
    marks = {
        "after": run.kind is Kind.AFTER,
        "open": run.is_open,
        "followed": run.followed,
        "cancel_requested": run.cancel_requested,
    }
    document |= {name: True for name, holds in marks.items() if holds}
    if run.covers is not None:
        document["covers"] = plain(run.covers)
    if run.outcome is not None:
        document["outcome"] = run.outcome.value
    if run.attempts:
        document["attempts"] = [attempt_document(attempt) for attempt in run.attempts]
    for name in ("placement", "waiting", "waited", "resolution", "reserved", "split", "shard"):
        if getattr(run, name) is not None:
            document[name] = plain(getattr(run, name))
    # Dead letters have partial indexes too.
    if run.is_dead:
        document["dead"] = document["untold"] = True
    return document


def run(document: Mapping[str, Any]) -> Run:
    outcome = document.get("outcome")
    return Run(
        id=document["_id"],
        job=document["job"],
        fire_at=document["fire_at"],
        kind=_kind(document),
        state=RunState(document["state"]),
        fence=document["fence"],
        term=document["term"],
        job_ver=document["job_ver"],
        attempt=document["attempt"],
        max_attempts=document["max_attempts"],
        created_at=document["created_at"],
        # Runs of 0.9 and earlier have none.
        priority=document.get("priority", DEFAULT_PRIORITY),
        covers=_covers(document.get("covers")),
        outcome=None if outcome is None else Outcome(outcome),
        redispatches=document.get("redispatches", 0),
        vetoes=document.get("vetoes", 0),
        cancel_requested=document.get("cancel_requested", False),
        attempts=tuple(_attempt(attempt) for attempt in document.get("attempts", ())),
        placement=_placement(document.get("placement")),
        waiting=_waiting(document.get("waiting")),
        waited=_waiting(document.get("waited")),
        resolution=_resolution(document.get("resolution")),
        reserved=amount(document.get("reserved")),
        followed=document.get("followed", False),
        chain=None if (chain := document.get("chain")) is None else chain_link(chain),
        split=_split(document.get("split")),
        shard=None if (shard := document.get("shard")) is None else Shard(**shard),
        **{name: document.get(name) for name in _RUN_OPTIONAL},
        **{name: given(document.get(name)) for name in _RUN_GIVEN},
    )


def _kind(document: Mapping[str, Any]) -> Kind:
    if "backfill" in document:
        return Kind.BACKFILL
    if "parent" in document:
        return Kind.PART
    return Kind.AFTER if "after" in document else Kind(document["kind"])


def chain_document(link: ChainLink) -> Document:
    """The place of a run in its chain."""
    of = [{"job": one.job, "run": one.run, "state": one.state.value} for one in link.of]
    return {"id": link.id, "depth": link.depth, "of": of}


def chain_link(document: Mapping[str, Any]) -> ChainLink:
    of = tuple(UpstreamRun(one["job"], one["run"], RunState(one["state"])) for one in document["of"])
    return ChainLink(document["id"], document["depth"], of)


def outline(document: Mapping[str, Any]) -> FireOutline:
    """What the choice of instants of a backfill needs of a run."""
    covers = _covers(document.get("covers"))
    return FireOutline(document["_id"], document["fire_at"], RunState(document["state"]), covers)


def attempt_document(attempt: Attempt) -> Document:
    """An attempt inside a run's document."""
    document = {
        "n": attempt.n,
        "fence": attempt.fence,
        "node": attempt.node,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "outcome": attempt.outcome.value,
        "error": attempt.error,
    }
    # Earlier versions ignore them.
    if attempt.times is not None:
        document["times"] = plain(attempt.times)
    if attempt.used is not None:
        document["used"] = plain(attempt.used)
    return document


def _attempt(document: Mapping[str, Any]) -> Attempt:
    return Attempt(
        document["n"],
        document["fence"],
        document["node"],
        document["started_at"],
        document["ended_at"],
        Outcome(document["outcome"]),
        document["error"],
        None if (times := document.get("times")) is None else NodeTimes(**times),
        None if (used := document.get("used")) is None else ResourceUse(**used),
    )


def late(document: Mapping[str, Any]) -> LateResult:
    attempt_result = AttemptResult(
        Outcome(document["outcome"]),
        given(document["result"]),
        document["error"],
        result_size=document.get("result_size"),
    )
    fields = {name: document[name] for name in ("run", "fence", "node", "at")}
    return LateResult(attempt_result=attempt_result, finish_id=document["_id"], **fields)


# --------------------------------------------------------------------------------------------------------------- logs


def line_document(line: LogLine) -> Document:
    """A log line. Its id makes inserting it twice harmless. Warnings and errors have a partial index."""
    grave = {"grave": True} if line.level in GRAVE else {}
    return {
        **grave,
        "_id": line_id(line),
        "run": line.run,
        "job": line.job,
        "fence": line.fence,
        "attempt": line.attempt,
        "n": line.n,
        "at": line.at,
        "level": line.level,
        "text": line.text,
        "node": line.node,
    }


def line_id(line: LogLine) -> str:
    """A unique id. The ids of a run sort like its lines."""
    return f"{line.run}#{line.fence}#{line.n:08d}"


def line(document: Mapping[str, Any]) -> LogLine:
    fields = {name: document[name] for name in ("run", "job", "fence", "attempt", "n", "at", "level", "text")}
    return LogLine(**fields, node=document.get("node", ""))


def lines_json(lines: Sequence[LogLine]) -> bytes:
    """Log lines for the live tail."""
    return orjson.dumps([line_document(line) for line in lines])


def lines_from_json(text: bytes) -> list[LogLine]:
    return [line({**found, "at": datetime.fromisoformat(found["at"])}) for found in orjson.loads(text)]


# ------------------------------------------------------------------------------------------------------------- events


def event_document(happened: RecordedEvent) -> Document:
    return {
        "_id": happened.id,
        "at": happened.at,
        "source": happened.source,
        "kind": happened.event.kind,
        "fields": fields_of(happened.event),
    }


def event(document: Mapping[str, Any]) -> RecordedEvent | None:
    """None if this version does not have the kind."""
    found = event_of(document["kind"], given(document["fields"]))
    return None if found is None else RecordedEvent(document["_id"], document["at"], document["source"], found)


# ------------------------------------------------------------------------------------------------------------- limits


def named_limit_document(limit: NamedLimit) -> Document:
    """The definition in the document of a named limit. Updates use the milliseconds of its rate."""
    rate = limit.rate
    return {
        "limit": limit.limit,
        "rate": None if rate is None else str(rate),
        "burst": None if rate is None else rate.burst,
        "interval_ms": None if rate is None else rate.interval_ms,
        "tolerance_ms": None if rate is None else rate.tolerance_ms,
        "description": limit.description,
    }


def limit_state(document: Mapping[str, Any]) -> LimitState:
    rate = document.get("rate")
    permits = (Permit(one["run"], one["fence"], one["node"], one["since"]) for one in document["permits"])
    return LimitState(
        id=document["_id"],
        limit=document.get("limit"),
        rate=None if rate is None else parse_rate(rate, document["burst"]),
        permits=tuple(permits),
        next_at=document.get("next_at"),
        used_at=document.get("used_at"),
        description=document.get("description", ""),
        updated_at=document.get("updated_at"),
        updated_by=document.get("updated_by", ""),
    )


# ------------------------------------------------------------------------------------------------------------- alerts


def alert_record_document(record: AlertRecord) -> Document:
    """An alert's document, which contains the rule as its plain document, without defaults: a node of 0.9 refuses an
    alert with keys that it does not know.
    """
    return {
        "_id": record.name,
        "alert": alert_document(record.alert, compact=True),
        "rev": record.rev,
        "since": record.since,
        "judged": record.judged,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "updated_by": record.updated_by,
    }


def alert_record(document: Mapping[str, Any]) -> AlertRecord:
    fields = {name: value for name, value in document.items() if name not in ("_id", "alert")}
    return AlertRecord(alert=parse_alert(document["alert"]), **fields)


def crossing_document(crossing: Crossing) -> Document:
    """The latest crossing of an alert and kind."""
    return {
        "_id": crossing.place,
        "alert": crossing.alert,
        "kind": crossing.kind,
        "number": crossing.number,
        "before": crossing.before.word,
        "level": crossing.level.word,
        "figure": crossing.figure,
        "at": crossing.at,
    }


def crossing(document: Mapping[str, Any]) -> Crossing:
    fields = {name: document[name] for name in ("alert", "kind", "number", "figure", "at")}
    before, level = (AlertLevel[document[name].upper()] for name in ("before", "level"))
    return Crossing(before=before, level=level, **fields)


DIGEST_KEYS = ("number", "group", "members", "digest")


def notification_document(notification: Notification) -> Document:
    """A notification's document. `waiting` is stored for the sender's partial index, and `held` for that of the leader.
    What only digests and their members have is left out of others.
    """
    names = Notification.__dataclass_fields__.keys() - {"id", *(DIGEST_KEYS if notification.number is None else ())}
    document = {"_id": notification.id, **{name: plain(getattr(notification, name)) for name in sorted(names)}}
    if notification.state is NotificationState.HELD:
        return {**document, "held": True}
    return {**document, "waiting": True, "due_at": notification.created_at}


def notification(document: Mapping[str, Any]) -> Notification:
    fields = {name: document[name] for name in Notification.__dataclass_fields__ if name in document}
    kind, state = AlertKind(document["kind"]), NotificationState(document["state"])
    fields["members"] = tuple(document.get("members") or ())
    return Notification(**{**fields, "id": document["_id"], "kind": kind, "state": state})


# -------------------------------------------------------------------------------------------------------------- Redis


def report_json(report: NodeReport) -> bytes:
    return orjson.dumps(report, default=dict)


def report_from_json(text: bytes) -> NodeReport:
    """Ignores unknown fields: the cluster may have newer nodes."""
    known = NodeReport.__dataclass_fields__
    fields = {name: value for name, value in orjson.loads(text).items() if name in known}
    if fields.get("started_at"):
        fields["started_at"] = datetime.fromisoformat(fields["started_at"])
    if "spool" in fields:
        spool = fields["spool"]
        since = None if spool["since"] is None else datetime.fromisoformat(spool["since"])
        fields["spool"] = Backlog(spool["outcomes"], spool["bytes"], since)
    if fields.get("capabilities"):
        fields["capabilities"] = _capabilities(fields["capabilities"])
    fields["capacity"] = amount(fields.get("capacity"))
    fields["differing"] = {job: tuple(found) for job, found in fields.get("differing", {}).items()}
    return NodeReport(**fields)


def _capabilities(document: Mapping[str, Any]) -> Capabilities:
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in document.items()
        if name in Capabilities.__dataclass_fields__
    }
    return Capabilities(**known)


def item(assignment: Assignment) -> bytes:
    """An item of a node's list: the fields that scripts read, the other fields as JSON, the stored definition."""
    head = (assignment.job.name, assignment.run, str(assignment.fence), str(assignment.term), assignment.job_lock.slot)
    rest: Document = {"attempt": assignment.attempt, "fire_at": assignment.fire_at, "args": dict(assignment.args)}
    if assignment.pending_run is not None:
        rest["pend"] = pending_run_document(assignment.pending_run)
    if assignment.not_before is not None:
        rest["not_before"] = assignment.not_before
    if assignment.requested_at is not None:
        rest["requested_at"] = assignment.requested_at
    if assignment.chain is not None:
        rest["chain"] = chain_document(assignment.chain)
    if assignment.shard is not None:
        rest["shard"] = plain(assignment.shard)
    return US.join((*head, orjson.dumps(rest).decode(), definition(assignment.job))).encode()


def start_by_ms(item: bytes) -> int:
    """The deadline in front of an item as `take` returns it."""
    return int(item[: item.index(US.encode())])


def assignment(text: bytes) -> Assignment:
    """The assignment in an item as `take` returns it: with the deadline in front."""
    _, _, run_id, fence, term, _, rest, job = text.decode().split(US, 7)
    fields = orjson.loads(rest)
    return Assignment(
        run=run_id,
        fence=int(fence),
        term=int(term),
        attempt=fields["attempt"],
        fire_at=datetime.fromisoformat(fields["fire_at"]),
        args=fields["args"],
        job=job_of_definition(job),
        pending_run=None if (pend := fields.get("pend")) is None else _pending_run_of_json(pend),
        not_before=None if (at := fields.get("not_before")) is None else datetime.fromisoformat(at),
        requested_at=None if (at := fields.get("requested_at")) is None else datetime.fromisoformat(at),
        chain=None if (chain := fields.get("chain")) is None else chain_link(chain),
        shard=None if (shard := fields.get("shard")) is None else Shard(**shard),
    )


def _pending_run_of_json(document: Document) -> PendingRun:
    """JSON has no times."""
    times = {name: datetime.fromisoformat(document[name]) for name in ("fire", "at")}
    covers = document["covers"]
    if covers is not None:
        covers |= {name: datetime.fromisoformat(covers[name]) for name in ("first", "last")}
    waited = document.get("waited")
    if waited is not None:
        waited |= {name: datetime.fromisoformat(waited[name]) for name in ("fire", "since")}
    return _pending_run(document | times)


# ------------------------------------------------------------------------------------------------------------- access


def rights_document(holder: ApiKey | User | Principal) -> Document:
    """The role, patterns and rights. An editor is stored as a viewer with `editor`, because CronFlow 0.6 does not know
    the role; an API of that version admits them as viewers.
    """
    if holder.role is not Role.EDITOR:
        return {"role": holder.role.value, "jobs": list(holder.jobs)}
    rights = {"shell": holder.allow_shell, "secrets": holder.allow_secrets}
    return {"role": Role.VIEWER.value, "jobs": list(holder.jobs), "editor": rights}


def rights(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that `rights_document` stores. CronFlow 0.6 had keys of admins limited to some jobs, which could read
    every secret; they are editors without any right.
    """
    role, jobs, editor = Role(document["role"]), tuple(document.get("jobs", ())), document.get("editor")
    if editor is None and not (role is Role.ADMIN and jobs):
        return {"role": role, "jobs": jobs}
    found = editor or {}
    allowed = {"allow_shell": found.get("shell", False), "allow_secrets": found.get("secrets", False)}
    return {"role": Role.EDITOR, "jobs": jobs, **allowed}
