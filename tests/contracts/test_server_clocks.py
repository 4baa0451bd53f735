"""The servers' clocks return UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from cronflow.bootstrap.backends import connect


async def test_both_servers_return_the_time_in_utc(redis_url: str, mongo_url: str, namespace: str) -> None:
    connected = connect(redis_url, mongo_url, namespace)
    async with connected.lifetime:
        for source in ("Redis", "MongoDB"):
            before = datetime.now(UTC)
            shown = await connected.backends.server_clocks[source].now()
            after = datetime.now(UTC)
            assert shown.utcoffset() is not None
            # MongoDB shows milliseconds; both run on this machine.
            assert (before - shown).total_seconds() < 0.002, source
            assert (shown - after).total_seconds() < 0.002, source
