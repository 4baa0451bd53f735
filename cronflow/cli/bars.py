"""Bars and curves of text, and how far a command is that takes long.

The rule: how far a command is goes to stderr, only where that is a terminal, and leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.text import Text

from cronflow.cli.output import diagnostics
from cronflow.cli.words import GRAY

WORTH = 20
"""Fewer than so many are done before anybody looks."""
_PARTS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int, style: str) -> Text:
    """A bar of this width, filled to that share, to an eighth of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, rest = divmod(eighths, 8)
    filled = "█" * whole + (_PARTS[rest] if rest else "")
    return Text.assemble((filled, style), ("·" * (width - len(filled)), GRAY))


def curve(values: Sequence[float], width: int) -> str:
    """The last values as a curve of so many cells; nothing is a low line."""
    shown = [0.0] * max(0, width - len(values)) + list(values)[-width:]
    top = max(shown, default=0.0)
    if top <= 0:
        return _HEIGHTS[0] * width
    # What is not nothing is to be seen.
    return "".join(_HEIGHTS[0 if value <= 0 else max(1, round(value / top * 7))] for value in shown)


@contextmanager
def counted(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Show how many of the total are done; what it gives is called with how many more are."""
    out = diagnostics()
    if total < WORTH or not out.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    out.soft_wrap = False
    with Progress(*columns, console=out, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda more: shown.advance(task, more)
