"""Frames between a node and a handler process: a length, and a JSON array of messages.

The messages of one pass of the event loop travel in one frame, so many short runs share a system call at each end.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from typing import Any

import orjson

FULL_BYTES = 64 * 1024
"""A frame of this size is written at once."""
MOST_BYTES = 64 * 1024 * 1024
"""No frame is larger. A larger length means that something else was written to the socket."""

_LENGTH = struct.Struct(">I")

Message = list[Any]


class BadFrame(Exception):
    """The other end did not write a frame."""


def frame(messages: list[bytes]) -> bytes:
    """One frame with these messages, each of which is JSON."""
    body = b"[" + b",".join(messages) + b"]"
    return _LENGTH.pack(len(body)) + body


class FrameWriter:
    """Collects messages and writes them as frames, in order."""

    def __init__(self, write: Callable[[bytes], object], loop: asyncio.AbstractEventLoop) -> None:
        self._write = write
        self._loop = loop
        self._waiting: list[bytes] = []
        self._size = 0

    def send(self, *message: object) -> None:
        """Send a message with the next frame. Raises TypeError if it is not JSON."""
        written = orjson.dumps(message)
        self._waiting.append(written)
        self._size += len(written)
        if self._size >= FULL_BYTES:
            self.flush()
        elif len(self._waiting) == 1:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was sent until now."""
        if self._waiting:
            messages, self._waiting, self._size = self._waiting, [], 0
            self._write(frame(messages))


class FrameReader:
    """Finds the messages in the data that arrives."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages of all frames that are complete now. Raises BadFrame."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            if length > MOST_BYTES:
                raise BadFrame(f"a frame of {length:,} bytes")
            end = _LENGTH.size + length
            if len(self._data) < end:
                return
            body = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            try:
                messages = orjson.loads(body)
            except orjson.JSONDecodeError as error:
                raise BadFrame(str(error)) from None
            if not isinstance(messages, list) or not all(isinstance(message, list) for message in messages):
                raise BadFrame("no array of messages")
            yield from messages
