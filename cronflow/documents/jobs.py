"""A job's document, declared once: its keys, how each is read and written, and its description.

Equal jobs have equal documents, and reading a written document gives an equal job. A job is accepted whole or not at
all; an error names every problem with its key. Keys that the interface names and this version does not support are
refused by name. The short form leaves out the defaults of the format, never those of a cluster's settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any, Literal, cast, overload

from typing_extensions import TypedDict

from cronflow.documents.amqp import AMQP_MESSAGE, AMQP_REPLY, AmqpMessageForm
from cronflow.documents.calendars import WINDOW
from cronflow.documents.default_zone import FORMAT_ZONE, with_zone
from cronflow.documents.keys import LENGTH, OPTIONAL_TEXT, TEXT, TEXTS, LengthForm
from cronflow.documents.retry import (
    BACKOFF,
    DELAYS,
    OPTIONAL_LENGTH,
    PROFILE,
    RULE,
    RetryForm,
    completed,
    read_retry,
    write_retry,
)
from cronflow.documents.schedules import ANY, CRON, DST, EVERY, ONCE, SCHEDULE, ScheduleForm
from cronflow.documents.tables import DocumentTable, Key, read_variant, without_defaults
from cronflow.documents.values import (
    choice,
    flag,
    got,
    joined,
    json_mapping,
    list_of,
    number,
    optional,
    text,
    under,
    whole,
)
from cronflow.domain.amqp_target import AmqpTarget
from cronflow.domain.chain import Join, On, Upstream
from cronflow.domain.concurrency import KeyedConcurrency, KeyedRate, OnFull, parse_rate
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import (
    Breaker,
    CommandTarget,
    Delivery,
    HttpTarget,
    Job,
    Misfire,
    MisfirePolicy,
    Overlap,
    PythonTarget,
    Retry,
    StartGuard,
    SystemTarget,
    Target,
)
from cronflow.domain.limits import Limits, format_size, parse_size
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.shadow import JobMode, ReplacedLine
from cronflow.domain.split import RunOn

Writer = Callable[[DocumentTable[Any], Any], dict[str, Any]]
_policy = choice(MisfirePolicy)

# ------------------------------------------------------------------------------------------------------------- target


def _write_arguments(args: Mapping[str, object]) -> dict[str, object]:
    try:
        return json_mapping(args)
    except InvalidInput as error:
        raise InvalidInput(under("run.args", error.problems)) from None


class PythonForm(TypedDict):
    """Call a function of a module that the nodes can import."""

    python: Annotated[str, Key(text, attribute="ref", sample="module:name")]
    """`package.module:function`."""
    args: Annotated[dict[str, object], Key(json_mapping, _write_arguments)]
    """Its arguments, by name."""
    process: Annotated[bool, Key(flag)]
    """Whether it runs in a child process, which can be killed."""


SIZE = Key(optional(lambda value: parse_size(text(value))), optional(format_size))
OPTIONAL_COUNT = Key(optional(whole))


class LimitsForm(TypedDict):
    """The most that each process of the command may use; null: as much as the node."""

    cpu: Annotated[LengthForm | None, OPTIONAL_LENGTH]
    """CPU time, in whole seconds."""
    memory: Annotated[str | None, SIZE]
    """Address space, such as 512MiB."""
    file_size: Annotated[str | None, SIZE]
    """Size of each file that it writes, such as 1GiB."""
    files: Annotated[int | None, OPTIONAL_COUNT]
    """Open files."""
    processes: Annotated[int | None, OPTIONAL_COUNT]
    """Processes and threads of its user, including those of other commands."""


LIMITS = DocumentTable(LimitsForm, Limits)
LIMITS_KEY = Key(LIMITS.read, LIMITS.write)


class ShellForm(TypedDict):
    """Run a line of /bin/sh."""

    shell: Annotated[str, Key(text, attribute="command", sample="true")]
    """The line."""
    cwd: Annotated[str | None, OPTIONAL_TEXT]
    """The working directory."""
    env: Annotated[dict[str, str], TEXTS]
    """Environment variables, added to those of the node."""
    run_as: Annotated[str | None, OPTIONAL_TEXT]
    """The user to run as, one of ALLOW_RUN_AS; null: the user of the node."""
    when_present: Annotated[str | None, OPTIONAL_TEXT]
    """A file: the run is skipped on a node where it does not exist; null: always run."""
    limits: Annotated[LimitsForm, LIMITS_KEY]
    """The most that each of its processes may use."""


class ArgvForm(TypedDict):
    """Run a program without a shell."""

    argv: Annotated[list[str], Key(list_of(text, "words"), list, attribute="command", sample=("true",))]
    """The program and its arguments."""
    cwd: Annotated[str | None, OPTIONAL_TEXT]
    """The working directory."""
    env: Annotated[dict[str, str], TEXTS]
    """Environment variables, added to those of the node."""
    run_as: Annotated[str | None, OPTIONAL_TEXT]
    """The user to run as, one of ALLOW_RUN_AS; null: the user of the node."""
    when_present: Annotated[str | None, OPTIONAL_TEXT]
    """A file: the run is skipped on a node where it does not exist; null: always run."""
    limits: Annotated[LimitsForm, LIMITS_KEY]
    """The most that each of its processes may use."""


_statuses = list_of(whole, "HTTP statuses")


class RequestForm(TypedDict):
    """An HTTP request."""

    method: Annotated[str, TEXT]
    """GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS."""
    url: Annotated[str, Key(text, sample="http://host", missing="add the address that the request goes to")]
    """An http:// or https:// address."""
    headers: Annotated[dict[str, str], TEXTS]
    """Headers, in addition to `Idempotency-Key` and `CronFlow-Fence`, which every request has."""
    body: Annotated[str | None, OPTIONAL_TEXT]
    """The body, sent unchanged."""
    expect: Annotated[
        list[int], Key(lambda value: _statuses(value if isinstance(value, list | tuple) else [value]), list, also=int)
    ]
    """The statuses that mean success; empty: every 2xx."""


