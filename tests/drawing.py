"""How many examples Hypothesis draws: `make prove` draws ten times as many as `make test`."""

from __future__ import annotations

TIMES_IN_PROOF = 10
proving = False
"""Set by `--prove` before the modules of tests are imported."""


def examples(count: int) -> int:
    """The number of examples of a test that draws `count` in `make test`."""
    return count * TIMES_IN_PROOF if proving else count
