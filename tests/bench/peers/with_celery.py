"""Celery: results are ignored, prefetching is high, workers do not talk to each other, and a worker executes tasks in
its own process (`solo`).
"""

from __future__ import annotations

import os

from celery import Celery

from tests.bench.peers.ledger import executed

WORKER = (
    *("-m", "celery", "--app", "tests.bench.peers.with_celery", "worker"),
    *("--pool", "solo", "--concurrency", "1"),
    *("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"),
)

app = Celery("peers", broker=os.environ["PEERS_REDIS_URL"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    worker_send_task_events=False,
    worker_disable_rate_limits=True,
)


@app.task
def no_op() -> None:
    executed()


def enqueue(count: int) -> None:
    for _ in range(count):
        no_op.delay()
