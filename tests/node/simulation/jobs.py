"""The jobs of a simulation: of each kind one, with short intervals. A story has some of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cronflow.domain.chain import On, Upstream
from cronflow.domain.concurrency import KeyedConcurrency, KeyedRate, OnFull, Rate
from cronflow.domain.job import Delivery, Job, Misfire, MisfirePolicy, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.permits import NamedLimit
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.schedule.windows import Period
from cronflow.domain.split import RunOn

SECOND = timedelta(seconds=1)
GB = 1 << 30
EXCLUDED = Period(datetime(2026, 11, 21, 12, 0, 7, tzinfo=UTC), datetime(2026, 11, 21, 12, 0, 15, tzinfo=UTC))
"""A story begins at noon and takes half a minute."""
SHARED = (KeyedConcurrency("shared", 2),)
NAMED = NamedLimit(name="named", limit=2)
RETRIED = Retry(max=2, initial="1s")
RETRIED_ONCE = Retry(max=1, initial="1s")
"""For jobs with parts: one of them fails so often that more retries would take as long as the interval."""
ALLOW = Overlap.ALLOW


def job(name: str, every: str | Every | None, seconds: float, **fields: Any) -> Job:
    """How long a run takes and how often it fails is in the arguments."""
    fields = {"retry": Retry(max=0)} | fields
    return Job(
        name=name,
        target=PythonTarget("jobs:work", {"seconds": seconds, "fails": 0.4 if fields["retry"].max else 0.0}),
        schedule=Every(every) if isinstance(every, str) else every,
        misfire=fields.pop("misfire", Misfire(late_after=10 * SECOND)),
        **fields,
    )


JOBS = {
    one.name: one
    for one in (
        job("allow", "2s", 1.0, overlap=ALLOW),
        job("forbid", "3s", 2.0),
        job("queue", "3s", 2.0, overlap=Overlap.QUEUE),
        job("replace", "4s", 6.0, overlap=Overlap.REPLACE),
        job("retries", "4s", 0.5, retry=RETRIED, overlap=ALLOW),
        job("guarded", "3s", 1.0, start_guard=StartGuard.MONGO, overlap=ALLOW),
        job("once", "3s", 2.0, delivery=Delivery.AT_MOST_ONCE, overlap=ALLOW),
        job("long", "9s", 11.0, overlap=ALLOW),
        job("long-once", "11s", 11.0, delivery=Delivery.AT_MOST_ONCE, overlap=ALLOW),
        job("limited", "3s", 1.5, overlap=ALLOW, concurrency=SHARED),
        job("limited-too", "4s", 1.5, overlap=ALLOW, concurrency=SHARED, retry=RETRIED),
        job("limited-skips", "2s", 3.0, overlap=ALLOW, concurrency=(KeyedConcurrency("skips", 1, OnFull.SKIP),)),
        job(
            "limited-replaces", "3s", 5.0, overlap=ALLOW, concurrency=(KeyedConcurrency("replaces", 1, OnFull.REPLACE),)
        ),
        job("named", "2s", 1.0, overlap=ALLOW, concurrency=("named",)),
        job("named-too", "4s", 1.0, overlap=ALLOW, concurrency=("named", *SHARED), retry=RETRIED),
        job("rated", "2s", 0.5, overlap=ALLOW, rate=KeyedRate(Rate(1, 1.5 * SECOND, burst=2)), priority=8),
        job("reserving", "2s", 3.0, overlap=ALLOW, resources=ResourceAmount(memory=GB)),
        job("reserving-too", "3s", 2.0, resources=ResourceAmount(memory=2 * GB), priority=9),
        job("missed", "2s", 0.5, misfire=Misfire(MisfirePolicy.SKIP, late_after=3 * SECOND)),
        job("caught-up", "2s", 0.5, misfire=Misfire(MisfirePolicy.CATCH_UP, late_after=3 * SECOND, max_catch_up=3)),
        job("excluded", Every("2s", blackout=(EXCLUDED,)), 0.5, overlap=ALLOW),
        job("after-end", Every("2s", after_completion=True), 1.5, retry=RETRIED),
        job("on-request", None, 2.0, overlap=ALLOW, retry=RETRIED),
        job("past", "60s", 1.0, overlap=ALLOW, priority=2),
        job("follower", None, 1.0, overlap=ALLOW, after=(Upstream("forbid", On.ENDED),)),
        job("joined", None, 1.0, overlap=ALLOW, after=(Upstream("follower"), Upstream("queue", On.ENDED))),
        job("last", None, 1.0, overlap=ALLOW, after=(Upstream("joined", On.ENDED),)),
        job("sharded", "9s", 2.0, shards=3, retry=RETRIED_ONCE),
        job("sharded-once", "8s", 2.0, shards=2, delivery=Delivery.AT_MOST_ONCE, overlap=Overlap.QUEUE),
        job("sharded-replaced", "7s", 9.0, shards=2, overlap=Overlap.REPLACE),
        job("everywhere", "8s", 2.0, run_on=RunOn.EVERY_NODE),
        job("everywhere-retried", "6s", 1.0, run_on=RunOn.EVERY_NODE, overlap=ALLOW, retry=RETRIED_ONCE),
    )
}
LONG = {"replace", "long", "long-once", "sharded-replaced"}
"""The jobs that have a run at all times, so a run that must not overlap another one would wait for ever."""
ALWAYS_OPEN = LONG | {"limited-skips", "limited-replaces", "reserving"}
"""Their runs take longer than their interval. If they had to exclude each other, a backfill would wait for ever."""
EDITS: tuple[dict[str, object], ...] = (
    {"timeout": timedelta(minutes=2)},
    {"timeout": timedelta(minutes=3)},
    {"schedule": Every("3s")},
    {"schedule": Every("5s")},
    {"priority": 0},
    {"enabled": False},
    {"overlap": Overlap.QUEUE},
    {"overlap": ALLOW},
    {"start_guard": StartGuard.MONGO},
)
"""What an edit may change."""


def with_upstream(names: Iterable[str]) -> list[Job]:
    """The jobs of these names and those that they follow, in the order of `JOBS`."""
    wanted = set(names)
    for one in reversed(JOBS.values()):
        if one.name in wanted:
            wanted |= {upstream.job for upstream in one.after}
    return [one for one in JOBS.values() if one.name in wanted]


def edited(name: str, number: int) -> Job:
    """The job after the edit of this number. `past` keeps its minute, because a backfill of it reaches 5 minutes back,
    and `sharded` its 9 seconds: with the retry of a part it takes 6, and a backfill would find no gap.
    """
    one, change = JOBS[name], EDITS[number % len(EDITS)]
    keeps = one.name in ALWAYS_OPEN and not change.keys().isdisjoint(("schedule", "overlap"))
    keeps |= (bool(one.after) or name in ("past", "sharded")) and "schedule" in change
    return one if keeps else replace(one, **change)  # type: ignore[arg-type]
