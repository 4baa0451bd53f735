"""A job: its definition as the owner wrote it, the record that the cluster keeps of it, and the two system jobs.

A `Job` is the definition. A `JobRecord` is the document around it, with the cursor, the version counters and the run
that the last move created. A schedule advances only in the record (see planning).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from cronflow.domain.amqp_target import AmqpTarget, message_problems
from cronflow.domain.chain import MOST_UPSTREAM, Join, Upstream
from cronflow.domain.concurrency import MOST_LIMITS_OF_A_JOB, KeyedConcurrency, KeyedRate
from cronflow.domain.durations import LONGEST, format_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.limits import Limits, check_user
from cronflow.domain.names import check_name as check_name  # of jobs above all
from cronflow.domain.resources import NOTHING, ResourceAmount, check_reservation
from cronflow.domain.retry import Retry as Retry  # part of a job, in a module of its own
from cronflow.domain.schedule.kinds import Cron, Rules, Schedule, named
from cronflow.domain.secret import HIDDEN, check_references, refuse_references
from cronflow.domain.shadow import JobMode, ReplacedLine
from cronflow.domain.split import RunOn, Split, SplitBy, check_split

if TYPE_CHECKING:
    from cronflow.domain.placement import Placement, Waiting
    from cronflow.domain.run import Covers, Kind, RunState

SYSTEM_PREFIX = "_sys:"
SWEEP = SYSTEM_PREFIX + "sweep"
CLEANUP = SYSTEM_PREFIX + "cleanup"
SYSTEM_JOB_TIMEOUT = timedelta(hours=6)
PRIORITIES = range(10)
"""The lowest first."""
MOST_APART = 100
DEFAULT_PRIORITY = 5
BACKFILL_PRIORITY = -1
"""Of the runs of a backfill: below that of every job."""
LONGEST_PATH = 4000
SHORTEST_TIMEOUT = timedelta(milliseconds=10)


class Overlap(StrEnum):
    """What happens to a fire while a run of the same job is still open."""

    FORBID = "forbid"
    QUEUE = "queue"
    ALLOW = "allow"
    REPLACE = "replace"


class Delivery(StrEnum):
    """Whether an interrupted run is started again."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class StartGuard(StrEnum):
    """Whether a handler starts after its start is recorded (`mongo`), or the record follows within 100 ms (`redis`)."""

    REDIS = "redis"
    MONGO = "mongo"


class MisfirePolicy(StrEnum):
    """What happens to missed fires: those that were not planned within `late_after`."""

    FIRE_ONCE = "fire_once"
    CATCH_UP = "catch_up"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Misfire:
    """The policy for missed fires. Without `grace` a missed fire runs however late it is."""

    policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    late_after: timedelta = timedelta(seconds=60)
    grace: timedelta | None = None
    max_catch_up: int = 100

    def __post_init__(self) -> None:
        if not timedelta(seconds=1) <= self.late_after <= LONGEST:
            raise InvalidInput("misfire.late_after must be at least 1s and at most a hundred years")
        if self.grace is not None and not timedelta(0) <= self.grace <= LONGEST:
            raise InvalidInput("misfire.grace must not be negative, and be at most a hundred years")
        if not 1 <= self.max_catch_up <= 1000:
            raise InvalidInput(f"misfire.max_catch_up is {self.max_catch_up}; it must be 1 to 1000")


@dataclass(frozen=True, slots=True)
class Breaker:
    """When failing runs of a job are no longer retried: more than `threshold` of its last `window` attempts failed. A
    run that succeeds after `cooldown` ends that (see job_breaker).
    """

    threshold: float = 0.5
    window: int = 20
    cooldown: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < 1.0:
            raise InvalidInput(f"breaker.threshold is {self.threshold:g}; it must be 0 to less than 1")
        if not 1 <= self.window <= 100:
            raise InvalidInput(f"breaker.window is {self.window}; it must be 1 to 100")
        if not self.cooldown <= LONGEST:
            raise InvalidInput("breaker.cooldown must be at most a hundred years")


