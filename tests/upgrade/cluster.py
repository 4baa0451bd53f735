"""A cluster whose nodes have different versions, on real servers, observed from outside.

The nodes and the command line are those of the releases. The observer only reads. It does not open the database as this
version does: that would create its indexes, and be refused after a newer protocol has led.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from pymongo import MongoClient

from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.nodes import RedisElection, RedisMembership
from cronflow.domain.cluster import node_name
from cronflow.domain.job import SYSTEM_PREFIX
from cronflow.operating_system import tied_to_parent
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.testing.history import records
from cronflow.testing.history.history import Ack, Fault, History, Noted, noted
from tests.children import ROOT, cluster_environment
from tests.processes.conftest import SHORT_LIMITS
from tests.upgrade.releases import Release
from tests.upgrade.workload import HANDLERS, Document, Started, starts_by_node, starts_by_version
from tests.waiting import eventually

NAMESPACE = "upgrade"
NODES = ("a", "b", "c")
LIMITS = SHORT_LIMITS | {"CRONFLOW_RUN_LEASE": "5s", "CRONFLOW_NODE_TTL": "3s"}
PATIENCE_S = 240.0
STALL_S = 1.0
LEAST_STARTS = 10
"""How many handlers each node starts in a stage, at least."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A time in which nothing was replaced. `nodes` and `starts` count by version."""

    what: str
    leader: str
    nodes: Mapping[str, int]
    starts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Node:
    """A process, and the release that it runs."""

    release: Release
    process: subprocess.Popen[bytes]


