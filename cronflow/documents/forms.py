"""The form of a job's document: its keys and the kinds of their values, every default written out.

These are types alone, for whoever checks or describes a document; what may be read is the business of `reading`.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from cronflow.domain.job import Delivery, MisfirePolicy, Overlap, StartGuard

LengthForm = str | float
"""`500ms`, `30s`, `5m`, `2h`, `1d`; seconds as a number where no unit divides it."""


class CronForm(TypedDict):
    """Due when the clocks of a zone match an expression."""

    cron: str
    """Five or six fields, seconds first; or `@daily` and the like."""
    tz: str
    """The IANA zone."""
    start: str | None
    """No fire before it."""
    end: str | None
    """No fire from it on."""


class EveryForm(TypedDict):
    """Due again and again."""

    every: LengthForm
    """From one fire to the next."""
    anchor: str | None
    """The instant that the fires are counted from."""
    time: str | None
    """The time of day, for whole days and weeks."""
    tz: str
    """The IANA zone of that time."""
    start: str | None
    """No fire before it."""
    end: str | None
    """No fire from it on."""


class OnceForm(TypedDict):
    """Due once."""

    at: str
    """The instant."""


ScheduleForm = CronForm | EveryForm | OnceForm


class PythonForm(TypedDict):
    """Call a function of a module that the nodes have."""

    python: str
    """`package.module:function`."""
    args: dict[str, object]
    """Its arguments, by name."""
    process: bool
    """Whether it runs in a child process, which can be killed."""


class ShellForm(TypedDict):
    """Run a line of /bin/sh."""

    shell: str
    """The line."""
    cwd: str | None
    """Where it runs."""
    env: dict[str, str]
    """Variables beside those of the node."""


class ArgvForm(TypedDict):
    """Run a program; no shell sees its words."""

    argv: list[str]
    """The program and its arguments."""
    cwd: str | None
    """Where it runs."""
    env: dict[str, str]
    """Variables beside those of the node."""


class RequestForm(TypedDict):
    """An HTTP request."""

    method: str
    """GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS."""
    url: str
    """An http:// or https:// address."""
    headers: dict[str, str]
    """Beside `Idempotency-Key` and `CronFlow-Fence`, which every request has."""
    body: str | None
    """As it is sent."""
    expect: list[int]
    """The statuses that mean success; none means every 2xx."""


class HttpForm(TypedDict):
    """Send one HTTP request."""

    http: RequestForm
    """The request."""


class SystemForm(TypedDict):
    """Run a piece of CronFlow; only the system's own jobs do."""

    system: str
    """Its name."""


TargetForm = PythonForm | ShellForm | ArgvForm | HttpForm | SystemForm


class BackoffForm(TypedDict):
    """Delays that grow."""

    max: int
    """Retries after the first attempt."""
    initial: LengthForm
    """The delay before the first retry."""
    multiplier: float
    """Each delay is that many times the one before."""
    cap: LengthForm
    """No delay is longer."""
    jitter: bool
    """Whether each delay is drawn from its upper half."""


class DelaysForm(TypedDict):
    """Delays one by one; their number is the number of retries."""

    delays: list[LengthForm]
    """The delay before each retry."""
    jitter: bool
    """Whether each delay is drawn from its upper half."""


RetryForm = BackoffForm | DelaysForm


class MisfireForm(TypedDict):
    """What happens to fires that were not planned in time."""

    policy: MisfirePolicy
    """Run once for all, run each, or skip them."""
    late_after: LengthForm
    """A fire is missed when it is planned later than this."""
    grace: LengthForm | None
    """Later than this it is skipped; null: however late, it runs."""
    max_catch_up: int
    """With `catch_up`, at most so many run."""


class JobForm(TypedDict):
    """What to run and when, with every default."""

    name: str
    """1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit."""
    description: str
    """For people."""
    schedule: ScheduleForm | None
    """When; null: only by hand."""
    run: TargetForm
    """What."""
    retry: RetryForm
    """How often and how long after a failure to try again."""
    timeout: LengthForm
    """An attempt is stopped after it."""
    overlap: Overlap
    """What happens to a fire while another run of the job is open."""
    misfire: MisfireForm
    """What happens to fires that were missed."""
    delivery: Delivery
    """Which is worse after an interruption: running again, or not running."""
    start_guard: StartGuard
    """Whether a start waits for its record."""
    priority: int
    """0, the lowest, to 9."""
    require: dict[str, str]
    """The labels that a node must have."""
    labels: dict[str, str]
    """For people, and to find it by."""
    enabled: bool
    """Whether its fires are planned at all."""
