"""The lateness of a run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronflow.domain.run import Kind, RunState
from tests.cli.scene import NOON, run


@pytest.mark.parametrize(
    ("kind", "late_ms"),
    [(Kind.CRON, 848), (Kind.INTERVAL, 848), (Kind.ONCE, 848), (Kind.MANUAL, 18), (Kind.REPLAY, None)],
)
def test_a_run_on_request_counts_from_the_request_and_a_scheduled_one_from_its_instant(
    kind: Kind, late_ms: int | None
) -> None:
    one = run(
        "job",
        NOON,
        RunState.SUCCEEDED,
        kind=kind,
        created_at=NOON + timedelta(milliseconds=830),
        started_at=NOON + timedelta(milliseconds=848),
    )
    assert one.lateness == (None if late_ms is None else timedelta(milliseconds=late_ms))