REQUEST = DocumentTable(RequestForm, HttpTarget)


class HttpForm(TypedDict):
    """Send one HTTP request."""

    http: Annotated[RequestForm, Key(REQUEST.read, sample=HttpTarget("http://host"))]
    """The request."""


class AmqpForm(TypedDict):
    """Publish one message to a broker, in the extra `amqp`."""

    amqp: Annotated[AmqpMessageForm, Key(AMQP_MESSAGE.read, sample=AmqpTarget("amqp://host"))]
    """The message."""


class SystemForm(TypedDict):
    """Run a system task of CronFlow; only for system jobs."""

    system: Annotated[str, Key(text, attribute="name", sample="sweep")]
    """Its name."""


TargetForm = PythonForm | ShellForm | ArgvForm | HttpForm | AmqpForm | SystemForm
PYTHON = DocumentTable(PythonForm, PythonTarget)
SHELL = DocumentTable(ShellForm, CommandTarget)
ARGV = DocumentTable(ArgvForm, CommandTarget)
HTTP = DocumentTable(HttpForm, lambda http: http)
AMQP = DocumentTable(AmqpForm, lambda amqp: amqp)
SYSTEM = DocumentTable(SystemForm, SystemTarget)
_TARGETS: Mapping[str, DocumentTable[Any]] = {
    "python": PYTHON,
    "shell": SHELL,
    "argv": ARGV,
    "http": HTTP,
    "amqp": AMQP,
}


def _read_target(value: object) -> Target:
    if isinstance(value, Mapping) and value.keys() == {"system"}:
        # Stored, but never written by users: the names of such jobs are refused, so errors do not offer the key.
        return SYSTEM.read(value)
    made: Target = read_variant(value, _TARGETS, {}, "add what to run")
    return made


def _write_target(target: Target, write: Writer = DocumentTable.write) -> dict[str, Any]:
    match target:
        case PythonTarget():
            return write(PYTHON, target)
        case CommandTarget(command=str()):
            return write(SHELL, target)
        case CommandTarget():
            return write(ARGV, target)
        case HttpTarget():
            return {"http": write(REQUEST, target)}
        case AmqpTarget():
            return {"amqp": write(AMQP_MESSAGE, target)}
        case SystemTarget():
            return write(SYSTEM, target)


# ------------------------------------------------------------------------------------------------------------ misfire


class MisfireForm(TypedDict):
    """What happens to fires that were not planned in time."""

    policy: Annotated[MisfirePolicy, Key(_policy)]
    """Run once for all missed fires, run each, or skip them."""
    late_after: Annotated[LengthForm, LENGTH]
    """A fire is missed when it is planned later than this."""
    grace: Annotated[LengthForm | None, OPTIONAL_LENGTH]
    """Skip a fire that is later than this; null: no limit."""
    max_catch_up: Annotated[int, Key(whole)]
    """With `catch_up`, the maximum number of missed fires that run."""


MISFIRE = DocumentTable(MisfireForm, Misfire)


