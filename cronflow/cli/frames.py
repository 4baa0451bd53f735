"""A view that is drawn again and again while messages come, on a terminal; elsewhere a line for what is new.

The rule: a view that gets no messages any more says so; it never looks alive when it is not.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.output import console, screen
from cronflow.domain.errors import BackendUnavailable, CronFlowError

if TYPE_CHECKING:
    from cronflow.schemas.stream import StreamMessage

REDRAWS_A_SECOND = 4
FINE_S, LATE_S = 3.0, 10.0

Answer = TypeVar("Answer")


class View(Protocol):
    """What is drawn."""

    async def take(self, message: StreamMessage) -> None:
        """Change by a message."""

    def frame(self, width: int, height: int) -> Sequence[Text]:
        """The lines to draw."""


class Pulse:
    """Whether messages come."""

    def __init__(self) -> None:
        self._at: float | None = None

    def beat(self) -> None:
        """One came."""
        self._at = time.monotonic()

    def text(self) -> Text:
        """A word for it, and the time of this machine."""
        age = None if self._at is None else time.monotonic() - self._at
        if age is None:
            shown = Text("◌ connecting", style=words.BLUE)
        elif age < FINE_S:
            shown = Text("● live", style=words.GREEN)
        else:
            shown = Text(f"! no news for {age:.0f}s", style=words.ORANGE if age < LATE_S else f"bold {words.RED}")
        return shown


async def draw(messages: AsyncGenerator[StreamMessage, None], view: View) -> None:
    """Until the messages end, or this is cancelled; the last frame stays."""
    from rich.live import Live

    out = screen()

    def frame() -> Text:
        lines = view.frame(out.width, out.height)
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines[: out.height - 1])

    async with aclosing(messages):
        with Live(get_renderable=frame, console=out, refresh_per_second=REDRAWS_A_SECOND, vertical_overflow="crop"):
            async for message in messages:
                await view.take(message)


async def unless_away(asked: Awaitable[Answer]) -> Answer | None:
    """The answer; None while a server is away, which the messages tell too."""
    try:
        return await asked
    except BackendUnavailable:
        return None
    except CronFlowError as error:
        from cronflow.client.places import AWAY

        if getattr(error, "status", None) in AWAY:
            return None
        raise


def drawn() -> bool:
    """Whether stdout is a terminal."""
    return console().is_terminal


def beside(left: Text, right: Text, width: int) -> Text:
    """Both on one line, at its two ends, if there is room."""
    gap = width - left.cell_len - right.cell_len
    return left if gap < 2 else Text.assemble(left, " " * gap, right)


def clock() -> str:
    """Now, for the head of a view."""
    return f"{times.now():%H:%M:%SZ}"


def hour(instant: str) -> str:
    """An instant of a shape, within the day."""
    return f"{datetime.fromisoformat(instant):%H:%M:%SZ}"
