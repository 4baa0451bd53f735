"""Servers and processes of every kind, until pytest is killed: run by `tests/test_children.py`, not collected."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cronflow.testing.embedded import RedisServer
from tests.children import cluster_environment
from tests.forked import process
from tests.redis_topologies import sentinels


async def test_everything_runs_until_the_end(
    redis_url: str, mongo_url: str, own_redis: RedisServer, namespace: str, tmp_path: Path
) -> None:
    environment = cluster_environment(redis_url, mongo_url, namespace)
    with sentinels(tmp_path), process(["cronflow", "node"], environment, tmp_path / "node.log"):
        (tmp_path / "up").touch()
        await asyncio.Event().wait()
