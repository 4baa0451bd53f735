"""A cluster in memory for the tests of the command line: a dozen jobs, runs in every state, three nodes.

It is noon on Saturday, 2026-11-21, and time stands still.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from typing import Any

from cronflow.auth.passwords import Passwords
from cronflow.config import Settings
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert, Answer, Notification, NotificationState
from cronflow.domain.backfill import Backfill, BackfillRate, BackfillScope, BackfillState
from cronflow.domain.catch_up import CatchUpPlan, CatchUpState, HeldJob
from cronflow.domain.cluster import NodeReport
from cronflow.domain.concurrency import LimitUse, Rate, named_id
from cronflow.domain.job import Breaker, CommandTarget, HttpTarget, Job, PendingRun, PythonTarget, Retry
from cronflow.domain.job_breaker import BreakerState
from cronflow.domain.permits import NamedLimit, PermitRequest
from cronflow.domain.run import Attempt, Covers, Kind, Outcome, Run, RunState, run_id
from cronflow.domain.schedule.calendar import Calendar, DaySpan, YearlyDay
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule
from cronflow.domain.schedule.windows import Period, WeeklyHours
from cronflow.domain.split import Split, SplitBy
from cronflow.ports import LogLine
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from cronflow.usecases.accounts import UserAccounts
from tests.auth.bench import QUICK

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FENCE = 1795262400000000
FAILED = "nightly-report@20261121T010000Z"
SUCCEEDED = "sync-tokens@20261121T115930Z"
RUNNING = "reindex-search@20261121T115500Z"
RETRYING = "send-invoices@20261121T110000Z"
BACKFILL = "sync-tokens~b1"


def ago(**length: float) -> datetime:
    """That long before noon."""
    return NOON - timedelta(**length)


def job(name: str, schedule: Schedule | None = None, **rest: Any) -> Job:
    """A job, by default a Python job."""
    rest.setdefault("target", PythonTarget(f"shop.jobs:{name.replace('-', '_').replace('.', '_')}"))
    return Job(name=name, schedule=schedule, **rest)


def run(job: str, fire: datetime, state: RunState, **rest: Any) -> Run:
    """A run with the fields that its state implies."""
    is_open = state in (RunState.DISPATCHED, RunState.RUNNING, RunState.RETRYING)
    started = state in (RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED, RunState.LOST, RunState.RETRYING)
    ran: dict[str, Any] = {
        "fence": FENCE,
        "term": 7,
        "node": "node-a#5f1c",
        "attempt": 1,
        "dispatched_at": fire + timedelta(milliseconds=20),
        "started_at": fire + timedelta(milliseconds=48) if started else None,
        "ended_at": None if is_open else fire + timedelta(seconds=3, milliseconds=248),
    }
    fields: dict[str, Any] = {
        "id": run_id(job, fire),
        "job": job,
        "fire_at": fire,
        "kind": Kind.CRON,
        "state": state,
        "job_ver": 1,
        "max_attempts": 4,
        "check_at": fire + timedelta(seconds=45) if is_open else None,
        "created_at": fire,
        "outcome": Outcome.OK if state is RunState.SUCCEEDED else None,
        **ran,
        **rest,
    }
    return Run(**fields)


def a_split_run() -> list[Run]:
    """A run that failed because one of its three parts did, and the parts."""
    parent = run("sync-tokens", ago(minutes=7), RunState.FAILED)
    split = Split(by=SplitBy.SHARDS, total=3, begun=True)
    parent = replace(parent, id="sync-tokens@manual-7", kind=Kind.MANUAL, node=None, split=split)
    states = (RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.FAILED)
    parts = [
        replace(run(parent.job, parent.fire_at, state), id=plan.id, kind=Kind.PART, shard=plan.shard)
        for plan, state in zip(split.parts(parent.id), states, strict=True)
    ]
    return [parent, *parts]


JOBS: Sequence[Job] = (
    job("nightly-report", Cron("0 2 * * *", tz="Europe/Berlin"), description="Builds the report of the day before"),
    job("sync-tokens", Every("30s"), timeout=timedelta(seconds=20)),
    job("reindex-search", Cron("*/5 * * * *"), target=CommandTarget(("bin/reindex", "--all"))),
    job("send-invoices", Cron("0 9-17 * * MON-FRI", tz="America/New_York"), labels={"team": "billing"}),
    job("warehouse.import", Cron("15 3 1 * *"), target=CommandTarget("psql -f import.sql")),
    job("health-ping", Every("1m"), target=HttpTarget("https://status.example.com/ping", expect=(200, 204))),
    job("clean-uploads", Cron("30 4 * * SUN"), retry=Retry(delays=["30s", "5m", "1h"])),
    job("black-friday", Once(datetime(2026, 11, 27, 5, 0, tzinfo=UTC)), breaker=Breaker()),
    job("launch-2025", Once(datetime(2025, 3, 1, 9, 0, tzinfo=UTC))),
    job("rotate-keys", Cron("0 0 * * MON#2", tz="Australia/Lord_Howe"), priority=9),
    job("legacy-export", Cron("@hourly"), enabled=False),
    job("rebuild-cache"),
)

_LONG = "connection to db.internal:5432 refused: the server closed the connection unexpectedly\nwhile it was in use"

RUNS: Sequence[Run] = (
    run("sync-tokens", ago(seconds=30), RunState.SUCCEEDED, kind=Kind.INTERVAL, result={"refreshed": 12}),
    run("sync-tokens", ago(seconds=60), RunState.SUCCEEDED, kind=Kind.INTERVAL, node="node-b#77aa"),
    run("sync-tokens", ago(seconds=90), RunState.SKIPPED, kind=Kind.INTERVAL, reason="overlap", started_at=None),
    run("reindex-search", ago(minutes=5), RunState.RUNNING, node="node-c#0c44"),
    run("health-ping", ago(seconds=0), RunState.DISPATCHED, kind=Kind.INTERVAL, node="node-b#77aa"),
    run(
        "send-invoices",
        ago(hours=1),
        RunState.RETRYING,
        attempt=3,
        fence=FENCE + 2,
        check_at=NOON + timedelta(seconds=90),
        error=_LONG,
        attempts=(
            Attempt(1, FENCE, "node-a#5f1c", ago(hours=1), ago(minutes=59), Outcome.ERROR, _LONG),
            Attempt(2, FENCE + 1, "node-c#0c44", ago(minutes=58), ago(minutes=57.5), Outcome.TIMEOUT, "timed out"),
        ),
    ),
    run(
        "nightly-report",
        ago(hours=11),
        RunState.FAILED,
        attempt=4,
        outcome=Outcome.ERROR,
        error="ValueError: no rows for 2026-11-20",
        args={"region": "eu"},
        started_at=ago(hours=10, minutes=55),
        ended_at=ago(hours=10, minutes=54),
        attempts=tuple(
            Attempt(
                n, FENCE + n, "node-a#5f1c", ago(hours=11 - n / 60), ago(hours=11 - n / 50), Outcome.ERROR, "no rows"
            )
            for n in range(1, 5)
        ),
    ),
    run("warehouse.import", ago(days=20), RunState.LOST, outcome=Outcome.LOST, error="node-d stopped answering"),
    run(
        "rebuild-cache",
        ago(hours=2),
        RunState.CANCELLED,
        id="rebuild-cache@manual-9f86d081884c7d65",
        kind=Kind.MANUAL,
        reason="edited",
    ),
    run(
        "clean-uploads",
        datetime(2026, 11, 15, 4, 30, tzinfo=UTC),
        RunState.SUCCEEDED,
        covers=Covers(datetime(2026, 11, 1, 4, 30, tzinfo=UTC), datetime(2026, 11, 15, 4, 30, tzinfo=UTC), 3),
    ),
)


BACKFILLING = Backfill(
    id=BACKFILL,
    job="sync-tokens",
    state=BackfillState.RUNNING,
    scope=BackfillScope.MISSING,
    first=ago(minutes=20),
    last=ago(minutes=10),
    rate=BackfillRate(10, "m"),
    total=2,
    first_instant=ago(minutes=20),
    last_instant=ago(minutes=10),
    due_at=ago(minutes=1),
    by="ada",
    created_at=ago(minutes=1),
)


RECOVERY = CatchUpPlan(
    number=1,
    state=CatchUpState.WAITING,
    cutoff=ago(minutes=5),
    cause="the cluster had no leader",
    since=ago(minutes=5),
    jobs=2,
    runs=3,
    oldest=ago(minutes=50),
    by_priority=((5, 3),),
    top=(HeldJob("sync-tokens", 2, ago(minutes=50)), HeldJob("nightly-report", 1, ago(minutes=20))),
)


BILLING = Alert(
    name="billing",
    on=(AlertKind.FAILED, AlertKind.RECOVERED),
    jobs=("billing-*", "nightly-report"),
    webhook=Webhook("https://hooks.example.com/x", "${secret:HOOKS}"),
)


class Receiver:
    """A NotificationSender whose receiver gives this answer."""

    def __init__(self) -> None:
        self.answer = Answer(204, None, 12)
        self.posted: list[tuple[Alert, Notification]] = []

    sends_mail = True

    async def send(self, alert: Alert, notification: Notification, at: datetime) -> Answer:
        self.posted.append((alert, notification))
        return self.answer


HOLIDAYS = Calendar(
    name="de-holidays",
    description="Of Germany",
    tz="Europe/Berlin",
    days=(YearlyDay(12, 25, "Christmas Day"), DaySpan(date(2026, 12, 31), date(2027, 1, 1), "Turn of the year")),
    windows=(Period(datetime(2026, 12, 24, 14), datetime(2026, 12, 24, 23), "Christmas Eve"),),  # noqa: DTZ001
)
NIGHT = WeeklyHours((1, 2, 3, 4, 5), clock_time(22), clock_time(6), "night")


class Scene:
    """The service and its backends in memory."""

    def __init__(self, *, namespace: str = "default") -> None:
        self.namespace = namespace
        self.clock = FakeClock(NOON)
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.notifier = Receiver()
        self.service = UseCases(self.backends, self.clock, notifier=self.notifier)
        # A hash of the usual strength takes longer than most tests; `tests/auth` is about hashes.
        self.service.passwords = Passwords(QUICK)
        self.service.users = UserAccounts(
            self.backends.users, self.clock, self.service.audit, self.service.passwords, reserved="admin"
        )
        self.opened = 0

    @asynccontextmanager
    async def open_service(self, _settings: Settings) -> AsyncIterator[UseCases]:
        """Replaces `connect.open_service`."""
        self.opened += 1
        yield self.service

    async def fill(self) -> None:
        self.clock.step(timedelta(days=-30))
        await self.service.jobs.apply(JOBS)
        self.clock.step(timedelta(days=30))
        await self.backends.runs.insert(RUNS)
        for record in await self.service.backends.jobs.find():
            fire = None if record.job.schedule is None else next_after(record.job.schedule, NOON)
            pending_run = None
            if record.name == "nightly-report":
                pending_run = PendingRun(
                    fire=ago(hours=11), state=RunState.DISPATCHED, fence=FENCE, job_ver=1, at=ago(hours=11)
                )
            paused = record.name == "warehouse.import"
            moved = replace(record, next_fire=fire, due_at=fire, pending_run=pending_run, paused=paused)
            assert await self.backends.jobs.replace(moved, record.rev)
        state = BreakerState(job="black-friday")
        opened = replace(state, opened_at=ago(minutes=5), probe_at=NOON + timedelta(minutes=5), failed=14, attempts=20)
        assert await self.backends.breakers.replace(state, opened)
        await self._lines()
        await self._nodes()
        await self._alerts()
        await self._limits()
        await self._calendars()

    async def _calendars(self) -> None:
        for calendar in (HOLIDAYS, Calendar(name="quiet", windows=(NIGHT,))):
            assert await self.backends.calendars.put(calendar, 0, "ada", NOON)

    async def _limits(self) -> None:
        limits = self.backends.limits
        await limits.define(NamedLimit(name="database", limit=4, rate=Rate(100, timedelta(minutes=1))), "ada", NOON)
        await limits.acquire([PermitRequest(LimitUse(named_id("database")), RUNNING, FENCE, "node-a#1")])
        assert await self.backends.backfills.create(BACKFILLING, [ago(minutes=n) for n in (20, 10)])
        assert await self.backends.catch_up.write(RECOVERY)

    async def _alerts(self) -> None:
        await self.service.alerts.create(BILLING)
        common: dict[str, Any] = {"alert": "billing", "kind": AlertKind.FAILED, "body": "{}"}
        refused: dict[str, Any] = {
            "attempts": 3,
            "status": 500,
            "error": "answered 500: oh no",
            "tried_at": ago(minutes=2),
        }
        run = "billing-sums@20261121T115500Z"
        await self.backends.outbox.put(
            [
                Notification(id="msg_1", subject=FAILED, job="nightly-report", created_at=ago(hours=10), **common),
                Notification(
                    id="msg_2", subject=run, job="billing-sums", created_at=ago(minutes=4), **common, **refused
                ),
            ]
        )
        [first] = await self.backends.outbox.claim("c", timedelta(minutes=1), 1)
        taken = replace(
            first, state=NotificationState.DELIVERED, status=204, tried_at=ago(hours=10), ended_at=ago(hours=10)
        )
        assert await self.backends.outbox.record_attempt(taken, None)

    async def _lines(self) -> None:
        texts = [
            (FENCE, 1, "info", "sending 120 invoices"),
            (FENCE, 1, "error", "connection refused"),
            (FENCE + 1, 2, "info", "sending 120 invoices"),
            (FENCE + 1, 2, "progress", "40/120"),
            (FENCE + 1, 2, "warn", "\x1b[31mred\x1b[0m and \x1b]0;a title\x07 rest"),
        ]
        await self.backends.logs.append(
            [
                LogLine(
                    run=RETRYING,
                    job="send-invoices",
                    fence=fence,
                    attempt=attempt,
                    n=n,
                    at=ago(minutes=60 - n),
                    level=level,
                    text=text,
                )
                for n, (fence, attempt, level, text) in enumerate(texts)
            ]
        )

    async def _nodes(self) -> None:
        reports = (
            NodeReport(
                name="node-a",
                incarnation="5f1c",
                cpu=0.42,
                memory=0.61,
                slots=16,
                in_flight=3,
                labels={"region": "eu", "disk": "ssd"},
                version="0.0.1",
                host="ip-10-0-0-11",
                pid=211,
                started_at=ago(days=3),
            ),
            NodeReport(name="node-b", incarnation="77aa", cpu=0.07, memory=0.33, slots=16, in_flight=0, draining=True),
            NodeReport(name="node-c", incarnation="0c44", cpu=0.993, memory=0.88, slots=4, in_flight=4),
        )
        for report in reports[2:]:
            await self.backends.membership.report(report, 60.0)
        await self.clock.advance(11.2)
        self.clock.step(timedelta(seconds=-11.2))
        for report in reports[:2]:
            await self.backends.membership.report(report, 60.0)
        # It has more runs than slots; the surplus must not reduce the capacity of the others.
        self.backends.memory.held["node-c#0c44"] = {f"reindex-search@{n}": FENCE for n in range(6)}
        term = await self.backends.control.begin_term("node-a#5f1c")
        await self.backends.election.acquire("node-a#5f1c", 30.0)
        await self.backends.election.install("node-a#5f1c", term.number, "boot")
        await self.clock.advance(8.0)
        self.clock.step(timedelta(seconds=-8.0))
