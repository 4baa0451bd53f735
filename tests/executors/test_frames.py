"""Frames between a node and a handler process."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronflow.executors.pool.frames import FULL_BYTES, MOST_BYTES, BadFrame, FrameReader, FrameWriter, frame

messages = st.lists(st.lists(st.integers(-(2**53), 2**53) | st.text() | st.none(), max_size=3), max_size=5)


@given(frames=st.lists(messages, max_size=4), cut=st.integers(1, 9))
def test_messages_arrive_in_order_however_the_data_is_cut(frames: list[list[list[object]]], cut: int) -> None:
    data = b"".join(frame([orjson.dumps(message) for message in one]) for one in frames)
    reader = FrameReader()
    found = [message for k in range(0, len(data), cut) for message in reader.feed(data[k : k + cut])]
    assert found == [message for one in frames for message in one]


async def test_the_messages_of_one_pass_of_the_loop_are_one_write() -> None:
    written: list[bytes] = []
    writer = FrameWriter(written.append, asyncio.get_running_loop())
    for n in range(100):
        writer.send("ended", n)
    assert written == []
    await asyncio.sleep(0)
    writer.send("pong")
    await asyncio.sleep(0)
    reader = FrameReader()
    assert [len(list(reader.feed(data))) for data in written] == [100, 1]


async def test_a_full_frame_is_written_at_once_and_in_order() -> None:
    written: list[bytes] = []
    writer = FrameWriter(written.append, asyncio.get_running_loop())
    writer.send("first")
    writer.send("x" * FULL_BYTES)
    assert len(written) == 1
    writer.send("last")
    await asyncio.sleep(0)
    reader = FrameReader()
    assert [list(reader.feed(data)) for data in written] == [[["first"], ["x" * FULL_BYTES]], [["last"]]]


async def test_a_message_that_is_not_json_is_refused_alone() -> None:
    written: list[bytes] = []
    writer = FrameWriter(written.append, asyncio.get_running_loop())
    writer.send("before")
    with pytest.raises(TypeError):
        writer.send({1, 2})
    writer.flush()
    assert list(FrameReader().feed(written[0])) == [["before"]]


@pytest.mark.parametrize(
    "data",
    [
        (MOST_BYTES + 1).to_bytes(4, "big"),
        b"\x00\x00\x00\x03abc",
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x03[1]",
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(BadFrame):
        list(FrameReader().feed(data))
