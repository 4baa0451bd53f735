"""A watcher of a cluster on virtual time, and what it reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from cronflow.domain.alerts import Alert, Answer, Notification
from cronflow.domain.job import Job, Overlap, PythonTarget
from cronflow.domain.schedule.kinds import Every, Schedule
from cronflow.domain.watch import WatchKind, WatchMessage
from cronflow.ports import Clock
from cronflow.testing.memory import MemoryBackends
from cronflow.watcher.receivers import Receivers
from cronflow.watcher.snapshot import SnapshotFile
from cronflow.watcher.watcher import ClusterWatcher, WatchLimits, WatchRound
from tests.node.cluster import Cluster

SECOND = timedelta(seconds=1)
GRACE_S = 30.0
LIMITS = WatchLimits(grace=GRACE_S * SECOND, leader_renew=5 * SECOND)


@dataclass
class Inbox:
    """A NotificationSender that keeps what it gets, and accepts it as long as nothing else is set."""

    answer: Answer = field(default_factory=lambda: Answer(200, None, 1))
    sent: list[tuple[str, Notification]] = field(default_factory=list)

    @property
    def sends_mail(self) -> bool:
        return True

    async def send(self, alert: Alert, notification: Notification, at: datetime) -> Answer:
        self.sent.append((alert.name, notification))
        return self.answer


def a_watcher(
    backends: MemoryBackends, clock: Clock, *, snapshot: Path | None = None, once: bool = False
) -> ClusterWatcher:
    file = None if snapshot is None else SnapshotFile(snapshot, "default")
    receivers = Receivers((), Inbox(), "default")
    return ClusterWatcher(lambda: backends, clock, LIMITS, receivers, snapshot=file, once=once)


@dataclass
class Watch:
    """Rounds every ten seconds beside a cluster."""

    cluster: Cluster
    watcher: ClusterWatcher
    messages: list[WatchMessage] = field(default_factory=list)
    rounds: list[WatchRound] = field(default_factory=list)

    async def elapse(self, seconds: float) -> None:
        for _ in range(round(seconds / 10)):
            await self.cluster.elapse(10)
            await self.look()

    async def look(self) -> WatchRound:
        done = await self.watcher.round()
        self.rounds.append(done)
        self.messages += done.messages
        return done

    @property
    def observed(self) -> set[WatchKind]:
        """What was wrong in any round."""
        return {one.kind for done in self.rounds for one in done.observed}

    @property
    def opened(self) -> list[str]:
        """Each message as its stage and kind."""
        return [f"{one.stage} {one.kind}" for one in self.messages]

    def latest(self, kind: WatchKind) -> str:
        """The text of the last observation."""
        return [one.text for done in self.rounds for one in done.observed if one.kind is kind][-1]


def watching(cluster: Cluster, *, snapshot: Path | None = None) -> Watch:
    return Watch(cluster, a_watcher(cluster.backends, cluster.clock, snapshot=snapshot))


def a_job(name: str = "tick", schedule: Schedule | None = None, **fields: object) -> Job:
    given = {"schedule": schedule or Every("10s"), "overlap": Overlap.ALLOW, **fields}
    return Job(name=name, target=PythonTarget("jobs:tick"), **given)  # type: ignore[arg-type]


async def kill_all(cluster: Cluster) -> None:
    for node in list(cluster.nodes):
        await cluster.kill(node)
