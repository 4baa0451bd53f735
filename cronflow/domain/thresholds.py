"""Thresholds of alerts: the level of a figure, and when crossing one is reported.

Rules: a level that rises, or ends, is reported once per crossing. Crossings of an alert and kind are numbered, and the
store accepts each number once, so a notification that is derived from the number is sent once, whoever leads.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from cronflow.domain.errors import InvalidInput

LEAST_ATTEMPTS = 20
"""Of fewer attempts, no share is reported."""
RATE_OVER = timedelta(hours=1)
EASED = 0.8
"""A share that has risen above its threshold has to fall to this part of it, or every attempt could cross it again."""
HIGHEST_COUNT = 1_000_000


class AlertLevel(IntEnum):
    OK = 0
    WARN = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class DeadLetterLimits:
    """From how many unresolved dead letters on to warn, and from how many on it is critical."""

    warn: int = 5
    critical: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.warn <= self.critical <= HIGHEST_COUNT:
            limits = f"warn {self.warn} and critical {self.critical}"
            raise InvalidInput(f"has {limits}; they must be 1 to {HIGHEST_COUNT:,}, and critical not below warn")

    def level(self, count: int) -> AlertLevel:
        """The level of so many dead letters."""
        if count >= self.critical:
            return AlertLevel.CRITICAL
        return AlertLevel.WARN if count >= self.warn else AlertLevel.OK

    def of(self, level: AlertLevel) -> int:
        """The count that the level begins with; of OK, that it ends with."""
        return self.critical if level is AlertLevel.CRITICAL else self.warn


def retry_rate_level(before: AlertLevel, attempts: int, retries: int, threshold: float) -> AlertLevel:
    """The level of `retries` among all `attempts`."""
    share = retries / attempts if attempts >= LEAST_ATTEMPTS else 0.0
    limit = threshold if before is AlertLevel.OK else threshold * EASED
    return AlertLevel.WARN if share > limit else AlertLevel.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The latest change of the level of an alert's figure: its number, from 1, the levels before and after, the figure
    and when it was found.
    """

    alert: str
    kind: str
    number: int
    before: AlertLevel
    level: AlertLevel
    figure: float
    at: datetime

    @property
    def place(self) -> str:
        """Its unique key: alert and kind, which contain no `/`."""
        return f"{self.alert}/{self.kind}"

    @property
    def is_reported(self) -> bool:
        """A level that rises or ends is reported; from critical to warn it only eases."""
        return self.level > self.before or self.level is AlertLevel.OK

    @property
    def subject(self) -> str:
        return f"{self.level.word} {self.number}"


def crossing(
    last: Crossing | None, alert: str, kind: str, before: AlertLevel, level: AlertLevel, figure: float, at: datetime
) -> Crossing | None:
    """The next crossing if the level has changed. `last` is the stored one; `before` is its level, or OK where that no
    longer counts.
    """
    if level is before:
        return None
    number = 1 if last is None else last.number + 1
    return Crossing(alert=alert, kind=kind, number=number, before=before, level=level, figure=figure, at=at)
