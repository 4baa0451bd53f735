"""The measurement of failovers with one fault: its command works for a person, and records the figures."""

from __future__ import annotations

import pytest

from tests import children
from tests.bench import failover


@pytest.mark.prove
async def test_a_leader_that_is_asked_to_step_down_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded: list[tuple[str, float, str, str]] = []
    monkeypatch.setattr(failover, "record", lambda *figure: recorded.append(figure))
    monkeypatch.setenv("HOME", children.PERSONAL_HOME)
    await failover.main(["--ttl", "3", "--trials", "1", "--faults", "stepdown"])
    assert "n=1" in capsys.readouterr().out
    assert [(name, unit) for name, _, unit, _ in recorded] == [("failover_graceful_p99", "s")]
