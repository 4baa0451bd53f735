"""The ways in which a handler ends, and the outcome that an executor reports for each."""

from __future__ import annotations

import sys
from datetime import timedelta

from cronflow import PermanentError, RetryLater, Skip
from cronflow.domain.run import Outcome

ENDINGS = (
    ("error", Outcome.ERROR, "ValueError: no rows"),
    ("permanent", Outcome.PERMANENT, "the account is closed"),
    ("later", Outcome.ERROR, "the shop is busy"),
    ("skip", Outcome.SKIPPED, "a holiday"),
    ("exit", Outcome.ERROR, "SystemExit: 3"),
)
"""The argument of `end`, the outcome, and a part of the error."""
CLASSES = (
    ("error", ("builtins.ValueError", "builtins.Exception", "builtins.BaseException")),
    (
        "own",
        ("tests.executors.endings.SoldOut", "builtins.LookupError", "builtins.Exception", "builtins.BaseException"),
    ),
    ("permanent", ()),
    ("later", ()),
    ("skip", ()),
)
"""The argument of `end`, and the classes that retry rules match."""


class SoldOut(LookupError):
    """An error of a user's own."""


def end(how: str) -> None:
    """End the handler in this way, or do nothing if it is none of them."""
    match how:
        case "error":
            raise ValueError("no rows")
        case "permanent":
            raise PermanentError("the account is closed")
        case "later":
            raise RetryLater(timedelta(minutes=7), "the shop is busy")
        case "skip":
            raise Skip("a holiday")
        case "own":
            raise SoldOut
        case "exit":
            sys.exit(3)
