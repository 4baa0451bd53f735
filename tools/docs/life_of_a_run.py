"""Generates `docs/concepts/life-of-a-run.md` from `TRANSITIONS`: `python -m tools.docs.life_of_a_run`; with `svg` it
prints the picture.

The picture has three columns: where a run comes from, the open states, the ended ones. An arrow carries the numbers of
its rows; rows that leave a run in its state stand in the box of the state.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from cronflow.domain.run import DEAD, ENDED, OPEN, RunState
from cronflow.domain.transitions import TRANSITIONS, Transition, TransitionRule

HEAD = """# The life of a run

Generated from the table `TRANSITIONS` in [`cronflow/domain/transitions.py`](../../cronflow/domain/transitions.py)
by `make docs`; do not edit it. The table lists every change that a run may go through: the stores refuse any other, and
the tests check every history against it.

![The states of a run and the transitions between them](../images/life-of-a-run.svg)

A run is **open** while somebody will look at it again, at the latest at its `check_at`. It **ends** once, and an ended
run never changes its state. One that failed or was lost is a dead letter until somebody
[replays or acknowledges it](../how-to/when-something-failed.md).

| # | from | to | who | compares | what happens |
|---|---|---|---|---|---|"""
TAIL = """
*fence*: the change applies only while the run has the fencing token that the actor was given or has read. *due*:
only when `check_at` has passed. Why this is enough stands in [the protocol](protocol.md)."""

WIDTH, HEIGHT = 900, 560
BOX_W, BOX_H = 150, 56
LEFT, MIDDLE, RIGHT = 60.0, 270.0, 700.0
"""The point where runs come from, and the left edges of the columns of boxes."""
NEW = (LEFT, HEIGHT / 2)
OPENING = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"
font-size="13" role="img" aria-label="The states of a run">
<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>"""

Point = tuple[float, float]
Arrows = Mapping[tuple[RunState | None, RunState], Sequence[Transition]]


def _stays(rule: TransitionRule) -> bool:
    """Whether it leaves a run in its state: it leads from each of its states to the same ones."""
    return rule.sources == rule.targets


def arrows() -> Arrows:
    """The rows of each arrow, by its two ends. A run that is inserted comes from None."""
    found: defaultdict[tuple[RunState | None, RunState], list[Transition]] = defaultdict(list)
    for number, rule in TRANSITIONS.items():
        for source in rule.sources or {None}:
            for target in rule.targets:
                if source is not target and not _stays(rule):
                    found[source, target].append(number)
    return found


def staying(state: RunState) -> list[Transition]:
    """The rows that leave a run in this state."""
    return [n for n, rule in TRANSITIONS.items() if state in rule.sources & rule.targets]


def page() -> str:
    return "\n".join([HEAD, *map(_line, TRANSITIONS), TAIL])


def _line(number: Transition) -> str:
    rule = TRANSITIONS[number]
    compared = [word for word, holds in (("fence", rule.fenced), ("due", rule.only_when_due)) if holds]
    cells = (
        str(number),
        _states(rule.sources) or "new",
        "the same" if _stays(rule) else _states(rule.targets),
        ", ".join(sorted(rule.actors)),
        ", ".join(compared),
        rule.meaning,
    )
    return f"| {' | '.join(cells)} |"


def _states(states: frozenset[RunState]) -> str:
    return ", ".join(state for state in RunState if state in states)


def svg() -> str:
    """The picture. It brings its own light background, so that it can be read on a dark page."""
    drawn = arrows()
    inserted = {target for source, target in drawn if source is None}
    open_ = [state for state in RunState if state in OPEN]
    # What is inserted as ended stands below the rest: its arrow comes from the left and goes under the open states.
    ended = sorted((state for state in RunState if state in ENDED), key=lambda state: state in inserted)
    places = {**_column(open_, MIDDLE), **_column(ended, RIGHT)}
    parts = [
        OPENING,
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>',
        # Numbers stand on the lines.
        *sorted(_lines(drawn, places), key=lambda part: part.startswith("<text")),
        *(_box(state, place) for state, place in places.items()),
        f'<circle cx="{NEW[0]}" cy="{NEW[1]}" r="9" fill="#333"/>',
        f'<text x="{NEW[0]}" y="{NEW[1] - 18}" text-anchor="middle" fill="#333">new</text>',
        "</svg>",
    ]
    return "\n".join(parts)


def _column(states: Sequence[RunState], x: float) -> dict[RunState, Point]:
    step = (HEIGHT - 60) / len(states)
    return {state: (x, 15 + step * (n + 0.5) - BOX_H / 2) for n, state in enumerate(states)}


