"""Converts the return value or exception of a handler into an AttemptResult."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path

import orjson

from cronflow.domain.errors import PermanentError, RetryLater, Skip
from cronflow.domain.run import AttemptResult, Outcome

MAX_RESULT_BYTES = 4 * 1024 * 1024
"""MongoDB limits documents to 16 MiB, and every finished attempt holds its result in memory."""
MAX_ERROR_CHARACTERS = 6000
MAX_FRAMES = 12

_HERE = str(Path(__file__).parent)


def finished(result: object) -> AttemptResult:
    if result is None:
        return AttemptResult(Outcome.OK)
    if inspect.iscoroutine(result):
        result.close()
        return AttemptResult(Outcome.PERMANENT, error="the function returned a coroutine; declare it with async def")
    try:
        written = orjson.dumps(result)
    except TypeError as refused:
        what = f"the result, {type(result).__name__}, is not JSON ({refused})"
        return AttemptResult(
            Outcome.PERMANENT, error=f"{what}; return numbers, text, lists, dicts, None, dates or dataclasses"
        )
    if len(written) > MAX_RESULT_BYTES:
        what = f"the result has {len(written):,} bytes of JSON; the limit is {MAX_RESULT_BYTES:,}"
        return AttemptResult(Outcome.PERMANENT, error=f"{what}; store it elsewhere and return its location")
    return AttemptResult(Outcome.OK, result=orjson.loads(written))


def failed(error: BaseException) -> AttemptResult:
    """Retry rules do not apply to the job's own decision: PermanentError and RetryLater."""
    match error:
        case RetryLater():
            return AttemptResult(Outcome.ERROR, error=_text(error), delay=error.delay)
        case Skip():
            return AttemptResult(Outcome.SKIPPED, error=_text(error.reason))
        case PermanentError():
            return AttemptResult(Outcome.PERMANENT, error=_text(error))
        case SystemExit(code=None | 0):
            return AttemptResult(Outcome.OK)
        case _:
            return AttemptResult(Outcome.ERROR, error=_describe(error), error_classes=classes_of(error))


def classes_of(error: BaseException) -> tuple[str, ...]:
    """Its class and the base classes, with their modules, for retry rules."""
    return tuple(f"{one.__module__}.{one.__qualname__}" for one in type(error).__mro__ if one is not object)


def _text(reason: object) -> str:
    """The reason as text, whatever was given as one."""
    try:
        return str(reason)
    except Exception:
        return f"<{type(reason).__name__} that has no text>"


def _describe(error: BaseException) -> str:
    """`Type: message`, then the innermost frames of the traceback, without those of the executors."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    shown = traceback.TracebackException(type(error), error, trace, limit=-MAX_FRAMES)
    summary = "".join(shown.format_exception_only()).strip()
    # Without frames, the traceback only repeats the summary.
    text = summary if trace is None else f"{summary}\n\n{''.join(shown.format())}".rstrip()
    if len(text) > MAX_ERROR_CHARACTERS:
        half = MAX_ERROR_CHARACTERS // 2
        text = f"{text[:half]}\n…\n{text[-half:]}"
    return text
