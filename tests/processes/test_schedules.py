"""Every rule of schedules on real processes and servers, with a leader that is killed in the middle.

One cluster runs a job for each rule. The instants at which each is due are computed here, second by second and by the
definition of its rule, and compared with the runs: none is missing, none is doubled, and none is beside.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from cronflow.domain.job import Job, JobRecord, Overlap
from cronflow.domain.run import Run, RunState
from cronflow.domain.schedule.calendar import Period
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Schedule
from cronflow.domain.schedule.zone_cache import forget_zone_data
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually
from tests.zone_files import write_zone

pytestmark = pytest.mark.chaos

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
FORWARD, BACK = "Test/Forward", "Test/Back"
JUMP = 8
"""By so many seconds the clocks of these zones change."""
LASTS = 11


@dataclass(frozen=True)
class Story:
    """What came of it. `change` is when the clocks change. The instants before `until` are judged, of each job from
    `since` on.
    """

    change: datetime
    until: datetime
    since: Mapping[str, datetime | None]
    runs: Sequence[Run]

    def of(self, job: str) -> list[Run]:
        """The runs of the job that stand for these instants, in their order."""
        return [run for run in self.runs if run.job == job and run.fire_at < self.until]

    def instants(self, job: str, skipped: bool = False) -> list[int]:
        """The instants that runs of the job cover, in seconds from the change, as often as they are covered."""
        found: list[int] = []
        for run in self.of(job):
            if (run.state is RunState.SKIPPED) is skipped:
                last = run.fire_at if run.covers is None else min(run.covers.last, self.until - SECOND)
                # Schedules with ranges fire each second here.
                found += range(self.from_change(run.fire_at), self.from_change(last) + 1)
        return found

    def from_change(self, instant: datetime) -> int:
        return round((instant - self.change).total_seconds())

    def due(self, job: str, is_due: Callable[[int], bool]) -> list[int]:
        """The seconds from the change that are due, from the beginning of the job on."""
        since = self.since[job]
        assert since is not None
        return [k for k in range(self.from_change(since), self.from_change(self.until)) if is_due(k)]


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Path]:
    """A folder that has all zones of this process and of the nodes. Nobody reads one before a schedule names it."""
    folder = tmp_path / "zones"
    write_zone(folder, "UTC", 0 * HOUR)
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(folder)])
    forget_zone_data()
    yield folder
    zoneinfo.reset_tzpath(before)
    forget_zone_data()


def schedules(change: datetime) -> dict[str, Schedule]:
    """A job for each rule."""
    quiet = Period(change - 3 * SECOND, change + 5 * SECOND, "quiet")
    in_gap, repeated = change + HOUR + 3 * SECOND, change + HOUR - 3 * SECOND
    gaps = {f"gap-{gap.value.replace('_', '-')}": _at(in_gap, FORWARD, Dst(gap=gap)) for gap in GapPolicy}
    repeats = {f"twice-{kind.value}": _at(repeated, BACK, Dst(overlap=kind)) for kind in RepeatPolicy}
    return {
        "any": AnyOf((Every("3s"), Cron("*/4 * * * * *"))),
        "hashed": Cron("H/5 * * * * *"),
        "jitter": Every("5s", jitter=3 * SECOND),
        "three": Every("1s", max_runs=3, start=change - 2 * SECOND),
        "bounded": Every("1s", start=change - 4 * SECOND, end=change + 4 * SECOND),
        "blackout": Every("1s", blackout=(quiet,)),
        "only-in": Every("1s", only_in=(quiet,), start=change - 5 * SECOND),
        "chained": Every("2s", after_completion=True),
        **gaps,
        **repeats,
    }


def _at(local: datetime, tz: str, dst: Dst) -> Cron:
    return Cron(f"{local.second} {local.minute} {local.hour} * * *", tz=tz, dst=dst)


async def lived(cluster: Processes, zones: Path) -> Story:
    """Two nodes come up, the jobs run, the leader is killed when the clocks change, and everything ends."""
    leader = await cluster.up("a", "b")
    change = datetime.now(UTC).replace(microsecond=0) + 8 * SECOND
    write_zone(zones, FORWARD, HOUR, [(change, HOUR + JUMP * SECOND)])
    write_zone(zones, BACK, HOUR, [(change, HOUR - JUMP * SECOND)])
    jobs = [job_of(cluster, name, schedule) for name, schedule in schedules(change).items()]
    await cluster.apply(*jobs)
    since = {record.name: record.since for record in await cluster.backends.jobs.find()}
    await eventually(lambda: datetime.now(UTC) >= change, what="the clocks change")
    cluster.kill(leader)
    until = change + LASTS * SECOND
    await eventually(lambda: datetime.now(UTC) >= until, what="the last instant")

    async def planned() -> bool:
        return all(_is_planned(one, until) for one in await cluster.backends.jobs.find())

    async def ended() -> bool:
        return not any(run.is_open for run in await cluster.runs())

    await eventually(planned, what="all instants are planned")
    for name in schedules(change):
        # Nothing new starts, and the last runs end.
        await cluster.service.jobs.pause(name)
    await eventually(ended, what="all runs have ended")
    return Story(change, until, since, await cluster.runs())


def _is_planned(record: JobRecord, until: datetime) -> bool:
    waits = record.name == "chained" and record.waiting is not None
    return waits or record.next_fire is None or record.next_fire >= until


def job_of(cluster: Processes, name: str, schedule: Schedule) -> Job:
    every = cluster.job(name, every=None, seconds=1.0 if name == "chained" else 0.0)
    overlap = Overlap.FORBID if name == "chained" else Overlap.ALLOW
    return Job(name=name, target=every.target, schedule=schedule, retry=every.retry, overlap=overlap)


async def test_each_rule_has_exactly_its_instants_although_the_leader_is_killed(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path, zones: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        cluster.limits["PYTHONTZPATH"] = str(zones)
        story = await lived(cluster, zones)
        starts = cluster.noted("start")
    for check in (
        any_is_the_union,
        hashed_ones_keep_their_distance,
        jitter_delays_each_and_drops_none,
        max_runs_ends_the_job,
        nothing_is_due_outside_of_start_and_end,
        a_blackout_is_skipped,
        all_but_only_in_is_skipped,
        after_completion_counts_from_the_end,
        skipped_times_follow_the_policy,
        repeated_times_follow_the_policy,
    ):
        check(story)
    # An independent log of effects has the runs that are recorded, and no other.
    ran = {run.id for run in story.runs if run.state is RunState.SUCCEEDED}
    assert ran <= {run for run, _ in starts} <= {run.id for run in story.runs if run.state is not RunState.SKIPPED}


def any_is_the_union(story: Story) -> None:
    second = int(story.change.timestamp())
    wall = story.change.second
    expected = story.due("any", lambda k: (second + k) % 3 == 0 or (wall + k) % 60 % 4 == 0)
    assert story.instants("any") == expected


def hashed_ones_keep_their_distance(story: Story) -> None:
    found = story.instants("hashed")
    assert found == story.due("hashed", lambda k: (k - found[0]) % 5 == 0)


def jitter_delays_each_and_drops_none(story: Story) -> None:
    second = int(story.change.timestamp())
    found = [(second + k) // 5 for k in story.instants("jitter")]
    assert found == list(range(found[0], found[-1] + 1))
    assert len(found) >= LASTS // 5
    assert all((second + k) % 5 <= 3 for k in story.instants("jitter"))


def max_runs_ends_the_job(story: Story) -> None:
    assert story.instants("three") == story.due("three", lambda k: k >= -2)[:3]


def nothing_is_due_outside_of_start_and_end(story: Story) -> None:
    assert story.instants("bounded") == story.due("bounded", lambda k: -4 <= k < 4)


def a_blackout_is_skipped(story: Story) -> None:
    quiet = range(-3, 5)
    assert story.instants("blackout", skipped=True) == story.due("blackout", lambda k: k in quiet)
    assert story.instants("blackout") == story.due("blackout", lambda k: k not in quiet)
    assert {run.reason for run in story.of("blackout") if run.state is RunState.SKIPPED} == {"blackout: quiet"}


def all_but_only_in_is_skipped(story: Story) -> None:
    quiet = range(-3, 5)
    assert story.instants("only-in") == story.due("only-in", lambda k: k in quiet)
    assert story.instants("only-in", skipped=True) == story.due("only-in", lambda k: k not in quiet)
    assert {run.reason for run in story.of("only-in") if run.state is RunState.SKIPPED} == {"outside of quiet"}


def after_completion_counts_from_the_end(story: Story) -> None:
    runs = story.of("chained")
    assert len(runs) >= 3
    for before, run in pairwise(runs):
        assert before.ended_at is not None
        ended = before.ended_at.replace(microsecond=0)
        rounded = ended if ended == before.ended_at else ended + SECOND
        assert run.fire_at == rounded + 2 * SECOND
    assert not story.instants("chained", skipped=True)


def skipped_times_follow_the_policy(story: Story) -> None:
    assert story.instants("gap-next-valid") == [0]
    assert story.instants("gap-skip") == []
    assert story.instants("gap-shift") == [3]


def repeated_times_follow_the_policy(story: Story) -> None:
    assert story.instants("twice-first") == [-3]
    assert story.instants("twice-last") == [JUMP - 3]
    assert story.instants("twice-both") == [-3, JUMP - 3]
