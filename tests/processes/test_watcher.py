"""A watcher process beside real nodes on real servers: all nodes die, then MongoDB, and all of them come back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from cronflow.testing.embedded import MongoServer
from tests.children import cluster_environment
from tests.forked import process
from tests.processes.conftest import SHORT_LIMITS, Processes, process_cluster
from tests.processes.test_alerts import Receiver, receiving
from tests.waiting import eventually

pytestmark = pytest.mark.chaos

GRACE, EVERY = 5, 1


def alert_file(folder: Path, port: int) -> Path:
    file = folder / "watcher.yaml"
    file.write_text(f"receivers:\n  - name: on-call\n    webhook: {{url: 'http://127.0.0.1:{port}/hook'}}\n", "utf-8")
    return file


@contextmanager
def a_watcher(cluster: Processes, port: int) -> Iterator[Path]:
    """Its log."""
    environment = cluster_environment(
        cluster.redis_url, cluster.mongo_url, cluster.namespace, CRONFLOW_LOG_FORMAT="text", **SHORT_LIMITS
    )
    words = ["cronflow", "watcher", f"--grace={GRACE}s", f"--every={EVERY}s"]
    words += [f"--snapshot={cluster.folder / 'snapshot'}", f"--alerts={alert_file(cluster.folder, port)}"]
    words += [f"--ping=http://127.0.0.1:{port}/ping"]
    log = cluster.folder / "watcher.log"
    with process(words, environment, log):
        yield log


def messages(receiver: Receiver) -> list[dict[str, Any]]:
    return [orjson.loads(one.body) for one in receiver.web.requests if one.path == "/hook"]


def levels(receiver: Receiver) -> dict[str, list[str]]:
    """By finding, the levels of its messages in their order."""
    found: dict[str, list[str]] = {}
    for body in messages(receiver):
        found.setdefault(body["finding"], []).append(body["level"])
    return found


async def test_it_reports_dead_nodes_and_a_dead_mongodb_and_their_return(
    redis_url: str, own_mongo: MongoServer, namespace: str, tmp_path: Path
) -> None:
    async with receiving() as receiver, process_cluster(redis_url, own_mongo.url, namespace, tmp_path) as cluster:
        receiver.web.answers["/ping"] = receiver.web.answers["/ping/fail"] = receiver.answer
        with a_watcher(cluster, receiver.web.port) as log:
            await cluster.up("a", "b")
            await cluster.apply(cluster.job("tick"))

            def judged() -> bool:
                pinged = any(one.path == "/ping" for one in receiver.web.requests)
                return pinged and bool(re.search(r"first round", log.read_text()))

            await eventually(judged, what="a ping")
            runs = cluster.runs
            await eventually(runs, what="a run")
            assert messages(receiver) == [], log.read_text()
            for name in ("a", "b"):
                cluster.kill(name)
            dead = {"instants_without_run": ["critical"], "no_leader": ["critical"]}
            await eventually(lambda: levels(receiver) == dead, what="the death of the nodes")
            [instants] = [one for one in messages(receiver) if one["finding"] == "instants_without_run"]
            reported = re.findall(r"(\S+) +ERROR +finding opened .*instants_without_run", log.read_text())
            late = datetime.fromisoformat(reported[0]) - datetime.fromisoformat(instants["at"])
            # It was due when no node was there any more, and its run may take the grace time.
            assert timedelta(seconds=GRACE) <= late
            assert "tick@" in instants["text"]
            assert any(one.path == "/ping/fail" for one in receiver.web.requests)

            await asyncio.to_thread(own_mongo.kill)
            away = dead | {"mongodb_away": ["critical"]}
            await eventually(lambda: levels(receiver) == away, what="that MongoDB is away")
            await asyncio.to_thread(own_mongo.start)
            await eventually(lambda: "mongodb_away" in over(receiver), what="that MongoDB is back")
            cluster.start("c")
            await eventually(lambda: len(over(receiver)) == 3, what="the end of all findings")
            pings = len(receiver.web.requests)
            await eventually(lambda: len(receiver.web.requests) > pings, what="a ping")
            assert all(found == ["critical", "ok"] for found in levels(receiver).values())


def over(receiver: Receiver) -> set[str]:
    return {finding for finding, found in levels(receiver).items() if found[-1] == "ok"}
