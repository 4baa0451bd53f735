"""The comparison with other libraries: each cause occurs as documented, and a difference without a cause is found.

`make compare-schedules` compares all lines in all zones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.comparison.causes import Cause
from tests.comparison.comparing import compare
from tests.comparison.libraries import APSCHEDULER, CRONITER, CRONSIM, OTHERS, Library

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "schedules-compared.md"
BERLIN = "Europe/Berlin"
LORD_HOWE = "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("library", "line", "zone", "causes"),
    [
        (APSCHEDULER, "30 2 * * *", BERLIN, {Cause.GAP_SHIFTED, Cause.REPEATED_TWICE}),
        (APSCHEDULER, "0 0 * * *", "Africa/Cairo", {Cause.GAP_LOST}),
        (CRONITER, "*/20 2 * * *", BERLIN, {Cause.GAP_EXTRA}),
        (CRONITER, "30 2 * * *", BERLIN, {Cause.REPEATED_TWICE}),
        (CRONSIM, "0 30 2 * * *", BERLIN, {Cause.SIX_FIELDS}),
        (CRONSIM, "0 */6 * * *", LORD_HOWE, {Cause.HALF_HOUR}),
        (APSCHEDULER, "0 0 * * *", BERLIN, {Cause.LOST_AFTER_GAP}),
        (CRONITER, "0 0 */2 * MON", "UTC", {Cause.EITHER_DAY}),
        (APSCHEDULER, "0 0 13 * FRI", "UTC", {Cause.BOTH_DAYS}),
        (APSCHEDULER, "0 0 13 * */2", "UTC", {Cause.FROM_MONDAY, Cause.BOTH_DAYS}),
        (APSCHEDULER, "0 0 * * 1-5", "UTC", {Cause.FROM_MONDAY}),
        (APSCHEDULER, "0 0 * * MON#2", "UTC", {Cause.NTH_IGNORED}),
        (CRONSIM, "@daily", "UTC", {Cause.NO_NICKNAMES}),
        (APSCHEDULER, "0 30 2 * * *", "UTC", {Cause.NO_SECONDS}),
        (APSCHEDULER, "0 0 * * 7", "UTC", {Cause.NO_SUNDAY_7}),
        (CRONITER, "0 0 LW * *", "UTC", {Cause.NO_LAST_DAYS}),
        (APSCHEDULER, "0 0 * * 1#1,3#3", "UTC", {Cause.NO_NTH}),
        (APSCHEDULER, "0 */24 * * *", "UTC", {Cause.NO_WHOLE_STEP}),
        (CRONITER, "0 22-2 * * *", "UTC", {Cause.BACKWARDS}),
        (CRONITER, "0 0 * * L5", "UTC", {Cause.OTHER_SPELLING}),
        (CRONITER, "0 0 30 2 *", "UTC", {Cause.NEVER}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_cause_makes_the_difference_that_the_page_describes(
    library: Library, line: str, zone: str, causes: set[Cause]
) -> None:
    outcome = compare(library, line, zone)
    assert outcome.findings == []
    assert set(outcome.causes) == causes


@pytest.mark.parametrize("library", OTHERS, ids=lambda library: library.name)
@pytest.mark.parametrize("line", ["*/15 * * * *", "0 9-17 * * MON-FRI", "0 12 1,15 * *", "25 6 * * *"])
def test_ordinary_lines_fire_alike(library: Library, line: str) -> None:
    assert compare(library, line, BERLIN).same


def test_a_fire_that_a_library_loses_adds_or_repeats_for_no_known_cause_is_a_finding() -> None:
    def one_lost(line: str, zone: ZoneInfo, first: datetime) -> Iterator[datetime]:
        for number, fire in enumerate(CRONSIM.walk(line, zone, first)):
            if number != 100:
                yield fire

    def one_doubled(line: str, zone: ZoneInfo, first: datetime) -> Iterator[datetime]:
        for number, fire in enumerate(CRONSIM.walk(line, zone, first)):
            yield from [fire] * (2 if number == 100 else 1)

    def one_late(line: str, zone: ZoneInfo, first: datetime) -> Iterator[datetime]:
        for number, fire in enumerate(CRONSIM.walk(line, zone, first)):
            yield fire.replace(minute=31) if number == 100 else fire

    for walk in (one_lost, one_doubled, one_late):
        outcome = compare(replace(CRONSIM, walk=walk), "30 6 * * *", BERLIN)
        assert len(outcome.findings) == 1, walk
        assert "2026-04-11" in outcome.findings[0]


def test_a_library_that_refuses_an_ordinary_line_is_a_finding() -> None:
    def refuses(line: str, zone: ZoneInfo, first: datetime) -> Iterator[datetime]:
        return CRONSIM.walk("nonsense", zone, first)

    assert compare(replace(CRONSIM, walk=refuses), "30 6 * * *", BERLIN).findings


def test_the_page_has_a_section_for_each_cause_and_no_other() -> None:
    sections = [line.removeprefix("### ") for line in PAGE.read_text().splitlines() if line.startswith("### ")]
    assert sorted(sections) == sorted(Cause)
