"""Replaces the addresses of replica set members in their replies, so that clients use proxies for all members.

A client asks each member with `hello` for the members of the set, and connects to these. The reply is one BSON document
in an OP_MSG, or in an OP_REPLY to the first question of a connection.

Source: the MongoDB wire protocol, <https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/>.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Any

import bson

from cronflow.testing.tcp_proxy import Replies

HEADER = struct.Struct("<iiii")
"""Length of the whole message, its id, the id of the question, the kind of message."""
OP_REPLY, OP_MSG = 1, 2013
BEFORE_DOCUMENT = {OP_REPLY: 20, OP_MSG: 5}
"""Bytes between the header and the first document: flags, cursor, position and count, or flags and kind of section."""
CHECKSUM_PRESENT = 1
NAMES = ("me", "primary")
LISTS = ("hosts", "passives", "arbiters")


def renaming(addresses: Mapping[str, str]) -> Replies:
    """Read the replies of a member, and replace the addresses in those to `hello`."""

    async def replies(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        while True:
            try:
                header = await reader.readexactly(HEADER.size)
                length, *_, kind = HEADER.unpack(header)
                body = await reader.readexactly(length - HEADER.size)
            except asyncio.IncompleteReadError:
                return
            if kind in BEFORE_DOCUMENT and b"\x04hosts\x00" in body and b"\x02setName\x00" in body:
                yield _renamed(header, body, kind, addresses)
            else:
                yield header + body

    return replies


def _renamed(header: bytes, body: bytes, kind: int, addresses: Mapping[str, str]) -> bytes:
    start = BEFORE_DOCUMENT[kind]
    before = bytearray(body[:start])
    if kind == OP_MSG:
        # The changed message has another checksum; without one the client does not check it.
        before[0] &= ~CHECKSUM_PRESENT
    document: dict[str, Any] = bson.decode(body[start:][: struct.unpack_from("<i", body, start)[0]])
    for name in NAMES:
        if name in document:
            document[name] = addresses.get(document[name], document[name])
    for name in LISTS:
        if name in document:
            document[name] = [addresses.get(host, host) for host in document[name]]
    changed = bytes(before) + bson.encode(document)
    _, request, response, kind = HEADER.unpack(header)
    return HEADER.pack(HEADER.size + len(changed), request, response, kind) + changed
