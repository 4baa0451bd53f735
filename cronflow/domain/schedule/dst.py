"""Daylight saving policies: what a time of day means on the days when the clocks change.

A policy belongs to one schedule. `timetable` applies it. Cron expressions whose minute or hour field begins with `*`
are intervals: they keep their real distance, as in Debian cron, whatever the policy of a schedule is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GapPolicy(StrEnum):
    """When a local time fires that the clocks skip."""

    NEXT_VALID = "next_valid"
    """At the first instant after the gap; several times in the gap fire once."""
    SKIP = "skip"
    """Not at all on that day."""
    SHIFT = "shift"
    """As much later as the clocks jump: 02:30 becomes 03:30."""


class RepeatPolicy(StrEnum):
    """When a local time fires that the clocks show twice."""

    FIRST = "first"
    LAST = "last"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Dst:
    """The policies of a schedule for skipped (`gap`) and repeated (`overlap`) local times."""

    gap: GapPolicy = GapPolicy.NEXT_VALID
    overlap: RepeatPolicy = RepeatPolicy.FIRST


DEFAULT_DST = Dst()
KEEP_INTERVAL = Dst(GapPolicy.SKIP, RepeatPolicy.BOTH)
"""The rule for intervals: an instant fires exactly when the clocks show a matching time."""