def _read_misfire(value: object) -> Misfire:
    if isinstance(value, str):
        return Misfire(_policy(value))
    if not isinstance(value, Mapping):
        raise InvalidInput(f"expected {', '.join(MisfirePolicy)}, or a mapping with policy, got {got(value)}")
    return MISFIRE.read(value)


# ------------------------------------------------------------------------------------------------------------ breaker


class BreakerForm(TypedDict):
    """When failing runs are no longer retried."""

    threshold: Annotated[float, Key(number)]
    """The error rate above which the breaker opens."""
    window: Annotated[int, Key(whole)]
    """How many of the last attempts count; with fewer attempts the breaker stays closed."""
    cooldown: Annotated[LengthForm, LENGTH]
    """A run that starts at least this long after the breaker opened, and succeeds, closes it."""


BREAKER = DocumentTable(BreakerForm, Breaker)

# ---------------------------------------------------------------------------------------------------------- resources


def _write_memory(size: int) -> str | None:
    return format_size(size) if size else None


class ResourcesForm(TypedDict):
    """What a run reserves of the capacity of its node; 0 and null: nothing."""

    cpu: Annotated[float, Key(number)]
    """CPUs, such as 0.5."""
    memory: Annotated[str | None, Key(lambda value: 0 if value is None else parse_size(text(value)), _write_memory)]
    """Memory, such as 256MiB."""


RESOURCES = DocumentTable(ResourcesForm, ResourceAmount)

# ------------------------------------------------------------------------------------------------------------- limits


class ConcurrencyForm(TypedDict):
    """How many runs with the same value of a key execute at the same time."""

    key: Annotated[str, Key(text, sample="{job}", missing='add the key, such as "{args.region}"')]
    """A template of `{args.NAME}`, `{labels.NAME}` and `{job}`; all runs with the same value share the limit."""
    limit: Annotated[int, Key(whole)]
    """The maximum number of these runs that execute at the same time."""
    on_full: Annotated[OnFull, Key(choice(OnFull))]
    """What happens to a run when the limit is reached: it waits, is skipped, or replaces the run that started first."""


class JobRateForm(TypedDict):
    """How many runs start per period."""

    rate: Annotated[str, Key(text, sample="1/s", missing="add the rate, such as rate: 100/m")]
    """A number per `s`, `m`, `h` or `d`, such as `100/m`; the starts are spaced evenly."""
    key: Annotated[str | None, OPTIONAL_TEXT]
    """A template as in `concurrency`; null: the runs of this job."""
    burst: Annotated[int, Key(whole)]
    """How many may start at once after a pause."""


def _keyed_rate(rate: str, key: str | None = None, burst: int = 1) -> KeyedRate:
    return KeyedRate(parse_rate(rate, burst), key or "")


CONCURRENCY = DocumentTable(ConcurrencyForm, KeyedConcurrency)
JOB_RATE = DocumentTable(JobRateForm, _keyed_rate)


def _read_limit(value: object) -> KeyedConcurrency | str:
    return text(value) if isinstance(value, str) else CONCURRENCY.read(value)


def read_concurrency(value: object) -> tuple[KeyedConcurrency | str, ...]:
    """The name of a limit, a mapping with a key, or a list of those. Raises InvalidInput."""
    if value is None:
        return ()
    return list_of(_read_limit, "limits")(value) if isinstance(value, list | tuple) else (_read_limit(value),)


def _write_concurrency(limits: tuple[KeyedConcurrency | str, ...]) -> list[object]:
    return [one if isinstance(one, str) else CONCURRENCY.write(one) for one in limits]


def read_job_rate(value: object) -> KeyedRate | None:
    """A rate such as 100/m, or a mapping with one. Raises InvalidInput."""
    if value is None:
        return None
    if isinstance(value, str):
        return KeyedRate(parse_rate(value))
    return JOB_RATE.read(value)


def _write_job_rate(rate: KeyedRate | None) -> JobRateForm | str | None:
    if rate is None:
        return None
    if not rate.key and rate.rate.burst == 1:
        return str(rate.rate)
    return {"rate": str(rate.rate), "key": rate.key or None, "burst": rate.rate.burst}


# -------------------------------------------------------------------------------------------------------------- after


class UpstreamForm(TypedDict):
    """A job that this job follows."""

    job: Annotated[str, Key(text, sample="job", missing="name the job that is followed")]
    """Its name."""
    on: Annotated[On, Key(choice(On))]
    """Whether its runs must succeed, fail, or just end."""
    within: Annotated[LengthForm | None, OPTIONAL_LENGTH]
    """How long the end of a run counts, also while other jobs are awaited; null: no limit."""


UPSTREAM = DocumentTable(UpstreamForm, Upstream)


