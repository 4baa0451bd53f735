"""Dramatiq with its Redis broker: worker threads, and a consumer thread that fetches ahead of them.

How far ahead decides how fast it is. The default, twice the number of threads, suits longer tasks.
"""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.bench.peers.ledger import executed

os.environ.setdefault("dramatiq_queue_prefetch", "1000")
WORKER = ("-m", "dramatiq", "tests.bench.peers.with_dramatiq", "--processes", "1", "--threads", "8")

broker = RedisBroker(url=os.environ["PEERS_REDIS_URL"])
dramatiq.set_broker(broker)


@dramatiq.actor
def no_op() -> None:
    executed()


def enqueue(count: int) -> None:
    for _ in range(count):
        no_op.send()
