"""Compressed messages of the live stream: the same as without, and compressed once for all sockets."""

from __future__ import annotations

import zlib
from typing import Any

import orjson
import pytest

from cronflow.domain.events import NodeLeft
from cronflow.live.session import MOST_BEHIND, StreamSession
from cronflow.node.event_log import EventLog
from tests.live.test_hub import a_bench, a_line, messages


def sent(session: StreamSession) -> list[str | bytes]:
    """All that can be sent now."""
    found = []
    while (message := session._ready()) is not None:
        found.append(message)
    return found


def unpacked(message: str | bytes) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(zlib.decompress(message) if isinstance(message, bytes) else message)
    return found


async def test_a_compressed_session_gets_the_messages_of_any_other_and_far_fewer_bytes() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(60)
        plain, packed = hub.open(None), hub.open(None, compressed=True)
        events = EventLog(bench.backends.events, bench.backends.feed, bench.clock, "n1")
        events.emit(NodeLeft("n2"))
        await events.flush()
        wanted, found = await messages(plain), sent(packed)
        await bench.elapse(5)
        wanted, found = wanted + await messages(plain), found + sent(packed)
        assert [unpacked(message) for message in found] == wanted
        assert [message["t"] for message in wanted] == ["snap", *["tick"] * 5]
        assert all(isinstance(message, bytes) for message in found)
        assert sum(map(len, found)) * 3 < sum(len(orjson.dumps(message)) for message in wanted)


async def test_a_message_is_compressed_once_for_all_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed = []
    compress = zlib.compress

    def counted(data: bytes) -> bytes:
        compressed.append(data)
        return compress(data)

    monkeypatch.setattr(zlib, "compress", counted)
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(5)
        hub.open(None)
        await bench.elapse(5)
        assert compressed == [], "nobody asked for it"
        sessions = [hub.open(None, compressed=True) for _ in range(20)]
        for session in sessions:
            sent(session)
        await bench.elapse(3)
        for session in sessions:
            sent(session)
        assert len(compressed) == 1 + 3


async def test_what_is_one_sockets_own_is_not_compressed() -> None:
    async with a_bench() as bench:
        hub = await bench.replica()
        await bench.elapse(2)
        session, other = hub.open(None, compressed=True), hub.open(None, compressed=True)
        sent(session)
        sent(other)
        await hub.following.subscribe(session, "run:r@1", 0)
        await bench.write(a_line(0))
        await bench.elapse(1)
        [tick], [without] = sent(session), sent(other)
        assert isinstance(tick, str)
        assert isinstance(without, bytes)
        assert [line["text"] for chunk in unpacked(tick)["logs"] for line in chunk["lines"]] == ["r@1 7.0"]
        assert unpacked(without)["logs"] == []
        await bench.elapse(MOST_BEHIND + 5)
        [late] = sent(other)
        assert unpacked(late)["dropped"] > MOST_BEHIND
        await bench.elapse(1)
        session.send({"t": "error"})
        assert '{"t":"error"}' in sent(session)
