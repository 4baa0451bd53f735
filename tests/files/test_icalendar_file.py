"""iCalendar files as Google, Outlook and Nextcloud write them, and broken ones."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.calendar import Calendar, DaySpan
from cronflow.domain.schedule.windows import Period
from cronflow.files import icalendar_file
from cronflow.files.icalendar_file import Imported, default_range, read_icalendar

FIRST, LAST = date(2026, 1, 1), date(2028, 12, 31)
BERLIN = """BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:DAYLIGHT
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
TZNAME:CEST
DTSTART:19700329T020000
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
BEGIN:STANDARD
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
TZNAME:CET
DTSTART:19701025T030000
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
END:VTIMEZONE
"""


def imported(folder: Path, *events: str, head: str = "", first: date = FIRST, last: date = LAST) -> Imported:
    body = "".join(
        f"BEGIN:VEVENT\nUID:{n}@example.com\n{event.strip()}\nEND:VEVENT\n" for n, event in enumerate(events)
    )
    text = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Test//EN\n{head}{body}END:VCALENDAR\n"
    path = folder / "team.ics"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    return read_icalendar(path, "team", first, last)


def read(folder: Path, *events: str, head: str = "", first: date = FIRST, last: date = LAST) -> Calendar:
    return imported(folder, *events, head=head, first=first, last=last).calendar


def day(first: str, last: str = "", name: str = "") -> DaySpan:
    return DaySpan(date.fromisoformat(first), date.fromisoformat(last or first), name)


def window(start: str, end: str, name: str = "") -> Period:
    """Instants in UTC."""
    return Period(datetime.fromisoformat(f"{start}+00:00"), datetime.fromisoformat(f"{end}+00:00"), name)


# --------------------------------------------------------------------------------------------------------------- days


def test_holidays_of_google_become_days_whose_end_is_not_included(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261226\nDTSTAMP:20261001T000000Z\nTRANSP:TRANSPARENT\n"
        "STATUS:CONFIRMED\nSUMMARY:Christmas Day\nDESCRIPTION:Public holiday\nCLASS:PUBLIC",
        "DTSTART;VALUE=DATE:20261228\nDTEND;VALUE=DATE:20270103\nSUMMARY:Company\n  holidays\\, all",
        head="X-WR-CALNAME:Holidays in Germany\nX-WR-TIMEZONE:Europe/Berlin\nCALSCALE:GREGORIAN\nMETHOD:PUBLISH\n",
    )
    assert (found.name, found.description, found.tz) == ("team", "Holidays in Germany", "Europe/Berlin")
    assert found.days == (
        day("2026-12-25", name="Christmas Day"),
        day("2026-12-28", "2027-01-02", "Company holidays, all"),
    )
    assert found.windows == ()


def test_a_day_without_an_end_with_its_own_as_the_end_or_with_a_duration(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "DTSTART;VALUE=DATE:20260501",
        "DTSTART;VALUE=DATE:20260502\nDTEND;VALUE=DATE:20260502",
        "DTSTART;VALUE=DATE:20260504\nDURATION:P2D",
    )
    assert found.days == (day("2026-05-01"), day("2026-05-02"), day("2026-05-04", "2026-05-05"))
    assert (found.description, found.tz) == ("Imported from team.ics", None)


def test_outlook_writes_a_day_from_midnight_to_midnight(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "DTSTART;TZID=W. Europe Standard Time:20261224T000000\nDTEND;TZID=W. Europe Standard Time:20261226T000000\n"
        "X-MICROSOFT-CDO-ALLDAYEVENT:TRUE\nX-MICROSOFT-CDO-BUSYSTATUS:OOF\nSUMMARY:Closed",
        "DTSTART;TZID=W. Europe Standard Time:20260706T090000\nDTEND;TZID=W. Europe Standard Time:20260706T103000\n"
        "X-MICROSOFT-CDO-ALLDAYEVENT:FALSE\nSUMMARY:Migration",
        head="X-WR-TIMEZONE:W. Europe Standard Time\n",
    )
    assert found.days == (day("2026-12-24", "2026-12-25", "Closed"),)
    assert found.windows == (window("2026-07-06T07:00", "2026-07-06T08:30", "Migration"),)
    assert found.tz is None


# ------------------------------------------------------------------------------------------------------------ windows


def test_times_are_instants_in_their_zones_and_floating_ones_are_local(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "DTSTART;TZID=Europe/Berlin:20260701T220000\nDTEND;TZID=Europe/Berlin:20260702T060000\nSUMMARY:Night",
        "DTSTART:20260703T100000Z\nDURATION:PT90M\nSUMMARY:Short",
        "DTSTART:20260704T100000\nDTEND:20260704T110000\nSUMMARY:Floating",
        head=BERLIN,
    )
    assert found.windows == (
        window("2026-07-01T20:00", "2026-07-02T04:00", "Night"),
        window("2026-07-03T10:00", "2026-07-03T11:30", "Short"),
        Period(datetime(2026, 7, 4, 10), datetime(2026, 7, 4, 11), "Floating"),  # noqa: DTZ001
    )


def test_what_has_no_length_is_left_out(tmp_path: Path) -> None:
    found = imported(tmp_path, "DTSTART:20260703T100000Z\nSUMMARY:Reminder", "DTSTART;VALUE=DATE:20260501")
    assert found.calendar.windows == ()
    assert dict(found.left_out.items() & {"without a length": 1}.items()) == {"without a length": 1}


# ---------------------------------------------------------------------------------------------------------- repetition


def test_a_yearly_day_is_expanded_within_the_range_alone(tmp_path: Path) -> None:
    found = read(tmp_path, "DTSTART;VALUE=DATE:20001003\nDTEND;VALUE=DATE:20001004\nRRULE:FREQ=YEARLY\nSUMMARY:Unity")
    assert found.days == tuple(day(f"{year}-10-03", name="Unity") for year in (2026, 2027, 2028))


def test_a_weekly_window_keeps_its_local_time_when_the_clocks_change(tmp_path: Path) -> None:
    event = (
        "DTSTART;TZID=Europe/Berlin:20261018T220000\nDTEND;TZID=Europe/Berlin:20261018T230000\n"
        "RRULE:FREQ=WEEKLY;BYDAY=SU;UNTIL=20261108T210000Z\nSUMMARY:Service"
    )
    found = read(tmp_path, event, head=BERLIN)
    # UNTIL is included: 22:00 in Berlin is 21:00 in UTC on the last day.
    assert [one.start for one in found.windows] == [
        datetime(2026, 10, 18, 20, tzinfo=UTC),
        datetime(2026, 10, 25, 21, tzinfo=UTC),
        datetime(2026, 11, 1, 21, tzinfo=UTC),
        datetime(2026, 11, 8, 21, tzinfo=UTC),
    ]
    earlier = read(tmp_path, event.replace("T210000Z", "T205959Z"), head=BERLIN)
    assert len(earlier.windows) == 3


def test_until_of_a_day_is_included_and_count_ends_a_rule(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "DTSTART;VALUE=DATE:20260601\nRRULE:FREQ=DAILY;UNTIL=20260603\nSUMMARY:a",
        "DTSTART;VALUE=DATE:20260701\nRRULE:FREQ=MONTHLY;BYDAY=-1FR;COUNT=3\nSUMMARY:b",
    )
    assert [str(one.first) for one in found.days if one.name == "a"] == ["2026-06-01", "2026-06-02", "2026-06-03"]  # type: ignore[union-attr]
    # The first day is always part of it, in addition to the rule.
    assert [str(one.first) for one in found.days if one.name == "b"] == [  # type: ignore[union-attr]
        "2026-07-01",
        "2026-07-31",
        "2026-08-28",
        "2026-09-25",
    ]


def test_extra_dates_exceptions_and_replaced_occurrences(tmp_path: Path) -> None:
    text = """BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
