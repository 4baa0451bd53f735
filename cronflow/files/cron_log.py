"""Reads from a system's log which commands cron executed: lines of syslog, or of `journalctl` in any of its formats.

Understood are lines of Debian's cron and of cronie, such as

    Nov 24 02:00:01 web-1 CRON[812]: (root) CMD (/usr/local/bin/backup)
    2026-11-24T02:00:01.123456+01:00 web-1 CROND[812]: (root) CMD (/usr/local/bin/backup)

and JSON objects of `journalctl -o json`. Other lines are skipped. A time without a year belongs to the latest year in
which it is not after `now`; a time without an offset is local time in `zone`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo

import orjson

from cronflow.domain.shadow_report import CronExecution

_IDENTIFIERS = frozenset({"cron", "crond"})
_LINE = re.compile(
    r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\S+)\s+(?P<host>\S+)\s+"
    r"(?P<identifier>[^\s\[:]+)(?:\[\d+\])?:\s(?P<message>.*)"
)
_EXECUTED = re.compile(r"\((?P<user>[^)\s]+)\) CMD \((?P<command>.*)\)\s*")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_A_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CronLog:
    """What a log contains. `first` and `last` are the times of its first and last line of cron, whatever that says."""

    executions: list[CronExecution] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None


def read_cron_log(lines: Iterable[str], now: datetime, zone: tzinfo) -> CronLog:
    """The executions in a log, in the order of their times."""
    executions = []
    times = []
    for line in lines:
        entry = _json_entry(line) if line.startswith("{") else _text_entry(line, now, zone)
        if entry is None:
            continue
        at, host, message = entry
        times.append(at)
        if found := _EXECUTED.fullmatch(message):
            executions.append(CronExecution(at, host, found["user"], found["command"]))
    executions.sort(key=lambda one: one.at)
    return CronLog(executions, min(times, default=None), max(times, default=None))


def _text_entry(line: str, now: datetime, zone: tzinfo) -> tuple[datetime, str, str] | None:
    found = _LINE.match(line.rstrip("\n"))
    if found is None or not _is_cron(found["identifier"]):
        return None
    at = _instant(found["time"], now, zone)
    return None if at is None else (at, found["host"], found["message"])


def _json_entry(line: str) -> tuple[datetime, str, str] | None:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    message, identifier = entry.get("MESSAGE"), entry.get("SYSLOG_IDENTIFIER")
    microseconds = entry.get("__REALTIME_TIMESTAMP")
    # A message that is not UTF-8 is an array of bytes.
    if isinstance(message, list):
        message = bytes(message).decode(errors="replace")
    if not (isinstance(message, str) and isinstance(identifier, str) and isinstance(microseconds, str)):
        return None
    if not _is_cron(identifier) or not microseconds.isdecimal():
        return None
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(microseconds))
    return at, str(entry.get("_HOSTNAME", "")), message


def _is_cron(identifier: str) -> bool:
    """Older releases of Debian log the path of the program."""
    return identifier.rpartition("/")[2].lower() in _IDENTIFIERS


def _instant(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    if text[0].isdigit():
        try:
            found = datetime.fromisoformat(text.replace(",", "."))
        except ValueError:
            return None
        return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    month, day, clock = _MONTHS.index(text[:3]) + 1 if text[:3] in _MONTHS else 0, int(text[4:6]), text[7:]
    hour, minute, second = (int(part) for part in clock.split(":"))
    for year in (now.year + 1, now.year, now.year - 1, now.year - 2, now.year - 3, now.year - 4):
        try:
            at = datetime(year, month, day, hour, minute, second, tzinfo=zone).astimezone(UTC)
        except ValueError:
            continue  # The 29th of February of another year.
        if at <= now + _A_DAY:
            return at
    return None