def _read_upstream(value: object) -> Upstream:
    return Upstream(text(value)) if isinstance(value, str) else UPSTREAM.read(value)


def read_after(value: object) -> tuple[Upstream, ...]:
    """The name of a job, a mapping with one, or a list of those. Raises InvalidInput."""
    if value is None:
        return ()
    return list_of(_read_upstream, "jobs")(value) if isinstance(value, list | tuple) else (_read_upstream(value),)


def _write_after(after: tuple[Upstream, ...]) -> list[object]:
    return [UPSTREAM.write(one) for one in after]


# ------------------------------------------------------------------------------------------------------------- shadow


class ReplacedLineForm(TypedDict):
    """A crontab line. Without a user or host, any user or host in the log matches."""

    command: Annotated[str, Key(text, sample="true", missing="copy the command from the crontab line")]
    """The command as cron logs it: the part after the user, up to the first `%`."""
    user: Annotated[str | None, OPTIONAL_TEXT]
    """The user whose crontab has it."""
    host: Annotated[str | None, OPTIONAL_TEXT]
    """The host whose cron runs it, as named in its log."""


REPLACED_LINE = DocumentTable(ReplacedLineForm, ReplacedLine)


# ---------------------------------------------------------------------------------------------------------------- job


class JobForm(TypedDict):
    """What to run and when, with every default."""

    name: Annotated[str, Key(text, sample="job", missing="give the job a name, such as nightly-report")]
    """1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit."""
    description: Annotated[str, TEXT]
    """Free text."""
    schedule: Annotated[ScheduleForm | None, SCHEDULE]
    """When it runs; null: only on request."""
    run: Annotated[
        TargetForm,
        Key(
            _read_target,
            _write_target,
            shorten=partial(_write_target, write=DocumentTable.shorten),
            attribute="target",
            sample=PythonTarget("module:name"),
            missing="add what to run: python, shell, argv, http or amqp",
        ),
    ]
    """What to run."""
    retry: Annotated[RetryForm, Key(read_retry, write_retry)]
    """How often a failed run is retried, and with which delays."""
    timeout: Annotated[LengthForm, LENGTH]
    """How long an attempt may run before it is stopped."""
    overlap: Annotated[Overlap, Key(choice(Overlap))]
    """What happens to a fire while another run of the job is open."""
    misfire: Annotated[MisfireForm, Key(_read_misfire, MISFIRE.write, also=MisfirePolicy)]
    """What happens to missed fires."""
    delivery: Annotated[Delivery, Key(choice(Delivery))]
    """Whether an interrupted run runs again (`at_least_once`) or not (`at_most_once`)."""
    start_guard: Annotated[StartGuard, Key(choice(StartGuard))]
    """Whether a start waits until it is recorded."""
    priority: Annotated[int, Key(whole)]
    """From 0 (lowest) to 9 (highest)."""
    require: Annotated[dict[str, str], TEXTS]
    """Labels that a node must have."""
    concurrency: Annotated[
        list[ConcurrencyForm | str], Key(read_concurrency, _write_concurrency, also=ConcurrencyForm | str | None)
    ]
    """Limits on the runs that execute at the same time: names of shared limits, and keys."""
    rate: Annotated[JobRateForm | str | None, Key(read_job_rate, _write_job_rate)]
    """How many runs start per period, such as `100/m`; null: no limit."""
    breaker: Annotated[BreakerForm | None, Key(optional(BREAKER.read), optional(BREAKER.write))]
    """The error rate above which failing runs are dead letters at once; null: they are always retried."""
    pause_after: Annotated[int | None, OPTIONAL_COUNT]
    """Pause the job after this many failed runs in a row; null: never."""
    success_exit_codes: Annotated[list[int], Key(list_of(whole, "exit codes"), list)]
    """The exit codes of a command that mean success."""
    prefer: Annotated[dict[str, str], TEXTS]
    """Labels of nodes that are chosen before others."""
    spread: Annotated[bool, Key(flag)]
    """Whether its runs go to different nodes where possible."""
    apart_from: Annotated[list[str], Key(list_of(text, "names of jobs"), list)]
    """A run is not placed on a node where one of these jobs is running."""
    resources: Annotated[ResourcesForm, Key(RESOURCES.read, RESOURCES.write)]
    """What each run reserves of the capacity of its node."""
    after: Annotated[list[UpstreamForm | str], Key(read_after, _write_after, also=UpstreamForm | str | None)]
    """Jobs that this job follows: it runs when their runs have ended."""
    join: Annotated[Join, Key(choice(Join))]
    """Whether it runs when all jobs of `after` have ended, or each time one of them ends."""
    shards: Annotated[int | None, OPTIONAL_COUNT]
    """Split each run into this many parts, which share its work; null: not split."""
    run_on: Annotated[RunOn, Key(choice(RunOn))]
    """Whether each run executes on one node, or once on every node that can run it."""
    mode: Annotated[JobMode, Key(choice(JobMode))]
    """Whether its fires are executed, or only recorded while another scheduler does the work."""
    replaces: Annotated[ReplacedLineForm | None, Key(optional(REPLACED_LINE.read), optional(REPLACED_LINE.write))]
    """The crontab line that it replaces, for `cronflow shadow report`."""
    labels: Annotated[dict[str, str], TEXTS]
    """Labels, for people and for searching."""
    enabled: Annotated[bool, Key(flag)]
    """Whether its fires are planned."""


