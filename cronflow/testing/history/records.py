"""The records of a cluster's MongoDB at the end of a history, and every write of a run and of the control document.

The writes are read from the oplog, which has all writes in their order, so the judgement does not depend on what nodes
report. It bypasses the ports, and needs a MongoDB of its own, whose oplog contains the whole history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bson import Timestamp
from bson.codec_options import CodecOptions
from pymongo import MongoClient

from cronflow.backends import codec
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run, RunState
from cronflow.domain.version import Version
from cronflow.ports import LateResult
from cronflow.testing.history.history import Elected, Step

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What `History` takes from the store."""

    jobs: Sequence[JobRecord]
    earlier: Mapping[str, Sequence[Version]]
    runs: Sequence[Run]
    late: Sequence[LateResult]
    intents: Sequence[str]
    terms: Sequence[Elected]
    steps: Sequence[Step]


def read(url: str, namespace: str, *, prefix: str = "", since: datetime | None = None) -> Records:
    """The records of the jobs whose names begin with `prefix`, with the writes since an instant before their first one.

    Blocking. The nodes should have ended, or have nothing to do with these jobs any more.
    """
    options: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True)
    with MongoClient[dict[str, Any]](url) as client:
        database = client.get_database(f"cronflow_{namespace}", codec_options=options)
        oplog = client.get_database("local", codec_options=options)["oplog.rs"]
        # The system's own jobs have no handlers that write a sink, and fall due at midnight alone.
        own = {"$regex": f"^{re.escape(prefix)}", "$not": {"$regex": "^_sys:"}}
        jobs = [codec.record(document) for document in database["jobs"].find({"_id": own})]
        earlier: dict[str, list[Version]] = {job.name: [] for job in jobs}
        for version in sorted(map(codec.version, database["versions"].find()), key=lambda version: version.ver):
            if version.job.name in earlier:
                earlier[version.job.name].append(version)
        runs = [codec.run(document) for document in database["runs"].find({"job": {"$in": list(earlier)}})]
        names = {run.id for run in runs}
        return Records(
            jobs=jobs,
            earlier=earlier,
            runs=runs,
            late=[late for late in map(codec.late, database["late"].find()) if late.run in names],
            intents=[str(document["_id"]) for document in database["plans"].find()],
            terms=[
                Elected(document["term"], document["holder"].rpartition("#")[0])
                for name, _, document in _writes(oplog, f"{database.name}.control", since)
                # The first write since an instant may be a change of what is older.
                if name == "leader" and {"term", "holder"} <= document.keys()
            ],
            steps=[step for step in _steps(_writes(oplog, f"{database.name}.runs", since)) if step.run in names],
        )


def _writes(oplog: Any, collection: str, since: datetime | None) -> Iterator[tuple[str, datetime, Document]]:
    """The id, the time and the document as it then was, without what lies deeper in it, for each write."""
    documents: dict[str, dict[str, Any]] = {}
    query: dict[str, Any] = {"$or": [{"ns": collection}, {"o.applyOps.ns": collection}]}
    if since is not None:
        query["ts"] = {"$gte": Timestamp(since, 0)}
    for entry in oplog.find(query).sort("$natural", 1):
        for write in entry["o"]["applyOps"] if entry["op"] == "c" else [entry]:
            if write["op"] not in ("i", "u") or write["ns"] != collection:
                continue
            name = str(write.get("o2", write["o"])["_id"])
            documents[name] = _written(documents.get(name, {}), write["o"])
            yield name, entry["wall"], documents[name]


def _written(before: Document, write: Document) -> dict[str, Any]:
    """Either the whole document, or fields that were updated, inserted and deleted."""
    if "diff" not in write:
        return dict(write)
    diff = write["diff"]
    kept = {name: value for name, value in before.items() if name not in diff.get("d", {})}
    return {**kept, **diff.get("u", {}), **diff.get("i", {})}


def _steps(writes: Iterator[tuple[str, datetime, Document]]) -> Iterator[Step]:
    """A worker inserts a run that it has been given as its first record leaves it. That is two steps: the insert that
    any process may make, and its own.
    """
    known: set[str] = set()
    for run, at, document in writes:
        step = _step(run, at, document)
        if run not in known and step.state is not RunState.DISPATCHED and document.get("dispatched_at") is not None:
            yield replace(step, state=RunState.DISPATCHED, finish_id=None)
        known.add(run)
        yield step


def _step(run: str, at: datetime, document: Document) -> Step:
    return Step(
        run=run,
        at=at,
        state=RunState(document["state"]),
        fence=document["fence"],
        term=document["term"],
        job_ver=document["job_ver"],
        finish_id=document.get("finish_id"),
        node=document.get("node"),
    )
