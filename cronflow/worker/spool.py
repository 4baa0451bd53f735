"""The spool: outcomes on the local disk while MongoDB is unavailable, and their text format.

Rules: a worker returns a job lock only after the outcome is on the disk. Outcomes are replayed in order, and each is
removed only after MongoDB has acknowledged it, so only the loss of the disk loses one. A record that is read back is
the same compare-and-set and the same late result that would have been written.

The recorder decides when to spool and when to replay. A disk that takes no outcome is an outage like any other
(BackendUnavailable), which the role loop reports once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import orjson
import structlog

from cronflow.domain import transitions
from cronflow.domain.cluster import Backlog
from cronflow.domain.errors import BackendUnavailable, Conflict
from cronflow.domain.placement import Waiting
from cronflow.domain.run import Attempt, AttemptResult, NodeTimes, Outcome, ResourceUse, Run, RunState
from cronflow.domain.storable import fits_document, storable_text
from cronflow.domain.transitions import Change, ClaimedRun, Transition
from cronflow.ports import Clock, LargeResult, LateResult
from cronflow.worker.spool_segments import SEGMENT_BYTES, Segments

MOST_BYTES = 512 * 1024 * 1024
MOST_RECORDS = 200_000
LOCK_PATIENCE_S = 10.0
LOCK_POLL_S = 0.25
SERVICE = "the spool"
VERSION = 3
OLD_ROWS: Mapping[int, Transition] = {
    6: Transition.FINISH,
    7: Transition.RETRY,
    8: Transition.GIVE_BACK,
    11: Transition.MARK_LOST,
}
"""The worker's transitions by their numbers in versions 1 and 2. Version 1 had no large results."""
INLINE_BYTES = 8 * 1024
"""A result whose JSON is larger is stored outside of the run's document, which is read often. So is one that a document
cannot hold.
"""

