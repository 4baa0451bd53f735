"""What a handler returned or raised, as an Ending."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path

import orjson

from cronflow.domain.errors import PermanentError, RetryLater, Skip
from cronflow.domain.run import AttemptResult, Outcome

MAX_RESULT_BYTES = 4 * 1024 * 1024
"""MongoDB takes no document of more than 16 MiB, and each attempt that ends holds its result in memory."""
MAX_ERROR_CHARACTERS = 6000
MAX_FRAMES = 12

_HERE = str(Path(__file__).parent)


def finished(result: object) -> AttemptResult:
    if inspect.iscoroutine(result):
        result.close()
        return AttemptResult(Outcome.PERMANENT, error="it returned a coroutine; declare it with async def")
    try:
        written = orjson.dumps(result)
    except TypeError as refused:
        what = f"its result, {type(result).__name__}, is not JSON ({refused})"
        return AttemptResult(
            Outcome.PERMANENT, error=f"{what}; return numbers, text, lists, dicts, None, dates or dataclasses"
        )
    if len(written) > MAX_RESULT_BYTES:
        what = f"its result has {len(written):,} bytes of JSON, the limit is {MAX_RESULT_BYTES:,}"
        return AttemptResult(Outcome.PERMANENT, error=f"{what}; store it elsewhere and return where")
    return AttemptResult(Outcome.OK, result=orjson.loads(written))


def failed(error: BaseException) -> AttemptResult:
    match error:
        case RetryLater():
            return AttemptResult(Outcome.ERROR, error=str(error), delay=error.delay)
        case Skip():
            return AttemptResult(Outcome.SKIPPED, error=error.reason)
        case PermanentError():
            return AttemptResult(Outcome.PERMANENT, error=str(error))
        case SystemExit(code=None | 0):
            return AttemptResult(Outcome.OK)
        case _:
            return AttemptResult(Outcome.ERROR, error=_describe(error))


def _describe(error: BaseException) -> str:
    """`Type: message`, then the innermost frames of the traceback, without those of the executors."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    told = traceback.TracebackException(type(error), error, trace, limit=-MAX_FRAMES)
    summary = "".join(told.format_exception_only()).strip()
    # Without a frame the traceback would only say the same again.
    text = summary if trace is None else f"{summary}\n\n{''.join(told.format())}".rstrip()
    if len(text) > MAX_ERROR_CHARACTERS:
        half = MAX_ERROR_CHARACTERS // 2
        text = f"{text[:half]}\n…\n{text[-half:]}"
    return text
