"""The `Context` that a job's function receives for an attempt, and the call of the function.

Everything that a handler logs goes as single lines through the sink of the executor, so the same function runs in the
event loop, in a thread and in a test. The executor makes the sink safe for threads. Nothing here contacts a server or
stops a handler.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sized
from datetime import datetime
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from cronflow.domain.errors import PermanentError
from cronflow.domain.run import PROGRESS as PROGRESS

if TYPE_CHECKING:
    from cronflow.domain.split import Shard
    from cronflow.ports import LineSink

_BETWEEN_LINES_S = 0.5

Part = TypeVar("Part")


class RunLog:
    """Writes log lines of the run. Fields are appended as `key=value`; a multi-line text becomes several lines."""

    __slots__ = ("_sink",)

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink

    def debug(self, text: str, /, **fields: object) -> None:
        """Details for debugging."""
        self._write("debug", text, fields)

    def info(self, text: str, /, **fields: object) -> None:
        """Normal progress."""
        self._write("info", text, fields)

    def success(self, text: str, /, **fields: object) -> None:
        """A completed step."""
        self._write("success", text, fields)

    def warn(self, text: str, /, **fields: object) -> None:
        """Something to look at; the job continues."""
        self._write("warn", text, fields)

    # `warning` is common in Python; a missing name would fail only when something goes wrong.
    warning = warn

    def error(self, text: str, /, **fields: object) -> None:
        """Something failed. This does not end the attempt; raise an exception for that."""
        self._write("error", text, fields)

    def _write(self, level: str, text: str, fields: Mapping[str, object]) -> None:
        words = [str(text), *(f"{key}={_shown(value)}" for key, value in fields.items())]
        for line in " ".join(words).splitlines() or [""]:
            self._sink(level, line)


class Progress(Generic[Part]):
    """Iterates over the parts of a task once, by `for` or `async for`, and counts them."""

    def __init__(
        self,
        parts: Iterable[Part] | AsyncIterable[Part],
        total: int | None,
        emit: Callable[[int, int | None], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._parts = parts
        self._total = len(parts) if total is None and isinstance(parts, Sized) else total
        self._emit = emit
        self._monotonic = monotonic
        self._emitted_at: float | None = None
        self._started = 0

    def __iter__(self) -> Iterator[Part]:
        if not isinstance(self._parts, Iterable):
            raise TypeError("these parts come from an async iterable; write `async for part in ctx.progress(parts)`")
        for part in self._parts:
            self._count()
            yield part
        self._end()

    def __aiter__(self) -> AsyncIterator[Part]:
        return self._walk()

    async def _walk(self) -> AsyncIterator[Part]:
        if isinstance(self._parts, AsyncIterable):
            async for part in self._parts:
                self._count()
                yield part
        else:
            # Imported here to keep `import cronflow` fast; in a running loop it costs nothing.
            from asyncio import sleep

            for part in self._parts:
                self._count()
                # Without this, a body that never awaits would block the loop and its own timeout.
                await sleep(0)
                yield part
        self._end()

    def _count(self) -> None:
        """A part is done when the next one is requested."""
        done, self._started = self._started, self._started + 1
        now = self._monotonic()
        if self._emitted_at is None or now - self._emitted_at >= _BETWEEN_LINES_S:
            self._emitted_at = now
            self._emit(done, self._total)

    def _end(self) -> None:
        self._emit(self._started, self._total)


class Context:
    """One attempt of a run, for its function. Every method may be called from any thread.

    run_id           `<job>@<fire>`; the same in every attempt.
    job              the job's name.
    fire_at          the instant for which the job runs, UTC.
    attempt          number of the attempt, from 1.
    fence            the fencing token for the job's own writes. It only grows, so a target that stores the highest one
                     can refuse writes of an attempt that was replaced.
    node             the node that runs this attempt.
    idempotency_key  pass it to services that drop repeated requests; it is the run id.
    chain_id         the id of the run in which its chain of jobs began; its own run id if it follows no other run.
    args             arguments of the function.
    shard            which part of a run that is split this is: `shard.index`, from 0, of `shard.total`; None without.
    log              writes log lines of the run.
    """

    def __init__(
        self,
        *,
        run_id: str,
        job: str,
        fire_at: datetime,
        attempt: int,
        fence: int,
        node: str,
        args: Mapping[str, object],
        sink: LineSink,
        chain_id: str | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = time.monotonic,
        shard: Shard | None = None,
    ) -> None:
        self.shard = shard
        self.run_id = run_id
        self.job = job
        self.fire_at = fire_at
        self.attempt = attempt
        self.fence = fence
        self.node = node
        self.chain_id = run_id if chain_id is None else chain_id
        self.args: Mapping[str, object] = MappingProxyType(dict(args))
        self.log = RunLog(sink)
        self._sink = sink
        self._cancelled = cancelled
        self._monotonic = monotonic
        self._beat_at: float | None = None

    def __repr__(self) -> str:
        return f"<Context {self.run_id} attempt {self.attempt}>"

    @property
    def idempotency_key(self) -> str:
        """The run id: the same in every attempt, and unique to the run."""
        return self.run_id

    @property
    def cancelled(self) -> bool:
        """Whether this attempt was cancelled or timed out. A plain function runs in a thread, which cannot be stopped,
        so it should check this now and then and return.
        """
        return self._cancelled()

    @property
    def silent_s(self) -> float | None:
        """Seconds since the last heartbeat; None if there was none."""
        return None if self._beat_at is None else self._monotonic() - self._beat_at

    def heartbeat(self) -> None:
        """Report that the handler is alive. It is cheap and does not extend the timeout or the lease. If a handler does
        not stop in time, the log shows how long it has been silent.
        """
        self._beat_at = self._monotonic()

    def progress(self, parts: Iterable[Part] | AsyncIterable[Part], total: int | None = None) -> Progress[Part]:
        """Iterate over the parts by `async for`, or by `for` in a plain function, and log how many are done.

        `total` defaults to the length of the parts, if they have one. It writes at most two lines a second and one at
        the end; each part is a heartbeat. With a plain iterable, `async for` yields to the event loop between parts.
        """
        return Progress(parts, total, self._emit, self._beat)

    def _beat(self) -> float:
        self.heartbeat()
        assert self._beat_at is not None
        return self._beat_at

    def _emit(self, done: int, total: int | None) -> None:
        self._sink(PROGRESS, str(done) if total is None else f"{done}/{total}")


def bind(function: Callable[..., object], context: Context, args: Mapping[str, object]) -> partial[object]:
    """The call of the function with these args, and with the context if its first parameter is named `ctx` or annotated
    `Context`.

    Raises PermanentError if an argument is missing or unknown.
    """
    if _accepts(function, frozenset(args)):
        return partial(function, context, **args)
    return partial(function, **args)


def misfit(function: Callable[..., object], args: Mapping[str, object], *, complete: bool) -> str | None:
    """Why the function cannot be called with these args, or None. Unless `complete`, more args may be added later."""
    signature, wants_context = _signature(function)
    try:
        (signature.bind if complete else signature.bind_partial)(*([None] if wants_context else []), **args)
    except TypeError as refused:
        return _sentence(function, refused)
    return None


@lru_cache(maxsize=1024)
def _accepts(function: Callable[..., object], names: frozenset[str]) -> bool:
    """Whether the function receives the context. Raises PermanentError if it does not accept these arguments."""
    signature, wants_context = _signature(function)
    try:
        signature.bind(*([None] if wants_context else []), **dict.fromkeys(names))
    except TypeError as refused:
        raise PermanentError(_sentence(function, refused)) from None
    return wants_context


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., object]) -> tuple[inspect.Signature, bool]:
    """The signature, and whether the first parameter receives the context."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception:
        # Annotations for type checkers only cannot be evaluated; their text is enough.
        signature = inspect.signature(function)
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return signature, False
    written = first.annotation
    named = isinstance(written, str) and written.rpartition(".")[2].strip("'\" ") == Context.__name__
    return signature, first.name == "ctx" or written is Context or named


def _sentence(function: Callable[..., object], refused: TypeError) -> str:
    signature, wants_context = _signature(function)
    names = list(signature.parameters)[1 if wants_context else 0 :]
    takes = f"it takes {', '.join(names)}" if names else "it takes no arguments"
    return f"{function.__qualname__}() cannot be called: {refused}; {takes}"


def _shown(value: object) -> str:
    """The value as one word: quoted if it is empty or contains a space, a quote or an equals sign."""
    text = str(value)
    if text and not any(character.isspace() or character in '"=' for character in text):
        return text
    return json.dumps(text, ensure_ascii=False)