@dataclass(frozen=True, slots=True)
class PythonTarget:
    """Call `module:function`: a coroutine function in the event loop, any other in a thread. With `process` it runs in
    a child process, which can be killed.
    """

    ref: str
    args: Mapping[str, object] = field(default_factory=dict)
    process: bool = False

    def __post_init__(self) -> None:
        module, _, name = self.ref.partition(":")
        if not all(part.isidentifier() for part in module.split(".")) or not all(
            p.isidentifier() for p in name.split(".")
        ):
            raise InvalidInput(f"{self.ref!r} is not a Python target; write package.module:function")
        check_references(self.args, "args")


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """Run a program: `command` is a line for /bin/sh, or an argument vector that is run without a shell. Without
    `run_as` it runs as the user of the node. Where the file `when_present` does not exist, the run is skipped.
    """

    command: str | tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    run_as: str | None = None
    limits: Limits = field(default_factory=Limits)
    when_present: str | None = None

    def __post_init__(self) -> None:
        if self.when_present is not None:
            _check_path(self.when_present)
        if self.run_as is not None:
            check_user(self.run_as)
        if not self.command or (isinstance(self.command, str) and not self.command.strip()):
            raise InvalidInput("the command is empty")
        if any("\0" in word for word in (self.command if isinstance(self.command, tuple) else (self.command,))):
            raise InvalidInput("the command contains a NUL byte")
        refuse_references(self.command, "a command", 'write env: {TOKEN: "${secret:NAME}"}, and $TOKEN in the command')
        check_references(self.env, "env")


def _check_path(path: str) -> None:
    if not path.startswith("/") or "\0" in path:
        raise InvalidInput(f"when_present is {path[:80]!r}; it must be a path that begins with /")
    if len(path) > LONGEST_PATH:
        raise InvalidInput(f"when_present has {len(path):,} characters; at most {LONGEST_PATH:,} are allowed")
    refuse_references(path, "when_present", "write the path itself")


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Send one request; the attempt succeeds when the status is one of `expect` (default: any 2xx)."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    expect: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not re.match(r"https?://[^/\s]+", self.url):
            raise InvalidInput(f"{self.url!r} is not an http:// or https:// address")
        if self.method not in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}:
            raise InvalidInput(
                f"{self.method!r} is not an HTTP method; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"
            )
        if any(not 100 <= status <= 599 for status in self.expect):
            raise InvalidInput(f"http.expect is {list(self.expect)}; each must be an HTTP status from 100 to 599")
        refuse_references(self.url, "an address", "write it into a header or the body")
        check_references((self.headers, self.body), "http")


@dataclass(frozen=True, slots=True)
class SystemTarget:
    """Run a part of CronFlow, by name. Only system jobs have this target."""

    name: str


Target = PythonTarget | CommandTarget | HttpTarget | AmqpTarget | SystemTarget

_VARIABLE = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_MASKED = (f"is {HIDDEN}, from a document that was masked for a viewer", "write the value, or ${secret:NAME}")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


RESERVED_LABEL = "_sys:"


def label_problems(require: Mapping[str, str]) -> list[Problem]:
    """Labels that no user may require, because the stores use them (see `backends.codec`)."""
    remedy = "remove it; CronFlow 0.9 shows it for a job with keys that it does not know"
    return [
        Problem(f"require.{label}", f"labels that begin with {RESERVED_LABEL} are reserved", remedy)
        for label in require
        if label.startswith(RESERVED_LABEL)
    ]


def target_problems(target: Target) -> list[Problem]:
    """Parts of a target that no node can run. They are refused when a job is defined, and not when it is read, because
    older versions have stored such jobs.
    """
    match target:
        case CommandTarget():
            return _command_problems(target)
        case HttpTarget():
            return _request_problems(target)
        case AmqpTarget():
            return message_problems(target)
    return []


