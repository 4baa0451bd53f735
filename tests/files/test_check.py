"""All problems of all files at once, and warnings about schedules."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cronflow.files.check import Checked, check_files

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)

JOBS = """
jobs:
  - name: report
    schedule: {cron: "0 2 * * *"}
    run: {shell: make report}
"""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Check files that are given by their texts."""
    monkeypatch.chdir(tmp_path)

    def run(*texts: str) -> Checked:
        paths = [Path(f"{n}.yaml") for n, _ in enumerate(texts)]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, "utf-8")
        return check_files(paths, NOW)

    return run


def found(checked: Checked) -> list[str]:
    return [str(one) for one in checked.problems]


def test_files_of_every_kind_are_checked(check: Any) -> None:
    checked = check(
        JOBS,
        "alerts:\n  - {name: a, on: [failed], webhook: {url: https://host}}\n",
        "limits: {database: 2}\n",
        "calendars: {holidays: [{day: 12-25, name: Christmas}]}\n",
    )
    assert found(checked) == []
    assert checked.warnings == []
    assert checked.counts == {"jobs": 1, "alerts": 1, "limits": 1, "calendars": 1}


def test_all_problems_of_all_files_are_found_with_file_line_and_key(check: Any) -> None:
    checked = check(
        JOBS + "    timout: 5s\n",
        "alerts:\n  - {name: a, on: [explodes], webhook: {url: https://host}}\n",
        "limits: {database: many}\n",
        "calendars: {holidays: [12-32]}\n",
        "jobs:\n" + "  - {name: same, priority: 10, run: {}}\n" * 30,
    )
    where = [(one.file, one.line, one.key) for one in checked.problems]
    assert where[:4] == [
        ("0.yaml", 6, "jobs[0].timout"),
        ("1.yaml", 2, "alerts[0].on[0]"),
        ("2.yaml", 1, "limits.database.rate"),
        ("3.yaml", 1, "calendars.holidays[0]"),
    ]
    assert checked.problems[0].remedy == "did you mean timeout?"
    # More than the twenty of an error: 30 priorities, 30 empty targets, and 29 names that are taken.
    assert len(where) == 4 + 89
    assert where[-1][:2] == ("4.yaml", 31)


def test_what_a_cluster_would_refuse_is_found_too(check: Any) -> None:
    checked = check(
        """
jobs:
  - name: a
    run: {python: "json:dumps"}
    success_exit_codes: [0, 1]
    after: c
  - {name: b, run: {shell: "true"}, after: a}
  - {name: c, run: {shell: "true"}, after: [b, elsewhere]}
  - {name: d, run: {python: "json:dumbs"}}
  - {name: "_sys:x", run: {shell: "true"}}
"""
    )
    assert [(one.line, one.key) for one in checked.problems] == [
        (5, "jobs[0].success_exit_codes"),
        (6, "jobs[0].after"),
        (9, "jobs[3].run.python"),
        (10, "jobs[4].name"),
    ]
    assert "jobs follow each other" in checked.problems[1].what
    assert checked.problems[2].remedy == "did you mean dumps?"


def test_files_that_cannot_be_read_are_problems_beside_the_others(check: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("jobs: [\n")
    (tmp_path / "empty.yaml").write_text("")
    checked = check_files([Path(name) for name in ("broken.yaml", "missing.yaml", "empty.yaml")], NOW)
    assert [one.file for one in checked.problems] == ["broken.yaml", "missing.yaml", "empty.yaml"]
    assert [one.line for one in checked.problems] == [1, None, None]


def test_schedules_that_are_likely_mistakes_are_warned_about(check: Any) -> None:
    checked = check(
        """
jobs:
  - {name: past, run: {shell: "true"}, schedule: {at: "2025-01-01T00:00:00Z"}}
  - {name: never, run: {shell: "true"}, schedule: {cron: "0 0 30 2 *"}}
  - {name: ended, run: {shell: "true"}, schedule: {cron: "@daily", end: "2026-01-01T00:00:00Z"}}
  - {name: both, run: {shell: "true"}, schedule: {cron: "0 0 1 * MON"}}
  - {name: excluded, run: {shell: "true"}, schedule: {cron: "0 0 25 12 *", calendars: holidays}}
  - {name: unknown, run: {shell: "true"}, schedule: {cron: "0 0 25 12 *", calendars: other}}
  - {name: gap, run: {shell: "true"}, schedule: {cron: "30 2 * * *", tz: Europe/Berlin}}
  - {name: chosen, run: {shell: "true"}, schedule: {cron: "30 2 * * *", tz: Europe/Berlin, dst: {gap: skip}}}
  - {name: disabled, enabled: false, run: {shell: "true"}, schedule: {at: "2025-01-01T00:00:00Z"}}
""",
        "calendars: {holidays: [12-25]}\n",
    )
    warned = {one.line: one.what for one in checked.warnings}
    assert list(warned) == [3, 5, 6, 7, 9]
    assert warned[3] == "has passed, so the job never runs again"
    assert warned[5].startswith("never fires")
    assert "fires on days that match either one" in warned[6]
    assert warned[7].startswith("never fires")
    # An expression that no date matches is refused, and not only warned about.
    assert [one.line for one in checked.problems] == [4]
