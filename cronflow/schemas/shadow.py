"""The comparison of jobs in shadow mode with a log, as `-o json` prints it."""

from __future__ import annotations

from cronflow.domain.shadow_report import ComparedLine, ShadowComparison
from cronflow.schemas import Schema, iso


class OnlyInCronSchema(Schema):
    """A start of cron that CronFlow did not plan."""

    at: str
    """When."""
    skipped: str | None
    """Why CronFlow skipped it; null: it had no fire then."""


class ComparedLineSchema(Schema):
    """A crontab line, compared."""

    jobs: list[str]
    """The jobs that replace it: one, unless several have the same command."""
    matched: int
    """How many starts both have."""
    furthest_s: float
    """How far apart the two starts of a match are at most, in seconds."""
    only_cronflow: list[str]
    """Planned starts that the log does not have."""
    only_cron: list[OnlyInCronSchema]
    """Starts in the log that were not planned."""


class UnknownLineSchema(Schema):
    """A command in the log that no job in shadow mode replaces."""

    host: str
    """Its host."""
    user: str
    """Its user."""
    command: str
    """The command."""
    executions: int
    """How often it was executed."""


class ShadowReportSchema(Schema):
    """Jobs in shadow mode, compared with a log of cron."""

    first: str
    """The time of the log's first line."""
    last: str
    """The time up to which they are compared."""
    equal: bool
    """Whether every line has the same starts on both sides."""
    lines: list[ComparedLineSchema]
    """The lines; those that differ come first."""
    unknown: list[UnknownLineSchema]
    """The other commands in the log."""


def shadow_report_schema(compared: ShadowComparison) -> ShadowReportSchema:
    return {
        "first": iso(compared.first),
        "last": iso(compared.last),
        "equal": compared.is_equal,
        "lines": [_line(line) for line in compared.lines],
        "unknown": [
            {"host": one.host, "user": one.user, "command": one.command, "executions": count}
            for one, count in compared.unknown
        ],
    }


def _line(line: ComparedLine) -> ComparedLineSchema:
    return {
        "jobs": list(line.jobs),
        "matched": line.matched,
        "furthest_s": line.furthest.total_seconds(),
        "only_cronflow": [iso(at) for at in line.only_cronflow],
        "only_cron": [{"at": iso(at), "skipped": line.skipped.get(at)} for at in line.only_cron],
    }
