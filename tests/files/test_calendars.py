"""Calendar files: short and long forms, and every problem with its line."""

from __future__ import annotations

from datetime import date, datetime, time
from pathlib import Path

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.calendar import Calendar, DaySpan, YearlyDay
from cronflow.domain.schedule.windows import Period, WeeklyHours
from cronflow.files.calendars import read_calendar_files


def read(folder: Path, *texts: str) -> list[Calendar]:
    paths = [folder / f"{k}.yaml" for k in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return read_calendar_files(paths)


def test_a_calendar_is_a_list_of_days_or_a_mapping(tmp_path: Path) -> None:
    text = """
calendars:
  short: [2026-12-25, "12-26", {day: "01-01", name: New Year}]
  long:
    description: Closed
    tz: Europe/Berlin
    days: [{first: 2026-12-28, last: 2026-12-30, name: Repairs}]
    windows:
      - {start: 2026-12-24T14:00:00, end: 2026-12-25, name: Christmas Eve}
      - {start: "22:00", end: "06:00", days: mon-fri}
      - {start: "12:00", end: "13:00", days: [sat, sun], name: lunch}
"""
    assert read(tmp_path, text, "calendars:\n  empty: []\n") == [
        Calendar(
            name="short",
            days=(
                DaySpan(date(2026, 12, 25), date(2026, 12, 25)),
                YearlyDay(12, 26),
                YearlyDay(1, 1, "New Year"),
            ),
        ),
        Calendar(
            name="long",
            description="Closed",
            tz="Europe/Berlin",
            days=(DaySpan(date(2026, 12, 28), date(2026, 12, 30), "Repairs"),),
            windows=(
                Period(datetime(2026, 12, 24, 14), datetime(2026, 12, 25), "Christmas Eve"),  # noqa: DTZ001
                WeeklyHours((1, 2, 3, 4, 5), time(22), time(6)),
                WeeklyHours((6, 7), time(12), time(13), "lunch"),
            ),
        ),
        Calendar(name="empty"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("calendars: [de]", "0.yaml:1: calendars: expected a mapping of names, got a list"),
        ("jobs: []", "0.yaml:1: has no calendars (write calendars: and the calendars by name below it)"),
        ("calendars:\n  de: []\nmore: 1", "0.yaml:3: more: unknown key next to calendars (remove it)"),
        ("calendars:\n  De: []", "0.yaml:2: calendars.De.name: 'De' is not a calendar name"),
        ("calendars:\n  de: {tz: Berlin}", "0.yaml:2: calendars.de.tz: there is no time zone 'Berlin'"),
        ("calendars:\n  de: {dayz: []}", "0.yaml:2: calendars.de.dayz: unknown key (did you mean days?)"),
        ("calendars:\n  de:\n  - 2026-12-25\n  - 2026-13-01", "0.yaml:4: calendars.de[1]: expected a day, got"),
        ("calendars:\n  de: ['02-30']", "0.yaml:2: calendars.de[0]: there is no day 30 in month 2"),
        ("calendars:\n  de: [{first: 2026-12-25}]", "0.yaml:2: calendars.de[0].last: missing (add the last day)"),
        (
            "calendars:\n  de: [{first: 2026-12-25, last: 2026-12-24}]",
            "0.yaml:2: calendars.de[0]: the days end on 2026-12-24, before they begin (swap first and last)",
        ),
        ("calendars:\n  de: {windows: [{start: '9:00', end: '10:00'}]}", "calendars.de.windows[0].start: expected a"),
        (
            "calendars:\n  de: {windows: [{start: '09:00', end: 2026-12-25}]}",
            "calendars.de.windows[0]: one end is a time of day, the other a date",
        ),
        (
            "calendars:\n  de: {windows: [{start: 2026-12-24, end: 2026-12-25, days: mon}]}",
            "calendars.de.windows[0]: days have no effect between two dates",
        ),
        ("calendars:\n  de: {windows: [{start: '09:00', end: '10:00', days: fri-mon}]}", "runs backwards"),
        (
            "calendars:\n  de: []\n---\ncalendars:\n  de: []",
            "0.yaml:5: calendars.de: the calendar 'de' is defined twice",
        ),
    ],
)
def test_a_problem_has_its_file_line_and_remedy(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, text)
    assert problem in str(caught.value)


def test_the_problems_of_all_files_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, "calendars:\n  de: {tz: X}\n  fr: {tz: Y}", "jobs: []")
    assert len(caught.value.problems) == 3
