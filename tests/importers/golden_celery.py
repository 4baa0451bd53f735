"""Prints golden facts about crontabs of Celery: the first instants, the last, and a hash of 1,000.

    pip install celery==5.7.0
    python tests/importers/golden_celery.py > tests/importers/golden_celery.tsv

Celery and its dependencies are too heavy for the environment of the tests, so no test imports this module. The loop
does what beat does: it asks the schedule whether it is due, runs it or waits as long as it says, and remembers the last
run.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from celery import Celery
from celery.schedules import crontab

BEGIN = datetime(2026, 2, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/Havana")
CRONTABS = (
    {"minute": "*/15"},
    {"minute": 30, "hour": 2},
    {"minute": 0, "hour": 0},
    {"minute": "*/20", "hour": 2},
    {"minute": "10,40", "hour": 2},
    {"minute": 0, "hour": "*/2"},
    {"minute": 15, "hour": "22-4"},
    {"minute": 30, "hour": 7, "day_of_week": 1},
    {"minute": 0, "hour": 9, "day_of_week": "mon-fri"},
    {"minute": 0, "hour": 4, "day_of_week": "sat,sunday"},
    {"minute": 0, "hour": 6, "day_of_week": "*/2"},
    {"minute": 0, "hour": 5, "day_of_month": "1-7,15-21", "day_of_week": "thu"},
    {"minute": 0, "hour": 5, "day_of_month": 13, "day_of_week": "fri"},
    {"minute": 0, "hour": 5, "day_of_month": "1,10", "day_of_week": "tue"},
    {"minute": 0, "hour": 12, "day_of_month": "2-30/7", "month_of_year": "*/3"},
    {"minute": 0, "hour": 12, "day_of_month": 31},
    {"minute": [5, 35], "hour": [1, 13]},
)


def fires(tz: str, count: int, **values: object) -> list[datetime]:
    app = Celery(set_as_current=False)
    app.conf.timezone, zone, now = tz, ZoneInfo(tz), BEGIN
    schedule = crontab(nowfun=lambda: now.astimezone(zone), app=app, **values)
    last = now.astimezone(zone)
    found: list[datetime] = []
    while len(found) < count:
        state = schedule.is_due(last)
        if state.is_due:
            found.append(now)
            last = now.astimezone(zone)
        now += timedelta(seconds=max(state.next, 1))
    return found


def main() -> None:
    for tz in ZONES:
        for values in CRONTABS:
            found = fires(tz, 1000, **values)
            digest = hashlib.sha256("".join(f"{int(one.timestamp())}\n" for one in found).encode()).hexdigest()[:16]
            shown = " ".join(f"{one:%Y-%m-%dT%H:%M:%SZ}" for one in (found[0], found[1], found[-1]))
            print(tz, json.dumps(values), shown, digest, sep="\t")


if __name__ == "__main__":
    main()
