"""What a watcher finds wrong with a cluster from outside, and the life of each finding.

A finding opens once, when it has lasted for a time, is repeated at a bounded rate, and closes with one message. What
could not be looked at changes nothing: a finding neither opens, nor repeats, nor closes while nobody can tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from cronflow.domain.durations import coarse


class WatchKind(StrEnum):
    """What a watcher can find, the most fundamental first."""

    MONGODB_AWAY = "mongodb_away"
    REDIS_AWAY = "redis_away"
    JOBS_VANISHED = "jobs_vanished"
    NO_LEADER = "no_leader"
    INSTANTS_WITHOUT_RUN = "instants_without_run"
    NO_RUN_STARTS = "no_run_starts"
    CLOCK_OFF = "clock_off"

    @property
    def words(self) -> str:
        """A few words for people."""
        return TITLES[self]


TITLES: Mapping[WatchKind, str] = {
    WatchKind.MONGODB_AWAY: "MongoDB is unavailable",
    WatchKind.REDIS_AWAY: "Redis is unavailable",
    WatchKind.JOBS_VANISHED: "Jobs vanished from MongoDB",
    WatchKind.NO_LEADER: "The cluster has no leader",
    WatchKind.INSTANTS_WITHOUT_RUN: "Jobs were due and have no run",
    WatchKind.NO_RUN_STARTS: "Runs are sent to nodes, and none starts",
    WatchKind.CLOCK_OFF: "Clocks disagree",
}
IN_MONGODB = frozenset(
    {WatchKind.JOBS_VANISHED, WatchKind.NO_LEADER, WatchKind.INSTANTS_WITHOUT_RUN, WatchKind.NO_RUN_STARTS}
)
"""What only MongoDB can answer."""


class WatchStage(StrEnum):
    """What happened to a finding."""

    OPENED = "opened"
    REPEATED = "repeated"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Observation:
    """What is wrong now, since when, in a sentence."""

    kind: WatchKind
    since: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFinding:
    """A finding. `opened_at` is None until it has lasted long enough; `told_at` is its last message."""

    kind: WatchKind
    since: datetime
    text: str
    opened_at: datetime | None = None
    told_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has been reported."""
        return self.opened_at is not None


class WatchMessage(NamedTuple):
    """A message about a finding."""

    kind: WatchKind
    stage: WatchStage
    at: datetime
    since: datetime
    text: str


class FindingLog:
    """All findings. One opens when it has lasted for `confirm`, and is repeated every `repeat`."""

    def __init__(self, confirm: timedelta, repeat: timedelta, findings: Iterable[WatchFinding] = ()) -> None:
        self._confirm, self._repeat = confirm, repeat
        self._findings = {one.kind: one for one in findings}

    @property
    def findings(self) -> list[WatchFinding]:
        """In the order of their kinds, those that are not open yet included."""
        return [self._findings[kind] for kind in WatchKind if kind in self._findings]

    @property
    def open(self) -> list[WatchFinding]:
        """Those that have been reported."""
        return [one for one in self.findings if one.is_open]

    def update(
        self,
        observed: Sequence[Observation],
        unknown: Collection[WatchKind],
        now: datetime,
        remarks: Mapping[WatchKind, str] | None = None,
    ) -> list[WatchMessage]:
        """The messages after a look. `unknown` could not be looked at; a remark is added to the message that closes a
        finding.
        """
        messages = []
        found = {one.kind: one for one in observed}
        for kind in WatchKind:
            before = self._findings.get(kind)
            if kind in found:
                messages += self._seen(found[kind], before, now)
            elif before is not None and kind not in unknown:
                del self._findings[kind]
                if before.is_open:
                    text = _closed(before, now, (remarks or {}).get(kind))
                    messages.append(WatchMessage(kind, WatchStage.CLOSED, now, before.since, text))
        return messages

    def _seen(self, seen: Observation, before: WatchFinding | None, now: datetime) -> list[WatchMessage]:
        finding = WatchFinding(kind=seen.kind, since=seen.since, text=seen.text)
        if before is not None:
            finding = replace(before, since=min(before.since, seen.since), text=seen.text)
        stage = None
        if finding.told_at is not None:
            stage = WatchStage.REPEATED if now - finding.told_at >= self._repeat else None
        elif now - finding.since >= self._confirm:
            stage = WatchStage.OPENED
        if stage is None:
            self._findings[seen.kind] = finding
            return []
        self._findings[seen.kind] = replace(finding, opened_at=finding.opened_at or now, told_at=now)
        return [WatchMessage(seen.kind, stage, now, finding.since, finding.text)]


def _closed(finding: WatchFinding, now: datetime, remark: str | None) -> str:
    lasted = coarse(max(0, round((now - finding.since).total_seconds())))
    if remark is not None:
        return f"over after {lasted}: {finding.kind.words}; {remark}"
    return f"recovered after {lasted}: {finding.kind.words}"
