"""The schedules that `cronflow cron explain` is asked about: from an expression, options, a mapping, or a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cronflow.cli.terminal import times
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.domain.job import Job
    from cronflow.domain.schedule.kinds import Schedule

PLACEHOLDER = "job"
"""The name of the job where a schedule depends on one and none is given."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A schedule with a title, which is its expression or the name of its job, and notes on how it was read."""

    title: str
    schedule: Schedule
    notes: Sequence[str] = ()


def from_options(
    expression: str | None,
    every: str | None,
    at: str | None,
    more: Mapping[str, str | None],
    zone: str,
    job: str | None,
) -> Explained:
    """The schedule of an expression or a mapping, of `--every` with `more` keys, or of `--at`. `zone` is that of a
    schedule that names none. Raises InvalidInput.
    """
    from cronflow.documents import parse_schedule
    from cronflow.domain.job import for_job
    from cronflow.domain.schedule.kinds import Cron

    given = {key: value for key, value in more.items() if value is not None}
    document: object
    if expression is not None and expression.lstrip().startswith("{"):
        document = _mapping(expression)
    elif expression is not None:
        document = {"cron": expression, **given}
    elif every is not None:
        document = {"every": every, **given}
    else:
        assert at is not None
        document = {"at": _instant(at, zone)}
    schedule = for_job(parse_schedule(document, "", tz=zone), job or PLACEHOLDER)
    notes = [] if job is not None or not depends_on_name(document) else [_placeholder_note()]
    return Explained(schedule.expr if isinstance(schedule, Cron) else "", schedule, notes)


def from_file(file: Path, name: str | None, zone: str) -> list[Explained]:
    """The schedules of the jobs of a file, or of one of them. Raises InvalidInput."""
    from cronflow.documents import nearest
    from cronflow.files.jobs import read_job_files

    jobs = read_job_files([Path("/dev/stdin") if str(file) == "-" else file], check_python=False, tz=zone)
    if name is None:
        found = [_of(job) for job in jobs if job.schedule is not None]
        if not found:
            raise InvalidInput(Problem(str(file), "none of its jobs has a schedule", "jobs without one run on request"))
        return [one for one in found if one is not None]
    job = next((job for job in jobs if job.name == name), None)
    if job is None:
        near = nearest(name, [job.name for job in jobs])
        raise InvalidInput(Problem("--job", f"{file} has no job {name!r}", f"did you mean {near}?" if near else ""))
    if (one := _of(job)) is None:
        raise InvalidInput(Problem("--job", f"{name} has no schedule", "it runs only on request, or after other jobs"))
    return [one]


def depends_on_name(document: object) -> bool:
    """Whether the instants of a schedule depend on the name of its job: it has `H` or jitter."""
    from cronflow.domain.schedule.hashed import uses_hash

    if isinstance(document, list | tuple):
        return any(map(depends_on_name, document))
    if not isinstance(document, Mapping):
        return False
    cron = document.get("cron")
    hashed = isinstance(cron, str) and uses_hash(cron)
    return hashed or "jitter" in document or depends_on_name(document.get("any"))


def _of(job: Job) -> Explained | None:
    return None if job.schedule is None else Explained(job.name, job.schedule)


def _mapping(text: str) -> object:
    from cronflow.files.yaml_source import yaml_documents

    [document, *more] = yaml_documents(Path("EXPR"), text, "schedule")
    if document.problems or more:
        raise InvalidInput([*document.problems] or Problem("EXPR", "has several documents", "give one mapping"))
    return document.value


def _instant(text: str, zone: str) -> str:
    instant: datetime | None = times.in_zone(times.wall_clock(text, "--at"), zone)
    assert instant is not None
    return instant.isoformat()


def _placeholder_note() -> str:
    what = "Its times depend on the name of the job"
    return f"{what}; these are those of a job named {PLACEHOLDER}. Give the name with --job."
