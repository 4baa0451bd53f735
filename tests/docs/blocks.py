"""The fenced blocks of the documents: where they stand, what they are in, and the file that the text saves them as."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

DONE = ("sh", "python")
"""Languages of what is run, in the order of its page."""
READ = ("yaml", "json")
"""Languages of what is given to its reader."""
SHOWN = ("text",)
"""The language of output and figures: nothing to be done."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"Save this as `([\w./-]+)`[^`\n]*\n\n\Z")


class Block(NamedTuple):
    """A fenced block. `name` is that of the file that the sentence before it asks for."""

    page: Path
    line: int
    language: str
    text: str
    name: str | None

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text("utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        before = _NAME.search(text, 0, fence.start())
        line = text.count("\n", 0, fence.start()) + 1
        found.append(Block(page, line, fence[1], fence[2], before[1] if before else None))
    return found
