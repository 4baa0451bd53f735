"""Checks files without a cluster: all problems of job, alert, limit and calendar files, and warnings about schedules.

The rule: a file that has no problem here is refused by a cluster only for what the cluster alone knows: calendars,
limits, jobs and rights that are not in the files. Warnings are about likely mistakes; writing `dst` silences the one
about times that the clocks skip or show twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from cronflow.documents import FORMAT_ZONE
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Retry
from cronflow.domain.job_graph import JobGraph
from cronflow.domain.job_problems import problems_of
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.comparison import why_over
from cronflow.domain.schedule.cron_warnings import mistakes_in
from cronflow.domain.schedule.exclusions import next_allowed
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Once, bound
from cronflow.files.alerts import read_alert_files
from cronflow.files.calendars import read_calendar_files
from cronflow.files.file_problems import FileProblem
from cronflow.files.jobs import JobFound, collect_jobs
from cronflow.files.limits import read_limit_files
from cronflow.files.yaml_source import text_of, yaml_documents

KINDS = ("jobs", "alerts", "limits", "calendars")
_OF_AN_ALERT = {"on", "webhook"}
_PLAIN_RETRY = Retry()

Read = TypeVar("Read")


class Checked(NamedTuple):
    """Everything that was found, in the order of the files, and how many entries of each kind are valid."""

    problems: Sequence[FileProblem]
    warnings: Sequence[FileProblem]
    counts: Mapping[str, int]


def check_files(
    paths: Sequence[Path],
    now: datetime,
    *,
    check_python: bool = True,
    retry: Retry = _PLAIN_RETRY,
    tz: str = FORMAT_ZONE,
) -> Checked:
    """`retry` and `tz` complete the jobs, as in `read_jobs`."""
    problems: list[Problem] = []
    files: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for path in dict.fromkeys(paths):
        try:
            files[_kind_of(path)].append(path)
        except InvalidInput as error:
            problems += error.problems
    calendars = _read(problems, read_calendar_files, files["calendars"])
    counts = {
        "alerts": len(_read(problems, read_alert_files, files["alerts"])),
        "limits": len(_read(problems, read_limit_files, files["limits"])),
        "calendars": len(calendars),
    }
    jobs = collect_jobs(files["jobs"], problems, check_python=check_python, retry=retry, tz=tz)
    for one in jobs:
        problems += [one.located(problem.place, problem.what, problem.remedy) for problem in problems_of(one.job)]
    problems += _cycle(jobs)
    warnings = [warning for one in jobs for warning in _warnings(one, calendars, now)]
    order = {str(path): n for n, path in enumerate(paths)}
    return Checked(_in_order(problems, order), _in_order(warnings, order), {"jobs": len(jobs), **counts})


def _kind_of(path: Path) -> str:
    """The kind of a file: that of its first document that has one. What has none is read as jobs, which reports it; so
    is a pipe, which can be read only once.
    """
    if path.exists() and not path.is_file():
        return "jobs"
    for document in yaml_documents(path, text_of(path), "jobs"):
        if isinstance(document.value, Mapping):
            keys = document.value.keys()
            found = next((kind for kind in KINDS if kind in keys), None)
            if found is None and keys >= _OF_AN_ALERT:
                found = "alerts"
            if found is not None:
                return found
    return "jobs"


def _read(problems: list[Problem], read: Callable[[Sequence[Path]], list[Read]], paths: Sequence[Path]) -> list[Read]:
    """What the files have; nothing if one of them is refused, whose problems are added."""
    try:
        return read(paths)
    except InvalidInput as error:
        problems += error.problems
        return []


def _cycle(jobs: Sequence[JobFound]) -> Iterator[FileProblem]:
    """Jobs of the files that follow each other in a circle."""
    graph = JobGraph({one.job.name: one.job.after for one in jobs}, {one.job.name: one.job.join for one in jobs})
    cycle = graph.cycle()
    if cycle is not None:
        one = next(one for one in jobs if one.job.name in cycle)
        yield one.located("after", f"jobs follow each other: {' -> '.join(cycle)}", "remove one of the links")


def _warnings(one: JobFound, calendars: Sequence[Calendar], now: datetime) -> Iterator[FileProblem]:
    schedule = one.job.schedule
    if schedule is None or not one.job.enabled:
        return
    if isinstance(schedule, Once):
        if schedule.at < now:
            yield one.located("schedule.at", "has passed, so the job never runs again", "choose a later time")
        return
    known = {calendar.name for calendar in calendars}
    if known >= set(schedule.calendar_names):
        complete = bound(schedule, calendars)
        assert complete is not None
        if next_allowed(complete, now) is None:
            over = next_after(complete, now) is None
            why = why_over(complete, now) if over else "its calendars and windows exclude every time"
            yield one.located("schedule", f"never fires: {why}", "correct it, or remove the job")
            return
    for text in mistakes_in(schedule, now, clock_changes=one.implicit_dst):
        yield one.located("schedule", text, "cronflow cron explain shows its next fires")


def _in_order(problems: Sequence[Problem], files: Mapping[str, int]) -> list[FileProblem]:
    """By file and line. A problem that names no file, such as that there are too many, is last."""
    found = [one if isinstance(one, FileProblem) else FileProblem(one.place, one.what, one.remedy) for one in problems]
    return sorted(found, key=lambda one: (files.get(one.file, len(files)), one.line or 0))
