"""The benchmarks measure: with very few runs, and without looking at the figures."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cronflow.testing.embedded import MongoServer, RedisServer
from tests.bench import bare_path
from tests.bench.own_loads import Bench, Setup
from tests.bench.peer_drains import rate
from tests.bench.peers import ledger

RUNS = 50


async def test_the_bare_path_moves_every_job_and_ends_every_run(own_redis: RedisServer, own_mongo: MongoServer) -> None:
    found = await bare_path.measure(own_redis, own_mongo, RUNS, indexes=True, namespace="smoke")
    assert found.per_second > 0
    assert set(found.cpu_ms) == {"python", "mongod", "redis"}


async def test_nodes_drain_jobs_that_are_due_at_one_instant(
    own_redis: RedisServer, own_mongo: MongoServer, tmp_path: Path
) -> None:
    bench = Bench(own_redis, own_mongo, str(tmp_path))
    found = await bench.drain(Setup(nodes=1, slots=32), RUNS, "cron")
    assert (found.runs, len(found.late)) == (RUNS, RUNS)
    assert min(found.late).total_seconds() >= 0
    assert set(found.cpu_ms) == {"nodes", "mongod", "redis"}
    assert found.memory_mib > 0
    # The cursor of the job and the run are written at least.
    assert found.writes >= 2
    assert found.round_trips > 0


def test_a_rate_counts_from_the_first_execution_of_the_last_process_on() -> None:
    early, late = [10.0, 11.0, 12.0, 13.0], [12.0, 14.0]
    assert rate([early]) == 1.0
    assert rate([early, late]) == 1.0
    with pytest.raises(RuntimeError, match="only 1 executions"):
        rate([[10.0, 10.1, 10.2, 10.3, 13.0], [12.5]])


def test_the_ledger_has_every_execution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ledger.FOLDER, str(tmp_path))
    monkeypatch.setattr(ledger, "_entries", {})
    began = time.time()
    for _ in range(3):
        ledger.executed()
    (times,) = ledger.read(tmp_path)
    assert len(times) == 3
    assert began <= times[0] <= times[-1] <= time.time()
    assert [file.name for file in tmp_path.iterdir()] == [str(os.getpid())]
