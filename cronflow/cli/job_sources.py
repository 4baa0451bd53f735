"""The jobs of files and apps, as `jobs apply` and `jobs diff` read them, and their owner.

The rule: everything is read and checked completely before a cluster is contacted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cronflow.app import load_app
from cronflow.cli import connect
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.ownership import OWNER

if TYPE_CHECKING:
    from cronflow.domain.job import Job
    from cronflow.files.jobs import JobsRead

STDIN = Path("/dev/stdin")


def paths_of(files: Sequence[Path]) -> list[Path]:
    """The files; - is stdin."""
    return [STDIN if str(path) == "-" else path for path in files]


def read_sources(files: Sequence[Path], apps: Sequence[str], *, check_python: bool) -> JobsRead:
    """The jobs of the files and apps. Raises InvalidInput with the problems of all of them."""
    from cronflow.documents import job_document, parse_job
    from cronflow.files.jobs import JobsRead, read_jobs

    if not files and not apps:
        what = "no files and no app given"
        raise InvalidInput(Problem("", what, "use -f jobs.yaml or --app package.module:app"))
    defaults = connect.job_defaults()
    problems: list[Problem] = []
    wanted, implicit = JobsRead([], {})
    paths = paths_of(files)
    try:
        if paths:
            wanted, implicit = read_jobs(paths, check_python=check_python, retry=defaults.retry, tz=defaults.tz)
    except InvalidInput as error:
        problems += error.problems
    seen = {job.name: "the files" for job in wanted}
    for address in apps:
        try:
            loaded = load_app(address)
        except InvalidInput as error:
            problems += error.problems
            continue
        found = loaded.jobs_with(*defaults)
        if not found:
            problems.append(Problem(address, "this App has no jobs", "write @app.job(...) above a function"))
        for job in found:
            if (other := seen.setdefault(job.name, address)) != address:
                problems.append(Problem(address, f"the name {job.name!r} is used by {other}", "rename one of the two"))
        wanted += [parse_job(job_document(job), "") for job in found]
        implicit.update(loaded.implicit_misfires)
    if problems:
        raise InvalidInput(problems)
    return JobsRead(wanted, implicit)


def with_owner(jobs: Sequence[Job], owner: str) -> list[Job]:
    """The jobs with the label of their owner. Raises InvalidInput for a job that has another one."""
    others = [job for job in jobs if job.labels.get(OWNER, owner) != owner]
    if others:
        raise InvalidInput(
            [
                Problem(
                    "--owner", f"the owner of {job.name} is {job.labels[OWNER]!r}, not {owner!r}", "change one of them"
                )
                for job in others
            ]
        )
    return [job if OWNER in job.labels else replace(job, labels={**job.labels, OWNER: owner}) for job in jobs]


def owner_of(jobs: Sequence[Job]) -> str:
    """The one owner of all jobs. Raises InvalidInput if there is none, or more than one."""
    owners = sorted({job.labels.get(OWNER, "") for job in jobs})
    if len(owners) == 1 and owners[0]:
        return owners[0]
    remedy = f"give --owner NAME, or write the label {OWNER} below defaults.labels of the file"
    if not jobs:
        raise InvalidInput(Problem("--prune", "no jobs, so no owner whose other jobs would be deleted", remedy))
    without = [job.name for job in jobs if not job.labels.get(OWNER)]
    if without:
        more = f" and {len(without) - 1} more" if len(without) > 1 else ""
        raise InvalidInput(
            Problem("--prune", f"{without[0]}{more} has no label {OWNER}".replace("more has", "more have"), remedy)
        )
    remedy = "apply the files of each owner on their own"
    raise InvalidInput(Problem("--prune", f"the jobs have several owners: {', '.join(owners)}", remedy))
