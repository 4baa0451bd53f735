"""Reads crontabs."""

from __future__ import annotations

import re

from cronflow.importers.imported import NO_RETRIES, ImportedFile, ImportedJob, ImportNote, job_name

_LINE = re.compile(r"(@\w+|(?:\S+\s+){4}\S+)\s+(.*)")


def read_crontab(text: str, source: str, *, tz: str | None = None, user_column: bool | None = None) -> ImportedFile:
    """The jobs of a crontab."""
    jobs = []
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line.strip())
        if found is None or line.strip().startswith("#"):
            continue
        schedule = {"cron": found[1], **({} if tz is None else {"tz": tz})}
        document = {"schedule": schedule, "run": {"shell": found[2]}, "retry": NO_RETRIES}
        notes = (ImportNote(("retry",), "cron does not retry."),)
        jobs.append(ImportedJob(job_name(found[2]), document, notes, f"line {number}", line))
    return ImportedFile(f"crontab {source}", tuple(jobs))
