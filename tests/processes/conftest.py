"""A cluster of node processes on real servers, with short time limits, and a sink that only the jobs write."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.cluster import node_name
from cronflow.domain.job import CommandTarget, Job, Overlap, Retry
from cronflow.domain.run import Run, run_id
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import Backends, RunQuery
from cronflow.testing.audit import Expectation, FireAudit, audit
from cronflow.usecases import UseCases
from tests.children import Child, cluster_environment
from tests.forked import start as forked
from tests.waiting import PATIENCE_S, eventually

LEADER_TTL_S = 3.0
SHORT_LIMITS = {
    "CRONFLOW_LEADER_TTL": f"{LEADER_TTL_S:g}s",
    "CRONFLOW_LEADER_RENEW": "1s",
    "CRONFLOW_FAILOVER_CHECK": "4s",
    "CRONFLOW_HEARTBEAT": "500ms",
    "CRONFLOW_NODE_TTL": "2s",
    "CRONFLOW_RUN_LEASE": "3s",
    "CRONFLOW_LOCK_BUFFER": "1s",
    "CRONFLOW_DRAIN_TIMEOUT": "5s",
}


@dataclass
class Processes:
    """Node processes, and the service on the same servers."""

    redis_url: str
    mongo_url: str
    namespace: str
    folder: Path
    backends: Backends
    limits: dict[str, str] = field(default_factory=lambda: dict(SHORT_LIMITS))
    children: dict[str, Child] = field(default_factory=dict)
    begin: Callable[..., Child] = forked
    """`tests.children.start` for tests of the start, of the supervision, and of what /proc shows of a node."""

    @property
    def service(self) -> UseCases:
        return UseCases(self.backends, SystemClock())

    @property
    def sink(self) -> Path:
        """The file to which jobs write a line at each start and each end."""
        return self.folder / "sink"

    def start(self, name: str, *labels: str, redis_url: str | None = None, mongo_url: str | None = None) -> None:
        """Start a node with labels (`on=a`), on the same servers or on others."""
        environment = cluster_environment(
            redis_url or self.redis_url,
            mongo_url or self.mongo_url,
            self.namespace,
            **self.limits,
            # Tests read the logs of the nodes.
            CRONFLOW_LOG_FORMAT="text",
            CRONFLOW_NODE_NAME=name,
            CRONFLOW_ALLOW_SHELL="true",
            CRONFLOW_SPOOL_DIR=str(self.folder / "spool"),
            CRONFLOW_ALLOW_PYTHON="tests.processes.handlers",
        )
        with self.log(name).open("ab") as log:
            words = ["cronflow", "node", *(f"--label={label}" for label in labels)]
            self.children[name] = self.begin(words, environment, self.folder, log, own_session=True)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def spooled(self, name: str) -> str:
        """The content of a node's spool."""
        return "".join(path.read_text() for path in self.folder.glob(f"spool/*/{name}/*.spool"))

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the node's process only."""
        self.children[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Kill the node with SIGKILL and reap it."""
        child = self.children.pop(name)
        child.kill()
        child.wait(10)

    async def leader(self) -> str | None:
        """The name of the node that holds the leader key."""
        held = await self.backends.election.holder()
        return None if held is None else node_name(held[0])

    async def new_leader(self, instead_of: str, timeout: float = PATIENCE_S) -> str:
        """Wait for another leader."""

        async def found() -> str | None:
            leader = await self.leader()
            return leader if leader not in (None, instead_of) else None

        leader = await eventually(found, timeout, f"a leader other than {instead_of}")
        assert leader is not None
        return leader

    async def up(self, *names: str) -> str:
        """Start nodes and wait until all are members and one leads. Returns the name of the leader."""
        for name in names:
            self.start(name)
        return await self.all_up(*names)

    async def all_up(self, *names: str, timeout: float = PATIENCE_S) -> str:
        """Wait until all are members and one leads. Returns the name of the leader."""

        async def ready() -> str | None:
            members = {member.report.name for member in await self.service.cluster.members()}
            return await self.leader() if members >= set(names) else None

        leader = await eventually(ready, timeout, f"nodes {names} are up and have a leader")
        assert leader is not None
        return leader

    def job(self, name: str, *, every: str | None = "1s", seconds: float = 0.0, **fields: object) -> Job:
        """A job that records its start in the sink, runs for `seconds`, and records its end."""
        note = f'"$CRONFLOW_RUN_ID $CRONFLOW_FENCE" >>{self.sink}'
        command = f"echo start {note}; sleep {seconds}; echo end {note}"
        return Job(
            name=name,
            target=CommandTarget(command),
            schedule=None if every is None else Every(every),
            timeout=timedelta(seconds=30),
            retry=Retry(max=0),
            **{"overlap": Overlap.ALLOW, **fields},  # type: ignore[arg-type]
        )

    def noted(self, word: str) -> list[tuple[str, int]]:
        """(run, fence) of each line in the sink that starts with the word."""
        if not self.sink.exists():
            return []
        lines = [line.split() for line in self.sink.read_text().splitlines()]
        return [(run, int(fence)) for kind, run, fence, *_ in lines if kind == word]

    async def runs(self) -> list[Run]:
        """All runs, oldest first."""
        found: list[Run] = []
        while True:
            before = (found[-1].fire_at, found[-1].id) if found else None
            page = await self.service.backends.runs.find(RunQuery(before=before, limit=500))
            found += page
            if len(page) < 500:
                return found[::-1]

    async def proof(self, since: dict[str, datetime], timeout: float = PATIENCE_S) -> FireAudit:
        """Wait until the cluster has handled everything that is due until now, then audit."""
        until = datetime.now(UTC).replace(microsecond=0)
        await self.all_handled(until, timeout)
        jobs = {record.name: record.job for record in await self.service.backends.jobs.find()}
        expected = {
            name: Expectation(job.schedule, since[name])
            for name, job in jobs.items()
            # The leader may define the system jobs later.
            if job.schedule is not None and name in since
        }
        return audit(expected, [run for run in await self.runs() if run.fire_at < until], until)

    async def all_handled(self, until: datetime, timeout: float) -> None:
        """Wait until every run due before `until` is planned and has ended."""

        async def ended() -> bool:
            records = await self.service.backends.jobs.find()
            planned = all(record.next_fire is None or record.next_fire >= until for record in records)
            # The run of the last move may have no document for about two seconds.
            pending = {
                run_id(record.name, record.pending_run.fire)
                for record in records
                if record.pending_run is not None and record.pending_run.fire < until
            }
            runs = [run for run in await self.runs() if run.fire_at < until]
            stored = pending <= {run.id for run in runs}
            return planned and stored and not any(run.is_open for run in runs)

        await eventually(ended, timeout, "all due runs have ended")

    async def apply(self, *jobs: Job) -> dict[str, datetime]:
        """Apply the jobs. Returns the creation time of each."""
        await self.service.jobs.apply(jobs)
        return {
            record.name: record.created_at.replace(microsecond=0) for record in await self.service.backends.jobs.find()
        }


@asynccontextmanager
async def process_cluster(redis_url: str, mongo_url: str, namespace: str, folder: Path) -> AsyncIterator[Processes]:
    """Node processes on the given servers; nodes that are still alive at the end are terminated."""
    async with open_backends(redis_url, mongo_url, namespace) as backends:
        cluster = Processes(redis_url, mongo_url, namespace, folder, backends)
        try:
            yield cluster
        finally:
            for child in cluster.children.values():
                child.send_signal(signal.SIGCONT)
                child.terminate()
            for child in cluster.children.values():
                try:
                    await asyncio.to_thread(child.wait, 15)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