UID:shift@example.com
DTSTART;TZID=Europe/Berlin:20260302T090000
DTEND;TZID=Europe/Berlin:20260302T100000
RRULE:FREQ=WEEKLY;COUNT=5
RDATE;TZID=Europe/Berlin:20260304T090000
RDATE;VALUE=PERIOD:20260305T090000Z/PT2H
EXDATE;TZID=Europe/Berlin:20260309T090000
SUMMARY:Shift
END:VEVENT
BEGIN:VEVENT
UID:shift@example.com
RECURRENCE-ID:20260316T080000Z
DTSTART;TZID=Europe/Berlin:20260317T150000
DTEND;TZID=Europe/Berlin:20260317T160000
SUMMARY:Moved
END:VEVENT
BEGIN:VEVENT
UID:shift@example.com
RECURRENCE-ID;TZID=Europe/Berlin:20260323T090000
DTSTART;TZID=Europe/Berlin:20260323T090000
DTEND;TZID=Europe/Berlin:20260323T100000
STATUS:CANCELLED
SUMMARY:Shift
END:VEVENT
END:VCALENDAR
"""
    path = tmp_path / "nextcloud.ics"
    path.write_text(text)
    found = read_icalendar(path, "shift", FIRST, LAST)
    assert found.calendar.windows == (
        window("2026-03-02T08:00", "2026-03-02T09:00", "Shift"),
        window("2026-03-04T08:00", "2026-03-04T09:00", "Shift"),
        window("2026-03-05T09:00", "2026-03-05T11:00", "Shift"),
        window("2026-03-17T14:00", "2026-03-17T15:00", "Moved"),
        window("2026-03-30T07:00", "2026-03-30T08:00", "Shift"),
    )
    assert found.left_out["cancelled"] == 1


def test_cancelled_events_and_those_outside_of_the_range_are_left_out(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        "DTSTART;VALUE=DATE:20251231\nDTEND;VALUE=DATE:20260102\nSUMMARY:Begins before",
        "DTSTART;VALUE=DATE:20281231\nDTEND;VALUE=DATE:20290105\nSUMMARY:Ends after",
        "DTSTART;VALUE=DATE:20251230\nDTEND;VALUE=DATE:20260101\nSUMMARY:Before",
        "DTSTART;VALUE=DATE:20290101\nSUMMARY:After",
        "DTSTART;VALUE=DATE:20260501\nSTATUS:CANCELLED\nSUMMARY:Off",
    )
    assert [one.name for one in found.calendar.days] == ["Begins before", "Ends after"]
    assert (found.left_out["cancelled"], found.left_out["outside of the range"]) == (1, 2)


def test_the_default_range_is_this_year_and_the_next_ten() -> None:
    assert default_range(date(2026, 11, 24)) == (date(2026, 1, 1), date(2036, 12, 31))


def test_names_are_one_line_and_bounded(tmp_path: Path) -> None:
    found = read(tmp_path, "DTSTART;VALUE=DATE:20260501\nSUMMARY:one\\ntwo\\n" + "x" * 300)
    [only] = found.days
    assert only.name.startswith("one two x")
    assert len(only.name) == 200


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ("SUMMARY:Lunch", "event 'Lunch' (UID 0@example.com): has no DTSTART"),
        ("DTSTART:yesterday\nSUMMARY:Lunch", "event 'Lunch' (UID 0@example.com): DTSTART is invalid"),
        (
            "DTSTART;VALUE=DATE:20260501\nDTEND;VALUE=DATE:20260430\nSUMMARY:A",
            "(UID 0@example.com): ends before",
        ),
        ("DTSTART;VALUE=DATE:20260501\nDTEND:20260502T100000Z\nSUMMARY:A", "DTEND is of another kind than DTSTART"),
        ("DTSTART:20260501T100000\nDTEND:20260501T110000Z\nSUMMARY:A", "DTEND is of another kind than DTSTART"),
        ("DTSTART:20260501T100000Z\nDURATION:PT1M\nRRULE:FREQ=SECONDLY\nSUMMARY:A", "repeats SECONDLY, which is too"),
        ("DTSTART:20260501T100000Z\nDURATION:PT1M\nRRULE:FREQ=MINUTELY\nSUMMARY:A", "repeats MINUTELY, which is too"),
        ("DTSTART;VALUE=DATE:20260501\nDTSTART;VALUE=DATE:20260502", "has DTSTART more than once"),
    ],
)
def test_a_problem_names_its_event(tmp_path: Path, event: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, event)
    assert problem in str(caught.value)
    assert "team.ics" in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"jobs: []\n", b"\xff\xfe", b"BEGIN:VEVENT\nEND:VEVENT\n", b"BEGIN:VCALENDAR\n"]
)
def test_what_is_no_icalendar_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.ics").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"x\.ics: this is not an iCalendar file"):
        read_icalendar(tmp_path / "x.ics", "x", FIRST, LAST)


def test_a_file_that_cannot_be_read_or_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_icalendar(tmp_path / "missing.ics", "x", FIRST, LAST)
    monkeypatch.setattr(icalendar_file, "MOST_BYTES", 10)
    with pytest.raises(InvalidInput, match="larger than 20 MiB"):
        read(tmp_path, "DTSTART;VALUE=DATE:20260501")


def test_more_entries_than_a_calendar_may_have_need_a_shorter_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(icalendar_file, "MOST_ENTRIES", 10)
    event = "DTSTART;VALUE=DATE:20260501\nRRULE:FREQ=DAILY"
    with pytest.raises(InvalidInput, match="choose a shorter range"):
        read(tmp_path, event)
    assert len(read(tmp_path, event, last=date(2026, 5, 10)).days) == 10
