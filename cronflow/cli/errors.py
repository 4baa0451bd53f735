"""Turns an error into a message and an exit code.

The rule: an error states what is wrong, where, and what to do next, on stderr; tracebacks are only for unexpected
errors. The codes are part of the interface: scripts depend on them.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from cronflow.cli.terminal.formatting import RED, clean
from cronflow.cli.terminal.output import diagnostics
from cronflow.domain.errors import AccessDenied, BackendUnavailable, CronFlowError, InvalidInput, NotFound

FAILED, USAGE, NOT_FOUND, RUN_FAILED, UNREACHABLE = 1, 2, 3, 4, 5

_LISTED = ("job", "run", "node", "user", "key", "alert", "secret")


def expected(error: BaseException) -> CronFlowError | None:
    """The error to report: itself, or the only one of a group; None for an unexpected error."""
    if isinstance(error, CronFlowError):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [expected(inner) for inner in error.exceptions]
        if found and all(found) and len({str(one) for one in found}) == 1:
            return found[0]
    return None


def version_mismatch(error: Exception) -> CronFlowError | None:
    """The error to report if a command cannot read an answer because the API has another version, which it asks for.
    None if the versions are equal: then it is a bug, and its traceback is shown.
    """
    from importlib.metadata import version

    from cronflow.cli import connect

    if not isinstance(error, KeyError | TypeError | ValueError):
        return None
    theirs, ours = connect.api_version(), version("cronflow")
    if theirs in (None, ours):
        return None
    made = CronFlowError(
        f"cannot read the answer of {connect.api_in_use}: the API has version {theirs}, this command has {ours}"
    )
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in place)
    made.add_note(f"{type(error).__name__}: {error}{where}")
    made.add_note(f"install the same version here: pip install cronflow=={theirs}")
    return made


def report(error: CronFlowError) -> int:
    """Print it on stderr. Returns the exit code."""
    code, lines, hints = _described(error)
    out = diagnostics()
    for line in lines:
        out.print(Text.assemble(("error: ", f"bold {RED}"), clean(line)))
    for hint in (*getattr(error, "__notes__", ()), *hints):
        out.print(Text(f"  → {hint}"))
    return code


def _described(error: CronFlowError) -> tuple[int, Sequence[str], Sequence[str]]:
    match error:
        case InvalidInput():
            return USAGE, [" ".join(str(problem).split("\n")) for problem in error.problems], ()
        case NotFound(kind="leader"):
            return NOT_FOUND, [str(error)], ["list the nodes: cronflow nodes list; start one: cronflow node"]
        case NotFound():
            listed = f"list the {error.kind}s: cronflow {error.kind}s list"
            return NOT_FOUND, [str(error)], [listed] if error.kind in _LISTED else []
        case AccessDenied():
            return FAILED, [str(error)], [error.remedy]
        case BackendUnavailable():
            if error.service not in ("Redis", "MongoDB"):
                return UNREACHABLE, [str(error)], ["check the address; start the API there: cronflow api"]
            setting = "CRONFLOW_REDIS_URL" if error.service == "Redis" else "CRONFLOW_MONGO_URL"
            return UNREACHABLE, [str(error)], [f"start it, or set {setting}; check both servers: cronflow doctor"]
    return FAILED, [str(error) or type(error).__name__], []
