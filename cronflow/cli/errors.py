"""The one place where an error becomes a message and an exit code.

The rule: an error says what is wrong, where, and what to do next, in a line each, on stderr; a traceback is for what
nobody expected. The codes are part of the interface: scripts act on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from cronflow.cli.output import diagnostics
from cronflow.cli.words import RED, clean
from cronflow.domain.errors import BackendUnavailable, CronFlowError, InvalidInput, NotFound

FAILED, USAGE, NOT_FOUND, RUN_FAILED, UNREACHABLE = 1, 2, 3, 4, 5

_NEXT_STEP = {
    "job": "cronflow jobs list shows what there is",
    "run": "cronflow runs list shows the latest",
    "node": "cronflow nodes list shows who is up",
    "user": "cronflow users list shows who there is",
    "key": "cronflow keys list shows what there is",
    "alert": "cronflow alerts list shows what there is",
    "secret": "cronflow secrets list shows what there is",
    "leader": "cronflow nodes list shows who is up; cronflow node starts one",
}


def expected(error: BaseException) -> CronFlowError | None:
    """The error to tell: itself, or the only one of a group; None for what nobody expected."""
    if isinstance(error, CronFlowError):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [expected(inner) for inner in error.exceptions]
        if found and all(found) and len({str(one) for one in found}) == 1:
            return found[0]
    return None


def report(error: CronFlowError) -> int:
    """Write it to stderr. Returns the exit code."""
    code, lines, hints = _told(error)
    out = diagnostics()
    for line in lines:
        out.print(Text.assemble(("error: ", f"bold {RED}"), clean(line)))
    for hint in (*getattr(error, "__notes__", ()), *hints):
        out.print(Text(f"  → {hint}"))
    return code


def _told(error: CronFlowError) -> tuple[int, Sequence[str], Sequence[str]]:
    match error:
        case InvalidInput():
            return USAGE, list(_problems(error)), ()
        case NotFound():
            return NOT_FOUND, [str(error)], [_NEXT_STEP[error.kind]] if error.kind in _NEXT_STEP else []
        case BackendUnavailable():
            if error.service not in ("Redis", "MongoDB"):
                return UNREACHABLE, [str(error)], ["see whether the address is right, and the API is up: cronflow api"]
            setting = "CRONFLOW_REDIS_URL" if error.service == "Redis" else "CRONFLOW_MONGO_URL"
            return UNREACHABLE, [str(error)], [f"start it, or set {setting}; cronflow doctor checks both"]
    return FAILED, [str(error) or type(error).__name__], []


def _problems(error: InvalidInput) -> Iterator[str]:
    """One line each, whatever stands in them."""
    for problem in error.problems:
        yield " ".join(str(problem).split("\n"))
