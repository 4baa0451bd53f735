"""The output of `cronflow dev`: a line per run, and the summary at the end."""

from __future__ import annotations

import io
from datetime import timedelta

from rich.console import Console

from cronflow.cli.dev.output import Live, Proof, as_json, view
from cronflow.domain.run import RunState
from cronflow.testing.audit import FireAudit
from tests.cli.scene import NOON, run


class Shown:
    """A console of 140 columns without colours."""

    def __init__(self) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, width=140, color_system=None)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.file.getvalue().splitlines()]


def proof(*lateness: timedelta) -> Proof:
    return Proof(FireAudit(len(lateness), (), (), (), (), {}, lateness), 0, timedelta(seconds=60))


def test_lengths_have_a_suitable_unit_and_are_aligned() -> None:
    shown = Shown()
    started = NOON + timedelta(seconds=29.382)
    late = run("late", NOON, RunState.SUCCEEDED, started_at=started, ended_at=started + timedelta(milliseconds=4))
    skipped = run("skipped", NOON, RunState.SKIPPED, started_at=None, node=None, reason="overlap")
    Live(shown.console)._show([run("quick", NOON, RunState.SUCCEEDED), late, skipped])
    assert shown.lines == [
        "run      │ 12:00:00  quick                    ✓ succeeded   late +48ms    took 3.2s    node-a",
        "run      │ 12:00:00  late                     ✓ succeeded   late +29s     took 4ms     node-a",
        "run      │ 12:00:00  skipped                  ↷ skipped     overlap",
    ]


def test_the_summary_has_lateness_for_people_and_in_milliseconds_for_scripts() -> None:
    shown = Shown()
    found = proof(*(timedelta(milliseconds=20),) * 98, timedelta(seconds=1.2), timedelta(seconds=13.693))
    view(shown.console, found)
    assert "  lateness   p50 20ms, p99 1.2s, max 14s" in shown.lines
    assert as_json(found)["lateness_ms"] == {"p50": 20.0, "p99": 1200.0, "max": 13693.0}


def test_the_summary_of_a_cluster_without_runs() -> None:
    shown = Shown()
    view(shown.console, proof())
    assert "  lateness   no runs" in shown.lines
