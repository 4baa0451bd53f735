"""`cronflow shadow report` and `jobs activate`: jobs that are planned while cron still does the work."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.shadow import SHADOWED, JobMode, ReplacedLine
from tests.cli.conftest import Cli, row
from tests.cli.scene import Scene, ago, job, run

BACKUP = ReplacedLine(command="/usr/bin/backup --all", user="root", host="web-1")
REPORT = ReplacedLine(command="/usr/bin/report", user="www", host="web-1")


@pytest.fixture
def migrating(empty: Scene) -> Scene:
    """Two jobs in shadow mode since two hours ago, planned each half hour, and one that is active."""
    labels = {"host": "web-1"}
    every = Cron("*/30 * * * *")
    jobs = [
        job("backup", every, mode=JobMode.SHADOW, replaces=BACKUP, labels=labels),
        job("report", every, mode=JobMode.SHADOW, replaces=REPORT, labels=labels),
        job("billing", every, labels=labels),
    ]

    async def fill() -> None:
        empty.clock.step(timedelta(hours=-2))
        await empty.service.jobs.apply(jobs)
        empty.clock.step(timedelta(hours=2))
        fires = [ago(minutes=minutes) for minutes in (90, 60, 30)]
        await empty.backends.runs.insert(
            [
                run(name, fire, RunState.SKIPPED, reason=SHADOWED, node=None, dispatched_at=None, attempt=0)
                for name in ("backup", "report")
                for fire in fires
            ]
        )

    asyncio.run(fill())
    return empty


def line(minutes_ago: float, command: str, user: str = "root") -> str:
    at = ago(minutes=minutes_ago) + timedelta(seconds=1)
    return f"{at:%Y-%m-%dT%H:%M:%S}Z web-1 CRON[812]: ({user}) CMD ({command})\n"


def log_file(*lines: str) -> str:
    Path("syslog").write_text("".join(lines))
    return "syslog"


EQUAL = [
    line(minutes, f"/usr/bin/{name}", user)
    for minutes in (90, 60, 30)
    for name, user in (("backup --all", "root"), ("report", "www"))
]


@pytest.mark.usefixtures("migrating")
def test_equal_starts_are_counted_and_the_next_step_is_named(cli: Cli) -> None:
    done = cli("shadow", "report", log_file(*EQUAL), columns=100)
    assert done.exit_code == 0
    assert row(done, "backup").split()[-3:] == ["-", "-", "1.0s"]
    assert "Equal: 6 starts of 2 lines. Switch with: cronflow jobs activate" in done.stdout


@pytest.mark.usefixtures("migrating")
def test_differences_are_named_and_exit_with_1(cli: Cli) -> None:
    other = line(45, "/usr/bin/report", "www")
    done = cli("shadow", "report", log_file(*EQUAL[:3], *EQUAL[4:], other, line(20, "run-parts /etc/cron.hourly")))
    assert done.exit_code == 1
    assert "only CronFlow  2026-11-21 11:00:00Z" in done.stdout
    assert "only cron      2026-11-21 11:15:01Z" in done.stdout
    assert "run-parts /etc/cron.hourly" in done.stdout
    assert "1 of 2 lines differs." in done.stdout
    found = json.loads(cli("shadow", "report", "syslog", "-o", "json").stdout)
    assert [(one["jobs"], one["matched"]) for one in found["lines"]] == [(["report"], 2), (["backup"], 3)]
    assert found["unknown"][0]["command"] == "run-parts /etc/cron.hourly"
    assert cli("shadow", "report", "syslog", "-o", "name").stdout == "report\n"


@pytest.mark.usefixtures("migrating")
def test_the_log_may_come_from_stdin_and_be_of_one_host(cli: Cli) -> None:
    done = cli("shadow", "report", "-", "--host", "web-1", stdin="".join(EQUAL))
    assert done.exit_code == 0
    assert cli("shadow", "report", "-", "--host", "web-2", stdin="".join(EQUAL)).exit_code == 2


@pytest.mark.usefixtures("migrating")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.log"], "absent.log: cannot be read: No such file or directory"),
        (["empty.log"], "empty.log: has no lines of cron"),
        (["empty.log", "--tolerance", "x"], "--tolerance: "),
        (["empty.log", "--tz", "Mars/Olympus"], "Mars/Olympus"),
    ],
)
def test_what_cannot_be_compared_is_refused(cli: Cli, arguments: list[str], message: str) -> None:
    Path("empty.log").write_text("")
    done = cli("shadow", "report", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.usefixtures("scene")
def test_without_jobs_in_shadow_mode_the_import_is_named(cli: Cli) -> None:
    done = cli("shadow", "report", log_file(*EQUAL))
    assert done.exit_code == 2
    assert "cronflow import crontab --shadow" in done.stderr


@pytest.mark.usefixtures("migrating")
def test_the_jobs_of_a_host_are_activated_and_their_lines_are_named(cli: Cli) -> None:
    assert row(cli("jobs", "list"), "backup").split()[1:3] == ["shadow,", "overdue"]
    done = cli("jobs", "activate", "--host", "web-1", "--yes", columns=100)
    assert done.exit_code == 0
    assert "Remove these lines from cron now" in done.stdout
    assert "/usr/bin/backup --all" in done.stdout
    assert "billing" not in done.stdout
    assert json.loads(cli("jobs", "show", "backup", "-o", "json").stdout)["mode"] == "active"
    again = cli("jobs", "activate", "--host", "web-1", "--yes")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "none of these jobs is in shadow mode" in again.stderr


@pytest.mark.usefixtures("migrating")
def test_activating_needs_a_confirmation_unless_jobs_are_named(cli: Cli) -> None:
    assert cli("jobs", "activate", "--host", "web-1").exit_code == 2
    done = cli("jobs", "activate", "report", "-o", "name")
    assert (done.exit_code, done.stdout) == (0, "report\n")


def test_an_imported_crontab_is_compared_with_its_log_and_switched(cli: Cli, empty: Scene) -> None:
    Path("crontab").write_text(
        "*/30 * * * * root  [ -x /usr/bin/backup ] && /usr/bin/backup --label 'a\\%b'%to stdin\n"
        "0 * * * * www /usr/bin/report\n"
    )
    imported = cli("import", "crontab", "crontab", "--shadow", "--host", "web-1", "--tz", "UTC")
    assert imported.exit_code == 0, imported.stderr
    Path("jobs.yaml").write_text(imported.stdout)
    empty.clock.step(timedelta(hours=-2))
    assert cli("jobs", "apply", "-f", "jobs.yaml").exit_code == 0
    empty.clock.step(timedelta(hours=2))
    jobs = {one["name"]: one for one in json.loads(cli("jobs", "list", "-o", "json").stdout)}
    assert {one["mode"] for one in jobs.values()} == {"shadow"}
    backup = next(one for one in jobs.values() if one["replaces"]["user"] == "root")
    # What Debian's cron logs of this line: without the input, and with the escaped percent sign as the shell gets it.
    logged = "[ -x /usr/bin/backup ] && /usr/bin/backup --label 'a%b'"
    assert backup["replaces"] == {"command": logged, "user": "root", "host": "web-1"}
    fires = {backup["name"]: (90, 60, 30)}
    skipped = [
        run(name, ago(minutes=minutes), RunState.SKIPPED, reason=SHADOWED, node=None, dispatched_at=None, attempt=0)
        for name in jobs
        for minutes in fires.get(name, (60,))
    ]
    asyncio.run(empty.backends.runs.insert(skipped))
    lines = [*(line(minutes, logged) for minutes in (90, 60, 30)), line(60, "/usr/bin/report", "www")]
    done = cli("shadow", "report", log_file(*lines), "--host", "web-1")
    assert done.exit_code == 0, done.stdout
    assert "Equal: 4 starts of 2 lines" in done.stdout
    assert cli("jobs", "activate", "--host", "web-1", "-o", "name", "--yes").stdout.splitlines() == sorted(jobs)
