"""Compares the plan of an imported schedule with that of its source: 1,000 instants each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from cronflow.documents import parse_job
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Schedule

HERE = Path(__file__).parent
COUNT = 1000


def parsed(schedule: Mapping[str, Any]) -> Schedule:
    """The schedule as a job of a file has it."""
    found = parse_job({"name": "imported", "schedule": dict(schedule), "run": {"shell": "true"}}).schedule
    assert found is not None
    return found


def fires(schedule: Mapping[str, Any], begin: datetime, count: int = COUNT) -> list[datetime]:
    """The first fires after `begin` that are not skipped."""
    found: list[datetime] = []
    one, at = parsed(schedule), begin
    while len(found) < count and (fire := next_after(one, at)) is not None:
        at = fire
        if exclusion(one, at) is None:
            found.append(at)
    return found


def digest(instants: Iterable[datetime]) -> str:
    """As the generators of the golden lists compute it."""
    text = "".join(f"{int(one.timestamp())}\n" for one in instants)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def golden(name: str) -> list[list[str]]:
    """The rows of a golden list."""
    return [line.split("\t") for line in (HERE / name).read_text("utf-8").splitlines()]
