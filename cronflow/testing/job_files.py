"""Checks a job file in a test: it can be read, and the app has every function that it names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cronflow.app import App
from cronflow.context import misfit
from cronflow.documents.values import nearest
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job, PythonTarget
from cronflow.files.jobs import read_job_files


def job_file(path: Path | str, *apps: App) -> list[Job]:
    """The jobs of a file, as `cronflow jobs apply` reads it.

    Fails with all problems of the file and, with apps, for each `python:` target that is a function of none of them or
    does not accept its `args`. Without apps, the modules of the targets are imported instead.
    """
    __tracebackhide__ = True
    try:
        jobs = read_job_files([path], check_python=not apps)
    except InvalidInput as error:
        raise AssertionError(f"{path} is not a valid job file:\n{error}") from None
    if problems := _problems(jobs, apps) if apps else []:
        raise AssertionError(f"{path} does not fit the apps:\n" + "\n".join(map(str, problems)))
    return jobs


def _problems(jobs: Sequence[Job], apps: Sequence[App]) -> list[Problem]:
    functions = {ref: function for app in apps for ref, function in app.functions.items()}
    found: list[Problem] = []
    for job in jobs:
        target = job.target
        if not isinstance(target, PythonTarget):
            continue
        function = functions.get(target.ref)
        if function is None:
            near = nearest(target.ref, functions)
            remedy = f"did you mean {near}?" if near else f"the apps are {', '.join(app.name for app in apps)}"
            found.append(Problem(job.name, f"no app has {target.ref}", remedy))
        elif refused := misfit(function, target.args, complete=job.schedule is not None):
            found.append(Problem(job.name, refused))
    return found
