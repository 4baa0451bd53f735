"""A schedule's document: cron, every, at, or any of several, with the rules that all repeating schedules share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from cronflow.documents.calendars import WindowForm, read_window, shorten_window, write_window
from cronflow.documents.default_zone import FORMAT_ZONE, with_zone
from cronflow.documents.keys import LENGTH, OPTIONAL_INSTANT, OPTIONAL_TEXT, TEXT, LengthForm
from cronflow.documents.tables import DocumentTable, Key, Refusal, read_variant
from cronflow.documents.values import (
    choice,
    duration_text,
    flag,
    got,
    instant,
    instant_text,
    list_of,
    optional,
    text,
    under,
    whole,
    written_duration,
)
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Schedule
from cronflow.domain.schedule.windows import Window

Writer = Callable[[DocumentTable[Any], Any], dict[str, Any]]


class DstForm(TypedDict):
    """How times of day are handled when the clocks change."""

    gap: Annotated[GapPolicy, Key(choice(GapPolicy))]
    """A time that the clocks skip fires at the first instant afterwards, not at all, or shifted with the clocks."""
    overlap: Annotated[RepeatPolicy, Key(choice(RepeatPolicy))]
    """Which occurrence fires when the clocks show a time twice."""


DST = DocumentTable(DstForm, Dst)


def _read_business_day(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(day for one in value for day in _read_business_day(one))
    if value == "last":
        return (-1,)
    try:
        return (whole(value),)
    except InvalidInput:
        remedy = "write 1 for the first of the month, last or -1 for the last"
        raise InvalidInput(Problem("", f"expected a business day, got {got(value)}", remedy)) from None


def _read_entry(value: object) -> str | Window:
    return value if isinstance(value, str) else read_window(value)


def _write_entry(entry: str | Window) -> str | dict[str, Any]:
    return entry if isinstance(entry, str) else write_window(entry)


def _names(value: object) -> tuple[str, ...]:
    found: tuple[str, ...] = (value,) if isinstance(value, str) else list_of(text, "calendars")(value)
    return found


def _entries(value: object) -> tuple[str | Window, ...]:
    one = isinstance(value, str | Mapping)
    found: tuple[str | Window, ...] = list_of(_read_entry, "calendars and windows")([value] if one else value)
    return found


_ENTRIES = Key(
    _entries,
    lambda entries: [_write_entry(entry) for entry in entries],
    shorten=lambda entries: [entry if isinstance(entry, str) else shorten_window(entry) for entry in entries],
    also=WindowForm | str,
)


class RulesForm(TypedDict):
    """Keys of every repeating schedule."""

    start: Annotated[str | None, OPTIONAL_INSTANT]
    """No fires before this time."""
    end: Annotated[str | None, OPTIONAL_INSTANT]
    """No fires from this time on."""
    jitter: Annotated[LengthForm, LENGTH]
    """The maximum delay of a fire; the actual delay depends on the job's name and the instant."""
    max_runs: Annotated[int | None, Key(optional(whole))]
    """The maximum number of runs of the schedule; null: no limit."""
    calendars: Annotated[list[str], Key(_names, list, also=str)]
    """Fires on the days of these calendars are skipped; these days are not business days."""
    blackout: Annotated[list[str | WindowForm], _ENTRIES]
    """Fires in these calendars and windows are skipped."""
    only_in: Annotated[list[str | WindowForm], _ENTRIES]
    """Fires outside these calendars and windows are skipped."""


class CronKeys(TypedDict):
    """Keys of a cron schedule."""

    cron: Annotated[str, Key(text, attribute="expr", sample="0 0 * * *")]
    """Five fields, or six with seconds first; or `@daily` and the like."""
    tz: Annotated[str, TEXT]
    """The IANA time zone."""
    dst: Annotated[DstForm, Key(DST.read, DST.write, shorten=DST.shorten)]
    """How its times of day are handled when the clocks change."""
    business_day: Annotated[
        list[int], Key(_read_business_day, list, also=int | Literal["last"] | list[int | Literal["last"]] | None)
    ]
    """Only on these business days of the month: 1 for the first, -1 or `last` for the last; empty: every day."""


class CronForm(CronKeys, RulesForm):
    """Fires when the clocks of a zone match an expression."""


class EveryKeys(TypedDict):
    """Keys of an interval."""

    every: Annotated[LengthForm, Key(written_duration, duration_text, attribute="interval", sample="1h")]
    """The interval."""
    anchor: Annotated[str | None, OPTIONAL_INSTANT]
    """The instant that the fires are counted from."""
    time: Annotated[str | None, OPTIONAL_TEXT]
    """The time of day, for whole days and weeks."""
    tz: Annotated[str, TEXT]
    """The IANA time zone of that time, and of calendars."""
    dst: Annotated[DstForm, Key(DST.read, DST.write, shorten=DST.shorten)]
    """How that time is handled when the clocks change."""
    after_completion: Annotated[bool, Key(flag)]
    """Whether the interval starts when a run ends."""


class EveryForm(EveryKeys, RulesForm):
    """Fires at a fixed interval."""


class OnceForm(TypedDict):
    """Fires once."""

    at: Annotated[str, Key(instant, instant_text, sample=datetime(2000, 1, 1, tzinfo=UTC))]
    """The instant."""