JOB = DocumentTable(JobForm, Job)
TABLES: tuple[DocumentTable[Any], ...] = (
    JOB,
    CRON,
    EVERY,
    ONCE,
    ANY,
    DST,
    WINDOW,
    PYTHON,
    SHELL,
    ARGV,
    LIMITS,
    HTTP,
    REQUEST,
    BACKOFF,
    DELAYS,
    PROFILE,
    RULE,
    BREAKER,
    AMQP,
    AMQP_MESSAGE,
    AMQP_REPLY,
    MISFIRE,
    CONCURRENCY,
    JOB_RATE,
    RESOURCES,
    UPSTREAM,
    REPLACED_LINE,
)
"""The mappings that users write."""

_PLAIN_RETRY = Retry()


@cache
def _defaults() -> Mapping[str, object]:
    schedule = {**CRON.defaults, **EVERY.defaults}
    run = {**PYTHON.defaults, **SHELL.defaults, "http": REQUEST.defaults, "amqp": AMQP_MESSAGE.defaults}
    return {**JOB.defaults, "schedule": schedule, "run": run}


def parse_job(document: object, place: str = "job", *, retry: Retry = _PLAIN_RETRY, tz: str = FORMAT_ZONE) -> Job:
    """The job that a document describes.

    `retry` completes the document's own `retry`, and `tz` is the time zone of a schedule that has none: the cluster's
    settings when a user's document is read, and nothing for a stored one, whose meaning must never change. Raises
    InvalidInput with every problem in the order of the document; each place begins with `place`, as in
    `jobs[0].schedule.cron`.
    """
    try:
        return _read_job(document, retry, tz)
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


def implicit_misfires(documents: Mapping[str, object]) -> dict[str, str]:
    """The place of `schedule.at` by the name of the job, for the documents with a one-time schedule that leave out
    `misfire`. The keys of `documents` are their places.
    """
    return {
        str(document.get("name")): joined(place, "schedule.at")
        for place, document in documents.items()
        if isinstance(document, Mapping)
        and isinstance(schedule := document.get("schedule"), Mapping)
        and "at" in schedule
        and "misfire" not in document
    }


def _read_job(document: object, retry: Retry, tz: str) -> Job:
    if tz != FORMAT_ZONE and isinstance(document, Mapping) and "schedule" in document:
        document = {**document, "schedule": with_zone(document["schedule"], tz)}
    found, problems = JOB.fields(document)
    own = found.pop("retry", {})
    if found.get("delivery") is Delivery.AT_MOST_ONCE:
        wrong = next((key for key in ("delays", "max", "profile", "rules", "deadline") if own.get(key)), None)
        if wrong:
            what = "delivery at_most_once never starts a run twice, so there is no retry"
            problems.append(Problem(f"retry.{wrong}", what, "remove it, or choose delivery at_least_once"))
        own = {key: value for key, value in own.items() if key not in ("profile", "rules", "deadline")}
        own |= {"max": 0, "delays": ()}
    found["retry"] = completed(own, retry)
    return JOB.build(found, problems, document, retry=Retry(max=0))  # without retries every delivery is valid


@overload
def job_document(job: Job, *, compact: Literal[False] = False) -> JobForm: ...
@overload
def job_document(job: Job, *, compact: bool) -> JobForm | dict[str, object]: ...
def job_document(job: Job, *, compact: bool = False) -> JobForm | dict[str, object]:
    """The job as plain dicts, lists, text, numbers and booleans, with every default; with `compact` without them.

    Raises InvalidInput when an argument of a Python target is not a JSON value.
    """
    if compact:
        return without_defaults(JOB.shorten(job), _defaults())
    return cast("JobForm", JOB.write(job))
