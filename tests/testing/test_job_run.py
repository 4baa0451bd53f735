"""`run_job`: the attempts, delays and outcome are those of a node, and no time passes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from cronflow import CronFlowError
from cronflow.testing import FakeClock, JobResult, run_job, run_job_sync
from tests.children import child_environment
from tests.testing.jobs import app


async def test_simulated_failures_are_retried_after_the_delays_of_the_policy() -> None:
    clock = FakeClock()
    done = await run_job(
        app, "report", args={"region": "us"}, at="2026-11-24T02:00Z", failing=[OSError] * 3, clock=clock
    )
    assert (done.state, done.delays) == ("succeeded", [30, 60, 120])
    assert [attempt.outcome for attempt in done.attempts] == ["error", "error", "error", "ok"]
    assert done.result == {"region": "us", "at": "2026-11-24T02:00:00+00:00"}
    assert (done.log, done.progress) == (["info building region=us attempt=4"], ["0/2", "2/2"])
    assert clock.now() == datetime(2026, 11, 24, 2, 3, 30, tzinfo=UTC)
    assert done.attempts[3].started_at == clock.now()


async def test_an_exhausted_run_is_failed_with_its_last_error() -> None:
    done = await run_job(app, "report", failing=[OSError("a"), None, OSError("b")])
    assert (done.state, len(done.attempts)) == ("succeeded", 2)
    done = await run_job(app, "report", failing=[OSError("a"), OSError("b"), OSError("c"), OSError("d"), OSError("e")])
    assert (done.state, done.delays, done.error) == ("failed", [30, 60, 120], "OSError: d")
    assert repr(done) == "<JobResult report failed after 4 attempts: OSError: d>"


@pytest.mark.parametrize(
    ("job", "state", "error", "delays"),
    [
        ("later", "failed", "not yet", [600]),
        ("refused", "failed", "no such customer", []),
        ("idle", "skipped", "nothing to do", []),
        ("until-the-deadline", "failed", "ConnectionError: down", [30]),
        ("once", "failed", "ConnectionError: down", []),
    ],
)
def test_what_a_job_decides_counts_as_on_a_node(job: str, state: str, error: str, delays: list[float]) -> None:
    done = run_job_sync(app, job)
    assert (done.state, done.delays) == (state, delays)
    assert done.error is not None
    assert done.error.startswith(error)
    assert (done.reason or "").startswith("retry deadline") is (job == "until-the-deadline")


def test_functions_run_in_threads_and_in_processes() -> None:
    done = run_job_sync(app, "printing", at="2026-11-24T02:00Z")
    assert (done.result, done.log) == ("printing@20261124T020000Z", ["info from a thread"])
    done = run_job_sync(app, "apart", failing=[OSError])
    assert (done.log, done.delays) == (["info from a process"], [30])
    assert done.result not in (None, os.getpid())


def test_a_part_of_a_split_run_can_be_chosen() -> None:
    assert run_job_sync(app, "parts", shard=3).result == [3, 4]
    with pytest.raises(CronFlowError, match="no shard 4; it has 4, from 0"):
        run_job_sync(app, "parts", shard=4)


async def test_what_cannot_be_run_is_refused_with_a_remedy() -> None:
    with pytest.raises(CronFlowError, match=r"no job 'reprot' .did you mean report"):
        await run_job(app, "reprot")
    with pytest.raises(CronFlowError, match=r"at: .*has no time zone"):
        await run_job(app, "report", at="2026-11-24T02:00")
    with pytest.raises(CronFlowError, match="failing: expected exceptions"):
        await run_job(app, "report", failing=["OSError"])  # type: ignore[list-item]
    with pytest.raises(CronFlowError, match="await run_job"):
        run_job_sync(app, "report")
    wrong = await run_job(app, "report", args={"regoin": "eu"})
    assert (wrong.state, len(wrong.attempts)) == ("failed", 1)


def test_no_server_driver_is_imported() -> None:
    program = (
        "import sys; from cronflow.testing import run_job_sync, fires, job_file; from tests.testing.jobs import app;"
        "assert run_job_sync(app, 'idle').state == 'skipped'; print(*{'redis', 'motor', 'pymongo'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=child_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_fixtures_share_a_clock(cronflow_jobs: object, cronflow_clock: FakeClock) -> None:
    assert callable(cronflow_jobs)
    began = cronflow_clock.now()
    result = cronflow_jobs(app, "report", failing=[OSError])
    assert isinstance(result, JobResult)
    assert cronflow_clock.now() - began == timedelta(seconds=30)
