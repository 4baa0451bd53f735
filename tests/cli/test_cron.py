"""`cronflow cron explain`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cronflow.domain.schedule.cron_warnings import notes_on
from cronflow.domain.schedule.kinds import Cron, next_after
from tests.cli.conftest import Cli, parsed
from tests.cli.scene import NOON


def test_an_expression_is_told_in_words_and_as_fires_on_both_clocks(cli: Cli) -> None:
    assert cli("cron", "explain", "0 9 * * MON#2", "--tz", "Europe/Berlin", "-n", "2").stdout.splitlines() == [
        "0 9 * * MON#2  at 09:00 on the second Monday of the month, Europe/Berlin",
        "",
        "#  Europe/Berlin                   UTC                   FROM NOW",
        "1  Mon 2026-12-14 09:00:00 +01:00  2026-12-14 08:00:00Z  in 22d",
        "2  Mon 2027-01-11 09:00:00 +01:00  2027-01-11 08:00:00Z  in 50d",
    ]


def test_json_has_the_shape_of_the_interface(cli: Cli) -> None:
    assert parsed(cli("cron", "explain", "0 12 * * *", "-n", "2", "-o", "json")) == {
        "expression": "0 12 * * *",
        "tz": "UTC",
        "words": "at 12:00 every day",
        "fires": ["2026-11-22T12:00:00Z", "2026-11-23T12:00:00Z"],
        "notes": [],
    }


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("2026-07-01T09:00", "2026-07-01T07:00:00Z"),
        ("2026-07-01T09:00Z", "2026-07-02T07:00:00Z"),
        ("2026-07-01T09:00:01+02:00", "2026-07-02T07:00:00Z"),
        ("2026-07-02", "2026-07-02T07:00:00Z"),
    ],
)
def test_from_is_inclusive_and_without_an_offset_on_the_clock_of_the_zone(cli: Cli, start: str, first: str) -> None:
    result = cli("cron", "explain", "0 9 * * *", "--tz", "Europe/Berlin", "-n", "1", "--from", start, "-o", "name")
    assert result.stdout == f"{first}\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["61 * * * *"], "minute field"),
        (["0 2 * * *", "--tz", "Europe/Berln"], "did you mean Europe/Berlin?"),
        (["0 2 * * *", "--from", "noon"], "--from: 'noon' is not an instant"),
        (["0 0 30 2 *"], "never fires"),
    ],
)
def test_what_is_wrong_exits_2_with_one_line(cli: Cli, args: list[str], said: str) -> None:
    result = cli("cron", "explain", *args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def notes(expr: str, tz: str = "UTC", after: datetime = NOON) -> list[str]:
    """The notes on an expression."""
    return notes_on(Cron(expr, tz), after)


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        ("@daily", "@daily is short for 0 0 * * *."),
        ("0 0 13 * FRI", "it fires on days that match either of them"),
        ("0 0 */2 * FRI", "it fires on days that match both"),
        ("5 0 0 * * *", "It has six fields: the first is the second."),
        ("*/7 * * * *", "from minute 56 to minute 0 the step is 4, not 7."),
        ("*/25 * * * * *", "from second 50 to second 0 the step is 10, not 25."),
        ("0 */5 * * *", "from hour 20 to hour 0 the step is 4, not 5."),
    ],
)
def test_what_may_surprise_is_noted(expr: str, said: str) -> None:
    assert any(said in note for note in notes(expr))


@pytest.mark.parametrize("expr", ["0 2 * * *", "0 0 * * FRI", "*/15 * * * *", "0 */6 1 * *", "0 0 13 * *"])
def test_what_does_not_surprise_has_no_note(expr: str) -> None:
    assert notes(expr) == []


SPRING = "On 2027-03-28 the clocks of Europe/Berlin skip 02:00 to 03:00: "
AUTUMN = "On 2027-10-31 the clocks of Europe/Berlin show 02:00 to 03:00 twice: "


@pytest.mark.parametrize(
    ("expr", "in_spring", "in_autumn"),
    [
        (
            "30 2 * * *",
            "02:30 does not exist; it fires at 03:00 instead (2027-03-28 01:00:00Z).",
            "02:30 fires the first time only.",
        ),
        (
            "0,30 2 * * *",
            "its times from 02:00 to 02:30 do not exist; one run fires at 03:00 instead (2027-03-28 01:00:00Z).",
            "its times from 02:00 to 02:30 fire the first time only.",
        ),
        (
            "*/20 2 * * *",
            "its times from 02:00 to 02:40 do not exist, and nothing fires in their place.",
            "its times from 02:00 to 02:40 fire both times, 1h apart.",
        ),
    ],
)
def test_the_next_changes_of_the_clocks_are_noted(expr: str, in_spring: str, in_autumn: str) -> None:
    assert notes(expr, "Europe/Berlin") == [SPRING + in_spring, AUTUMN + in_autumn]


@pytest.mark.parametrize("expr", ["30 3 * * *", "*/15 * * * *", "30 2 1 1 *"])
def test_changes_of_the_clocks_that_do_not_matter_are_not_noted(expr: str) -> None:
    assert notes(expr, "Europe/Berlin") == []


@pytest.mark.parametrize("expr", ["30 2 * * *", "0,30 2 * * *", "*/20 2 * * *"])
def test_what_the_notes_say_is_what_the_schedule_does(expr: str) -> None:
    schedule, day = Cron(expr, "Europe/Berlin"), datetime(2027, 3, 27, 23, tzinfo=UTC)
    skipped = notes_on(schedule, day)[0]
    first = next_after(schedule, day)
    assert first is not None
    assert ("(2027-03-28 01:00:00Z)" in skipped) == (first == datetime(2027, 3, 28, 1, tzinfo=UTC))


def test_a_change_of_half_an_hour_matters_to_intervals(cli: Cli) -> None:
    shown = cli("cron", "explain", "*/20 * * * *", "--tz", "Australia/Lord_Howe", columns=200).stdout
    assert "01:30 to 02:00 twice: 01:40 fires both times, 30m apart." in shown
