"""The speed of schedules on one core: `python -m tests.bench.schedules`. It needs no servers, and asserts nothing.

It prints how many next instants of plain lines are computed in a second, and how long it takes to read the stored
definitions of a million jobs and to compute the first fire of each, as after a start. The jobs are those of a large
fleet: many expressions in many zones, some intervals, some with H or jitter. Time is CPU time of this process.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from time import process_time
from typing import Any

from cronflow.backends import codec
from cronflow.bootstrap.garbage_collection import rare_garbage_collection
from cronflow.documents import parse_job
from cronflow.domain.job import JobRecord
from cronflow.domain.planning import first_fire
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Cron, Every
from cronflow.domain.schedule.timetable import next_fire
from tests.bench.words import say

NOW = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
SEED = 1
BERLIN = "Europe/Berlin"
LINES: tuple[Cron | Every, ...] = (
    Cron("* * * * *"),
    Cron("*/5 * * * *"),
    Cron("0 * * * *"),
    Cron("30 2 * * *"),
    Cron("0 9 * * MON-FRI"),
    Cron("0 0 1 * *"),
    Cron("* * * * *", BERLIN),
    Cron("*/15 9-17 * * MON-FRI", BERLIN),
    Cron("30 2 * * *", BERLIN),
    Cron("0 0 L * *", "America/New_York"),
    Cron("*/10 * * * * *", "Asia/Kolkata"),
    Every("5m"),
    Every("1d", time="02:00", tz=BERLIN),
)
ZONES = ("UTC", "UTC", "UTC", BERLIN, "America/New_York", "Asia/Kolkata", "Australia/Sydney", "America/Sao_Paulo")
DAYS = ("* * *", "* * *", "* * *", "* * MON-FRI", "* * SUN", "1 * *", "L * *", "1,15 * *", "* * MON#1")
RUN = {"http": {"url": "https://example.com/run"}}
NAME = "name-of-a-job"
_documents: dict[str, dict[str, Any]] = {}


def instants(schedule: Cron | Every, count: int) -> float:
    """Next instants per second, from fire to fire."""
    after = NOW
    began = process_time()
    for _ in range(count):
        fire = next_after(schedule, after)
        if fire is None or fire.year > 2100:
            # Begin again, without what is remembered.
            fire = NOW
            next_fire.cache_clear()
        after = fire
    return count / (process_time() - began)


def fleet(chosen: random.Random) -> Iterator[dict[str, Any]]:
    """The schedules of jobs, without end."""
    while True:
        tz, minute, hour = chosen.choice(ZONES), chosen.randrange(60), chosen.randrange(24)
        match chosen.randrange(20):
            case 0 | 1:
                yield {"cron": f"*/{chosen.choice([1, 5, 10, 15, 30])} * * * *", "tz": tz}
            case 2:
                yield {"cron": f"{minute} * * * *", "tz": tz}
            case 3 | 4:
                yield {"every": f"{chosen.choice([30, 60, 90, 300, 3600, 7200, 86400])}s"}
            case 5:
                yield {"every": "1d", "time": f"{hour:02}:{minute:02}", "tz": tz}
            case 6:
                yield {"cron": f"H {hour} * * *", "tz": tz}
            case 7:
                yield {"cron": f"{minute} {hour} * * *", "tz": tz, "jitter": "5m"}
            case _:
                yield {"cron": f"{minute} {hour} {chosen.choice(DAYS)}", "tz": tz}


def stored(first: int, count: int, schedules: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """The documents of jobs as MongoDB returns them."""
    found = []
    for number, schedule in zip(range(first, first + count), schedules, strict=False):
        document = dict(_document(str(sorted(schedule.items())), schedule))
        name = f"team-{number % 400}-job-{number}"
        document["_id"] = name
        document["definition"] = document["definition"].replace(NAME, name, 1)
        found.append(document)
    return found


def _document(key: str, schedule: dict[str, Any]) -> dict[str, Any]:
    if key not in _documents:
        job = parse_job({"name": NAME, "schedule": schedule, "run": RUN})
        _documents[key] = codec.record_document(JobRecord(job=job, created_at=NOW, updated_at=NOW))
    return _documents[key]


def start(jobs: int, at_once: int = 1000) -> tuple[float, float, int]:
    """Seconds for reading the jobs and for their first fires, page by page, and the number of different schedules."""
    schedules, reading, computing = fleet(random.Random(SEED)), 0.0, 0.0
    planned = 0
    for first in range(0, jobs, at_once):
        documents = stored(first, min(at_once, jobs - first), schedules)
        began = process_time()
        records = [codec.record(document) for document in documents]
        reading += process_time() - began
        began = process_time()
        for record in records:
            planned += first_fire(record.job, NOW) is not None
        computing += process_time() - began
    assert planned == jobs
    return reading, computing, len(_documents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instants", type=int, default=50_000)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    options = parser.parse_args()
    total = 0.0
    for schedule in LINES:
        rate = instants(schedule, options.instants)
        total += 1 / rate
        text = schedule.expr if isinstance(schedule, Cron) else f"every {schedule.interval} {schedule.time or ''}"
        say(f"{text} {schedule.tz}", f"{rate:10,.0f} next instants per second")
    say(f"all {len(LINES)} lines, in equal parts", f"{len(LINES) / total:10,.0f} next instants per second")
    with rare_garbage_collection():  # as in a node
        reading, computing, different = start(options.jobs)
    say(f"{options.jobs:,} jobs, {different:,} different schedules", f"{reading + computing:8.1f} s after a start")
    say("  reading their definitions", f"{reading:8.1f} s")
    say("  first fire of each", f"{computing:8.1f} s")


if __name__ == "__main__":
    main()
