"""`cronflow cron explain`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cronflow.cli.explained import depends_on_name
from cronflow.domain.schedule.cron_warnings import notes_on
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Cron
from tests.cli.conftest import Cli, parsed
from tests.cli.scene import NOON

BERLIN = "Europe/Berlin"


def test_an_expression_is_explained_in_words_with_its_fires(cli: Cli) -> None:
    assert cli("cron", "explain", "0 9 * * MON#2", "--tz", "Europe/Berlin", "-n", "2").stdout.splitlines() == [
        "0 9 * * MON#2  at 09:00 on the second Monday of the month (Europe/Berlin)",
        "",
        "#  Europe/Berlin                UTC                FROM NOW",
        "1  Mon 2026-12-14 09:00 +01:00  2026-12-14 08:00Z  in 22d",
        "2  Mon 2027-01-11 09:00 +01:00  2027-01-11 08:00Z  in 50d",
    ]


def test_json_has_the_documented_fields(cli: Cli) -> None:
    assert parsed(cli("cron", "explain", "0 12 * * *", "-n", "2", "-o", "json")) == {
        "expression": "0 12 * * *",
        "tz": "UTC",
        "words": "at 12:00 every day",
        "fires": ["2026-11-22T12:00:00Z", "2026-11-23T12:00:00Z"],
        "notes": [],
        "rows": [
            {"fire": "2026-11-22T12:00:00Z", "note": None, "times": {"UTC": "2026-11-22T12:00:00+00:00"}},
            {"fire": "2026-11-23T12:00:00Z", "note": None, "times": {"UTC": "2026-11-23T12:00:00+00:00"}},
        ],
        "zones": ["UTC"],
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


def explained(cli: Cli, *args: str) -> Any:
    return parsed(cli("cron", "explain", *args, "-o", "json"))


@pytest.mark.parametrize(
    ("args", "words", "first"),
    [
        (["--every", "30m"], "every 30 minutes", "2026-11-21T12:30:00Z"),
        (["--every", "1d", "--time", "02:00", "--tz", BERLIN], "at 02:00 every day", "2026-11-22T01:00:00Z"),
        (["--every", "7h", "--anchor", "2026-11-21T10:00:00Z"], "every 7 hours, aligned to", "2026-11-21T17:00:00Z"),
        (["--at", "2026-12-24T18:00", "--tz", BERLIN], "once at 2026-12-24 17:00 UTC", "2026-12-24T17:00:00Z"),
        (["--at", "2026-12-24T18:00Z"], "once at 2026-12-24 18:00 UTC", "2026-12-24T18:00:00Z"),
        (["{every: 1d, time: 02:00, tz: Europe/Berlin}"], "at 02:00 every day", "2026-11-22T01:00:00Z"),
        (['{"cron": "0 2 * * *"}', "--tz", BERLIN], "at 02:00 every day", "2026-11-22T01:00:00Z"),
    ],
)
def test_every_kind_of_schedule_is_explained(cli: Cli, args: list[str], words: str, first: str) -> None:
    found = explained(cli, *args, "-n", "1")
    assert found["words"].startswith(words)
    assert found["fires"] == [first]


JOBS = """
defaults: {tz: Europe/Berlin}
jobs:
  - {name: nightly, run: {python: "nowhere:nothing"}, schedule: {cron: 0 2 * * *}}
  - {name: tokens, run: {shell: x}, schedule: {every: 30s}}
  - {name: by-hand, run: {shell: x}}
