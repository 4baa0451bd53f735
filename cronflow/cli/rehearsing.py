"""Makes a scenario out of the flags of `cronflow rehearse`, and rehearses it, twice if two states are compared.

The rule: flags that exclude each other are refused before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cronflow.cli.rehearsal_inputs import Durations, Inputs, chosen, complete, cursor, read_cluster, read_durations
from cronflow.cli.target import settings
from cronflow.cli.terminal import times
from cronflow.domain.durations import parse_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job
from cronflow.domain.schedule.zones import find_zone
from cronflow.leader.catch_up import CatchUpOptions
from cronflow.rehearsal import period as periods
from cronflow.rehearsal.clock_changes import zones_of
from cronflow.rehearsal.comparison import Difference, compare
from cronflow.rehearsal.performance import perform
from cronflow.rehearsal.report import Rehearsal, report
from cronflow.rehearsal.scenario import RehearsedJob, RehearsedOutage, Scenario
from cronflow.rehearsal.selection import NotRehearsed, select, without_target
from cronflow.rehearsal.zone_data import check_zone_data, lacking, zone_data

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster

DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class RehearsedPeriod:
    """`why` is what is special about it, for the heading."""

    first: datetime
    until: datetime
    from_now: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that choose the period and what goes wrong in it."""

    at: str | None
    dst: bool
    zone: str | None
    first: str | None
    until: str | None
    outage: str | None
    kill_leader: str | None
    tzdata: Path | None

    def check(self) -> None:
        """Raises InvalidInput for flags that exclude each other."""
        ways = {"--at": self.at is not None, "--dst": self.dst, "--from": self.first is not None}
        given = [flag for flag, used in ways.items() if used]
        if len(given) > 1:
            raise InvalidInput(Problem(given[1], f"cannot be combined with {given[0]}", "choose one of them"))
        if self.until is not None and (self.at is not None or self.dst):
            raise InvalidInput(Problem("--until", f"cannot be combined with {given[0]}", "use --from and --until"))
        if self.zone is not None:
            if not self.dst:
                raise InvalidInput(Problem("--zone", "it only chooses the clock change of --dst", "add --dst"))
            find_zone(self.zone)
        if self.tzdata is not None:
            check_zone_data(self.tzdata)

    def period(self, now: datetime, zones: Sequence[str]) -> RehearsedPeriod:
        """The period to rehearse. Raises InvalidInput."""
        if self.at is not None:
            instant = times.instant_or_in(self.at, "--at").replace(microsecond=0)
            return RehearsedPeriod(instant - HOUR, instant + HOUR + self._down())
        if self.dst:
            found = periods.next_clock_change([self.zone] if self.zone else zones, now)
            if found is None:
                which = self.zone or (", ".join(zones) if zones else "no zone but UTC")
                what = f"no clock change within two years (the jobs use {which})"
                raise InvalidInput(Problem("--dst", what, "add --zone Europe/Berlin, or use --from and --until"))
            zone, change = found
            return RehearsedPeriod(*periods.around(change.at), why=f"the clocks change in {zone}")
        if self.tzdata is not None and self.first is None and self.until is None:
            at = periods.first_difference(zones, self.tzdata, now)
            if at is not None:
                why = "the first difference between the two sets of zone data"
                return RehearsedPeriod(*periods.around(at), why=why)
            return RehearsedPeriod(now, now + DAY, from_now=True, why="no zone of the jobs differs within two years")
        first = now if self.first is None else times.instant_or_in(self.first, "--from").replace(microsecond=0)
        until = first + DAY if self.until is None else times.instant_or_in(self.until, "--until").replace(microsecond=0)
        if self.until is None:
            until = max(until, first + 2 * HOUR + self._down())
        return RehearsedPeriod(first, until, from_now=self.first is None)

    def _down(self) -> timedelta:
        return timedelta(0) if self.outage is None else times.length_of(self.outage, "--outage")

    def scenario(self, period: RehearsedPeriod, inputs: Inputs, duration: timedelta) -> Scenario:
        down_at = period.first + HOUR
        if self.at is not None:
            down_at = times.instant_or_in(self.at, "--at").replace(microsecond=0)
        read = settings()
        return Scenario(
            first=period.first,
            until=period.until,
            nodes=tuple(inputs.nodes),
            durations=inputs.durations,
            duration=duration,
            outage=RehearsedOutage(down_at, self._down()) if self.outage is not None else None,
            kill_leader_at=None if self.kill_leader is None else _after(period.first, self.kill_leader),
            limits=tuple(inputs.limits),
            calendars=tuple(inputs.calendars),
            catch_up=CatchUpOptions(rate=read.catch_up_rate, limit=read.recovery_limit),
        )


