"""What an importer returns: jobs as documents, a note for each decision, and refusals.

The rule: the jobs of a completed file can be applied. `completed` turns a job that CronFlow does not accept into a
refusal, makes the names unique in all files together, and adds the labels that the user asked for. A name that several
jobs want gets a suffix that depends on the job's original text, so it stays when entries of the source are reordered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from cronflow.documents import parse_job
from cronflow.domain.concurrency import limit_problems
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import SYSTEM_PREFIX, label_problems, target_mismatches, target_problems

LONGEST_NAME = 60
_OTHER = re.compile(r"[^a-z0-9._]+")

NO_RETRIES = {"max": 0}
"""The `retry` of a job whose source does not retry."""


@dataclass(frozen=True, slots=True)
class ImportNote:
    """A comment for the key at `path`, such as `("schedule", "tz")`. `()` is the job itself, or the whole file."""

    path: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """A job as its document, as in a job file. `place` and `original` are where it comes from, such as `line 12`, and
    the text there.
    """

    name: str
    document: Mapping[str, Any]
    notes: tuple[ImportNote, ...] = ()
    place: str = ""
    original: str = ""
    whole: str = ""
    """The whole entry where `original` is a part of it: a refusal has it all."""
    replaces: Mapping[str, str] | None = None
    """The `replaces` of the job in shadow mode, but for the host."""


@dataclass(frozen=True, slots=True)
class ImportRefusal:
    """An entry that is not imported: where it is, its text, why, and what to do instead."""

    place: str
    text: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """What was read from one source, such as `crontab /etc/crontab`.

    `defaults` are those of the job file. A note whose path begins with `defaults` belongs to one of its keys.
    """

    source: str
    jobs: tuple[ImportedJob, ...] = ()
    refusals: tuple[ImportRefusal, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[ImportNote, ...] = ()


def completed(
    files: Sequence[ImportedFile],
    labels: Mapping[str, str] | None = None,
    host: str | None = None,
    *,
    shadow: bool = False,
) -> list[ImportedFile]:
    """The files with unique names and without jobs that CronFlow refuses. `labels` are added to all jobs; with `host`
    they run only on nodes with the label `host`, and have it themselves; with `shadow` they are in shadow mode.
    """
    names = iter(unique_names([(job.name, job.original) for file in files for job in file.jobs]))
    found = []
    for file in files:
        renamed = tuple(_with_name(job, next(names)) for job in file.jobs)
        made = _with_labels(_without_invalid(replace(file, jobs=renamed)), labels or {}, host)
        found.append(_in_shadow(made, host) if shadow else made)
    return found


def job_name(text: str) -> str:
    """A name for a job that is called, or does, `text`."""
    short = _OTHER.sub("-", text.lower())[:LONGEST_NAME].strip("-._")
    return short or "job"


def unique_names(wanted: Sequence[tuple[str, str]]) -> list[str]:
    """A name for each pair of a wanted name and the text that distinguishes it from others of that name."""
    count = Counter(name for name, _ in wanted)
    taken = {name for name in count if count[name] == 1}
    found = []
    for name, text in wanted:
        if count[name] > 1:
            name = _free(f"{name}-{blake2b(text.encode(), digest_size=2).hexdigest()}", taken)
        found.append(name)
    return found


def _free(name: str, taken: set[str]) -> str:
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free


def _with_name(job: ImportedJob, name: str) -> ImportedJob:
    document = {"name": name, **{key: value for key, value in job.document.items() if key != "name"}}
    return replace(job, name=name, document=document)


def _with_labels(file: ImportedFile, labels: Mapping[str, str], host: str | None) -> ImportedFile:
    labels = {**labels, **({} if host is None else {"host": host})}
    if not labels:
        return file
    defaults = dict(file.defaults)
    defaults["labels"] = {**defaults.get("labels", {}), **labels}
    notes = file.notes
    if host is not None:
        defaults["require"] = {**defaults.get("require", {}), "host": host}
        text = f"Only nodes with this label run these jobs: cronflow node --label host={host}"
        notes = (*notes, ImportNote(("defaults", "require"), text))
    return replace(file, defaults=defaults, notes=notes)


def _in_shadow(file: ImportedFile, host: str | None) -> ImportedFile:
    own = {} if host is None else {"host": host}
    jobs = [
        job if job.replaces is None else replace(job, document={**job.document, "replaces": {**job.replaces, **own}})
        for job in file.jobs
    ]
    text = (
        "These jobs are planned and recorded, and not executed: cron still does the work. Compare both with `cronflow "
        "shadow report LOG`, then switch with `cronflow jobs activate` and remove this line."
    )
    notes = (*file.notes, ImportNote(("defaults", "mode"), text))
    return replace(file, jobs=tuple(jobs), defaults={**file.defaults, "mode": "shadow"}, notes=notes)


def _without_invalid(file: ImportedFile) -> ImportedFile:
    jobs, refusals = [], list(file.refusals)
    for job in file.jobs:
        try:
            _check(job.document)
        except InvalidInput as error:
            first = error.problems[0]
            reason = f"{first.place}: {first.what}" if first.place else first.what
            refusals.append(
                ImportRefusal(job.place, job.whole or job.original, reason, first.remedy or "write the job yourself")
            )
        else:
            jobs.append(job)
    return replace(file, jobs=tuple(jobs), refusals=tuple(refusals))


def _check(document: Mapping[str, Any]) -> None:
    """Raises InvalidInput when `jobs apply` would refuse the document."""
    job = parse_job(document, "")
    assert not job.name.startswith(SYSTEM_PREFIX)
    problems = [
        *target_problems(job.target),
        *target_mismatches(job),
        *label_problems(job.require),
        *limit_problems(job),
    ]
    if problems:
        raise InvalidInput(problems)
