"""Reservations, and the watch over dead letters, on real nodes and servers with a leader that is killed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert
from cronflow.domain.job import CommandTarget, Job, Overlap, Retry
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import RunState
from cronflow.domain.thresholds import DeadLetterLimits
from tests.processes.conftest import process_cluster
from tests.processes.test_alerts import Receiver, receiving
from tests.waiting import eventually

# Virtual time has the same in tests/node.
pytestmark = [pytest.mark.chaos, pytest.mark.prove]

NODE_MIB, RUN_MIB = 256, 128
RUNS = 12
WARN = 2


def noted(folder: Path) -> set[int]:
    """The most runs that each node executed at once."""
    return {max(map(int, file.read_text().split())) for file in folder.glob("marks-*.most")}


def levels(receiver: Receiver) -> list[str]:
    """Of the notifications. A leader that dies after sending one leaves the same to the next one."""
    sent = {request.headers["webhook-id"]: request.body for request in receiver.web.requests}
    return [orjson.loads(body)["level"] for body in sent.values()]


async def test_no_node_gets_more_than_its_memory_and_dead_letters_are_reported_once_although_the_leader_is_killed(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster, receiving() as receiver:
        cluster.limits |= {"CRONFLOW_NODE_MEMORY": f"{NODE_MIB}MiB"}
        hook = Webhook(f"http://127.0.0.1:{receiver.web.port}/hook")
        limits = DeadLetterLimits(warn=WARN, critical=RUNS)
        alert = Alert(name="watch", on=(AlertKind.DEAD_LETTERS,), webhook=hook, dead_letters=limits)
        await cluster.service.alerts.define(alert)
        leader = await cluster.up("a", "b", "c")
        # Each run has a directory while it runs, notes how many of its node there are, and fails in the end.
        folder = f"D={tmp_path}/marks-$PPID; M=$D/$CRONFLOW_RUN_ID"
        job = Job(
            name="large",
            target=CommandTarget(
                f'{folder}; mkdir -p "$M"; ls "$D" | wc -l >>"$D.most"; sleep 0.4; rmdir "$M"; exit 3'
            ),
            overlap=Overlap.ALLOW,
            resources=ResourceAmount(memory=RUN_MIB << 20),
            retry=Retry(max=0),
            timeout=timedelta(seconds=30),
        )
        await cluster.apply(job)
        for _ in range(WARN):
            await cluster.service.jobs.trigger("large")
        await eventually(lambda: levels(receiver) == ["warn"], what="the warning was sent")
        for _ in range(RUNS - WARN):
            await cluster.service.jobs.trigger("large")
        cluster.kill(leader)
        await eventually(lambda: "critical" in levels(receiver), what="the next leader reported all dead letters")
        assert {run.state for run in await cluster.runs()} == {RunState.FAILED}
        # A node was used fully, and none more than that.
        assert max(noted(tmp_path)) == NODE_MIB // RUN_MIB
        assert await cluster.backends.runs.reserving() == []
        await cluster.service.runs.acknowledge(await cluster.backends.dead_letters.newest(RUNS))
        await eventually(lambda: "ok" in levels(receiver), what="the end was sent")
        assert levels(receiver) == ["warn", "critical", "ok"]
