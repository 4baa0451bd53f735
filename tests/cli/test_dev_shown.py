"""The output of `cronflow dev`: a line per run, and the summary at the end."""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from cronflow.backends.clock import SystemClock
from cronflow.cli.dev.output import Live, Proof, as_json, prove, view
from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.testing.audit import FireAudit
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases
from tests.cli.scene import NOON, run
from tests.contracts.builders import a_job, a_pend, a_record


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


async def test_the_summary_waits_for_a_run_whose_insertion_its_worker_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    backends = memory_backends(clock)
    began = datetime.now(UTC)
    fire = began.replace(microsecond=0) - timedelta(minutes=10)
    job = a_job("report", schedule=Every("1h", fire))
    start = {"report": a_record("report", job=job, next_fire=fire)}
    moved = replace(start["report"], next_fire=fire + timedelta(hours=1), pending_run=a_pend(fire))
    backends.documents.jobs["report"] = moved
    existing = backends.runs.existing

    async def inserted_after_the_first_look(ids: Collection[str]) -> set[str]:
        found = await existing(ids)
        await backends.runs.insert([run("report", fire, RunState.SUCCEEDED)])
        return found

    monkeypatch.setattr(backends.runs, "existing", inserted_after_the_first_look)
    found = await prove(UseCases(backends, clock), start, began, term=1)
    assert (found.audit.fires_due, [*found.audit.lost]) == (1, [])


def test_the_summary_of_a_cluster_without_runs() -> None:
    shown = Shown()
    view(shown.console, proof())
    assert "  lateness   no runs" in shown.lines