@dataclass
class MixedCluster:
    """Nodes of several releases. Call `close` at the end, whatever happens."""

    redis: RedisServer
    mongo: MongoServer
    folder: Path
    nodes: dict[str, Node] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        shutil.copy(ROOT / "tests" / "processes" / "handlers.py", self.folder / f"{HANDLERS}.py")

    @property
    def sink(self) -> Path:
        """The file that only handlers write."""
        return self.folder / "sink"

    def lines(self) -> list[Noted]:
        """The lines of the sink."""
        return [noted(line) for line in self.sink.read_text().splitlines()] if self.sink.exists() else []

    # ------------------------------------------------------------------------------------------------- processes

    def start(self, name: str, release: Release) -> None:
        """Start a node."""
        self.started.append(Started(name, release.version, _now()))
        with self.log(name).open("ab") as log:
            process = self._popen(release, ["node", "--name", name], log)
        self.nodes[name] = Node(release, process)

    def log(self, name: str) -> Path:
        """What a node prints."""
        return self.folder / f"{name}.log"

    async def stop(self, name: str) -> None:
        """SIGTERM: the node drains. AssertionError unless it ends with 0."""
        process = self.nodes.pop(name).process
        process.terminate()
        code = await asyncio.to_thread(process.wait, PATIENCE_S)
        assert code == 0, f"{name} ended with {code}; see {self.log(name)}"

    async def kill(self, name: str) -> None:
        """SIGKILL, and wait until the cluster has forgotten the node and another one leads."""
        began = _now()
        process = self.nodes.pop(name).process
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        self.faults.append(Fault(f"{name} killed", began, _now(), killed=name))
        await self.up()

    async def replace(self, name: str, release: Release) -> None:
        """Stop a node, start the release in its place, and wait until it has joined."""
        await self.stop(name)
        self.start(name, release)
        await self.up()

    async def roll(self, release: Release) -> None:
        """Replace the nodes that do not run the release one by one, the leader last."""
        leader = await self.leader()
        for name in sorted(self.nodes, key=lambda name: name == leader):
            if self.nodes[name].release != release:
                await self.replace(name, release)

    async def ran(self, release: Release, *words: str) -> tuple[int, str]:
        """The exit code and the output of a command of the release."""
        done = self._popen(release, words, subprocess.PIPE)
        output, _ = await asyncio.to_thread(done.communicate, timeout=PATIENCE_S)
        return done.returncode, output.decode()

    async def cli(self, release: Release, *words: str) -> str:
        """What a command of the release prints. AssertionError unless it ends with 0."""
        code, output = await self.ran(release, *words)
        assert code == 0, f"{release.version}: {' '.join(words)}: ended with {code}: {output}"
        return output

    async def apply(self, release: Release, jobs: Sequence[Document]) -> None:
        """Apply jobs with the command of the release."""
        file = self.folder / "jobs.json"
        file.write_text(json.dumps({"jobs": jobs}), "utf-8")
        await self.cli(release, "jobs", "apply", "-f", str(file))

    def _popen(self, release: Release, words: Sequence[str], output: IO[bytes] | int) -> subprocess.Popen[bytes]:
        environment = cluster_environment(
            self.redis.url,
            self.mongo.url,
            NAMESPACE,
            **LIMITS,
            CRONFLOW_LOG_FORMAT="text",
            CRONFLOW_ALLOW_PYTHON=HANDLERS,
            CRONFLOW_SPOOL_DIR=str(self.folder / "spool"),
            PYTHONPATH=":".join(map(str, [*release.path, self.folder])),
        )
        return subprocess.Popen(
            [*tied_to_parent(), str(release.python), "-m", "cronflow", *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def close(self) -> None:
        """Kill what still runs."""
        for node in self.nodes.values():
            node.process.kill()
            node.process.wait()

    # -------------------------------------------------------------------------------------------------- observing

    async def leader(self) -> str | None:
        """The name of the node that leads."""
        async with RedisConnection(self.redis.url, NAMESPACE) as redis:
            held = await RedisElection(redis).holder()
        return None if held is None else node_name(held[0])

    async def up(self) -> str:
        """Wait until the members are the nodes, each with its version, and one of them leads. Returns its name."""

        async def ready() -> str | None:
            gone = [name for name, node in self.nodes.items() if node.process.poll() is not None]
            assert not gone, f"{gone} ended; see {self.log(gone[0])}"
            async with RedisConnection(self.redis.url, NAMESPACE) as redis:
                members = {one.report.name: one.report.version for one in await RedisMembership(redis).members()}
            leader = await self.leader()
            complete = members == {name: node.release.version for name, node in self.nodes.items()}
            return leader if complete and leader in self.nodes else None

        leader = await eventually(ready, PATIENCE_S, "all nodes are up and one leads")
        assert leader is not None
        return leader

    async def led_by(self, version: str) -> str:
        """Wait until a node of the version leads. Returns its name."""

        async def found() -> str | None:
            leader = await self.up()
            return leader if self.nodes[leader].release.version == version else None

        leader = await eventually(found, PATIENCE_S, f"a node of {version} leads")
        assert leader is not None
        return leader

    async def followers(self) -> list[str]:
        """The nodes that do not lead."""
        leader = await self.up()
        return [name for name in self.nodes if name != leader]

    async def work(self, what: str) -> None:
        """Wait until every node has started handlers, and record the stage. AssertionError if the lead changed."""
        leader, since = await self.up(), _now()

        def all_worked() -> bool:
            counts = starts_by_node(self.lines(), since)
            return all(counts.get(name, 0) >= LEAST_STARTS for name in self.nodes)

        await eventually(all_worked, PATIENCE_S, f"every node works: {what}")
        assert await self.leader() == leader, "another node leads now"
        nodes: dict[str, int] = {}
        for node in self.nodes.values():
            nodes[node.release.version] = nodes.get(node.release.version, 0) + 1
        stage = Stage(
            what, self.nodes[leader].release.version, nodes, starts_by_version(self.lines(), self.started, since)
        )
        self.stages.append(stage)
        print(f"  {stage.what}: {sum(stage.starts.values())} starts", flush=True)

    async def watch(self) -> None:
        """Record stalls of the machine as faults."""
        while True:
            began, since = time.monotonic(), _now()
            await asyncio.sleep(0.1)
            if time.monotonic() - began > STALL_S:
                self.faults.append(Fault("the machine stalled", since, _now()))

    async def finish(self, release: Release) -> History:
        """Pause all jobs with the command of the release, wait until nothing is open, stop the nodes, and return the
        history.
        """
        healed = _now()
        until = healed.replace(microsecond=0)
        with MongoClient[dict[str, Any]](self.mongo.url, tz_aware=True) as client:
            database = client[f"cronflow_{NAMESPACE}"]
            overdue = {"active": True, "next_fire": {"$lt": until}}
            unfinished = {"$or": [{"open": True}, {"followed": True}]}
            await eventually(lambda: not database["jobs"].count_documents(overdue), PATIENCE_S, "all is planned")
            names = [name for name in database["jobs"].distinct("_id") if not name.startswith(SYSTEM_PREFIX)]
            await self.cli(release, "jobs", "pause", *names)
            paused = _now()
            await eventually(lambda: not database["runs"].count_documents(unfinished), PATIENCE_S, "all runs ended")
        for name in list(self.nodes):
            await self.stop(name)
        found = await asyncio.to_thread(records.read, self.mongo.url, NAMESPACE)
        return History(
            jobs=found.jobs,
            earlier=found.earlier,
            runs=found.runs,
            late=found.late,
            intents=found.intents,
            terms=found.terms,
            steps=found.steps,
            sink=self.lines(),
            faults=self.faults,
            acks=[Ack(record.name, record.ver, paused) for record in found.jobs],
            until=until,
            healed=healed,
            ends_within=timedelta(seconds=PATIENCE_S),
        )


def _now() -> datetime:
    return datetime.now(UTC)
