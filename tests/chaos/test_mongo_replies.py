"""The replies of a replica set's members, with other addresses: the wire format is checked byte by byte."""

from __future__ import annotations

import asyncio
import struct

import bson
import pytest

from cronflow.chaos.mongo_replies import OP_MSG, OP_REPLY, renaming

ADDRESSES = {"127.0.0.1:1": "127.0.0.1:101", "127.0.0.1:2": "127.0.0.1:102"}
HELLO = {
    "setName": "rs0",
    "hosts": ["127.0.0.1:1", "127.0.0.1:2", "other:3"],
    "primary": "127.0.0.1:2",
    "me": "127.0.0.1:1",
    "ok": 1.0,
}


def message(document: dict[str, object], kind: int, *, checksum: bytes = b"") -> bytes:
    """A message of the server, as the protocol defines it."""
    flags = struct.pack("<i", 1 if checksum else 0)
    before = flags + b"\x00" if kind == OP_MSG else flags + struct.pack("<qii", 0, 0, 1)
    body = before + bson.encode(document) + checksum
    return struct.pack("<iiii", 16 + len(body), 7, 8, kind) + body


async def passed(*messages: bytes) -> list[bytes]:
    reader = asyncio.StreamReader()
    for one in messages:
        reader.feed_data(one)
    reader.feed_eof()
    return [data async for data in renaming(ADDRESSES)(reader)]


@pytest.mark.parametrize("kind", [OP_MSG, OP_REPLY])
async def test_a_member_introduces_the_others_by_the_addresses_of_the_proxies(kind: int) -> None:
    changed = HELLO | {
        "hosts": ["127.0.0.1:101", "127.0.0.1:102", "other:3"],
        "primary": "127.0.0.1:102",
        "me": "127.0.0.1:101",
    }
    assert await passed(message(HELLO, kind)) == [message(changed, kind)]


async def test_a_changed_message_has_no_checksum() -> None:
    (found,) = await passed(message(HELLO, OP_MSG, checksum=b"1234"))
    assert found == (await passed(message(HELLO, OP_MSG)))[0]


async def test_every_other_message_passes_unchanged() -> None:
    others = [
        message({"hosts": ["127.0.0.1:1"], "ok": 1.0}, OP_MSG),
        message({"setName": "rs0", "ok": 1.0}, OP_MSG),
        message(HELLO, 2012),
    ]
    assert await passed(*others) == others


async def test_a_connection_that_breaks_in_the_middle_of_a_message_ends() -> None:
    assert await passed(message(HELLO, OP_MSG)[:-1]) == []
    assert await passed(b"\x00") == []
