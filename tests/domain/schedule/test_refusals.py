"""Invalid schedules, and their error messages: what is wrong, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.describe import describe
from cronflow.domain.schedule.fires import count_between, last_before, latest, next_after
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule
from tests.drawing import examples

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


HOW_MANY = "(write 5 fields, minute hour day-of-month month day-of-week, or 6 with seconds in front)"
NEVER = "never fires: no date matches it (correct the day or the month)"


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("", f"cron '' has 0 fields {HOW_MANY}"),
        ("5", f"cron '5' has 1 field {HOW_MANY}"),
        ("0 2 * *", f"cron '0 2 * *' has 4 fields {HOW_MANY}"),
        ("0 0 2 * * * 2026", f"cron '0 0 2 * * * 2026' has 7 fields {HOW_MANY}"),
        ("60 * * * *", "'60' is not allowed in the minute field of cron '60 * * * *' (write 0 to 59)"),
        ("61 * * * * *", "'61' is not allowed in the second field of cron '61 * * * * *' (write 0 to 59)"),
        ("0 24 * * *", "'24' is not allowed in the hour field of cron '0 24 * * *' (write 0 to 23)"),
        ("0 -1 * * *", "'-1' is not allowed in the hour field of cron '0 -1 * * *' (write 0 to 23)"),
        ("0 1,,2 * * *", "'' is not allowed in the hour field of cron '0 1,,2 * * *' (write 0 to 23)"),
        (
            "0 0 32 * *",
            (
                "'32' is not allowed in the day-of-month field of cron '0 0 32 * *' "
                "(write 1 to 31, L for the last day or LW for the last working day)"
            ),
        ),
        ("0 0 ? * 1", "'?' is not allowed in the day-of-month field of cron '0 0 ? * 1' (write * for any value)"),
        ("0 0 * 13 *", "'13' is not allowed in the month field of cron '0 0 * 13 *' (write 1 to 12 or JAN to DEC)"),
        ("0 0 * MON *", "'MON' is not allowed in the month field of cron '0 0 * MON *' (write 1 to 12 or JAN to DEC)"),
        (
            "0 0 * * MON#6",
            (
                "'MON#6' is not allowed in the day-of-week field of cron '0 0 * * MON#6' (write 0 to 7 (0 and 7 are "
                "Sunday), SUN to SAT, MON#2 for the second Monday or 5L for the last Friday)"
            ),
        ),
        (
            "0 0 * * FRIL",
            (
                "'FRIL' is not allowed in the day-of-week field of cron '0 0 * * FRIL' (write 0 to 7 (0 and 7 are "
                "Sunday), SUN to SAT, MON#2 for the second Monday or 5L for the last Friday)"
            ),
        ),
        (
            "0 22-2 * * *",
            (
                "the range '22-2' runs backwards in the hour field of cron '0 22-2 * * *' "
                "(split it in two, such as 22-23,0-2)"
            ),
        ),
        (
            "*/90 * * * *",
            "the step of '*/90' is not allowed in the minute field of cron '*/90 * * * *' (write a step from 1 to 60)",
        ),
        (
            "*/0 * * * *",
            "the step of '*/0' is not allowed in the minute field of cron '*/0 * * * *' (write a step from 1 to 60)",
        ),
        ("0 0 31 2 *", f"cron '0 0 31 2 *' {NEVER}"),
        ("0 0 30 2 *", f"cron '0 0 30 2 *' {NEVER}"),
        ("0 0 31 4,6,9,NOV *", f"cron '0 0 31 4,6,9,NOV *' {NEVER}"),
        ("0 0 */30 2 MON#5", f"cron '0 0 */30 2 MON#5' {NEVER}"),
        ("0 0 */16 * MON#5", f"cron '0 0 */16 * MON#5' {NEVER}"),
        (
            "@reboot",
            (
                "'@reboot' is not supported: a cluster does not boot "
                "(write a schedule, or run the job manually when the cluster starts)"
            ),
        ),
        (
            "@fortnightly",
            (
                "there is no nickname '@fortnightly' "
                "(write @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly)"
            ),
        ),
    ],
)
def test_the_error_of_a_bad_expression_explains_what_to_write(expr: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Cron(expr)
    assert str(caught.value) == message


NO_OFFSET = "(add one, such as Z or +01:00; in Python, tzinfo=timezone.utc)"
IANA = "(write an IANA name such as Europe/Berlin, or UTC)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Cron("* 2 * 3 7L", BERLIN),
            (
                "cron '* 2 * 3 7L' never fires in Europe/Berlin: all its times fall into the hour that the clocks skip "
                "there (choose another hour, or a minute without *)"
            ),
        ),
        (
            lambda: Cron("@daily", "Europe/Berln"),
            "there is no time zone 'Europe/Berln' (did you mean Europe/Berlin?)",
        ),
        (lambda: Cron("@daily", "berlin"), "there is no time zone 'berlin' (did you mean Europe/Berlin?)"),
        (
            lambda: Every("1d", tz="America/New York", time="02:00"),
            "there is no time zone 'America/New York' (did you mean America/New_York?)",
        ),
        (lambda: Cron("@daily", "Mars"), f"there is no time zone 'Mars' {IANA}"),
        (lambda: Cron("@daily", ""), f"there is no time zone '' {IANA}"),
        (lambda: Cron("@daily", "Europe"), f"there is no time zone 'Europe' {IANA}"),
        (lambda: Cron("@daily", "../UTC"), f"there is no time zone '../UTC' {IANA}"),
        (lambda: Cron("@daily", "CEST"), f"there is no time zone 'CEST' {IANA}"),
        (lambda: Cron("@daily", "GMT+1"), f"there is no time zone 'GMT+1' {IANA}"),
        (lambda: Cron("@daily", "localtime"), f"there is no time zone 'localtime' {IANA}"),
        (lambda: Cron(5), "the cron expression must be text, not 5 (put it in quotes)"),  # type: ignore[arg-type]
        (lambda: Cron("@daily", None), "the time zone must be text, not None (put it in quotes)"),  # type: ignore[arg-type]
        (
            lambda: Cron("@daily", start=at("2026-01-02"), end=at("2026-01-01")),
            (
                "the end, 2026-01-01 00:00 UTC, is not after the start, 2026-01-02 00:00 UTC "
                "(the end must be later; nothing fires at the end itself)"
            ),
        ),
        (
            lambda: Every("1h", start=at("2026-01-02"), end=at("2026-01-02")),
            (
                "the end, 2026-01-02 00:00 UTC, is not after the start, 2026-01-02 00:00 UTC "
                "(the end must be later; nothing fires at the end itself)"
            ),
        ),
        (
            lambda: Cron("@daily", start=datetime(2026, 1, 1)),  # noqa: DTZ001
            f"start has no offset from UTC, 2026-01-01T00:00:00 means another instant in every zone {NO_OFFSET}",
        ),
        (
            lambda: Once(datetime(2026, 1, 1)),  # noqa: DTZ001
            f"at has no offset from UTC, 2026-01-01T00:00:00 means another instant in every zone {NO_OFFSET}",
        ),
        (
            lambda: Every("1h", datetime(2026, 1, 1)),  # noqa: DTZ001
            f"anchor has no offset from UTC, 2026-01-01T00:00:00 means another instant in every zone {NO_OFFSET}",
        ),
        (
            lambda: Once("tomorrow"),  # type: ignore[arg-type]
            "at must be a date with a time, not 'tomorrow' (write it like 2026-12-24T18:00:00+01:00)",
        ),
        (
            lambda: Once(at("2026-01-01 00:00:00.5")),
            (
                "at is not a whole second, 2026-01-01T00:00:00.500000+00:00 "
                "(remove the fraction; in Python, .replace(microsecond=0))"
            ),
        ),
        (
            lambda: Once(datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))),
            "at is out of range, 9999-12-31T23:59:59.999999-05:00 (choose a date in the years 1 to 9999)",
        ),
        (
            lambda: Every("500ms"),
            "an interval of '500ms' is not allowed (write a whole number of seconds, at least 1s)",
        ),
        (lambda: Every(0), "an interval of 0 is not allowed (write a whole number of seconds, at least 1s)"),
        (lambda: Every(1.5), "an interval of 1.5 is not allowed (write a whole number of seconds, at least 1s)"),
        (
            lambda: Every(timedelta(milliseconds=2500)),
            "an interval of 0:00:02.500000 is not allowed (write a whole number of seconds, at least 1s)",
        ),
        (lambda: Every("soon"), "'soon' is not a duration; write 500ms, 30s, 5m, 2h or 1d"),
        (
            lambda: Every("1d", time="2:00"),
            "'2:00' is not a time (write HH:MM or HH:MM:SS in quotes, such as \"02:00\")",
        ),
        (
            lambda: Every("1d", time="24:00"),
            "'24:00' is not a time (write HH:MM or HH:MM:SS in quotes, such as \"02:00\")",
        ),
        (
            lambda: Every("1d", time=120),  # type: ignore[arg-type]
            '120 is not a time (write HH:MM or HH:MM:SS in quotes, such as "02:00")',
        ),
        (
            lambda: Every("36h", time="02:00"),
            "a time needs whole days or weeks, not '36h' (write 1d or 1w, or remove the time)",
        ),
        (
            lambda: Every("1d", tz=BERLIN),
            (
                "days of exactly 24 hours do not follow the clocks of Europe/Berlin "
                '(add a time such as "02:00" to keep the wall clock, or remove the zone)'
            ),
        ),
    ],
)
def test_the_error_of_bad_input_explains_what_to_do(make: Callable[[], Schedule], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "ask",
    [
        lambda naive: next_after(Cron("@daily"), naive),
        lambda naive: last_before(Cron("@daily"), naive, not_before=at("2026-01-01")),
        lambda naive: last_before(Cron("@daily"), at("2026-01-01"), not_before=naive),
        lambda naive: count_between(Cron("@daily"), naive, at("2026-01-01")),
        lambda naive: count_between(Cron("@daily"), at("2026-01-01"), naive),
        lambda naive: latest(Cron("@daily"), naive, 1, not_before=at("2026-01-01")),
    ],
)
def test_a_question_with_a_naive_datetime_is_refused(ask: Callable[[datetime], Any]) -> None:
    with pytest.raises(InvalidInput, match="has no offset from UTC"):
        ask(datetime(2026, 1, 1))  # noqa: DTZ001


@settings(max_examples=examples(400), deadline=None)
@given(st.text(alphabet="0123456789*,-/L#WMONJAF @?", max_size=12) | st.text(max_size=5), st.integers(0, 5))
def test_any_text_in_a_field_is_either_understood_or_refused(text: str, place: int) -> None:
    fields = ["0", "0", "0", "1", "1", "*"]
    fields[place] = text
    try:
        schedule = Cron(" ".join(fields))
    except InvalidInput:
        return
    assert next_after(schedule, at("2026-11-21")) is not None
    assert describe(schedule)
