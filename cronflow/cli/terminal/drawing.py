"""Bars, curves, the progress bar of long commands, and live views that are redrawn while messages arrive.

The rules: the progress bar goes to stderr, only if that is a terminal, and is removed at the end. A live view shows
when it receives no more messages.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.text import Text

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import console, diagnostics, screen
from cronflow.domain.errors import BackendUnavailable, CronFlowError

if TYPE_CHECKING:
    from cronflow.schemas.stream import StreamMessage

REDRAWS_A_SECOND = 4
FINE_S, LATE_S = 3.0, 10.0

WORTH_A_BAR = 20
"""Fewer items than this finish too fast for a progress bar."""
_PARTS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"

Answer = TypeVar("Answer")


class View(Protocol):
    """A live view."""

    async def take(self, message: StreamMessage) -> None:
        """Update the view from a message."""

    def frame(self, width: int, height: int) -> Sequence[Text]:
        """The lines to draw."""


class Liveness:
    def __init__(self) -> None:
        self._at: float | None = None

    def beat(self) -> None:
        self._at = time.monotonic()

    def text(self) -> Text:
        """`live`, or the time since the last message."""
        age = None if self._at is None else time.monotonic() - self._at
        if age is None:
            shown = Text("◌ connecting", style=formatting.BLUE)
        elif age < FINE_S:
            shown = Text("● live", style=formatting.GREEN)
        else:
            shown = Text(
                f"! no updates for {age:.0f}s", style=formatting.ORANGE if age < LATE_S else f"bold {formatting.RED}"
            )
        return shown


async def draw(messages: AsyncGenerator[StreamMessage, None], view: View) -> None:
    """Draw until the messages end or the task is cancelled. The last frame stays on the screen."""
    from rich.live import Live

    out = screen()

    def frame() -> Text:
        lines = view.frame(out.width, out.height)
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines[: out.height - 1])

    async with aclosing(messages):
        with Live(get_renderable=frame, console=out, refresh_per_second=REDRAWS_A_SECOND, vertical_overflow="crop"):
            async for message in messages:
                await view.take(message)


async def unless_unavailable(asked: Awaitable[Answer]) -> Answer | None:
    """The answer; None while a server is unavailable, which the live view shows anyway."""
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
    return console().is_terminal


def justified(left: Text, right: Text, width: int) -> Text:
    """Two texts at the ends of one line, or only the left one if they do not fit."""
    gap = width - left.cell_len - right.cell_len
    return left if gap < 2 else Text.assemble(left, " " * gap, right)


def clock() -> str:
    return f"{times.now():%H:%M:%SZ}"


def hour(instant: str) -> str:
    return f"{datetime.fromisoformat(instant):%H:%M:%SZ}"


def bar(share: float, width: int, style: str) -> Text:
    """A bar, filled to this share with a precision of an eighth of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, rest = divmod(eighths, 8)
    filled = "█" * whole + (_PARTS[rest] if rest else "")
    return Text.assemble((filled, style), ("·" * (width - len(filled)), formatting.GRAY))


def curve(values: Sequence[float], width: int) -> str:
    """The last values as a curve; zero is a low line."""
    shown = [0.0] * max(0, width - len(values)) + list(values)[-width:]
    top = max(shown, default=0.0)
    if top <= 0:
        return _HEIGHTS[0] * width
    # Small values stay visible.
    return "".join(_HEIGHTS[0 if value <= 0 else max(1, round(value / top * 7))] for value in shown)


@contextmanager
def counted(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; call the result with the number of completed items."""
    out = diagnostics()
    if total < WORTH_A_BAR or not out.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    out.soft_wrap = False
    with Progress(*columns, console=out, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda more: shown.advance(task, more)
