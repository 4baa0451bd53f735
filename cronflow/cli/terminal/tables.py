"""Tables that fit the terminal.

The rule: text that people copy (a name, the id of a run) is never cut and never wrapped. On a narrow
terminal columns are shortened if they may be, then the least important ones are left out, and finally the terminal
wraps the line, which keeps a copied id whole. Columns with `drop` from `SPARE` on appear only if everything fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.control import strip_control_codes
from rich.segment import Segment, Segments
from rich.text import Text

from cronflow.cli.terminal.output import console

GAP = 2
SPARE = 7
LEAST = 30
SEGMENTS_AT_ONCE = 10_000
Cell = str | Text
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `drop`: 0 is never left out, higher numbers go first. `least`: it may be shortened to this width."""

    title: str
    drop: int = 0
    least: int | None = None
    align: Literal["left", "right"] = "left"
    style: str = ""


class BlockTable:
    """A table that is printed in blocks. A later block may widen columns, and has a heading if it shows others."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._natural = [_cell_len(column.title) for column in columns]
        self._filled = {place for place, column in enumerate(columns) if not column.drop}
        self._shown: list[int] = []

    def print(self, rows: Sequence[Sequence[Cell]]) -> None:
        out = console()
        widths = self.fitted(rows, out.width)
        heading = [] if [*widths] == self._shown else [[Text(column.title, style="dim") for column in self._columns]]
        self._shown = [*widths]
        printed = (segment for row in (*heading, *rows) for segment in _segments(row, self._columns, widths, out))
        # A print per line would cost more than the line.
        while block := list(islice(printed, SEGMENTS_AT_ONCE)):
            out.print(Segments(block), end="")

    def fitted(self, rows: Sequence[Sequence[Cell]], width: int) -> dict[int, int]:
        """The width of each visible column, by index, with these rows too."""
        for place, cells in enumerate(zip(*rows, strict=True)):
            self._natural[place] = max(self._natural[place], *map(_cell_len, cells))
            if place not in self._filled and any(str(cell).strip() for cell in cells):
                self._filled.add(place)
        return fit(self._columns, self._natural, sorted(self._filled), width)


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, empty: str = "") -> None:
    """Print a table, or this text instead of an empty one."""
    if empty and not rows:
        console().print(empty)
    else:
        BlockTable(columns).print(rows)


def table_of(items: Sequence[Item], columns: Sequence[tuple[Column, Callable[[Item], Cell]]], empty: str = "") -> None:
    """Print a table with a row per item, from the cell of each column."""
    table([column for column, _ in columns], [[cell(item) for _, cell in columns] for item in items], empty=empty)


def lines_of(items: Iterable[Item], columns: Sequence[tuple[Column, Callable[[Item], Cell]]], width: int) -> list[Text]:
    return lines([column for column, _ in columns], [[cell(item) for _, cell in columns] for item in items], width)


def lines(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int) -> list[Text]:
    """A table within this width. An optional column without content is left out."""
    cells = [[_text(cell, column) for cell, column in zip(row, columns, strict=True)] for row in rows]
    widths = BlockTable(columns).fitted(cells, width)
    heading = [Text(column.title, style="dim") for column in columns]
    return [_line(row, columns, widths) for row in (heading, *cells)]


def fit(columns: Sequence[Column], natural: Sequence[int], shown: Sequence[int], width: int) -> dict[int, int]:
    """The width of each visible column, by index. `shown` are the indexes to start with."""
    shown = list(shown)
    while True:
        excess = sum(natural[place] for place in shown) + GAP * (len(shown) - 1) - width
        least_important = max(shown, key=lambda place: columns[place].drop)
        if excess > 0 and columns[least_important].drop >= SPARE:
            shown.remove(least_important)
            continue
        widths = {place: natural[place] for place in shown}
        for place in shown:
            least = columns[place].least
            if excess > 0 and least is not None and least < widths[place]:
                cut = min(excess, widths[place] - least)
                widths[place] -= cut
                excess -= cut
        if excess <= 0 or not columns[least_important].drop:
            return widths
        shown.remove(least_important)


def facts(pairs: Iterable[tuple[str, Cell | None]]) -> None:
    """Print names and values below each other; a value of None is left out."""
    present = [(name, value) for name, value in pairs if value is not None]
    width = max((cell_len(name) for name, _ in present), default=0)
    out = console()
    for name, value in present:
        first, *more = (value if isinstance(value, Text) else Text(value)).split("\n", allow_blank=True) or [Text()]
        out.print(Text.assemble((name.ljust(width + GAP), "dim"), first))
        for line in more:
            out.print(Text.assemble(" " * (width + GAP) if line else "", line))


def hanging(begin: Text, text: Cell) -> None:
    """Print a bullet and a wrapped text. For sentences, not for text that people copy."""
    out = console()
    indent = " " * begin.cell_len
    for line in _text(text, Column("")).wrap(out, max(out.width - len(indent), LEAST)):
        line.rstrip()
        out.print(begin + line)
        begin = Text(indent)


def _text(cell: Cell, column: Column) -> Text:
    return cell if isinstance(cell, Text) else Text(cell, style=column.style)


def _cell_len(cell: Cell) -> int:
    text = cell if isinstance(cell, str) else cell.plain
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def _segments(cells: Sequence[Cell], columns: Sequence[Column], widths: dict[int, int], out: Console) -> list[Segment]:
    """A line of a printed table: what `_line` makes, without the cost of a Text per line."""
    line: list[Segment] = []
    for n, (place, width) in enumerate(widths.items()):
        cell, column = cells[place], columns[place]
        if (length := _cell_len(cell)) > width:
            cell = _text(cell, column).copy()
            cell.truncate(width, overflow="ellipsis")
            length = cell.cell_len
        gap, padding = " " * GAP if n else "", " " * (width - length)
        right = column.align == "right"
        line += [
            Segment(gap + padding if right else gap),
            *_styled(cell, column, out),
            Segment("" if right else padding),
        ]
    while line and not line[-1].text.rstrip():
        line.pop()
    if line:
        line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
    return [*line, Segment.line()]


def _styled(cell: Cell, column: Column, out: Console) -> Iterable[Segment]:
    if isinstance(cell, Text) and cell.spans:
        return cell.render(out)
    text, style = (strip_control_codes(cell), column.style) if isinstance(cell, str) else (cell.plain, cell.style)
    return [Segment(text, out.get_style(style) if style else None)]


def _line(cells: Sequence[Text], columns: Sequence[Column], widths: dict[int, int]) -> Text:
    line = Text()
    for n, (place, width) in enumerate(widths.items()):
        cell = cells[place].copy()
        cell.truncate(width, overflow="ellipsis")
        padding = " " * (width - cell.cell_len)
        line.append(" " * GAP if n else "")
        line = line + padding + cell if columns[place].align == "right" else line + cell + padding
    line.rstrip()
    return line
