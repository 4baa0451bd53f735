"""Bars, curves and the progress of long commands."""

from __future__ import annotations

import pytest

from cronflow.cli.terminal import drawing
from cronflow.cli.terminal.output import diagnostics


def test_progress_bars_are_shown_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with drawing.counted(1000, "applying") as done:
        done(1000)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    for total in (5, 1000):
        assert diagnostics().is_terminal
        with drawing.counted(total, "applying") as done:
            done(total)
        out, err = capsys.readouterr()
        assert out == ""
        assert ("applying" in err, f"{total}/{total}" in err) == (total == 1000, total == 1000)


@pytest.mark.parametrize(
    ("share", "shown"), [(-1.0, "····"), (0.0, "····"), (0.5, "██··"), (0.53, "██▏·"), (1.0, "████"), (7.0, "████")]
)
def test_a_bar_is_as_long_as_its_share(share: float, shown: str) -> None:
    assert drawing.bar(share, 4, "").plain == shown


def test_a_curve_shows_the_last_values_and_keeps_small_ones_visible() -> None:
    assert drawing.curve([], 4) == "▁▁▁▁"
    assert drawing.curve([9, 0, 0.01, 8], 3) == "▁▂█"
    assert drawing.curve([8], 3) == "▁▁█"
