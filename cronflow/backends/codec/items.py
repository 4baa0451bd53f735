"""Items of a node's list in Redis."""

from __future__ import annotations

from datetime import datetime

import orjson

from cronflow.backends.codec.definitions import definition, job_of_definition
from cronflow.backends.codec.jobs import pending_run_document, pending_run_of
from cronflow.backends.codec.runs import chain_document, chain_link
from cronflow.backends.codec.values import Document, plain
from cronflow.domain.job import PendingRun
from cronflow.domain.split import Shard
from cronflow.ports import Assignment

US = "\x1f"


def item(assignment: Assignment) -> bytes:
    """An item of a node's list: the fields that scripts read, the other fields as JSON, the stored definition."""
    head = (assignment.job.name, assignment.run, str(assignment.fence), str(assignment.term), assignment.job_lock.slot)
    rest: Document = {"attempt": assignment.attempt, "fire_at": assignment.fire_at, "args": dict(assignment.args)}
    if assignment.pending_run is not None:
        rest["pend"] = pending_run_document(assignment.pending_run)
    if assignment.not_before is not None:
        rest["not_before"] = assignment.not_before
    if assignment.requested_at is not None:
        rest["requested_at"] = assignment.requested_at
    if assignment.chain is not None:
        rest["chain"] = chain_document(assignment.chain)
    if assignment.shard is not None:
        rest["shard"] = plain(assignment.shard)
    return US.join((*head, orjson.dumps(rest).decode(), definition(assignment.job))).encode()


def start_by_ms(item: bytes) -> int:
    """The deadline in front of an item as `take` returns it."""
    return int(item[: item.index(US.encode())])


def assignment(text: bytes) -> Assignment:
    """The assignment in an item as `take` returns it: with the deadline in front."""
    _, _, run_id, fence, term, _, rest, job = text.decode().split(US, 7)
    fields = orjson.loads(rest)
    return Assignment(
        run=run_id,
        fence=int(fence),
        term=int(term),
        attempt=fields["attempt"],
        fire_at=datetime.fromisoformat(fields["fire_at"]),
        args=fields["args"],
        job=job_of_definition(job),
        pending_run=None if (pend := fields.get("pend")) is None else _pending_run_of_json(pend),
        not_before=None if (at := fields.get("not_before")) is None else datetime.fromisoformat(at),
        requested_at=None if (at := fields.get("requested_at")) is None else datetime.fromisoformat(at),
        chain=None if (chain := fields.get("chain")) is None else chain_link(chain),
        shard=None if (shard := fields.get("shard")) is None else Shard(**shard),
    )


def _pending_run_of_json(document: Document) -> PendingRun:
    """JSON has no times."""
    times = {name: datetime.fromisoformat(document[name]) for name in ("fire", "at")}
    covers = document["covers"]
    if covers is not None:
        covers |= {name: datetime.fromisoformat(covers[name]) for name in ("first", "last")}
    waited = document.get("waited")
    if waited is not None:
        waited |= {name: datetime.fromisoformat(waited[name]) for name in ("fire", "since")}
    return pending_run_of(document | times)
