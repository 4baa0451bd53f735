"""Compares the fires of a library with CronFlow's, for one line in one zone, and names the causes of differences."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache

from cronflow.domain.schedule import zones
from cronflow.domain.schedule.cron_expression import NICKNAMES
from cronflow.domain.schedule.zones import OffsetChange
from tests.comparison.causes import AT_CHANGES, RULES, Cause, Fires, Rule, why_refused
from tests.comparison.libraries import CRONFLOW, Library, Refused
from tests.comparison.lines import FIRST, changes_of, windows

Window = tuple[datetime, datetime]
Instants = set[datetime]

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(slots=True)
class Outcome:
    """What one library does with one line in one zone; the same as CronFlow when it has no causes and no findings."""

    library: str
    line: str
    zone: str
    fires: int = 0
    causes: dict[Cause, str] = field(default_factory=dict)
    """The first difference of each cause, in words."""
    findings: list[str] = field(default_factory=list)
    """Differences without a known cause."""

    @property
    def same(self) -> bool:
        return not self.causes and not self.findings

    def add(self, cause: Cause | None, difference: str) -> None:
        if cause is None:
            self.findings.append(difference)
        else:
            self.causes.setdefault(cause, difference)


def compare(library: Library, line: str, zone: str) -> Outcome:
    """Compare all fires of the line in the compared time."""
    outcome = Outcome(library.name, line, zone)
    try:
        per_day = _most_on_a_day(line)
    except Refused as refused:
        _compare_refused(library, outcome, refused)
        return outcome
    for window in windows(zone, per_day):
        try:
            theirs = library.fires(line, zones.find_zone(zone), *window)
        except Refused as refused:
            outcome.add(why_refused(library.name, line), f"`{line}` is refused ({refused})")
            break
        ours = _ours(line, zone, window)
        outcome.fires += len(ours)
        if ours != theirs:
            _explain(outcome, window, theirs)
    return outcome


def _compare_refused(library: Library, outcome: Outcome, here: Refused) -> None:
    """A line that CronFlow refuses is the same when the library refuses it too."""
    try:
        theirs = library.fires(outcome.line, zones.find_zone(outcome.zone), FIRST, FIRST.replace(month=2))
        does = f"fires {len(theirs)} times in a month"
    except Refused:
        return
    except Exception as error:
        does = f"raises {type(error).__name__} when it is used"
    outcome.add(why_refused("CronFlow", outcome.line), f"`{outcome.line}` {does}; CronFlow refuses it")


def _explain(outcome: Outcome, window: Window, theirs: list[datetime]) -> None:
    expected = _by_their_rules(outcome, window)
    for instant, times in Counter(theirs).items():
        if times > 1:
            outcome.add(None, f"`{outcome.line}` fires {times} times at {_text(instant, outcome.zone)}")
    lost, extra = set(expected) - set(theirs), set(theirs) - set(expected)
    for change in changes_of(outcome.zone, *window):
        near = _near(change)
        lost_here, extra_here = set(filter(near, lost)), set(filter(near, extra))
        if lost_here or extra_here:
            cause = _at_change(outcome, change, lost_here, set(filter(near, theirs)))
            lost, extra = lost - lost_here, extra - extra_here
            known = cause if cause in AT_CHANGES[outcome.library] else None
            outcome.add(known, _difference(outcome, lost_here, extra_here))
    for cause, late in _lost_after(outcome, window, lost, theirs):
        if late and cause in AT_CHANGES[outcome.library]:
            outcome.add(cause, _difference(outcome, late, ()))
            lost -= late
    if lost or extra:
        outcome.add(None, _difference(outcome, lost, extra))


def _by_their_rules(outcome: Outcome, window: Window) -> list[datetime]:
    """CronFlow's fires of the line as the library understands it. Adds the causes that make a difference."""

    def plain(line: str) -> list[datetime]:
        return _ours(line, outcome.zone, window)

    fires: Fires = plain
    expected = fires(outcome.line)
    if len(outcome.line.split()) != 5:
        return expected
    for rule in RULES[outcome.library]:
        fires = _composed(rule, fires)
        changed = fires(outcome.line)
        if changed != expected:
            text = _difference(outcome, set(expected) - set(changed), set(changed) - set(expected))
            outcome.add(rule.cause, text)
        expected = changed
    return expected


