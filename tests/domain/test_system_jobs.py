"""System jobs as values: when they are due, and how they are stored and rejected."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from cronflow.documents import job_document, parse_job
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CLEANUP, SWEEP, system_jobs
from cronflow.domain.planning import first_fire

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def test_each_is_due_once_a_day_at_its_time_in_utc() -> None:
    sweep, cleanup = system_jobs(time(0, 0), time(3, 5))
    assert (sweep.name, cleanup.name) == (SWEEP, CLEANUP)
    assert first_fire(sweep, NOON) == datetime(2026, 11, 22, 0, 0, tzinfo=UTC)
    assert first_fire(cleanup, NOON) == datetime(2026, 11, 22, 3, 5, tzinfo=UTC)
    assert first_fire(cleanup, NOON, NOON + timedelta(days=1)) == datetime(2026, 11, 23, 3, 5, tzinfo=UTC)


@pytest.mark.parametrize("compact", [False, True])
def test_they_come_back_from_their_documents(compact: bool) -> None:
    for job in system_jobs(time(0, 0), time(3, 0)):
        document = job_document(job, compact=compact)
        assert document["run"] == {"system": job.name.removeprefix("_sys:")}
        assert parse_job(document) == job


def test_a_job_of_a_user_cannot_run_the_system() -> None:
    with pytest.raises(InvalidInput, match=r"job\.run: only system jobs"):
        parse_job({"name": "mine", "run": {"system": "cleanup"}})
    with pytest.raises(InvalidInput, match=r"job\.run: has none of python, shell, argv, http and amqp"):
        parse_job({"name": "mine", "run": {"system": "cleanup", "now": True}})
