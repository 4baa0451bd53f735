"""What a look found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `state`: ok, warning (works, but), failed, unchecked."""

    check: str
    state: str
    found: str
    remedy: str = ""
