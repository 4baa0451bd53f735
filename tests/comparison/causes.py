"""Why a library fires at other instants than CronFlow, or refuses a line: every known cause, by name.

Away from clock changes, a cause is a rule that is applied to CronFlow's own fires and must then give exactly the fires
of the library. At a clock change, it is the way in which the fires differ. A difference without a cause here is a
finding, and fails the comparison.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Cause(StrEnum):
    """Each of them has a section of this name in `docs/reference/schedules-compared.md`."""

    GAP_SHIFTED = "A skipped time is shifted"
    GAP_LOST = "A skipped time is lost"
    GAP_EXTRA = "An interval fires for skipped times"
    REPEATED_TWICE = "A repeated time fires twice"
    SIX_FIELDS = "Six fields follow the clocks"
    HALF_HOUR = "Fires are lost around half-hour changes"
    LOST_AFTER_GAP = "Early fires are lost on the first day after a gap"
    EITHER_DAY = "Either day field is enough despite a star"
    BOTH_DAYS = "Both day fields must match"
    FROM_MONDAY = "Weekdays are numbered from Monday"
    NTH_IGNORED = "The number of an nth weekday is ignored"
    NO_NICKNAMES = "Nicknames are refused"
    NO_SECONDS = "Seconds are refused"
    NO_SUNDAY_7 = "7 for Sunday is refused"
    NO_LAST_DAYS = "Last days are refused"
    NO_NTH = "Nth weekdays by number are refused"
    NO_WHOLE_STEP = "A step over the whole range is refused"
    BACKWARDS = "Ranges may run backwards"
    OTHER_SPELLING = "Special days have other spellings"
    NEVER = "Lines that never fire are accepted"


Fires = Callable[[str], list[datetime]]


@dataclass(frozen=True, slots=True)
class Rule:
    """Another meaning of a line: the fires it would have, in terms of CronFlow's fires of other lines."""

    cause: Cause
    applies: Callable[[Sequence[str]], bool]
    fires: Callable[[Sequence[str], Fires], list[datetime]]


def _from_monday(fields: Sequence[str], fires: Fires) -> list[datetime]:
    # 0 to 6 from Monday are 1 to 7 from Sunday.
    terms = [term.replace("*/", "0-6/").partition("/") for term in fields[4].split(",")]
    moved = [re.sub(r"\d+", lambda number: str(int(number[0]) + 1), days) + slash + step for days, slash, step in terms]
    return fires(_line(fields, weekdays=",".join(moved)))


def _both_days(fields: Sequence[str], fires: Fires) -> list[datetime]:
    by_weekday = set(fires(_line(fields, days="*")))
    return [fire for fire in fires(_line(fields, weekdays="*")) if fire in by_weekday]


def _either_day(fields: Sequence[str], fires: Fires) -> list[datetime]:
    return sorted({*fires(_line(fields, days="*")), *fires(_line(fields, weekdays="*"))})


def _nth_ignored(fields: Sequence[str], fires: Fires) -> list[datetime]:
    return fires(_line(fields, weekdays=re.sub(r"#\d", "", fields[4])))


def _line(fields: Sequence[str], *, days: str | None = None, weekdays: str | None = None) -> str:
    minute, hour, day, month, weekday = fields
    return " ".join((minute, hour, days or day, month, weekdays or weekday))


def _two_days(fields: Sequence[str]) -> bool:
    return fields[2] != "*" and fields[4] != "*"


RULES: dict[str, tuple[Rule, ...]] = {
    "cronsim": (),
    "croniter": (Rule(Cause.EITHER_DAY, _two_days, _either_day),),
    "APScheduler": (
        Rule(Cause.NTH_IGNORED, lambda fields: bool(re.search("[A-Z]#", fields[4])), _nth_ignored),
        Rule(Cause.FROM_MONDAY, lambda fields: bool(re.search(r"\d", fields[4])), _from_monday),
        Rule(Cause.BOTH_DAYS, _two_days, _both_days),
    ),
}
"""The rules of each library for lines of five fields. A later rule asks for its fires through those before it."""

AT_CHANGES: dict[str, frozenset[Cause]] = {
    "cronsim": frozenset({Cause.SIX_FIELDS, Cause.HALF_HOUR}),
    "croniter": frozenset({Cause.REPEATED_TWICE, Cause.GAP_EXTRA, Cause.HALF_HOUR}),
    "APScheduler": frozenset(
        {Cause.REPEATED_TWICE, Cause.GAP_SHIFTED, Cause.GAP_LOST, Cause.GAP_EXTRA, Cause.LOST_AFTER_GAP}
    ),
}
"""How the fires of each library differ where the clocks change."""

_LAST_DAYS = r"(^|[ ,])(L|LW|[0-7]L)($|[ ,])"
_REFUSED: dict[str, tuple[tuple[Cause, str], ...]] = {
    "cronsim": ((Cause.NO_NICKNAMES, "^@"),),
    "croniter": ((Cause.NO_LAST_DAYS, r"(^|[ ,])(LW|[0-7]L)($|[ ,])"),),
    "APScheduler": (
        (Cause.NO_NICKNAMES, "^@"),
        (Cause.NO_SECONDS, r"^(\S+ ){5}\S+$"),
        (Cause.NO_LAST_DAYS, _LAST_DAYS),
        (Cause.NO_NTH, r"\d#\d"),
        (Cause.NO_SUNDAY_7, r"(^|[ ,-])7$"),
        (Cause.NO_WHOLE_STEP, r"\*/24"),
    ),
    "CronFlow": (
        (Cause.BACKWARDS, "22-2|SAT-MON"),
        (Cause.OTHER_SPELLING, r"L5|last|15W|\?"),
        (Cause.NEVER, "^0 0 30 2 "),
    ),
}


def why_refused(library: str, line: str) -> Cause | None:
    """The known cause for which the library refuses the line; for CronFlow, one that another library accepts."""
    return next((cause for cause, pattern in _REFUSED[library] if re.search(pattern, line)), None)