CRON = DocumentTable(CronForm, Cron)
# A time of day suits whole days alone, and a policy for clock changes only a time of day.
EVERY = DocumentTable(
    EveryForm,
    Every,
    companions={"time": {"interval": "1d"}, "dst": {"interval": "1d", "time": "00:00"}},
)
ONCE = DocumentTable(OnceForm, Once)
_MEMBERS: Mapping[str, DocumentTable[Any]] = {"cron": CRON, "every": EVERY, "at": ONCE}
_OF_THE_WHOLE = dict.fromkeys(
    ("jitter", "max_runs", "calendars", "blackout", "only_in", "after_completion"),
    Refusal("belongs to the whole schedule", "move it next to any"),
) | {"any": Refusal("a schedule of any has any itself", "list all schedules in one any")}
_OF_THE_WHOLE["after_completion"] = Refusal("cannot be a part of any", "make it the only schedule of a job")


def _read_member(value: object) -> Schedule:
    if isinstance(value, Mapping) and (wrong := [key for key in value if key in _OF_THE_WHOLE]):
        raise InvalidInput([Problem(key, *_OF_THE_WHOLE[key]) for key in wrong])
    made: Schedule = read_variant(value, _MEMBERS, {}, "write cron, every or at")
    return made


def _write_members(schedules: tuple[Cron | Every | Once, ...]) -> list[dict[str, Any]]:
    return [_write_member(one) for one in schedules]


def _write_member(schedule: Cron | Every | Once) -> dict[str, Any]:
    written = _shortened(schedule)
    # Always with its zone, even the default one: without it, a member would be read with the zone of the whole.
    return {**written, "tz": schedule.tz} if not isinstance(schedule, Once) and _has_clock(written) else written


def _shortened(schedule: Cron | Every | Once) -> dict[str, Any]:
    match schedule:
        case Cron():
            return CRON.shorten(schedule)
        case Every():
            return EVERY.shorten(schedule)
        case Once():
            return ONCE.shorten(schedule)


class AnyKeys(TypedDict):
    """Keys of several schedules together."""

    any: Annotated[
        list[dict[str, Any]],
        Key(
            list_of(_read_member, "schedules"),
            _write_members,
            attribute="schedules",
            sample=(Once(datetime(2000, 1, 1, tzinfo=UTC)),),
        ),
    ]
    """Up to 20 schedules: mappings with cron, every or at, and with their own tz, dst, start and end."""
    tz: Annotated[str, TEXT]
    """The IANA time zone of calendars, and of the schedules that have none."""


class AnyForm(AnyKeys, RulesForm):
    """Fires when one of several schedules does."""


ANY = DocumentTable(AnyForm, AnyOf)
ScheduleForm = CronForm | EveryForm | OnceForm | AnyForm
_SCHEDULES: Mapping[str, DocumentTable[Any]] = {**_MEMBERS, "any": ANY}


def read_schedule(value: object) -> Schedule | None:
    """Raises InvalidInput with places relative to the schedule."""
    if value is None:
        return None
    if_none = "leave schedule out for a job that runs only on request"
    made: Schedule = read_variant(_with_zone(value), _SCHEDULES, {}, if_none)
    return made


def _with_zone(value: object) -> object:
    """Members of `any` without a zone have that of the whole."""
    if not isinstance(value, Mapping) or not isinstance(value.get("any"), list | tuple) or "tz" not in value:
        return value
    members = [
        {**one, "tz": value["tz"]} if isinstance(one, Mapping) and "tz" not in one and _has_clock(one) else one
        for one in value["any"]
    ]
    return {**value, "any": members}


def _has_clock(member: Mapping[Any, object]) -> bool:
    return "cron" in member or ("every" in member and "time" in member)


def write_schedule(schedule: Schedule | None, write: Writer = DocumentTable.write) -> dict[str, Any] | None:
    """With every default, unless `write` leaves them out."""
    match schedule:
        case Cron():
            return write(CRON, schedule)
        case Every():
            return write(EVERY, schedule)
        case Once():
            return write(ONCE, schedule)
        case AnyOf():
            return _with_own_zones(write(ANY, schedule))
        case None:
            return None


def _with_own_zones(document: dict[str, Any]) -> dict[str, Any]:
    """The short form of a part leaves UTC out, which would mean the zone of the whole when it is read."""
    if document.get("tz", FORMAT_ZONE) != FORMAT_ZONE:
        document["any"] = [
            {**one, "tz": one.get("tz", FORMAT_ZONE)} if _has_clock(one) else one for one in document["any"]
        ]
    return document


SCHEDULE = Key(read_schedule, write_schedule, shorten=partial(write_schedule, write=DocumentTable.shorten))


def parse_schedule(document: object, place: str = "schedule", *, tz: str = FORMAT_ZONE) -> Schedule:
    """The schedule that a document describes; `tz` is the time zone of one that has none. Raises InvalidInput; each
    place begins with `place`.
    """
    try:
        found = read_schedule(document if tz == FORMAT_ZONE else with_zone(document, tz))
        if found is None:
            raise InvalidInput(Problem("", "expected a mapping, got nothing", "write cron, every, at or any"))
        return found
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None
