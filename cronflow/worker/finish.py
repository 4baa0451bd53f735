"""The end of an attempt as a worker writes it, and as a line of text that the spool keeps while MongoDB is away.

The rule it protects: what is read back is the same compare-and-set and the same late result, so that replaying is the
write that was meant, no more and no less. A result that is too large for its run's document is taken out of both and
goes beside them, once. It knows no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from cronflow.domain import transitions
from cronflow.domain.run import Attempt, AttemptResult, Outcome, RunState
from cronflow.domain.transitions import Change, ClaimedRun, Transition
from cronflow.ports import LargeResult, LateResult

VERSION = 3
OLD_ROWS: Mapping[int, Transition] = {
    6: Transition.FINISH,
    7: Transition.RETRY,
    8: Transition.GIVE_BACK,
    11: Transition.MARK_LOST,
}
"""The worker's transitions by their numbers in versions 1 and 2. Version 1 had no results stored apart."""
INLINE_BYTES = 8 * 1024
"""Up to this size of its JSON a result stands in the run's document, which is read again and again."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an attempt, to be written; `result` first, so that nobody finds a run without it."""

    change: Change
    late: LateResult
    result: LargeResult | None = None

    @classmethod
    def of(
        cls,
        claimed: ClaimedRun,
        attempt_result: AttemptResult,
        finish_id: str,
        started_at: datetime | None,
        at: datetime,
    ) -> Finish:
        """What follows from this ending."""
        text = b"" if attempt_result.result is None else orjson.dumps(attempt_result.result)
        result = None
        if len(text) > INLINE_BYTES:
            result = LargeResult(id=finish_id, run=claimed.run, text=text.decode())
            attempt_result = replace(attempt_result, result=None, result_size=len(text))
        late = LateResult(
            run=claimed.run,
            fence=claimed.fence,
            node=claimed.node,
            at=at,
            attempt_result=attempt_result,
            finish_id=finish_id,
        )
        return cls(transitions.finish(claimed, attempt_result, finish_id, started_at, at), late, result)

    def waited(self, now: datetime) -> Finish:
        """The same, written only now: what it still has to wait for its next attempt is less by as much."""
        if self.change.check_in is None:
            return self
        left = max(timedelta(0), self.change.check_in - max(timedelta(0), now - self.late.at))
        return replace(self, change=replace(self.change, check_in=left))


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
    """What `to_text` wrote. Raises ValueError, KeyError or TypeError when it is something else."""
    found = orjson.loads(text)
    if found["v"] not in (1, 2, VERSION):
        raise ValueError(f"version {found['v']} is not known")
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
        check_in=_seconds(found["check_in_s"]),
        sets={name: _untagged(*pair) for name, pair in found["sets"].items()},
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
    # JSON has neither times nor enums, and a job's result may look like anything: so each value says what it is.
    match value:
        case datetime():
            return "at", value
        case Outcome():
            return "outcome", value
        case _:
            return "json", value


def _untagged(tag: str, value: Any) -> object:
    match tag:
        case "at":
            return datetime.fromisoformat(value)
        case "outcome":
            return Outcome(value)
        case "json":
            return value
    raise ValueError(f"the kind {tag!r} is not known")


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
    )


def _seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)
