"""The fenced blocks of the documentation, with their language and the file name they are saved as."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

EXECUTED = ("sh", "python")
"""Languages of blocks that are executed, in the order of their page."""
PARSED = ("yaml", "json")
"""Languages of blocks that are parsed."""
SHOWN = ("text",)
"""The language of blocks that only show output."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"Save this as `([\w./-]+)`[^`\n]*\n\n\Z")


class Block(NamedTuple):
    """A fenced block. `name` is the file name in a sentence "Save this as" before it."""

    page: Path
    line: int
    language: str
    text: str
    name: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        before = _NAME.search(text, 0, fence.start())
        line = text.count("\n", 0, fence.start()) + 1
        found.append(Block(page, line, fence[1], fence[2], before[1] if before else None))
    return found
