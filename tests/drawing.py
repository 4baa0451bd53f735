"""How many examples Hypothesis draws: `make prove` draws ten times as many as `make test`."""

from __future__ import annotations

from hypothesis import settings

TIMES_IN_PROOF = 10
_proving = False


def prove() -> None:
    """Draw more. It must be said before the modules of tests are imported."""
    global _proving
    _proving = True
    settings.register_profile("prove", max_examples=examples(settings().max_examples))
    settings.load_profile("prove")


def examples(count: int) -> int:
    """The number of examples of a test that draws `count` in `make test`."""
    return count * TIMES_IN_PROOF if _proving else count
