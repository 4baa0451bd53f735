"""The jobs of `cronflow chaos`: every kind of overlap, delivery, retry, limit, chain and split, and a burst.

They fall due some 15 times a second, and all jobs of the burst at the same instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from cronflow.domain.chain import On, Upstream
from cronflow.domain.concurrency import KeyedConcurrency
from cronflow.domain.job import Delivery, Job, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.split import RunOn

HANDLER = "cronflow.chaos.handlers:work"
MODULE = "cronflow.chaos.handlers"
TIMEOUT = timedelta(seconds=60)
BURST_EVERY_S = 20
"""All jobs of the burst are due at the multiples of this, in seconds since 1970."""
LIMIT = KeyedConcurrency("chaos", 3)
ALLOW, FORBID, QUEUE, REPLACE = Overlap.ALLOW, Overlap.FORBID, Overlap.QUEUE, Overlap.REPLACE


def the_jobs(sink: int, *, burst: int, name: str = "") -> list[Job]:
    """`sink` is the port of the sink, `burst` the number of jobs that are due at once; each name begins with `name`."""

    def job(kind: str, every: int | None, seconds: float, fails: int = 0, **fields: Any) -> Job:
        fields = {"retry": Retry(max=0), "overlap": ALLOW, **fields}
        return Job(
            name=name + kind,
            target=PythonTarget(HANDLER, {"sink": sink, "seconds": seconds, "fails": fails}),
            schedule=None if every is None else Every(f"{every}s"),
            timeout=TIMEOUT,
            **fields,
        )

    def after(*upstream: tuple[str, On]) -> Sequence[Upstream]:
        return tuple(Upstream(name + kind, on) for kind, on in upstream)

    retry = Retry(max=2, initial="1s")
    once = Delivery.AT_MOST_ONCE
    return [
        *(job(f"allow-{k}", k, 0.3) for k in (1, 2, 3)),
        *(job(f"forbid-{k}", k, 1.5, overlap=FORBID) for k in (1, 2)),
        *(job(f"queue-{k}", k, 0.5, overlap=QUEUE) for k in (2, 3)),
        *(job(f"replace-{k}", k, 2.5, overlap=REPLACE) for k in (2, 3)),
        *(job(f"retry-{k}", k, 0.2, 30, retry=retry) for k in (2, 3)),
        *(job(f"guard-{k}", k, 0.5, start_guard=StartGuard.MONGO) for k in (2, 3)),
        *(job(f"once-{k}", k, 0.8, delivery=once) for k in (1, 2)),
        job("once-queue", 3, 0.5, delivery=once, overlap=QUEUE),
        *(job(f"limited-{k}", k, 0.9, concurrency=(LIMIT,)) for k in (2, 3)),
        job("long", 10, 20.0),
        job("follower", None, 0.2, after=after(("queue-3", On.ENDED))),
        job("joined", None, 0.2, after=after(("follower", On.ENDED), ("guard-3", On.ENDED))),
        job("sharded", 6, 0.4, shards=3, overlap=FORBID),
        job("everywhere", 12, 0.4, run_on=RunOn.EVERY_NODE),
        *(job(f"burst-{k:03}", BURST_EVERY_S, 0.1) for k in range(burst)),
    ]
