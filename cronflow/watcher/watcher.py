"""The rounds of a watcher: read what changed, judge what is due, and report what is wrong.

Rules: a round needs no server to end, and what a server that is away would have answered is unknown, not wrong. Nothing
is judged for a grace time after the watcher began, after MongoDB came back and after maintenance: then the cluster may
still be at it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from cronflow.documents.notifications import leaderless_text
from cronflow.domain.cluster import LeaderRecord, Member, node_name
from cronflow.domain.cluster_time import ClusterTime
from cronflow.domain.durations import absolute
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.placement import Fleet
from cronflow.domain.run import RunState, run_id
from cronflow.domain.watch import IN_MONGODB, FindingLog, Observation, WatchFinding, WatchKind, WatchMessage, WatchStage
from cronflow.ports import Backends, Clock, ServerClock
from cronflow.watcher.instants import MOST_NAMED, InstantJudge
from cronflow.watcher.receivers import Receivers
from cronflow.watcher.schedules import ScheduleBook, watched
from cronflow.watcher.snapshot import SnapshotFile, WatchSnapshot

PAGE = 5000
RECORDS_AT_ONCE = 500
MOST_RUNNING = 100
OLD_SNAPSHOT = timedelta(days=1)
"""Jobs that are missing after a longer time may have been deleted, and their documents too."""
SAVE_EVERY = timedelta(minutes=10)
"""How old the places in the snapshot may be; schedules and findings are saved in the round in which they change."""
SERVICES: Mapping[str, WatchKind] = {"MongoDB": WatchKind.MONGODB_AWAY, "Redis": WatchKind.REDIS_AWAY}

log = structlog.get_logger("cronflow.watcher")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """How long a run may take to appear, how often an open finding is repeated, and how often a leader renews."""

    grace: timedelta = timedelta(seconds=90)
    repeat: timedelta = timedelta(hours=1)
    leader_renew: timedelta = timedelta(seconds=5)


@dataclass(slots=True)
class WatchRound:
    """What a round found: what is wrong at this moment, and what could not be looked at. `judged` instants were looked
    at; `late` jobs wait, and the planner looks after them. `away` has the servers that did not answer.
    """

    at: datetime
    jobs: int = 0
    judged: int = 0
    late: int = 0
    maintenance: bool = False
    away: tuple[str, ...] = ()
    observed: list[Observation] = field(default_factory=list)
    unknown: set[WatchKind] = field(default_factory=set)
    messages: list[WatchMessage] = field(default_factory=list)

    def see(self, kind: WatchKind, since: datetime, text: str) -> None:
        self.observed.append(Observation(kind, since, text))


class ClusterWatcher:
    """`connect` returns the ports without opening anything; it may raise BackendUnavailable. `once`: a single round,
    which judges at once. `use_zone_data` makes the process use the time zone data that the machine has now.
    """

    def __init__(
        self,
        connect: Callable[[], Backends],
        clock: Clock,
        limits: WatchLimits,
        receivers: Receivers,
        *,
        snapshot: SnapshotFile | None = None,
        once: bool = False,
        use_zone_data: Callable[[], object] = lambda: None,
    ) -> None:
        self._connect, self._clock, self._limits = connect, clock, limits
        self._receivers, self._file = receivers, snapshot
        self._use_zone_data = use_zone_data
        self._backends: Backends | None = None
        self._judge: InstantJudge | None = None
        self._time = ClusterTime()
        self._once = once
        now = clock.now()
        known = None if snapshot is None else snapshot.read(now)
        self._book = ScheduleBook(() if known is None else known.jobs)
        self._is_old = known is not None and now - known.at > OLD_SNAPSHOT
        self._log = FindingLog(limits.grace, limits.repeat, () if known is None else known.findings)
        self._settled_at = datetime.min.replace(tzinfo=UTC) if once else now + limits.grace
        self._sample: Sequence[str] = ()
        self._saved_at: datetime | None = None
        self._changed = False
        self._given_up, self._first_given_up = 0, ""

    @property
    def findings(self) -> Sequence[WatchFinding]:
        """Those that have not ended, also those that are not open yet."""
        return self._log.findings

    @property
    def jobs(self) -> int:
        """How many jobs are known."""
        return len(self._book.jobs)

    async def round(self) -> WatchRound:
        """Look once, send the messages, and save the snapshot."""
        self._use_zone_data()
        away = await self._servers_away()
        now = self._time.now(self._clock.now(), self._clock.monotonic())
        result = WatchRound(now)
        for service, reason in away.items():
            result.see(SERVICES[service], now, f"{reason}{self._due_meanwhile(service, now)}")
        self._look_at_clocks(result, away)
        if "MongoDB" not in away:
            try:
                await self._look_at_mongodb(result, redis="Redis" not in away)
            except BackendUnavailable as error:
                away["MongoDB"] = str(error)
                result.observed = [one for one in result.observed if one.kind not in IN_MONGODB]
                result.see(WatchKind.MONGODB_AWAY, now, f"{error}{self._due_meanwhile('MongoDB', now)}")
        if "MongoDB" in away:
            result.unknown |= IN_MONGODB
            self._settle(now)
        result.jobs, result.away = self.jobs, tuple(sorted(away))
        known = {one.kind for one in self._log.findings}
        result.messages = self._log.update(result.observed, result.unknown, now, self._remarks())
        self._changed |= bool(result.messages) or known != {one.kind for one in self._log.findings}
        if any(one.kind is WatchKind.INSTANTS_WITHOUT_RUN for one in result.messages):
            self._given_up = 0 if not self._has_open(WatchKind.INSTANTS_WITHOUT_RUN) else self._given_up
        _write_log(result)
        await self._receivers.send(result.messages, now, well=not self._log.open)
        if self._changed or self._once or self._saved_at is None or now - self._saved_at >= SAVE_EVERY:
            await self.save()
        return result

    async def save(self) -> None:
        """Write the snapshot."""
        if self._file is None:
            return
        now = self._time.now(self._clock.now(), self._clock.monotonic())
        snapshot = WatchSnapshot(now, list(self._book.jobs.values()), self._log.findings)
        try:
            await asyncio.to_thread(self._file.write, snapshot)
        except OSError as error:
            log.error("snapshot not written", reason=str(error))
            return
        self._changed, self._saved_at = False, now

    def _settle(self, now: datetime) -> None:
        """The cluster gets a grace time from now on."""
        if not self._once:
            self._settled_at = now + self._limits.grace

    async def _servers_away(self) -> dict[str, str]:
        """The servers that do not answer, with the reason. The clocks of the others are sampled."""
        if self._backends is None:
            try:
                self._backends = self._connect()
            except BackendUnavailable as error:
                return {error.service: str(error)}
        clocks = self._backends.server_clocks
        reasons = await asyncio.gather(*(self._sample_clock(service, one) for service, one in clocks.items()))
        return {service: reason for service, reason in zip(clocks, reasons, strict=True) if reason is not None}

    async def _sample_clock(self, service: str, server_clock: ServerClock) -> str | None:
        """Why the server does not answer."""
        asked = self._clock.monotonic()
        try:
            theirs = await server_clock.now()
        except BackendUnavailable as error:
            return str(error)
        self._time.observe(service, theirs, asked, self._clock.monotonic())
        return None

    def _look_at_clocks(self, result: WatchRound, away: Mapping[str, str]) -> None:
        if away:
            result.unknown.add(WatchKind.CLOCK_OFF)
            return
        complaint = self._time.complaint(self._clock.now(), self._clock.monotonic())
        if complaint is not None:
            result.see(WatchKind.CLOCK_OFF, result.at, f"{complaint}; synchronize the machines' clocks, with NTP")

    async def _look_at_mongodb(self, result: WatchRound, *, redis: bool) -> None:
        backends = self._backends
        assert backends is not None
        leader = await backends.control.leader()
        mode = await backends.control.maintenance()
        await self._read_changes(backends, result)
        led = self._look_for_leader(result, leader)
        result.maintenance = mode is not None and mode.holds(result.at)
        if result.maintenance:
            self._settle(result.at)
        if any(one.kind is WatchKind.JOBS_VANISHED for one in result.observed):
            # What could not be judged has not recovered.
            result.unknown.add(WatchKind.INSTANTS_WITHOUT_RUN)
        if result.maintenance or result.at < self._settled_at:
            result.unknown |= {WatchKind.INSTANTS_WITHOUT_RUN, WatchKind.NO_RUN_STARTS}
            return
        members = await self._members(backends) if redis else None
        await self._judge_instants(backends, result, members, led=led)
        await self._look_for_starts(backends, result, members)

    async def _members(self, backends: Backends) -> Sequence[Member] | None:
        try:
            return await backends.membership.members(forget=False)
        except BackendUnavailable as error:
            log.warning("nodes not read", reason=str(error))
            return None

    def _look_for_leader(self, result: WatchRound, leader: LeaderRecord | None) -> bool:
        """Whether the cluster has a leader."""
        if leader is None:
            if self._book.names:
                result.see(WatchKind.NO_LEADER, result.at, "the cluster has jobs, and has never had a leader")
            return False
        if result.at - leader.renewed_at <= self._limits.leader_renew + self._limits.grace:
            return True
        text = leaderless_text(leader.renewed_at, node_name(leader.holder), leader.term)
        result.see(WatchKind.NO_LEADER, leader.renewed_at, text)
        return False

    async def _read_changes(self, backends: Backends, result: WatchRound) -> None:
        """Read the jobs that were edited since the last round."""
        unseen = dict(self._book.jobs)
        edited: list[str] = []
        after = ""
        while page := await backends.jobs.edits(after=after, limit=PAGE):
            for name, ver, deleted in page:
                known = unseen.pop(name, None)
                if deleted:
                    self._changed |= self._book.jobs.pop(name, None) is not None
                elif known is None or known.ver != ver:
                    edited.append(name)
            if len(page) < PAGE:
                break
            after = page[-1].name
        vanished = [name for name in self._book.names if name in unseen]
        if vanished and self._is_old and len(vanished) < len(self._book.names):
            for name in vanished:
                del self._book.jobs[name]
            vanished = []
        self._is_old = False
        for at in range(0, len(edited), RECORDS_AT_ONCE):
            for record in await backends.jobs.get(edited[at : at + RECORDS_AT_ONCE]):
                self._book.jobs[record.name] = watched(record, result.at, self._book.jobs.get(record.name))
                self._changed = True
        if vanished:
            result.see(WatchKind.JOBS_VANISHED, result.at, self._vanished_text(vanished, result.at))

    def _vanished_text(self, vanished: Sequence[str], now: datetime) -> str:
        known = len(self._book.names)
        which = f"all {known:,} jobs" if len(vanished) == known else f"{len(vanished):,} of {known:,} jobs"
        first = ", ".join(sorted(vanished)[:MOST_NAMED])
        return f"{which} that the snapshot has are not in MongoDB, and nobody deleted them, for example {first}" + (
            self._due_since(now - timedelta(hours=1), now, "in the last hour")
        )

    def _due_meanwhile(self, service: str, now: datetime) -> str:
        since = next((one.since for one in self._log.findings if one.kind is SERVICES[service]), now)
        return self._due_since(since, now, "since then")

    def _due_since(self, since: datetime, now: datetime, when: str) -> str:
        """What the snapshot knows to have been due, as the end of a sentence."""
        due = self._book.due_since(since, now)
        if not due:
            return ""
        named = ", ".join(run_id(job, instant) for job, instant in due[:MOST_NAMED])
        return f"; {len(due):,} {'job was' if len(due) == 1 else 'jobs were'} due {when}, first: {named}"

    async def _judge_instants(
        self, backends: Backends, result: WatchRound, members: Sequence[Member] | None, *, led: bool
    ) -> None:
        if self._judge is None:
            self._judge = InstantJudge(self._book, backends.jobs, backends.runs, self._limits.grace)
        fleet = Fleet(members or ())
        report = await self._judge.judge(result.at, full=led and fleet.slots > 0 and fleet.capacity <= 0)
        result.judged, result.late = report.judged, report.late
        self._sample = report.found or self._sample
        kind = WatchKind.INSTANTS_WITHOUT_RUN
        if report.since is not None:
            result.see(kind, report.since, report.text(led=led))
        elif report.moving:
            result.unknown.add(kind)
        if report.given_up:
            self._first_given_up = self._first_given_up if self._given_up else report.given_up[0]
            self._given_up += len(report.given_up)

    def _remarks(self) -> Mapping[WatchKind, str]:
        if not self._given_up:
            return {}
        count = f"{self._given_up:,} {'instant' if self._given_up == 1 else 'instants'}"
        return {WatchKind.INSTANTS_WITHOUT_RUN: f"{count} never got a run, the first: {self._first_given_up}"}

    def _has_open(self, kind: WatchKind) -> bool:
        return any(one.kind is kind for one in self._log.open)

    async def _look_for_starts(self, backends: Backends, result: WatchRound, members: Sequence[Member] | None) -> None:
        """Of the latest runs, nodes should have started some, unless they are busy with others."""
        runs = await backends.runs.get(self._sample) if self._sample else []
        until = result.at - self._limits.grace
        waiting = [
            run
            for run in runs
            if run.state is RunState.DISPATCHED and run.dispatched_at is not None and run.dispatched_at <= until
        ]
        if not waiting or any(run.started_at is not None for run in runs):
            return
        if members is None:
            result.unknown.add(WatchKind.NO_RUN_STARTS)
            return
        nodes = {member.id for member in members}
        if any(one.node in nodes for one in await backends.runs.running(result.at, MOST_RUNNING)):
            return
        first = min(waiting, key=lambda run: (run.dispatched_at or result.at, run.id))
        count = "1 run was" if len(waiting) == 1 else f"{len(waiting):,} runs were"
        text = f"{count} sent to nodes and none has started; the first: {first.id} on {node_name(first.node or '')}"
        result.see(WatchKind.NO_RUN_STARTS, first.dispatched_at or result.at, text)


def _write_log(result: WatchRound) -> None:
    words = {
        WatchStage.OPENED: ("finding opened", log.error),
        WatchStage.REPEATED: ("finding lasts", log.error),
        WatchStage.CLOSED: ("finding closed", log.info),
    }
    for message in result.messages:
        event, write = words[message.stage]
        write(event, finding=message.kind.value, since=absolute(message.since), text=message.text)
    log.debug("round", jobs=result.jobs, judged=result.judged, late=result.late, found=len(result.observed))


def snapshot_file(path: Path | None, namespace: str) -> SnapshotFile | None:
    """The file of this path, which was found to be writable. Raises InvalidInput."""
    if path is None:
        return None
    found = SnapshotFile(path, namespace)
    found.check()
    return found
