"""`cronflow calendars`: list, show, apply with its effects, delete, and the import of iCalendar files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cronflow.domain.schedule.kinds import Cron
from cronflow.files.calendars import read_calendar_files
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import Scene
from tests.contracts.builders import a_job

FILE = """
calendars:
  de-holidays:
    tz: Europe/Berlin
    days:
      - {day: "12-25", name: Christmas Day}
      - {first: 2026-11-26, last: 2026-11-29, name: Long weekend}
  freeze: [2026-12-24]
"""
ICS = """BEGIN:VCALENDAR
VERSION:2.0
X-WR-CALNAME:Company days
X-WR-TIMEZONE:Europe/Berlin
BEGIN:VEVENT
UID:1@example.com
DTSTART;VALUE=DATE:20261224
DTEND;VALUE=DATE:20261227
SUMMARY:Closed
END:VEVENT
BEGIN:VEVENT
UID:2@example.com
DTSTART;VALUE=DATE:20261227
SUMMARY:Gone
STATUS:CANCELLED
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture
def used(scene: Scene) -> Scene:
    """Two jobs use the holidays."""
    schedule = Cron("0 8 * * *", "Europe/Berlin", calendars=("de-holidays",))
    jobs = [a_job("report", schedule=schedule), a_job("monthly", schedule=Cron("0 9 1 * *", blackout=("de-holidays",)))]
    asyncio.run(scene.service.jobs.apply(jobs))
    return scene


def test_calendars_are_listed_with_the_number_of_their_jobs(cli: Cli, used: Scene) -> None:
    assert row(cli("calendars", "list"), "de-holidays").split()[1:5] == ["2", "1", "2", "Europe/Berlin"]
    assert row(cli("calendars", "list"), "quiet").split()[1:5] == ["0", "1", "0", "-"]
    assert cli("calendars", "list", "-o", "name").stdout == "de-holidays\nquiet\n"


def test_a_calendar_shows_its_coming_days_with_weekdays_and_years(cli: Cli, used: Scene) -> None:
    shown = " ".join(cli("calendars", "show", "de-holidays").stdout.split())
    assert "Fri 25 Dec 2026 Christmas Day" in shown
    assert "Thu 31 Dec 2026 Turn of the year" in shown
    assert "Fri 01 Jan 2027 Turn of the year" in shown
    assert "Sat 25 Dec 2027 Christmas Day" in shown
    assert "2026-12-24 13:00:00Z to 2026-12-24 22:00:00Z Christmas Eve" in shown
    assert "monthly, report" in shown
    assert "mon-fri 22:00 to 06:00" in cli("calendars", "show", "quiet").stdout


def test_a_dry_run_shows_what_would_be_skipped_and_changes_nothing(cli: Cli, used: Scene, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(FILE)
    shown = cli("calendars", "apply", "-f", "c.yaml", "--dry-run").stdout
    assert "- Thu 2026-11-26 07:00:00Z  skipped: calendar de-holidays: Long weekend" in shown
    assert "+ Thu 2026-12-31 07:00:00Z  runs" in shown
    assert "monthly: next run 2026-12-01 09:00:00Z" in shown
    assert "+ Fri 2027-01-01 09:00:00Z  runs" in shown
    assert "de-holidays: fires of 2 of 2 jobs would change in the next 90 days" in shown
    assert row(cli("calendars", "list"), "de-holidays").split()[1] == "2"
    assert "freeze" not in cli("calendars", "list").stdout


def test_applied_calendars_take_effect_and_say_what_changed(cli: Cli, used: Scene, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(FILE)
    shown = cli("calendars", "apply", "-f", "c.yaml", "--days", "10").stdout
    assert "changed  de-holidays" in shown
    assert "created  freeze" in shown
    assert "de-holidays: fires of 1 of 2 jobs change in the next 10 days" in shown
    [holidays, freeze] = parsed(cli("calendars", "apply", "-f", "c.yaml", "-o", "json"))
    assert (holidays["change"]["result"], holidays["revision"]) == ("unchanged", 2)
    assert (freeze["change"]["result"], freeze["change"]["job_count"]) == ("unchanged", 0)
    fires = cli("jobs", "next", "report", "-n", "7").stdout.splitlines()
    [skipped] = [line for line in fires if "skipped" in line]
    assert "Thu 2026-11-26 08:00 +01:00" in skipped
    assert "skipped: calendar de-holidays: Long weekend" in skipped
    found = parsed(cli("jobs", "next", "report", "-n", "6", "-o", "json"))
    assert "2026-11-26T07:00:00Z" not in found["fires"]
    assert parsed(cli("jobs", "show", "report", "-o", "json"))["next_fire"] == found["fires"][0]


def test_a_file_without_calendars_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("calendars: {}\n")
    result = cli("calendars", "apply", "-f", "c.yaml")
    assert result.exit_code == 2
    assert "c.yaml: has no calendars" in result.stderr


def test_a_used_calendar_is_not_deleted(cli: Cli, used: Scene) -> None:
    result = cli("calendars", "delete", "de-holidays")
    assert result.exit_code == 1
    assert "calendar 'de-holidays' is used by monthly, report; remove it from these jobs first" in result.stderr


def test_an_icalendar_file_becomes_a_file_that_apply_takes(cli: Cli, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "days.ics").write_text(ICS)
    result = cli("calendars", "import", "days.ics", "--name", "closed")
    assert "1 of days and 0 of windows, from 2026-01-01 to 2036-12-31; left out: 1 cancelled" in result.stderr
    (tmp_path / "closed.yaml").write_text(result.stdout)
    [calendar] = read_calendar_files([tmp_path / "closed.yaml"])
    assert (calendar.name, calendar.tz, calendar.description) == ("closed", "Europe/Berlin", "Company days")
    assert scene.opened == 0
    assert "created  closed" in cli("calendars", "apply", "-f", "closed.yaml").stdout
    assert parsed(cli("calendars", "import", "days.ics", "--name", "closed", "-o", "json")) == {
        "calendars": {
            "closed": {
                "description": "Company days",
                "tz": "Europe/Berlin",
                "days": [{"first": "2026-12-24", "last": "2026-12-26", "name": "Closed"}],
            }
        }
    }


def test_an_icalendar_file_is_applied_at_once(cli: Cli, used: Scene, tmp_path: Path) -> None:
    (tmp_path / "days.ics").write_text(ICS)
    dry = cli("calendars", "import", "days.ics", "--name", "de-holidays", "--dry-run").stdout
    assert "fires of 2 of 2 jobs would change" in dry
    assert row(cli("calendars", "list"), "de-holidays").split()[1] == "2"
    applied = cli("calendars", "import", "days.ics", "--name", "de-holidays", "--apply").stdout
    assert "changed  de-holidays" in applied
    assert row(cli("calendars", "list"), "de-holidays").split()[1:4] == ["1", "0", "2"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--name", "Not a name"], "is not a calendar name"),
        (["--name", "c", "--from", "2026"], "--from: '2026' is not a day (write it like 2026-01-01)"),
        (["--name", "c", "--from", "2027-01-01", "--to", "2026-01-01"], "2026-01-01 is before 2027-01-01"),
    ],
)
def test_wrong_options_of_an_import_are_refused(cli: Cli, tmp_path: Path, options: list[str], problem: str) -> None:
    (tmp_path / "days.ics").write_text(ICS)
    result = cli("calendars", "import", "days.ics", *options)
    assert result.exit_code == 2
    assert problem in result.stderr
