"""What alerts report, and what follows from the kind alone."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum


class AlertKind(StrEnum):
    """What an alert reports."""

    FAILED = "failed"
    RECOVERED = "recovered"
    DEAD_LETTER = "dead_letter"
    LATE = "late"
    NO_LEADER = "no_leader"
    RUNNING_LONG = "running_long"
    RETRIES = "retries"
    DEAD_LETTERS = "dead_letters"
    RETRY_RATE = "retry_rate"
    REPORT = "report"
    NODE_LOST = "node_lost"
    LIMIT_WAIT = "limit_wait"
    SUCCEEDED = "succeeded"
    HEARTBEAT = "heartbeat"


DEAD_LETTER_KINDS = frozenset({AlertKind.FAILED, AlertKind.DEAD_LETTER})
PINGED = frozenset({*DEAD_LETTER_KINDS, AlertKind.SUCCEEDED, AlertKind.HEARTBEAT})
"""The kinds that a ping can carry, which only says that something is well or has failed."""
NEVER_HELD = frozenset({AlertKind.NO_LEADER, AlertKind.REPORT, AlertKind.SUCCEEDED, AlertKind.HEARTBEAT})
"""A missing leader is critical, and nobody could release what waits without one; the others have their own time."""
SIGNS_OF_LIFE = frozenset({AlertKind.SUCCEEDED, AlertKind.HEARTBEAT})
"""They are worthless soon, so they are retried for a short time."""

GIVE_UP_AFTER = timedelta(hours=24)
SIGN_GIVEN_UP_AFTER = timedelta(minutes=5)
KEPT = timedelta(days=30)
"""How long a notification is kept after it was delivered or given up."""
SIGN_KEPT = timedelta(days=1)


def give_up_after(kind: AlertKind) -> timedelta:
    """How long a notification of this kind is retried."""
    return SIGN_GIVEN_UP_AFTER if kind in SIGNS_OF_LIFE else GIVE_UP_AFTER


def kept(kind: AlertKind) -> timedelta:
    """How long it is kept after its end."""
    return SIGN_KEPT if kind in SIGNS_OF_LIFE else KEPT