def target_mismatches(job: Job) -> list[Problem]:
    """Parts of a job that have no effect on its target. They are refused when the job is defined."""
    problems = []
    if job.success_exit_codes != (0,) and not isinstance(job.target, CommandTarget):
        problems.append(Problem("success_exit_codes", "only a command has exit codes", "remove it"))
    for n, rule in enumerate(job.retry.rules):
        if rule.kind and not isinstance(job.target, CommandTarget if rule.kind == "exit" else HttpTarget):
            only = "a command has exit codes" if rule.kind == "exit" else "an HTTP request has a status"
            what = f"{rule.match} never matches: only {only}"
            problems.append(Problem(f"retry.rules[{n}].match", what, "match the name of an exception"))
    return problems


def _command_problems(target: CommandTarget) -> list[Problem]:
    problems = []
    if "\0" in (target.cwd or ""):
        problems.append(Problem("run.cwd", "contains a NUL character", "remove it"))
    for name, value in target.env.items():
        if not _VARIABLE.fullmatch(name):
            remedy = "use letters, digits, '_', '.' and '-', not beginning with a digit"
            problems.append(Problem("run.env", f"{name!r} is not the name of an environment variable", remedy))
        elif "\0" in value:
            problems.append(Problem(f"run.env.{name}", "contains a NUL character", "remove it"))
        elif value == HIDDEN:
            problems.append(Problem(f"run.env.{name}", *_MASKED))
    return problems