def _after(first: datetime, text: str) -> datetime:
    """An instant, or a duration after the beginning."""
    try:
        return first + parse_duration(text)
    except InvalidInput:
        return times.instant_or_in(text, "--kill-leader")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A rehearsal, with the one that it is compared to. `compared` names both states, such as `now` and `after`."""

    rehearsal: Rehearsal
    period: RehearsedPeriod
    left_out: Sequence[NotRehearsed]
    notes: Sequence[str]
    jobs: int
    from_history: int
    compared: tuple[str, str] | None = None
    before: Rehearsal | None = None
    differences: Sequence[Difference] = ()


@dataclass(frozen=True, slots=True)
class _Cast:
    """The jobs of a rehearsal: those at its beginning, and the changes that are applied to them."""

    period: RehearsedPeriod
    jobs: Sequence[RehearsedJob]
    changes: Sequence[Job]
    left_out: Sequence[NotRehearsed]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([*(one.job.name for one in self.jobs), *(job.name for job in self.changes)]))

    @property
    def all_jobs(self) -> list[Job]:
        """With the changes."""
        return list({job.name: job for job in (*(one.job for one in self.jobs), *self.changes)}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsing:
    """What the command wants. `changes` are the jobs of the files."""

    flags: Flags
    now: datetime
    changes: Sequence[Job]
    patterns: Sequence[str]
    labels: Mapping[str, str | None]
    nodes: int | None
    slots: int | None
    durations: Durations
    duration: timedelta

    async def read(self, cluster: Cluster) -> Inputs:
        """The jobs of the cluster, and the durations of those that are rehearsed."""
        inputs = await read_cluster(cluster)
        names = self._cast(inputs, self.changes).names
        inputs.durations = await read_durations(cluster, names, self.durations)
        return inputs

    def without_cluster(self) -> Result:
        """Rehearse the jobs of the files as if they were applied to an empty cluster."""
        inputs = Inputs(jobs=[RehearsedJob(job) for job in self.changes])
        return self._rehearse(inputs, self._cast(inputs, ()))

    def with_cluster(self, inputs: Inputs) -> Result:
        """Rehearse the jobs of the cluster."""
        return self._rehearse(inputs, self._cast(inputs, self.changes))

    def _cast(self, inputs: Inputs, changes: Sequence[Job]) -> _Cast:
        present = {one.job.name: one for one in inputs.jobs}
        changed = {job.name: replace(present.get(job.name, RehearsedJob(job)), job=job, done=False) for job in changes}
        together = {**present, **changed}
        names = set(chosen(list(together.values()), self.patterns, self.labels))
        if not names and (self.patterns or self.labels):
            raise InvalidInput(Problem("--job", "no job matches", "see the names: cronflow jobs list -o name"))
        together = {name: one for name, one in together.items() if name in names}
        period = self.flags.period(self.now, _zones(one.job for one in (*together.values(), *present.values())))
        kept, left_out = select(together.values(), period.first, period.until, calendars=inputs.calendars)
        rehearsed = {one.job.name for one in kept}
        return _Cast(
            period,
            [
                cursor(replace(one, job=without_target(one.job)), period.first, from_now=period.from_now)
                for name, one in present.items()
                if name in rehearsed
            ],
            [without_target(job) for name, job in ((job.name, job) for job in changes) if name in rehearsed],
            left_out,
        )

    def _rehearse(self, inputs: Inputs, cast: _Cast) -> Result:
        complete(inputs, cast.all_jobs, self.nodes, self.slots)
        scenario = self.flags.scenario(cast.period, inputs, self.duration)
        folder = self.flags.tzdata
        before = compared = None
        if folder is not None:
            if missing := lacking(folder, _zones(cast.all_jobs)):
                inputs.notes.append(f"{folder} has no {', '.join(missing)}: rehearsed with the tzdata package")
            before = report(perform(cast.jobs, scenario, cast.changes))
            compared = ("present zone data", str(folder))
        elif cast.changes:
            before = report(perform(cast.jobs, scenario))
            compared = ("now", "after applying the files")
        with zone_data(folder):
            rehearsal = report(perform(cast.jobs, scenario, cast.changes))
        return Result(
            rehearsal=rehearsal,
            period=cast.period,
            left_out=cast.left_out,
            notes=inputs.notes,
            jobs=len(cast.names),
            from_history=sum(name in inputs.durations for name in cast.names),
            compared=compared,
            before=before,
            differences=() if before is None else compare(before, rehearsal),
        )


def _zones(jobs: Iterable[Job]) -> list[str]:
    return list(dict.fromkeys(zone for job in jobs for zone in zones_of(job.schedule)))
