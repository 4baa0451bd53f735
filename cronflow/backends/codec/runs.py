"""Runs, their places in chains, and late results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cronflow.backends.codec.values import (
    Document,
    amount,
    attempt_document,
    attempt_of,
    covers_of,
    given,
    placement_of,
    plain,
    resolution_of,
    split_of,
    waiting_of,
)
from cronflow.domain.backfill import FireOutline
from cronflow.domain.chain import ChainLink, UpstreamRun
from cronflow.domain.job import DEFAULT_PRIORITY
from cronflow.domain.run import AttemptResult, Kind, Outcome, Run, RunState
from cronflow.domain.split import Shard
from cronflow.ports import LateResult

_RUN_OPTIONAL = (
    "node", "check_at", "dispatched_at", "started_at", "ended_at", "start_id", "finish_id", "reason", "result_size",
    "error", "blocked_by", "replay_of", "cancel_reason", "cancel_by", "only_node",
)  # fmt: skip
_RUN_GIVEN = ("args", "result")
"""Of a user."""
NEWER_KINDS = frozenset({Kind.BACKFILL, Kind.AFTER, Kind.PART})
"""Each has a field of its own."""


def run_document(run: Run) -> Document:
    """A run's document, without None values."""
    document: Document = {
        "_id": run.id,
        "job": run.job,
        "fire_at": run.fire_at,
        # CronFlow 0.9 does not know the newer kinds, and reads such a run as a replay.
        "kind": (Kind.REPLAY if run.kind in NEWER_KINDS else run.kind).value,
        "state": run.state.value,
        "fence": run.fence,
        "term": run.term,
        "job_ver": run.job_ver,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "created_at": run.created_at,
        "priority": run.priority,
    }
    for name in (*_RUN_OPTIONAL, *_RUN_GIVEN, "backfill", "parent"):
        value = getattr(run, name)
        if value is not None:
            document[name] = value
    if run.backfill is not None:
        document["backfill"] = run.backfill
    if run.chain is not None:
        document["chain"] = chain_document(run.chain)
    # Indexes contain only those that are marked.
    marks = {
        "after": run.kind is Kind.AFTER,
        "open": run.is_open,
        "followed": run.followed,
        "cancel_requested": run.cancel_requested,
    }
    document |= {name: True for name, holds in marks.items() if holds}
    if run.covers is not None:
        document["covers"] = plain(run.covers)
    if run.outcome is not None:
        document["outcome"] = run.outcome.value
    if run.attempts:
        document["attempts"] = [attempt_document(attempt) for attempt in run.attempts]
    for name in ("placement", "waiting", "waited", "resolution", "reserved", "split", "shard"):
        if getattr(run, name) is not None:
            document[name] = plain(getattr(run, name))
    # Dead letters have partial indexes too.
    if run.is_dead:
        document["dead"] = document["untold"] = True
    return document


def run(document: Mapping[str, Any]) -> Run:
    outcome = document.get("outcome")
    return Run(
        id=document["_id"],
        job=document["job"],
        fire_at=document["fire_at"],
        kind=_kind(document),
        state=RunState(document["state"]),
        fence=document["fence"],
        term=document["term"],
        job_ver=document["job_ver"],
        attempt=document["attempt"],
        max_attempts=document["max_attempts"],
        created_at=document["created_at"],
        # Runs of 0.9 and earlier have none.
        priority=document.get("priority", DEFAULT_PRIORITY),
        covers=covers_of(document.get("covers")),
        outcome=None if outcome is None else Outcome(outcome),
        redispatches=document.get("redispatches", 0),
        vetoes=document.get("vetoes", 0),
        cancel_requested=document.get("cancel_requested", False),
        attempts=tuple(attempt_of(attempt) for attempt in document.get("attempts", ())),
        placement=placement_of(document.get("placement")),
        waiting=waiting_of(document.get("waiting")),
        waited=waiting_of(document.get("waited")),
        resolution=resolution_of(document.get("resolution")),
        reserved=amount(document.get("reserved")),
        followed=document.get("followed", False),
        chain=None if (chain := document.get("chain")) is None else chain_link(chain),
        split=split_of(document.get("split")),
        shard=None if (shard := document.get("shard")) is None else Shard(**shard),
        **{name: document.get(name) for name in _RUN_OPTIONAL},
        **{name: given(document.get(name)) for name in _RUN_GIVEN},
    )


def _kind(document: Mapping[str, Any]) -> Kind:
    if "backfill" in document:
        return Kind.BACKFILL
    if "parent" in document:
        return Kind.PART
    return Kind.AFTER if "after" in document else Kind(document["kind"])


def chain_document(link: ChainLink) -> Document:
    """The place of a run in its chain."""
    of = [{"job": one.job, "run": one.run, "state": one.state.value} for one in link.of]
    return {"id": link.id, "depth": link.depth, "of": of}


def chain_link(document: Mapping[str, Any]) -> ChainLink:
    of = tuple(UpstreamRun(one["job"], one["run"], RunState(one["state"])) for one in document["of"])
    return ChainLink(document["id"], document["depth"], of)


def outline(document: Mapping[str, Any]) -> FireOutline:
    """What the choice of instants of a backfill needs of a run."""
    covers = covers_of(document.get("covers"))
    return FireOutline(document["_id"], document["fire_at"], RunState(document["state"]), covers)


def late(document: Mapping[str, Any]) -> LateResult:
    attempt_result = AttemptResult(
        Outcome(document["outcome"]),
        given(document["result"]),
        document["error"],
        result_size=document.get("result_size"),
    )
    fields = {name: document[name] for name in ("run", "fence", "node", "at")}
    return LateResult(attempt_result=attempt_result, finish_id=document["_id"], **fields)
