"""What a definition did to what was stored under its name."""

from __future__ import annotations

from typing import Literal

Result = Literal["created", "changed", "unchanged"]