log = structlog.get_logger("cronflow.node")


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an attempt, to be written: `result` first, so that a run never refers to a missing result. `pending`
    is as in RunWrite, and is not spooled.
    """

    change: Change
    late: LateResult
    result: LargeResult | None = None
    pending: Run | None = None

    @classmethod
    def of(
        cls,
        claimed: ClaimedRun,
        attempt_result: AttemptResult,
        finish_id: str,
        started_at: datetime | None,
        at: datetime,
        pending: Run | None = None,
        stopped: str | None = None,
        times: NodeTimes | None = None,
    ) -> Finish:
        """`stopped` and `times` are as in `transitions.finish`."""
        if attempt_result.error is not None:
            attempt_result = replace(attempt_result, error=storable_text(attempt_result.error))
        text = b"" if attempt_result.result is None else orjson.dumps(attempt_result.result)
        result = None
        if len(text) > INLINE_BYTES or not fits_document(attempt_result.result):
            result = LargeResult(id=finish_id, run=claimed.run, text=text.decode())
            attempt_result = replace(attempt_result, result=None, result_size=len(text))
        late = late_result(claimed, attempt_result, finish_id, at)
        change = transitions.finish(claimed, attempt_result, finish_id, started_at, at, stopped=stopped, times=times)
        return cls(change, late, result, pending)

    def waited(self, now: datetime) -> Finish:
        """The same finish written at `now`: the delay of the next attempt is shortened by the time in the spool."""
        if self.change.check_in is None:
            return self
        left = max(timedelta(0), self.change.check_in - max(timedelta(0), now - self.late.at))
        return replace(self, change=replace(self.change, check_in=left))


def late_result(claimed: ClaimedRun, attempt_result: AttemptResult, finish_id: str, at: datetime) -> LateResult:
    """What is kept of an outcome if its run has moved on."""
    return LateResult(
        run=claimed.run,
        fence=claimed.fence,
        node=claimed.node,
        at=at,
        attempt_result=attempt_result,
        finish_id=finish_id,
    )


class Offload(Protocol):
    """Runs a blocking function outside of the event loop, for example `asyncio.to_thread`."""

    def __call__(self, act: Callable[..., Any], /, *args: Any) -> Awaitable[Any]: ...


class Spool:
    """The spool of one node, in a folder that no other process uses. An async context manager.

    Entering raises Conflict when another process uses the folder. A folder that is unusable for another reason is
    logged and tried again with each outcome.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        most_bytes: int = MOST_BYTES,
        most_records: int = MOST_RECORDS,
        segment_bytes: int = SEGMENT_BYTES,
        offload: Offload = asyncio.to_thread,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._most_bytes = most_bytes
        self._most_records = most_records
        self._offload = offload
        self._segments = Segments(folder, segment_bytes=segment_bytes)
        self._since: datetime | None = None

    async def __aenter__(self) -> Self:
        deadline = self._clock.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                await self._offload(self._segments.open)
            except BlockingIOError:
                # The previous owner may be about to exit, or a neighbour may be checking the folder.
                if self._clock.monotonic() >= deadline:
                    raise Conflict(f"another process uses the spool in {self._folder}") from None
                await self._clock.sleep(LOCK_POLL_S)
            except OSError as error:
                log.error(
                    "spool not usable",
                    folder=str(self._folder),
                    reason=error.strerror,
                    remedy="set SPOOL_DIR to a folder that this process may write",
                )
                break
            else:
                break
        if self.pending:
            log.warning("spool found", folder=str(self._folder), outcomes=self.pending)
            oldest = await self.read(1)
            self._since = oldest[0].late.at if oldest else self._clock.now()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._offload(self._segments.close)

    @property
    def pending(self) -> int:
        """How many outcomes wait here for MongoDB."""
        return self._segments.lines

    @property
    def backlog(self) -> Backlog:
        """Number, size and age of the outcomes. May be read from any thread."""
        return Backlog(self._segments.lines, self._segments.bytes, self._since)

    @property
    def full(self) -> bool:
        """Whether the worker should take no more runs. Outcomes of running ones are still accepted."""
        return self._segments.lines >= self._most_records or self._segments.bytes >= self._most_bytes

    async def append(self, finishes: Sequence[Finish]) -> None:
        """Store these outcomes; they are on the disk when this returns. Raises BackendUnavailable and stores none."""
        lines = [to_text(finish) for finish in finishes]

        def store() -> None:
            self._segments.open()
            self._segments.append(lines)

        await self._on_disk(store)
        self._since = self._since or finishes[0].late.at

    async def read(self, most: int) -> list[Finish]:
        """The oldest outcomes, possibly fewer than `most`; none if all that were read are damaged. Raises
        BackendUnavailable.
        """
        found = []
        for line in await self._on_disk(self._segments.read, most):
            try:
                found.append(from_text(line))
            except (ValueError, KeyError, TypeError) as error:
                await self._on_disk(self._segments.set_aside, line, f"it cannot be read: {error!r}")
        return found

    async def acknowledge(self) -> None:
        """Remove what `read` returned last. Raises BackendUnavailable."""
        await self._on_disk(self._segments.acknowledge)
        if not self.pending:
            self._since = None

    async def set_aside(self, finish: Finish, why: str) -> None:
        """Move a record that would block all others to a `.bad` file. Raises BackendUnavailable."""
        await self._on_disk(self._segments.set_aside, to_text(finish), why)

    async def _on_disk(self, act: Callable[..., Any], *args: object) -> Any:
        try:
            return await self._offload(act, *args)
        except OSError as error:
            raise BackendUnavailable(SERVICE, str(self._folder), error.strerror or repr(error)) from error


