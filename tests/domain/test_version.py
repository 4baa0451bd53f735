"""Which version of a job an instant belongs to."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.version import Version, nearest, version_at, version_due, version_of
from cronflow.testing.audit import audit, expectations
from tests.contracts.builders import T0, a_job, a_record, a_run

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def a_version(ver: int, at: datetime, since: datetime | None, **fields: Any) -> Version:
    return Version(job=a_job(**fields), ver=ver, at=at, since=since)


# Every minute from noon; at 12:02:30 changed to every hour; deleted at 12:40; back at 14:00:30, every minute.
HISTORY = [
    a_version(1, T0, T0),
    a_version(2, T0 + 150 * SECOND, T0 + 60 * MINUTE, schedule=Every("1h")),
    replace(a_version(3, T0 + 100 * MINUTE, None, schedule=Every("1h")), deleted=True),
    a_version(4, T0 + 120.5 * MINUTE, T0 + 121 * MINUTE),
]


def ver(instant: datetime) -> int | None:
    found = version_due(HISTORY, instant)
    return None if found is None else found.ver


def test_an_instant_belongs_to_the_version_under_which_it_fell_due() -> None:
    assert [ver(T0 + k * MINUTE) for k in range(4)] == [1, 1, 1, None]
    assert [ver(T0 + k * MINUTE) for k in (60, 120, 121, 180, 9999)] == [2, None, 4, 4, 4]
    assert ver(T0 + 30 * SECOND) is None
    assert ver(T0 - MINUTE) is None


def test_what_falls_due_in_the_second_of_the_edit_is_the_old_versions_unless_the_new_one_took_it() -> None:
    edited = T0 + 2 * MINUTE + SECOND / 2
    jumped = [a_version(1, T0, T0), a_version(2, edited, T0 + 3 * MINUTE)]
    kept = [a_version(1, T0, T0), a_version(2, edited, T0 + MINUTE)]
    for history, owner in ((jumped, 1), (kept, 2)):
        found = version_due(history, T0 + 2 * MINUTE)
        assert found is not None
        assert found.ver == owner


def test_the_version_in_force_is_the_newest_that_had_begun() -> None:
    found = [version_at(HISTORY, T0 + k * MINUTE) for k in (-1, 0, 3, 110, 500)]
    assert [version and version.ver for version in found] == [None, 1, 2, 3, 4]


def test_the_nearest_instants_are_found_across_versions() -> None:
    assert nearest(HISTORY, T0 + 3 * MINUTE) == (T0 + 2 * MINUTE, T0 + 60 * MINUTE)
    assert nearest(HISTORY, T0 + 119 * MINUTE) == (T0 + 60 * MINUTE, T0 + 121 * MINUTE)
    assert nearest(HISTORY, T0 - MINUTE) == (None, T0)
    assert nearest([a_version(1, T0, None, schedule=None)], T0) == (None, None)


def test_the_audit_looks_for_the_instants_of_each_version_in_its_span_alone() -> None:
    expected = {"report": expectations(HISTORY)}
    minutes = (0, 1, 2, 60, 121, 122)
    runs = [a_run(fire=T0 + k * MINUTE, state=RunState.SUCCEEDED) for k in minutes]
    found = audit(expected, runs, T0 + 123 * MINUTE)
    assert (found.holds, found.fires_due) == (True, 6)
    without = audit(expected, [run for run in runs if run.fire_at != T0 + 60 * MINUTE], T0 + 123 * MINUTE)
    assert without.lost == [("report", T0 + 60 * MINUTE)]


def test_the_present_version_has_the_reason_why_nothing_runs_under_it() -> None:
    held = [
        version_of(a_record(**fields)).held
        for fields in (
            {},
            {"paused": True},
            {"paused": True, "job": a_job(enabled=False)},
            {"paused": True, "deleted_at": T0},
        )
    ]
    assert held == [None, "paused", "disabled", "deleted"]