def _composed(rule: Rule, fires: Fires) -> Fires:
    def composed(line: str) -> list[datetime]:
        fields = line.upper().split()
        return rule.fires(fields, fires) if rule.applies(fields) else fires(line)

    return composed


def _near(change: OffsetChange) -> Callable[[datetime], bool]:
    """Whether an instant lies as close to the change as the clocks jump: a repeated time, or one that stands for it."""
    jump = change.after - change.before
    first, end = min(change.at, change.at + jump), change.at + abs(jump)
    return lambda fire: first <= fire < end


def _at_change(outcome: Outcome, change: OffsetChange, lost: Instants, theirs: Instants) -> Cause:
    line, jump = outcome.line, change.after - change.before
    if len(line.split()) == 6 and outcome.library == "cronsim":
        return Cause.SIX_FIELDS
    if jump % HOUR and outcome.library in ("cronsim", "croniter") and lost:
        return Cause.HALF_HOUR
    if change.after < change.before:
        return Cause.REPEATED_TWICE if not lost else Cause.GAP_LOST
    if _keeps_interval(line):
        return Cause.GAP_EXTRA
    # The skipped times, each as much later as the clocks jump.
    opening = (change.at + change.before).replace(tzinfo=UTC)
    shifted = {time - change.before for time in _ours(line, "UTC", (opening, opening + jump))}
    return Cause.GAP_SHIFTED if shifted & theirs else Cause.GAP_LOST


def _lost_after(
    outcome: Outcome, window: Window, lost: Instants, theirs: list[datetime]
) -> Iterable[tuple[Cause, Instants]]:
    """Fires that are lost later, because the library calculated across a change."""
    for change in changes_of(outcome.zone, *window):
        jump = change.after - change.before
        if jump % HOUR:
            yield Cause.HALF_HOUR, {fire for fire in lost if change.at <= fire < change.at + DAY}
        if jump > timedelta(0):
            yield Cause.LOST_AFTER_GAP, {fire for fire in lost if _early_after(change, fire, theirs, outcome.zone)}


def _early_after(change: OffsetChange, fire: datetime, theirs: list[datetime], zone: str) -> bool:
    """Whether it is a time soon after midnight, and the library fired nothing between the gap and that day."""
    local = fire.astimezone(zones.find_zone(zone)).replace(tzinfo=None)
    midnight = datetime.combine(local.date(), time())
    place = bisect_left(theirs, fire)
    return local - midnight < change.after - change.before and (place == 0 or theirs[place - 1] < change.at < fire)


def _keeps_interval(line: str) -> bool:
    minute, hour = NICKNAMES.get(line, line).split()[-5:-3]
    return minute.startswith("*") or hour.startswith("*")


def _difference(outcome: Outcome, lost: Iterable[datetime], extra: Iterable[datetime]) -> str:
    parts = []
    for found, library in ((sorted(lost), "CronFlow"), (sorted(extra), outcome.library)):
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            parts.append(f"only {library} fires on {_text(found[0], outcome.zone)}{more}")
    return f"`{outcome.line}` in {outcome.zone}: {', '.join(parts)}"


def _text(instant: datetime, zone: str) -> str:
    return f"{instant.astimezone(zones.find_zone(zone)):%a %Y-%m-%d at %H:%M:%S%z}"


@lru_cache(maxsize=1024)
def _most_on_a_day(line: str) -> int:
    """The most fires on one day of a month in UTC. Raises Refused."""
    fires = CRONFLOW.fires(line, zones.find_zone("UTC"), FIRST, FIRST.replace(month=2))
    return max(Counter(fire.date() for fire in fires).values(), default=0)


@lru_cache(maxsize=256)
def _ours(line: str, zone: str, window: Window) -> list[datetime]:
    return CRONFLOW.fires(line, zones.find_zone(zone), *window)
