"""Lines of cron in a system's log, in each format in which Debian and Red Hat write them."""

from __future__ import annotations

from datetime import UTC, datetime

from cronflow.domain.schedule.zones import find_zone
from cronflow.domain.shadow_report import CronExecution
from cronflow.files.cron_log import read_cron_log

NOW = datetime(2026, 11, 24, 18, 0, tzinfo=UTC)
BERLIN = find_zone("Europe/Berlin")
EXPECTED = [CronExecution(datetime(2026, 11, 24, 1, 0, 1, tzinfo=UTC), "web-1", "root", "/usr/bin/backup --all")]
JOURNAL = '{"__REALTIME_TIMESTAMP":"1795482001000000","_HOSTNAME":"web-1","SYSLOG_IDENTIFIER":"CRON","MESSAGE":SAID}'


def read(*lines: str) -> list[CronExecution]:
    return read_cron_log(lines, NOW, BERLIN).executions


def test_every_format_gives_the_same_execution() -> None:
    said = "(root) CMD (/usr/bin/backup --all)"
    for line in (
        f"Nov 24 02:00:01 web-1 CRON[812]: {said}\n",
        f"2026-11-24T02:00:01+01:00 web-1 CRON[812]: {said}",
        f"2026-11-24T02:00:01+0100 web-1 CROND[812]: {said}",
        f"2026-11-24T01:00:01Z web-1 crond[812]: {said}",
        f"2026-11-24 02:00:01 web-1 /USR/SBIN/CRON[812]: {said}",
        JOURNAL.replace("SAID", f'"{said}"'),
        JOURNAL.replace("SAID", str([*said.encode()])),
    ):
        assert read(line) == EXPECTED, line


def test_fractions_of_a_second_are_kept() -> None:
    (one,) = read("2026-11-24T02:00:01.250000+01:00 web-1 CRON[8]: (root) CMD (true)")
    assert one.at == datetime(2026, 11, 24, 1, 0, 1, 250_000, tzinfo=UTC)


def test_a_command_keeps_its_brackets_and_spaces() -> None:
    (one,) = read("Nov 24 02:17:01 web-1 CRON[8]: (root) CMD (   cd / && (run-parts --report /etc/cron.hourly))")
    assert one.command == "   cd / && (run-parts --report /etc/cron.hourly)"


def test_other_lines_are_skipped() -> None:
    lines = [
        "",
        "Nov 24 02:00:01 web-1 systemd[1]: Starting apt-daily.service - Daily apt download activities...",
        "Nov 24 02:00:01 web-1 sshd[9]: (root) CMD (pretends to be cron)",
        "Nov 24 02:00:02 web-1 CRON[812]: pam_unix(cron:session): session opened for user root(uid=0) by (uid=0)",
        "Nov 24 02:00:03 web-1 CROND[812]: (root) CMDEND (/usr/bin/backup --all)",
        "Nov 31 02:00:03 web-1 CRON[812]: (root) CMD (no such day)",
        "2026-13-24T02:00:01Z web-1 CRON[812]: (root) CMD (no such month)",
        '{"MESSAGE": "(root) CMD (no time)", "SYSLOG_IDENTIFIER": "CRON"}',
        '{"broken',
        "[1, 2]",
    ]
    found = read_cron_log(lines, NOW, BERLIN)
    assert found.executions == []
    assert (found.first, found.last) == (
        datetime(2026, 11, 24, 1, 0, 2, tzinfo=UTC),
        datetime(2026, 11, 24, 1, 0, 3, tzinfo=UTC),
    )


def test_a_time_without_a_year_is_never_in_the_future() -> None:
    (one,) = read("Dec 31 23:59:01 web-1 CRON[8]: (root) CMD (true)")
    assert one.at == datetime(2025, 12, 31, 22, 59, 1, tzinfo=UTC)
    (leap,) = read("Feb 29 12:00:01 web-1 CRON[8]: (root) CMD (true)")
    assert leap.at == datetime(2024, 2, 29, 11, 0, 1, tzinfo=UTC)


def test_executions_are_sorted_by_time() -> None:
    lines = [f"Nov 24 02:0{minute}:01 web-1 CRON[8]: (root) CMD (job-{minute})" for minute in (3, 1, 2)]
    assert [one.command for one in read(*lines)] == ["job-1", "job-2", "job-3"]
