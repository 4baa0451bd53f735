"""Formats states as a glyph, a word and a colour, and makes text from outside safe for a terminal.

The rule: colour never carries the meaning alone, and the output of a job, a server or a label can never control the
reader's terminal. The colours are those of Okabe and Ito ("Color Universal Design", 2008), which people with any kind
of colour vision can distinguish.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.text import Text
from rich.theme import Theme

from cronflow.domain.run import Outcome, RunState

BLUE, GREEN, ORANGE, RED, PURPLE, GRAY = (
    f"cronflow.{name}" for name in ("blue", "green", "orange", "red", "purple", "gray")
)
"""Names of styles, alone or after `bold`; the consoles of `output` define them."""

_FINE = ("#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "bright_black")
_SIXTEEN = ("bright_blue", "green", "yellow", "red", "magenta", "bright_black")


def palette(color_system: str | None) -> Theme:
    """The styles for the terminal's colours. The nearest of sixteen colours would be the same for two of them."""
    colours = _SIXTEEN if color_system in ("standard", "windows") else _FINE
    named = dict(zip((BLUE, GREEN, ORANGE, RED, PURPLE, GRAY), colours, strict=True))
    # In rich, `bold <name>` needs its own entry.
    return Theme(named | {f"bold {name}": f"bold {colour}" for name, colour in named.items()})


_COLOURING = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Look(NamedTuple):
    glyph: str
    style: str


RUNS = {
    RunState.DISPATCHED: Look("◌", BLUE),
    RunState.RUNNING: Look("▶", BLUE),
    RunState.RETRYING: Look("↻", ORANGE),
    RunState.SUCCEEDED: Look("✓", GREEN),
    RunState.FAILED: Look("✗", RED),
    RunState.CANCELLED: Look("⊘", GRAY),
    RunState.SKIPPED: Look("↷", GRAY),
    RunState.LOST: Look("?", PURPLE),
}

_OUTCOMES = {Outcome.OK: RunState.SUCCEEDED, Outcome.SKIPPED: RunState.SKIPPED, Outcome.CANCELLED: RunState.CANCELLED}
_HANDED_BACK = Look("↻", ORANGE)
_GAVE_WAY = {Outcome.INTERRUPTED, Outcome.DEFERRED, Outcome.DECLINED, Outcome.DRAINED}

OTHERS = {
    "active": Look("●", GREEN),
    "paused": Look("‖", ORANGE),
    "disabled": Look("○", GRAY),
    "done": Look("✓", GRAY),
    "by hand": Look("◇", GRAY),
    "shadow": Look("◌", BLUE),
    "running": Look("▶", BLUE),
    "cancelled": Look("⊘", GRAY),
    "planned": Look("○", GRAY),
    "up": Look("●", GREEN),
    "draining": Look("↓", ORANGE),
    "stale": Look("!", RED),
    "created": Look("+", GREEN),
    "changed": Look("~", ORANGE),
    "unchanged": Look("=", GRAY),
    "deleted": Look("-", RED),
    "ok": Look("✓", GREEN),
    "warning": Look("!", ORANGE),
    "failed": Look("✗", RED),
    "waiting": Look("↻", ORANGE),
    "counting": Look("·", GRAY),
    "skipping": Look("↷", GRAY),
    "ended": Look("✓", GREEN),
    "delivered": Look("✓", GREEN),
    "gave up": Look("✗", RED),
    "unchecked": Look("·", GRAY),
}


def word(text: str) -> Text:
    """One of the words of `OTHERS`, with its glyph and colour."""
    return _shown(OTHERS[text], text)


def run_state(state: RunState) -> Text:
    return _shown(RUNS[RunState(state)], state)


def outcome(how: Outcome) -> Text:
    if how in _GAVE_WAY:
        return _shown(_HANDED_BACK, how)
    return _shown(RUNS[_OUTCOMES.get(how, RunState.LOST if how == Outcome.LOST else RunState.FAILED)], how)


def clean(text: str) -> str:
    """Make text from outside safe to print: remove colours, and make control characters visible."""
    return _CONTROL.sub(_visible, _COLOURING.sub("", text))


def one_line(text: str) -> str:
    return " ".join(clean(text).split())


def gist(text: str | None) -> str:
    return next((one_line(line) for line in (text or "").splitlines() if line.strip()), "")


def plural(count: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _shown(look: Look, text: str) -> Text:
    return Text(f"{look.glyph} {text}", style=look.style)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{code:04x}"