def to_text(finish: Finish) -> bytes:
    """One line of JSON, without the newline."""
    change, late, attempt_result = finish.change, finish.late, finish.late.attempt_result
    return orjson.dumps(
        {
            "v": VERSION,
            "run": change.run,
            "transition": change.transition,
            "sources": sorted(change.sources),
            "target": change.target,
            "fence": change.fence,
            "job_ver": change.job_ver,
            "below_ver": change.below_ver,
            "only_when_due": change.only_when_due,
            "own_start": change.own_start,
            "check_in_s": None if change.check_in is None else change.check_in.total_seconds(),
            "sets": {name: _tagged(value) for name, value in change.sets.items()},
            "attempt": change.attempt,
            "proof": change.proof,
            "late": {
                "run": late.run,
                "fence": late.fence,
                "node": late.node,
                "at": late.at,
                "finish_id": late.finish_id,
                "outcome": attempt_result.outcome,
                "result": attempt_result.result,
                "result_size": attempt_result.result_size,
                "error": attempt_result.error,
                "delay_s": None if attempt_result.delay is None else attempt_result.delay.total_seconds(),
            },
            "result": None if finish.result is None else finish.result.text,
        }
    )


def from_text(text: bytes) -> Finish:
    """The reverse of `to_text`. Raises ValueError, KeyError or TypeError for any other text."""
    found = orjson.loads(text)
    if found["v"] not in (1, 2, VERSION):
        raise ValueError(f"unknown version {found['v']}")
    late, large = found["late"], found.get("result")
    change = Change(
        run=found["run"],
        transition=Transition(found["transition"]) if found["v"] == VERSION else OLD_ROWS[found["row"]],
        sources=frozenset(RunState(state) for state in found["sources"]),
        target=RunState(found["target"]),
        fence=found["fence"],
        job_ver=found["job_ver"],
        below_ver=found["below_ver"],
        only_when_due=found["only_when_due"],
        # Older releases did not compare it.
        own_start=found.get("own_start"),
        check_in=_seconds(found["check_in_s"]),
        sets={name: _read(name, *pair) for name, pair in found["sets"].items()},
        attempt=None if found["attempt"] is None else _attempt(found["attempt"]),
        proof=None if found["proof"] is None else (found["proof"][0], found["proof"][1]),
    )
    return Finish(
        change,
        LateResult(
            run=late["run"],
            fence=late["fence"],
            node=late["node"],
            at=datetime.fromisoformat(late["at"]),
            attempt_result=AttemptResult(
                Outcome(late["outcome"]),
                late["result"],
                late["error"],
                _seconds(late["delay_s"]),
                late.get("result_size"),
            ),
            finish_id=late["finish_id"],
        ),
        None if large is None else LargeResult(id=late["finish_id"], run=late["run"], text=large),
    )


def _tagged(value: object) -> tuple[str, object]:
    # JSON has neither times nor enums, and a job's result may look like either, so each value carries its type.
    match value:
        case datetime():
            return "at", value
        case Outcome():
            return "outcome", value
        case _:
            return "json", value


def _read(name: str, tag: str, value: Any) -> object:
    # The tag does not tell it from a dict, because no release knows another tag.
    return _waiting(value) if name == "waiting" and value is not None else _untagged(tag, value)


def _waiting(found: Mapping[str, Any]) -> Waiting:
    return Waiting(
        fire=datetime.fromisoformat(found["fire"]),
        since=datetime.fromisoformat(found["since"]),
        reason=found["reason"],
        blocked_by=found["blocked_by"],
        nodes=tuple((node, reason) for node, reason in found["nodes"]),
        more=found["more"],
    )


def _untagged(tag: str, value: Any) -> object:
    match tag:
        case "at":
            return datetime.fromisoformat(value)
        case "outcome":
            return Outcome(value)
        case "json":
            return value
    raise ValueError(f"unknown type {tag!r}")


def _attempt(found: Mapping[str, Any]) -> Attempt:
    started_at = found["started_at"]
    return Attempt(
        found["n"],
        found["fence"],
        found["node"],
        None if started_at is None else datetime.fromisoformat(started_at),
        datetime.fromisoformat(found["ended_at"]),
        Outcome(found["outcome"]),
        found["error"],
        _times(found.get("times")),
        None if (used := found.get("used")) is None else ResourceUse(**used),
    )


def _times(found: Mapping[str, str] | None) -> NodeTimes | None:
    if found is None:
        return None
    return NodeTimes(**{name: datetime.fromisoformat(at) for name, at in found.items()})


def _seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)
