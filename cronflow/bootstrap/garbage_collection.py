"""How often a process searches for reference cycles that nothing uses."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY_OBJECTS = 20_000
"""For processes that run for long. A run consists of many small objects that live for a moment. With Python's default,
a search after every 700 new objects, a busy node spent a tenth of its CPU on them. More than this saves nothing.
"""


@contextmanager
def rare_garbage_collection(new_objects: int = MANY_OBJECTS) -> Iterator[None]:
    """Search the youngest objects only after so many new ones that are still in use. Older objects are searched as
    often as before, relative to that.
    """
    _, second, third = before = gc.get_threshold()
    gc.set_threshold(new_objects, second, third)
    try:
        yield
    finally:
        gc.set_threshold(*before)
