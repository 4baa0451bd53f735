"""`cronflow cron explain`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cronflow.domain.schedule.cron_warnings import notes_on
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Cron
from tests.cli.conftest import Cli, parsed
from tests.cli.scene import NOON


def test_an_expression_is_explained_in_words_with_its_fires(cli: Cli) -> None:
    assert cli("cron", "explain", "0 9 * * MON#2", "--tz", "Europe/Berlin", "-n", "2").stdout.splitlines() == [
        "0 9 * * MON#2  at 09:00 on the second Monday of the month (Europe/Berlin)",
        "",
        "#  Europe/Berlin                   UTC                   FROM NOW",
        "1  Mon 2026-12-14 09:00:00 +01:00  2026-12-14 08:00:00Z  in 22d",
        "2  Mon 2027-01-11 09:00:00 +01:00  2027-01-11 08:00:00Z  in 50d",
    ]


def test_json_has_the_documented_fields(cli: Cli) -> None:
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
def test_from_is_inclusive_and_in_the_time_zone_if_it_has_no_offset(cli: Cli, start: str, first: str) -> None:
    result = cli("cron", "explain", "0 9 * * *", "--tz", "Europe/Berlin", "-n", "1", "--from", start, "-o", "name")
    assert result.stdout == f"{first}\n"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["61 * * * *"], "minute field"),
        (["0 2 * * *", "--tz", "Europe/Berln"], "did you mean Europe/Berlin?"),
        (["0 2 * * *", "--from", "noon"], "--from: 'noon' is not an instant"),
        (["0 0 30 2 *"], "never fires"),
    ],
)
def test_invalid_input_exits_2_with_one_line(cli: Cli, args: list[str], expected: str) -> None:
    result = cli("cron", "explain", *args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert expected in result.stderr
    assert len(result.stderr.splitlines()) == 1


def notes(expr: str, tz: str = "UTC", after: datetime = NOON) -> list[str]:
    """The notes on an expression."""
    return notes_on(Cron(expr, tz), after)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("@daily", "@daily is short for 0 0 * * *."),
        ("0 0 13 * FRI", "so it fires on days that match either one. To use only one of them, set the other to *."),
        (
            "0 0 */2 * FRI",
            "so it fires only on days that match both. To fire on days that match either one, write 1-31/2 ",
        ),
        ("0 0 */2 * */2", "both start with *, so it fires only on days that match both."),
        ("0 0 */2 * */2", "write 1-31/2 instead of */2 and 0-6/2 instead of */2."),
        ("5 0 0 * * *", "This expression has six fields: the first one is seconds."),
        (
            "*/7 * * * *",
            "the step from minute 56 to minute 0 is 4, not 7. For an even interval, use `every: 7m` instead of cron.",
        ),
        (
            "*/25 * * * * *",
            "the step from second 50 to second 0 is 10, not 25. For an even interval, use `every: 25s` ",
        ),
        (
            "0 */5 * * *",
            "the step from hour 20 to hour 0 is 4, not 5. For an even interval, use `every: 5h` instead of cron.",
        ),
    ],
)
def test_a_surprising_expression_has_a_warning(expr: str, expected: str) -> None:
    assert any(expected in note for note in notes(expr))


def test_a_step_within_some_hours_gets_no_interval_as_a_remedy() -> None:
    assert notes("*/7 9-17 * * *") == [
        "*/7 in the minute field starts over every hour: the step from minute 56 to minute 0 is 4, not 7."
    ]


@pytest.mark.parametrize("expr", ["0 2 * * *", "0 0 * * FRI", "*/15 * * * *", "0 */6 1 * *", "0 0 13 * *"])
def test_an_ordinary_expression_has_no_warning(expr: str) -> None:
    assert notes(expr) == []


SPRING = "On 2027-03-28 clocks in Europe/Berlin skip from 02:00 to 03:00, so "
AUTUMN = "On 2027-10-31 clocks in Europe/Berlin go back from 03:00 to 02:00, so "
REMEDY = "To avoid clock changes, choose other hours or a zone without them, such as UTC."


@pytest.mark.parametrize(
    ("expr", "in_spring", "in_autumn"),
    [
        (
            "30 2 * * *",
            "02:30 does not exist; the job fires at 03:00 instead (2027-03-28 01:00:00Z).",
            "02:30 occurs twice; the job fires only the first time.",
        ),
        (
            "0,30 2 * * *",
            "the times from 02:00 to 02:30 do not exist; one run fires at 03:00 instead (2027-03-28 01:00:00Z).",
            "the times from 02:00 to 02:30 occur twice; the job fires only the first time.",
        ),
        (
            "*/20 2 * * *",
            "the times from 02:00 to 02:40 do not exist and nothing fires for them.",
            "the times from 02:00 to 02:40 occur twice and the job fires both times, 1h apart.",
        ),
    ],
)
def test_the_next_dst_changes_are_noted(expr: str, in_spring: str, in_autumn: str) -> None:
    assert notes(expr, "Europe/Berlin") == [SPRING + in_spring, AUTUMN + in_autumn, REMEDY]


@pytest.mark.parametrize("expr", ["30 3 * * *", "*/15 * * * *", "30 2 1 1 *"])
def test_irrelevant_dst_changes_are_not_noted(expr: str) -> None:
    assert notes(expr, "Europe/Berlin") == []


@pytest.mark.parametrize("expr", ["30 2 * * *", "0,30 2 * * *", "*/20 2 * * *"])
def test_the_notes_match_the_schedule(expr: str) -> None:
    schedule, day = Cron(expr, "Europe/Berlin"), datetime(2027, 3, 27, 23, tzinfo=UTC)
    skipped = notes_on(schedule, day)[0]
    first = next_after(schedule, day)
    assert first is not None
    assert ("(2027-03-28 01:00:00Z)" in skipped) == (first == datetime(2027, 3, 28, 1, tzinfo=UTC))


def test_a_change_of_half_an_hour_matters_to_intervals(cli: Cli) -> None:
    shown = cli("cron", "explain", "*/20 * * * *", "--tz", "Australia/Lord_Howe", columns=200).stdout
    assert "from 02:00 to 01:30, so 01:40 occurs twice and the job fires both times, 30m apart." in shown
