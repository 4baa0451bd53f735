"""The one place where an error becomes a message and an exit code.

The rule: an error states what is wrong, where, and what to do next, each on a line on stderr; tracebacks are only for
unexpected errors. The codes are part of the interface: scripts depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from cronflow.cli.terminal.formatting import RED, clean
from cronflow.cli.terminal.output import diagnostics
from cronflow.domain.errors import BackendUnavailable, CronFlowError, InvalidInput, NotFound

FAILED, USAGE, NOT_FOUND, RUN_FAILED, UNREACHABLE = 1, 2, 3, 4, 5

_NEXT_STEP = {
    "job": "list the jobs: cronflow jobs list",
    "run": "list the latest runs: cronflow runs list",
    "node": "list the nodes: cronflow nodes list",
    "user": "list the users: cronflow users list",
    "key": "list the keys: cronflow keys list",
    "alert": "list the alerts: cronflow alerts list",
    "secret": "list the secrets: cronflow secrets list",
    "leader": "list the nodes: cronflow nodes list; start one: cronflow node",
}


def expected(error: BaseException) -> CronFlowError | None:
    """The error to report: itself, or the only one of a group; None for an unexpected error."""
    if isinstance(error, CronFlowError):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [expected(inner) for inner in error.exceptions]
        if found and all(found) and len({str(one) for one in found}) == 1:
            return found[0]
    if isinstance(error, KeyError | TypeError | ValueError):
        return _unreadable_answer(error)
    return None


def report(error: CronFlowError) -> int:
    """Write it to stderr. Returns the exit code."""
    code, lines, hints = _described(error)
    out = diagnostics()
    for line in lines:
        out.print(Text.assemble(("error: ", f"bold {RED}"), clean(line)))
    for hint in (*getattr(error, "__notes__", ()), *hints):
        out.print(Text(f"  → {hint}"))
    return code


def _unreadable_answer(error: Exception) -> CronFlowError | None:
    """An API of another version may answer with other fields than the views of this version read."""
    from cronflow.cli import connect

    if connect.api_in_use is None:
        return None
    reason = f"{type(error).__name__}: {error}"
    made = CronFlowError(
        f"{connect.api_in_use} answered with something this version of CronFlow cannot read ({reason})"
    )
    made.add_note("install the version of the API here; cronflow version shows the installed one")
    return made


def _described(error: CronFlowError) -> tuple[int, Sequence[str], Sequence[str]]:
    match error:
        case InvalidInput():
            return USAGE, [" ".join(str(problem).split("\n")) for problem in error.problems], ()
        case NotFound(kind="leader"):
            return NOT_FOUND, ["the cluster has no leader"], [_NEXT_STEP["leader"]]
        case NotFound():
            return NOT_FOUND, [str(error)], [_NEXT_STEP[error.kind]] if error.kind in _NEXT_STEP else []
        case BackendUnavailable():
            if error.service not in ("Redis", "MongoDB"):
                return UNREACHABLE, [str(error)], ["check the address, and that the API is up: cronflow api"]
            setting = "CRONFLOW_REDIS_URL" if error.service == "Redis" else "CRONFLOW_MONGO_URL"
            return UNREACHABLE, [str(error)], [f"start it, or set {setting}; check both servers: cronflow doctor"]
    return FAILED, [str(error) or type(error).__name__], []
