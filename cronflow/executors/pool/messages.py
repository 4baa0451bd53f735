"""What a node and a handler process send each other, as JSON. `n` numbers an attempt or a question of the node.

node to process                            process to node
["open", options]       first of all       ["ready", modules]      the Apps are loaded; these have functions
["run", n, attempt]                        ["refused", problems]   the Apps cannot be loaded; the process ends
["cancel", n]                              ["line", n, level, text]
["resolve", n, ref]                        ["ended", n, result]    null: it was cancelled
["ping"]                                   ["resolved", n, result] null: the function exists and is allowed
["close"]               end in order       ["pong"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from cronflow.domain.chain import ChainLink
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.run import AttemptResult, Outcome, ResourceUse
from cronflow.domain.split import Shard
from cronflow.domain.storable import storable_text
from cronflow.ports import Assignment

LONGEST_TEXT = 1_000_000
"""In characters."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerOptions:
    """What a handler process needs to know. None of it is a secret.

    `apps` are addresses of Apps, `allow_python` further modules whose functions may be called, `path` is the import
    path; `threads` and `grace_s` are those of a PythonExecutor; `node` is the name of the node, for the log.
    """

    apps: Sequence[str] = ()
    allow_python: Sequence[str] = ()
    path: Sequence[str] = ()
    threads: int = 16
    grace_s: float = 10.0
    node: str = ""
    log_level: str = "info"
    log_format: str | None = None

    def document(self) -> Document:
        return asdict(self)


def attempt_document(assignment: Assignment, node: str) -> Document:
    """The part of an assignment that a handler process needs. The args are those of the job and of the run."""
    job, target = assignment.job, assignment.job.target
    assert isinstance(target, PythonTarget)
    return {
        "ref": target.ref,
        "args": {**target.args, **assignment.args},
        "run": assignment.run,
        "job": job.name,
        "fire_at": assignment.fire_at,
        "attempt": assignment.attempt,
        "fence": assignment.fence,
        "term": assignment.term,
        "chain": None if assignment.chain is None else assignment.chain.id,
        "timeout_s": job.timeout.total_seconds(),
        "node": node,
        "shard": None if assignment.shard is None else [assignment.shard.index, assignment.shard.total],
    }


def assignment_of(document: Mapping[str, Any]) -> Assignment:
    return Assignment(
        run=document["run"],
        fence=document["fence"],
        term=document["term"],
        attempt=document["attempt"],
        fire_at=datetime.fromisoformat(document["fire_at"]),
        args=document["args"],
        chain=None if (chain := document["chain"]) is None else ChainLink(chain, 0),
        job=_job(document["job"], document["ref"], document["timeout_s"]),
        shard=None if document["shard"] is None else Shard(*document["shard"]),
    )


@lru_cache(maxsize=4096)
def _job(name: str, ref: str, timeout_s: float) -> Job:
    return Job(name=name, target=PythonTarget(ref), timeout=timedelta(seconds=timeout_s))


def result_document(attempt_result: AttemptResult) -> Document:
    document: Document = {"outcome": attempt_result.outcome}
    if attempt_result.result is not None:
        document["result"] = attempt_result.result
    if attempt_result.error is not None:
        document["error"] = valid_text(attempt_result.error)
    if attempt_result.delay is not None:
        document["delay"] = attempt_result.delay.total_seconds()
    if attempt_result.error_classes:
        document["error_classes"] = [valid_text(name) for name in attempt_result.error_classes]
    if attempt_result.used is not None:
        document["used"] = asdict(attempt_result.used)
    return document


def attempt_result_of(document: Mapping[str, Any]) -> AttemptResult:
    delay = document.get("delay")
    return AttemptResult(
        Outcome(document["outcome"]),
        result=document.get("result"),
        error=document.get("error"),
        delay=None if delay is None else timedelta(seconds=delay),
        error_classes=tuple(document.get("error_classes", ())),
        used=None if (used := document.get("used")) is None else ResourceUse(**used),
    )


def valid_text(text: str) -> str:
    """The text as JSON can represent it, and not so long that it fills a frame. The log of a run and its error keep far
    less.
    """
    return storable_text(text[:LONGEST_TEXT])