def _request_problems(target: HttpTarget) -> list[Problem]:
    problems = []
    if _CONTROL.search(target.url):
        problems.append(Problem("run.http.url", "contains a control character", "remove it"))
    if f"://{HIDDEN}@" in target.url or f"={HIDDEN}" in target.url:
        problems.append(Problem("run.http.url", *_MASKED))
    for name, value in target.headers.items():
        if not _HEADER.fullmatch(name):
            problems.append(
                Problem("run.http.headers", f"{name!r} is not the name of a header", "write a name such as X-Team")
            )
        elif _CONTROL.search(value):
            what = "contains a line break or another control character"
            problems.append(Problem(f"run.http.headers.{name}", what, "write the value on one line"))
        elif HIDDEN in value.split():
            problems.append(Problem(f"run.http.headers.{name}", *_MASKED))
    return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to run and when. A job without a schedule runs only manually, or after the jobs that it follows.

    `prefer`, `spread`, `apart_from` and `resources` are its placement rules, see `domain.placement_rules`.
    """

    name: str
    target: Target
    schedule: Schedule | None = None
    description: str = ""
    retry: Retry = field(default_factory=Retry)
    timeout: timedelta = timedelta(hours=1)
    overlap: Overlap = Overlap.FORBID
    misfire: Misfire = field(default_factory=Misfire)
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    start_guard: StartGuard = StartGuard.REDIS
    priority: int = DEFAULT_PRIORITY
    require: Mapping[str, str] = field(default_factory=dict)
    concurrency: tuple[KeyedConcurrency | str, ...] = ()
    rate: KeyedRate | None = None
    breaker: Breaker | None = None
    pause_after: int | None = None
    success_exit_codes: tuple[int, ...] = (0,)
    prefer: Mapping[str, str] = field(default_factory=dict)
    spread: bool = False
    apart_from: tuple[str, ...] = ()
    resources: ResourceAmount = NOTHING
    after: tuple[Upstream, ...] = ()
    join: Join = Join.ALL
    shards: int | None = None
    run_on: RunOn = RunOn.ONE_NODE
    mode: JobMode = JobMode.ACTIVE
    replaces: ReplacedLine | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    enabled: bool = True

    def __post_init__(self) -> None:
        check_name(self.name.removeprefix(SYSTEM_PREFIX) if self.name.startswith(SYSTEM_PREFIX) else self.name)
        if isinstance(self.target, SystemTarget) and not self.name.startswith(SYSTEM_PREFIX):
            raise InvalidInput(f"only system jobs, whose names begin with {SYSTEM_PREFIX}, can have a system target")
        if not SHORTEST_TIMEOUT <= self.timeout <= LONGEST:
            raise InvalidInput(f"timeout is {format_duration(self.timeout)}; it must be 10ms to a hundred years")
        if self.priority not in PRIORITIES:
            raise InvalidInput(f"priority is {self.priority}; it must be 0 (lowest) to 9")
        if len(self.apart_from) > MOST_APART:
            raise InvalidInput(f"apart_from names {len(self.apart_from)} jobs; at most {MOST_APART} are allowed")
        for other in self.apart_from:
            check_name(other)
        check_reservation(self.resources)
        if self.delivery is Delivery.AT_MOST_ONCE:
            if self.retry.max:
                raise InvalidInput("delivery at_most_once never starts a run twice, so retry.max must be 0")
            if self.retry.rules or self.retry.deadline is not None:
                what = "delivery at_most_once never starts a run twice, so retry has no rules and no deadline"
                raise InvalidInput(what)
            object.__setattr__(self, "start_guard", StartGuard.MONGO)
        object.__setattr__(self, "schedule", named(self.schedule, self.name))
        self._check_after()
        if self.pause_after is not None and not 1 <= self.pause_after <= 100:
            raise InvalidInput(f"pause_after is {self.pause_after}; it must be 1 to 100")
        check_split(self.shards, self.run_on)
        codes = self.success_exit_codes
        if not codes or any(not 0 <= code <= 255 for code in codes):
            raise InvalidInput(f"success_exit_codes is {[*codes]}; it must have exit codes from 0 to 255")
        if self.has_limits:
            self._check_limits()
            # A permit counts for a start that is recorded; without the record it could belong to nobody.
            object.__setattr__(self, "start_guard", StartGuard.MONGO)

    def _check_after(self) -> None:
        names = [one.job for one in self.after]
        if len(names) > MOST_UPSTREAM:
            raise InvalidInput(f"after names {len(names)} jobs; at most {MOST_UPSTREAM} are allowed")
        for name in names:
            check_name(name)
            if names.count(name) > 1:
                raise InvalidInput(f"after has {name!r} more than once; remove one of them")
            if name == self.name:
                raise InvalidInput("a job cannot follow itself; give it a schedule, or let it raise RetryLater")

    def _check_limits(self) -> None:
        names = [one for one in self.concurrency if isinstance(one, str)]
        keys = [one.key for one in self.concurrency if not isinstance(one, str)]
        if len(self.concurrency) > MOST_LIMITS_OF_A_JOB:
            raise InvalidInput(f"concurrency has {len(self.concurrency)} limits; at most {MOST_LIMITS_OF_A_JOB}")
        for found in (names, keys):
            if len(set(found)) < len(found):
                twice = next(one for one in found if found.count(one) > 1)
                raise InvalidInput(f"concurrency has {twice!r} more than once; remove one of them")
        for name in names:
            check_name(name, "limit")

    @property
    def has_limits(self) -> bool:
        """Whether its runs need permits."""
        return bool(self.concurrency) or self.rate is not None

    @property
    def needs_newer_nodes(self) -> bool:
        """Whether a node of 0.9 would execute its runs in another way than it says."""
        retries = self.breaker or self.pause_after or self.retry.rules or self.retry.deadline is not None
        others = self.success_exit_codes != (0,) or self.after or self.split is not None
        return self.has_limits or bool(retries) or bool(others)

    @property
    def is_shadow(self) -> bool:
        """Whether its fires are recorded without being executed."""
        return self.mode is JobMode.SHADOW

    @property
    def split(self) -> Split | None:
        """How each of its runs is split; None if they are not."""
        if self.shards is not None:
            return Split(by=SplitBy.SHARDS, total=self.shards)
        return Split(by=SplitBy.NODES) if self.run_on is RunOn.EVERY_NODE else None

    def priority_of(self, kind: Kind) -> int:
        """The priority of its runs of this kind."""
        return BACKFILL_PRIORITY if kind == "backfill" else self.priority

    @property
    def takes_args(self) -> bool:
        """Whether its runs accept arguments of their own."""
        return isinstance(self.target, PythonTarget)


def for_job(schedule: Schedule, name: str) -> Schedule:
    """The schedule as the job of this name has it. Raises InvalidInput for a name that no job can have."""
    made = Job(name=name, target=CommandTarget("true"), schedule=schedule).schedule
    assert made is not None
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRun:
    """The run that the last move of a cursor created, with all data of its document.

    `kind` is set where the job's schedule may differ: an edit skips instants of the previous schedule. `waited` is why
    the cursor had to wait.
    """

    fire: datetime
    state: RunState
    fence: int
    job_ver: int
    at: datetime
    node: str | None = None
    covers: Covers | None = None
    reason: str | None = None
    kind: Kind | None = None
    placement: Placement | None = None
    blocked_by: str | None = None
    followed: bool = False
    waited: Waiting | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of a job: since when, by whom, why, and until when. `until` None: until somebody resumes it."""

    at: datetime
    by: str = ""
    note: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job's document.

    `rev` counts every write of `ver`, `next_fire`, `pending_run` or `term`; each write compares it. `ver` counts the
    edits. `next_fire` is the cursor and identifies the next run; it only grows. `due_at` is when the planner reads the
    job. `since` is the cursor at the beginning of this version, `edited_by` the author of the edit; `waiting` is why
    the fire at the cursor could not be planned in the last attempt. `followed`: other jobs may follow its runs, so each
    run that it creates from now on is `followed` too. A job that CronFlow 0.9 has paused has no `pause`. `fired` counts
    the fires that became runs, if the schedule has `max_runs`. `closed` is the first instant that the version before
    this one did not have any more, because it had reached `max_runs`.
    """

    job: Job
    rev: int = 0
    ver: int = 1
    term: int = 0
    next_fire: datetime | None = None
    due_at: datetime | None = None
    pending_run: PendingRun | None = None
    paused: bool = False
    pause: Pause | None = None
    deleted_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    since: datetime | None = None
    edited_by: str = ""
    waiting: Waiting | None = None
    followed: bool = False
    fired: int = 0
    closed: datetime | None = None

    @property
    def name(self) -> str:
        """The job's name, which is also the record's id."""
        return self.job.name

    @property
    def runs_left(self) -> int | None:
        """How many runs `max_runs` leaves; None without it."""
        schedule = self.job.schedule
        if not isinstance(schedule, Rules) or schedule.max_runs is None:
            return None
        return max(0, schedule.max_runs - self.fired)

    @property
    def exhausted_from(self) -> datetime | None:
        """The first instant that the job does not have any more because it has reached `max_runs`; None if it has."""
        pending = self.pending_run
        if self.runs_left != 0 or self.next_fire is not None or pending is None:
            return None
        return (pending.fire if pending.covers is None else pending.covers.last) + timedelta(seconds=1)

    @property
    def active(self) -> bool:
        """Whether the planner looks at this job."""
        return self.job.enabled and not self.paused and self.deleted_at is None and self.next_fire is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanIntent:
    """The write-ahead document of a batch of moves: the jobs that are about to move. `term` 0: an edit."""

    id: str
    term: int
    jobs: tuple[str, ...]


def system_jobs(sweep_at: time, cleanup_at: time) -> tuple[Job, ...]:
    """The sweep and the clean-up, each once a day at its time in UTC. Only the leader defines them, from its settings;
    they are planned, fenced, retried and recorded like all jobs.
    """
    return (
        _system_job("sweep", sweep_at, "Checks daily that no run is lost or stuck, and repairs what it finds"),
        _system_job("cleanup", cleanup_at, "Deletes daily what is older than its retention"),
    )


def _system_job(name: str, at: time, description: str) -> Job:
    return Job(
        name=SYSTEM_PREFIX + name,
        target=SystemTarget(name),
        schedule=Cron(f"{at.minute} {at.hour} * * *"),
        description=description,
        timeout=SYSTEM_JOB_TIMEOUT,
    )
