"""Joining what is stored of a run with what comes live: no line twice, none out of order, none left out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from cronflow.client.following import follow_run

TOPIC = "run:a@1"


def line(n: int, fence: int = 7) -> dict[str, Any]:
    return {"fence": fence, "n": n, "text": f"{fence}.{n}"}


def tick(*lines: dict[str, Any], gap: int | None = 0) -> dict[str, Any]:
    chunks = [{"topic": TOPIC, "gap": gap, "lines": [*lines]}] if lines or gap != 0 else []
    return {"t": "tick", "logs": [{"topic": "logs", "gap": None, "lines": [line(99)]}, *chunks]}


class Stored:
    """What is stored at each tick, one after another; the run has ended at the last. `reads`: the places asked for."""

    def __init__(self, *stored: Sequence[dict[str, Any]]) -> None:
        self.stored = list(stored)
        self.reads: list[tuple[int, int]] = []
        self.at = -1

    async def run(self) -> Any:
        self.at += 1
        over = self.at == len(self.stored) - 1
        state = "succeeded" if over else "running"
        return {"state": state, "attempt": 1, "node": "n#1", "ended_at": "…" if over else None}

    async def lines(self, after: tuple[int, int]) -> Any:
        self.reads.append(after)
        found = [one for one in self.stored[self.at] if (one["fence"], one["n"]) > after]
        return found[:2], len(found) > 2


async def told(stored: Stored, *ticks: dict[str, Any]) -> list[str]:
    async def messages() -> AsyncGenerator[Any, None]:
        yield {"t": "snap"}
        for one in ticks:
            yield one

    found = follow_run(TOPIC, messages(), stored)
    return [one["line"]["text"] if one["t"] == "line" else one["run"]["state"] async for one in found]


async def test_what_comes_live_in_order_is_not_read_again() -> None:
    begun, more = [line(0), line(1), line(2)], [line(n) for n in range(5)]
    stored = Stored(begun, begun, more)
    assert await told(stored, tick(line(2), line(3), line(4)), tick()) == [
        *("running", "7.0", "7.1", "7.2", "7.3", "7.4", "succeeded")
    ]
    assert stored.reads == [(0, -1), (7, 1), (7, 4)]


async def test_a_hole_a_gap_and_another_attempt_are_read_in_order() -> None:
    first = [line(0)]
    second = [*first, line(1), line(2)]
    third = [*second, line(3)]
    fourth = [*third, line(4), line(0, 8), line(1, 8)]
    stored = Stored(first, second, third, fourth, fourth)
    ticks = [tick(line(2)), tick(gap=1), tick(line(0, 8), line(1, 8)), tick()]
    assert await told(stored, *ticks) == [
        *("running", "7.0", "7.1", "7.2", "7.3", "7.4", "8.0", "8.1", "succeeded"),
    ]
    assert stored.reads == [(0, -1), (7, 0), (7, 2), (7, 3), (8, 0), (8, 1)]


async def test_lines_that_are_stored_only_when_it_has_ended_come_before_its_end() -> None:
    stored = Stored([], [], [line(0), line(1), line(2), line(3)])
    assert await told(stored, tick(), tick(line(3))) == ["running", "7.0", "7.1", "7.2", "7.3", "succeeded"]
