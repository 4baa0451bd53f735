"""Names of jobs, limits, calendars and the like: one small alphabet, because names are part of ids, keys and URLs."""

from __future__ import annotations

import re

from cronflow.domain.errors import InvalidInput

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


def check_name(name: str, kind: str = "job") -> str:
    """Returns the name or raises InvalidInput."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a {kind} name; use 1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit"
        )
    return name
