"""Reads job files, YAML or JSON, into jobs, or reports all their problems.

Every problem has a place, such as `jobs.yaml:12: jobs[0].schedule.cron: …`. `documents` defines what a job may contain
and `yaml_source` reads files; this module finds duplicate names and checks that Python targets can be imported.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cronflow.documents import FORMAT_ZONE, implicit_misfires, joined, nearest, parse_job
from cronflow.documents.values import got
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import SYSTEM_PREFIX, Job, PythonTarget, Retry
from cronflow.files.defaults import DEFAULTS, NO_DEFAULTS, FileDefaults, read_defaults
from cronflow.files.file_problems import FileProblem
from cronflow.files.yaml_source import YamlDocument, entries_of, text_of, yaml_documents

_PLAIN_RETRY = Retry()
_KEYS_OF_A_JOB = {"name", "schedule", "run"}


class JobsRead(NamedTuple):
    """The jobs of all files, in order, and their `implicit_misfires` with file and line."""

    jobs: list[Job]
    implicit_misfires: dict[str, str]


def read_job_files(
    paths: Sequence[Path | str], *, check_python: bool = True, retry: Retry = _PLAIN_RETRY, tz: str = FORMAT_ZONE
) -> list[Job]:
    """The jobs of `read_jobs`."""
    return read_jobs(paths, check_python=check_python, retry=retry, tz=tz).jobs


def read_jobs(
    paths: Sequence[Path | str], *, check_python: bool = True, retry: Retry = _PLAIN_RETRY, tz: str = FORMAT_ZONE
) -> JobsRead:
    """Read the jobs of all files.

    A file has a list under `jobs`, or is a single job; it may have several YAML documents. What a job leaves out comes
    from the `defaults` beside its list, then from `retry` and `tz` (see `parse_job`). With `check_python` the module of
    each Python target is imported, with the working directory and the folder of the file on the path. Raises
    InvalidInput with the problems of all files.
    """
    problems: list[Problem] = []
    found = collect_jobs(paths, problems, check_python=check_python, retry=retry, tz=tz)
    if problems:
        raise InvalidInput(problems)
    return JobsRead(
        [one.job for one in found],
        {one.job.name: one.located("schedule.at").place for one in found if one.implicit_misfire},
    )


class JobFound(NamedTuple):
    """A valid job of a file, and whether it is a one-time job that leaves out `misfire`, or one whose schedule leaves
    out `dst`.
    """

    job: Job
    document: YamlDocument
    place: str
    implicit_misfire: bool
    implicit_dst: bool

    def located(self, key: str, what: str = "", remedy: str = "") -> FileProblem:
        """A problem of a key of the job."""
        return self.document.located(Problem(joined(self.place, key), what, remedy))


def collect_jobs(
    paths: Sequence[Path | str],
    problems: list[Problem],
    *,
    check_python: bool = True,
    retry: Retry = _PLAIN_RETRY,
    tz: str = FORMAT_ZONE,
) -> list[JobFound]:
    """The valid jobs of all files, as `read_jobs` reads them. Adds the problems of the others, however many."""
    jobs: list[JobFound] = []
    seen: dict[str, _Entry] = {}
    targets = _Targets()
    for path in map(Path, paths):
        try:
            for document in yaml_documents(path, text_of(path), "jobs"):
                problems += document.problems
                defaults = _defaults_of(document, retry, problems)
                parse = partial(parse_job, retry=retry, tz=defaults.tz or tz)
                for place, job in entries_of(document, "jobs", "a job", _KEYS_OF_A_JOB, problems, (DEFAULTS,)):
                    entry = _Entry(document, place, job)
                    found = [*_name_problems(entry, seen), *(targets.problems(entry) if check_python else ())]
                    try:
                        made, complete = defaults.apply(entry.job, entry.place, parse)
                        implicit = bool(implicit_misfires({place: complete}))
                        jobs.append(JobFound(made, document, place, implicit, not _has_dst(entry.part("schedule"))))
                    except InvalidInput as error:
                        found += error.problems
                    found.sort(key=lambda problem: document.line(problem.place))
                    problems += map(document.located, found)
        except InvalidInput as error:
            problems += error.problems
    return jobs


def _defaults_of(document: YamlDocument, retry: Retry, problems: list[Problem]) -> FileDefaults:
    """The defaults of a document with a list of jobs. Adds what is wrong to `problems`."""
    value = document.value
    if not isinstance(value, Mapping) or "jobs" not in value or DEFAULTS not in value:
        return NO_DEFAULTS
    try:
        return read_defaults(value[DEFAULTS], DEFAULTS, retry)
    except InvalidInput as error:
        problems += map(document.located, error.problems)
        return NO_DEFAULTS


def _has_dst(schedule: object) -> bool:
    """Whether a schedule, or one of several, chooses what happens when the clocks change."""
    if not isinstance(schedule, Mapping):
        return False
    parts = schedule.get("any")
    return "dst" in schedule or (isinstance(parts, list) and any(map(_has_dst, parts)))


# ------------------------------------------------------------------------------------------------------------- jobs


@dataclass(frozen=True, slots=True)
class _Entry:
    """A raw job of a document."""

    document: YamlDocument
    place: str
    job: object

    def part(self, *keys: str) -> object:
        value = self.job
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def _name_problems(entry: _Entry, seen: dict[str, _Entry]) -> Iterator[Problem]:
    name, place = entry.part("name"), joined(entry.place, "name")
    if not isinstance(name, str):
        return
    if name.startswith(SYSTEM_PREFIX):
        yield Problem(place, f"names that begin with {SYSTEM_PREFIX} are reserved", "choose another name")
    first = seen.setdefault(name, entry)
    if first is not entry:
        there = first.document.located(Problem(joined(first.place, "name"), "")).place
        yield Problem(place, f"the name {name!r} is taken by {there}", "names must be unique; rename one")


class _Targets:
    """Imports each Python target once and reports its problems."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, str], tuple[str, str] | None] = {}

    def problems(self, entry: _Entry) -> Iterator[Problem]:
        ref = entry.part("run", "python")
        if not isinstance(ref, str):
            return
        try:
            PythonTarget(ref)
        except InvalidInput:
            return  # parse_job reports it
        folder = entry.document.folder
        if (folder, ref) not in self._known:
            with _importing_from(Path.cwd(), folder):
                self._known[folder, ref] = _why_not_callable(ref, folder)
        wrong = self._known[folder, ref]
        if wrong:
            yield Problem(joined(entry.place, "run.python"), *wrong)


@contextmanager
def _importing_from(*folders: Path) -> Iterator[None]:
    """Put the folders first on the import path, and discard what modules print during import."""
    added = [str(folder) for folder in folders]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        for folder in added:
            if folder in sys.path:
                sys.path.remove(folder)


def _why_not_callable(ref: str, folder: Path) -> tuple[str, str] | None:
    """The problem with a Python target and its remedy, or None. Runs the code of the module."""
    name, _, path = ref.partition(":")
    try:
        found: object = importlib.import_module(name)
    except ModuleNotFoundError as error:
        what = f"{name} does not import: ModuleNotFoundError: {error}"
        folders = " and ".join(dict.fromkeys(str(place) for place in (Path.cwd(), folder)))
        return what, f"looked in {folders} and in the installed packages"
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        return f"{name} does not import: {type(error).__name__}: {error}", f'try python -c "import {name}"'
    for part in path.split("."):
        if not hasattr(found, part):
            near = nearest(part, dir(found))
            return f"{name} has no {path}", f"did you mean {near}?" if near else "name a function of the module"
        found = getattr(found, part)
    return None if callable(found) else (f"{ref} is not a function but {got(found)}", "name a function of the module")