def _box(state: RunState, place: Point) -> str:
    (x, y), middle = place, place[0] + BOX_W / 2
    fill = "#dbeafe" if state in OPEN else "#fee2e2" if state in DEAD else "#e5e7eb"
    if state is RunState.SUCCEEDED:
        fill = "#dcfce7"
    stays = staying(state)
    name_y = y + BOX_H / 2 + (-3 if stays else 5)
    note = (
        f'<text x="{middle}" y="{name_y + 18:.0f}" text-anchor="middle" fill="#555" font-size="11">'
        f"{_rows(stays)}</text>"
    )
    return (
        f'<rect x="{x}" y="{y:.0f}" width="{BOX_W}" height="{BOX_H}" rx="6" fill="{fill}" stroke="#555"/>'
        f'<text x="{middle}" y="{name_y:.0f}" text-anchor="middle" font-weight="bold" fill="#111">{state}</text>'
        + (note if stays else "")
    )


def _lines(drawn: Arrows, places: Mapping[RunState, Point]) -> Iterator[str]:
    order = list(places)
    for target in order:
        sources = [source for source in order if (source, target) in drawn]
        for source in sources:
            rows, (x, y), (to_x, to_y) = drawn[source, target], places[source], places[target]
            if target in ENDED:
                # Each arrow ends at a place of its own, with its rows before it.
                end_y = to_y + BOX_H * (sources.index(source) + 1) / (len(sources) + 1)
                yield _curve((x + BOX_W, y + BOX_H / 2), (to_x, end_y), 170)
                yield _label((to_x - 12, end_y - 4), rows, "end")
            else:
                yield from _between(places[source], places[target], rows, order.index(source) - order.index(target))
        if (None, target) in drawn:
            yield from _begin(places[target], drawn[None, target], target in ENDED)


def _between(source: Point, target: Point, rows: Sequence[Transition], steps: int) -> Iterator[str]:
    """An arrow within the column of open states: straight to a neighbour, in an arc past one that is between."""
    (x, y), (_, to_y), down = source, target, steps < 0
    if abs(steps) == 1:
        at = x + BOX_W * (0.35 if down else 0.65)
        yield _path(f"M{at:.0f} {y + BOX_H * down:.0f} L{at:.0f} {to_y + BOX_H * (not down):.0f}")
        yield _label((at + (-6 if down else 6), (y + to_y + BOX_H) / 2 + 4), rows, "end" if down else "start")
        return
    shift = 12 if down else -6
    reach = 95 if down else 55
    yield _path(
        f"M{x} {y + BOX_H / 2 - shift:.0f} C{x - reach} {y + BOX_H / 2 - shift:.0f} "
        f"{x - reach} {to_y + BOX_H / 2 + shift:.0f} {x} {to_y + BOX_H / 2 + shift:.0f}"
    )
    yield _label((x - reach * 0.75 + (-4 if down else 4), (y + to_y + BOX_H) / 2 + 4), rows, "end" if down else "start")


def _begin(target: Point, rows: Sequence[Transition], ended: bool) -> Iterator[str]:
    """From where runs come from: under the open states to an ended one, else to the upper or lower left corner."""
    (x, y), (new_x, new_y) = target, NEW
    if ended:
        below = HEIGHT - 22.0
        to_x = x + BOX_W / 2
        yield _path(
            f"M{new_x} {new_y + 9} C{new_x} {below} {new_x + 40} {below} {new_x + 120} {below} "
            f"L{to_x - 60} {below} Q{to_x} {below} {to_x} {y + BOX_H:.0f}"
        )
        yield _label((to_x - 70, below - 5), rows, "end")
        return
    end_y = y + (10 if y < new_y else BOX_H - 10)
    yield _path(f"M{new_x} {new_y + (-32 if y < new_y else 9):.0f} Q{new_x} {end_y:.0f} {x} {end_y:.0f}")
    yield _label((new_x + 60, end_y + (-6 if y < new_y else 16)), rows, "start")


def _curve(start: Point, end: Point, pull: float) -> str:
    (x, y), (to_x, to_y) = start, end
    return _path(f"M{x} {y:.0f} C{x + pull} {y:.0f} {to_x - pull} {to_y:.0f} {to_x} {to_y:.0f}")


def _path(way: str) -> str:
    return f'<path d="{way}" fill="none" stroke="#555" marker-end="url(#end)"/>'


def _label(at: Point, rows: Sequence[Transition], anchor: str) -> str:
    return (
        f'<text x="{at[0]:.0f}" y="{at[1]:.0f}" text-anchor="{anchor}" fill="#1d4ed8" font-size="11" stroke="#fff" '
        f'stroke-width="4" paint-order="stroke">{_rows(rows)}</text>'
    )


def _rows(rows: Sequence[Transition]) -> str:
    return ", ".join(map(str, rows))


if __name__ == "__main__":
    sys.stdout.write((svg() if sys.argv[1:] == ["svg"] else page()) + "\n")
