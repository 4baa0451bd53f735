"""The files that `cronflow dev` is given: YAML or JSON with jobs, and Python files with Apps.

Everything is read and checked before a server is started.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cronflow.app import App, load_module
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job, PythonTarget, Retry
from cronflow.files.jobs import read_job_files


@dataclass(frozen=True, slots=True)
class Given:
    """The jobs, and what a node needs to run them: Apps by address, allowed modules, folders to import from."""

    jobs: tuple[Job, ...]
    apps: tuple[str, ...]
    modules: tuple[str, ...]
    folders: tuple[Path, ...]


def read(files: Sequence[Path], retry: Retry) -> Given:
    """`retry` is for jobs that do not define one. Raises InvalidInput with every problem."""
    folders = tuple(dict.fromkeys(file.resolve().parent for file in files))
    for folder in folders:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    jobs = read_job_files([file for file in files if file.suffix != ".py"], retry=retry) if files else []
    modules = {job.target.ref.partition(":")[0] for job in jobs if isinstance(job.target, PythonTarget)}
    apps: list[str] = []
    for file in (file for file in files if file.suffix == ".py"):
        found = _apps_in(file)
        apps += [address for address, _ in found]
        jobs += [job for _, app in found for job in app.jobs_with(retry)]
    names = [job.name for job in jobs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput([Problem("", f"two jobs are named {name!r}", "rename one") for name in twice])
    return Given(tuple(jobs), tuple(apps), tuple(sorted(modules)), folders)


def _apps_in(file: Path) -> list[tuple[str, App]]:
    if not file.is_file():
        raise InvalidInput(Problem(str(file), "does not exist"))
    if not file.stem.isidentifier():
        raise InvalidInput(Problem(str(file), "cannot be imported by this name", "use only letters, digits and _"))
    module = load_module(file.stem)
    found = [(f"{file.stem}:{name}", value) for name, value in vars(module).items() if isinstance(value, App)]
    if not found:
        raise InvalidInput(Problem(str(file), "contains no App", "make one: app = App('name')"))
    return found
