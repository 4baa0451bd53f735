"""One word per thing, one thing per word: no two classes of the package share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "cronflow"
GENERATED = {PACKAGE / "client" / f"{name}_blocking.py" for name in ("admin", "following")} | {
    PACKAGE / "client" / "blocking.py"
}
"""The blocking client has the names of the one for asyncio."""


def test_no_two_classes_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    assert all(path.exists() for path in GENERATED)
    for path in sorted(set(PACKAGE.rglob("*.py")) - GENERATED):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert shared == {}