"""


def test_the_jobs_of_a_file_are_explained(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(JOBS)
    one = explained(cli, "-f", "jobs.yaml", "--job", "nightly", "-n", "1")
    assert (one["tz"], one["fires"]) == (BERLIN, ["2026-11-22T01:00:00Z"])
    assert [found["words"] for found in explained(cli, "-f", "jobs.yaml", "-n", "1")] == [
        "at 02:00 every day",
        "every 30 seconds",
    ]
    shown = cli("cron", "explain", "-f", "jobs.yaml", "-n", "1").stdout
    assert f"nightly  at 02:00 every day ({BERLIN})\n" in shown
    assert "tokens  every 30 seconds\n" in shown
    assert "did you mean nightly?" in cli("cron", "explain", "-f", "jobs.yaml", "--job", "nigthly").stderr
    assert "by-hand has no schedule" in cli("cron", "explain", "-f", "jobs.yaml", "--job", "by-hand").stderr


def test_a_fire_is_shown_in_the_zone_of_the_schedule_in_utc_and_in_the_local_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    args = ("cron", "explain", "0 2 * * *", "--tz", BERLIN, "-n", "1")
    assert cli(*args, columns=80).stdout.splitlines()[2:4] == [
        "#  Europe/Berlin                UTC                Asia/Tokyo",
        "1  Sun 2026-11-22 02:00 +01:00  2026-11-22 01:00Z  2026-11-22 10:00 +09:00",
    ]
    assert cli(*args, "--zones", "America/New_York, UTC").stdout.splitlines()[2:4] == [
        "#  America/New_York             UTC                FROM NOW",
        "1  Sat 2026-11-21 20:00 -05:00  2026-11-22 01:00Z  in 13h",
    ]
    assert "--zones: there is no time zone 'Tokio'" in cli(*args, "--zones", "Tokio").stderr
    assert "--zones: names no time zone" in cli(*args, "--zones", " ,").stderr
    # No name of a zone: the system converts.
    monkeypatch.setenv("TZ", "CET-1CEST")
    assert "  local  " in cli(*args).stdout


def test_seconds_are_shown_if_some_fire_has_them(cli: Cli) -> None:
    assert "1  Sat 2026-11-21 12:00:30Z  in 30s" in cli("cron", "explain", "--every", "30s").stdout


def test_fires_are_shown_until_a_time(cli: Cli) -> None:
    span = ("--from", "2026-12-01", "--until", "2026-12-03T02:00", "--tz", BERLIN)
    assert explained(cli, "0 2 * * *", *span)["fires"] == ["2026-12-01T01:00:00Z", "2026-12-02T01:00:00Z"]
    assert "No further fires." in cli("cron", "explain", "0 2 * * *", "--until", "2026-11-21").stdout


def test_the_zone_of_the_settings_is_that_of_a_schedule_without_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_TIMEZONE", BERLIN)
    assert explained(cli, "0 2 * * *")["tz"] == BERLIN
    assert explained(cli, "{cron: 0 2 * * *, tz: Asia/Tokyo}")["tz"] == "Asia/Tokyo"
    assert explained(cli, "0 2 * * *", "--tz", "UTC")["tz"] == "UTC"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], "nothing to explain"),
        (["0 2 * * *", "--every", "1h"], "EXPR and --every are given"),
        (["0 2 * * *", "--time", "02:00"], "--time: it belongs to --every"),
        (["--at", "soon"], "--at: 'soon' is not an instant"),
        (["--every", "1h", "--time", "02:00"], "a time needs whole days or weeks"),
        (["{every: ["], "EXPR:1: not YAML"),
        (["{cron: 0 2 * * *, foo: 1}"], "foo: unknown key"),
        (["{cron: 0 2 * * *, cron: 0 3 * * *}"], "the key cron occurs twice"),
        (["-f", "nope.yaml"], "no such file"),
        (["0 2 * * *", "--job", "No Name"], "is not a job name"),
    ],
)
def test_a_question_that_cannot_be_answered_exits_2_with_one_line(cli: Cli, args: list[str], expected: str) -> None:
    result = cli("cron", "explain", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert expected in result.stderr


def test_a_time_of_day_has_notes_on_clock_changes(cli: Cli) -> None:
    clocks = "clocks in Europe/Berlin"
    only = "the job fires only the first time"
    instead = "the job fires at 03:00 instead (2027-03-28 01:00:00Z)"
    daily = ("--every", "1d", "--time", "02:30", "--tz", BERLIN, "-n", "1")
    assert explained(cli, *daily)["notes"][:2] == [
        f"On 2027-03-28 {clocks} skip from 02:00 to 03:00, so 02:30 does not exist; {instead}.",
        f"On 2027-10-31 {clocks} go back from 03:00 to 02:00, so 02:30 occurs twice; {only}.",
    ]
    assert explained(cli, "--every", "1d", "--time", "04:30", "--tz", BERLIN)["notes"] == []
    # Both changes are on a Sunday, and these weeks count from a Monday.
    assert explained(cli, "--every", "1w", "--time", "02:30", "--tz", BERLIN)["notes"] == []


def test_a_schedule_that_depends_on_the_name_of_its_job_says_so(cli: Cli) -> None:
    note = "Its times depend on the name of the job; these are those of a job named job. Give the name with --job."
    assert note in explained(cli, "H 2 * * *")["notes"]
    named = explained(cli, "H 2 * * *", "--job", "nightly", "-n", "1")
    assert note not in named["notes"]
    assert named["fires"] != explained(cli, "H 2 * * *", "-n", "1")["fires"]


def test_several_schedules_and_what_they_skip_are_shown(cli: Cli) -> None:
    document = '{any: [{cron: "0 9 * * *"}, {every: 1d, time: "21:00"}], blackout: [{start: "20:00", end: "22:00"}]}'
    found = explained(cli, document, "--tz", BERLIN, "-n", "2")
    assert (found["tz"], found["fires"]) == (BERLIN, ["2026-11-22T08:00:00Z", "2026-11-23T08:00:00Z"])
    # The skipped ones are rows of their own.
    assert [row["note"] for row in found["rows"]] == ["skipped: blackout: 20:00 to 22:00", None] * 2
    assert "skipped: blackout" in cli("cron", "explain", document, "-n", "1", columns=140).stdout
    endless = explained(cli, '{every: 1h, blackout: [{start: "00:00", end: "12:00"}, {start: "12:00", end: "00:00"}]}')
    assert endless["fires"] == []


def test_calendars_of_the_cluster_are_not_known_without_it(cli: Cli) -> None:
    found = explained(cli, "{cron: 0 9 * * *, calendars: [de-holidays]}", "-n", "1")
    assert found["fires"] == ["2026-11-22T09:00:00Z"]
    assert found["notes"] == ["Fires that the calendar de-holidays would skip are shown too."]


@pytest.mark.parametrize(
    ("document", "depends"),
    [
        ({"cron": "H 2 * * *"}, True),
        ({"cron": "h/15 * * * *"}, True),
        ({"cron": "H(0-29) 2 * * THU"}, True),
        ({"cron": "0 2 * MAR THU"}, False),
        ({"cron": "@hourly"}, False),
        ({"every": "1h", "jitter": "30s"}, True),
        ({"any": [{"cron": "0 2 * * *"}, {"cron": "H 3 * * *"}]}, True),
        ({"any": [{"cron": "0 2 * * *"}]}, False),
    ],
)
def test_some_schedules_depend_on_the_name_of_their_job(document: object, *, depends: bool) -> None:
    assert depends_on_name(document) is depends


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
REMEDY = "Set dst to choose what happens then, or choose other hours or a zone without clock changes, such as UTC."


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
