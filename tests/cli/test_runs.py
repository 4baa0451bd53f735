"""`cronflow runs …`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest
import yaml

from cronflow.ports import LargeResult
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import FAILED, FENCE, RETRYING, RUNNING, RUNS, SUCCEEDED, Scene, a_split_run

# fmt: off
FIELDS = {
    "id", "job", "fire_at", "kind", "state", "attempt", "max_attempts", "fence", "term", "node", "dispatched_at",
    "started_at", "ended_at", "lateness_ms", "duration_ms", "outcome", "result", "error", "attempts",
}
# fmt: on


@pytest.mark.usefixtures("scene")
def test_the_list_has_the_newest_first_with_state_age_and_length(cli: Cli) -> None:
    lines = cli("runs", "list", columns=80).stdout.splitlines()
    assert [line.split()[2] for line in lines[1:]] == [
        run.id for run in sorted(RUNS, key=lambda run: (run.fire_at, run.id), reverse=True)
    ]
    assert lines[2] == "✓ succeeded   sync-tokens@20261121T115930Z           30s ago     3.2s  1/4"
    assert any(line.startswith("▶ running") and " 5m… " in line for line in lines)


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("columns", [80, 100, 120, 160])
def test_the_list_fits_and_ids_stay_whole(cli: Cli, columns: int) -> None:
    lines = cli("runs", "list", columns=columns).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert all(any(run.id in line.split() for line in lines) for run in RUNS)


@pytest.mark.usefixtures("scene")
def test_an_id_that_is_wider_than_the_terminal_is_still_whole(cli: Cli) -> None:
    assert row(cli("runs", "list", columns=30), SUCCEEDED)


@pytest.mark.usefixtures("scene")
def test_a_wide_terminal_shows_the_error_on_one_line(cli: Cli) -> None:
    assert "refused: the server closed" in row(cli("runs", "list", columns=200), RETRYING)


@pytest.mark.usefixtures("scene")
def test_json_has_the_documented_fields(cli: Cli) -> None:
    listed = parsed(cli("runs", "list", "-o", "json"))
    assert all(set(run) >= FIELDS for run in listed)
    [failed] = [run for run in listed if run["id"] == FAILED]
    assert (failed["lateness_ms"], failed["duration_ms"]) == (60_000, 60_000)
    assert [attempt["n"] for attempt in failed["attempts"]] == [1, 2, 3, 4]
    assert failed["attempts"][0]["outcome"] == "error"


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--job", "nightly-report"], [FAILED]),
        (["--state", "failed", "--state", "retrying"], [RETRYING, FAILED]),
        (["--since", "10m", "--job", "reindex-search"], [RUNNING]),
        (["--since", "2026-11-21T11:59:20Z", "--state", "succeeded"], [SUCCEEDED]),
        (["--limit", "1"], ["health-ping@20261121T120000Z"]),
    ],
)
def test_the_list_is_narrowed(cli: Cli, flags: list[str], expected: list[str]) -> None:
    assert cli("runs", "list", *flags, "-o", "name").stdout.split() == expected


@pytest.mark.usefixtures("scene")
def test_a_truncated_list_notes_that_there_are_older_runs(cli: Cli) -> None:
    assert "older runs are not shown" in cli("runs", "list", "--limit", "9").stderr
    assert cli("runs", "list", "--limit", "10").stderr == ""


def test_more_runs_than_a_page_are_read_page_by_page(cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronflow.client.local_admin.PAGE", 3)
    assert len(cli("runs", "list", "-o", "name").stdout.split()) == len(RUNS)
    assert scene.backends.faults.calls["runs.find"] == 4


@pytest.mark.usefixtures("scene")
def test_a_job_without_runs_is_fine_but_an_unknown_job_is_an_error(cli: Cli) -> None:
    result = cli("runs", "list", "--job", "black-friday")
    assert (result.exit_code, result.stdout) == (
        0,
        "No runs match these filters. Leave out some of them to see more.\n",
    )
    assert cli("runs", "list", "--job", "black-fridya").exit_code == 3


@pytest.mark.usefixtures("empty")
def test_an_empty_list_names_the_next_step(cli: Cli) -> None:
    assert "cronflow jobs run NAME" in cli("runs", "list").stdout
    assert parsed(cli("runs", "list", "-o", "json")) == []


@pytest.mark.usefixtures("scene")
def test_a_state_that_does_not_exist_is_a_usage_error(cli: Cli) -> None:
    result = cli("runs", "list", "--state", "suceeded")
    assert result.exit_code == 2
    assert "'succeeded'" in result.stderr


@pytest.mark.usefixtures("scene")
def test_a_run_is_shown_with_its_attempts_and_next_try(cli: Cli) -> None:
    shown = cli("runs", "show", RETRYING, columns=140).stdout
    assert f"↻ retrying  {RETRYING}" in shown
    assert "next try  2026-11-21 12:01:30Z  in 1m 30s" in shown
    assert "attempt   3 of at most 4" in shown
    assert f"fence     {FENCE + 2}  term 7" in shown
    lines = shown.splitlines()
    assert any(line.split()[:3] == ["1", "✗", "error"] and str(FENCE) in line for line in lines)
    assert any(line.split()[:3] == ["2", "✗", "timeout"] and "node-c#0c44" in line for line in lines)
    assert f"cronflow runs logs {RETRYING} -f" in shown


@pytest.mark.usefixtures("scene")
def test_an_ended_run_is_shown_with_lateness_length_result_and_error(cli: Cli) -> None:
    shown = cli("runs", "show", SUCCEEDED).stdout
    assert "due      2026-11-21 11:59:30Z  30s ago, first started 48ms later" in shown
    assert "took 3.2s" in shown
    assert "result   refreshed: 12" in shown
    failed = cli("runs", "show", FAILED).stdout
    assert "error    ValueError: no rows for 2026-11-20" in failed
    assert "args     region: eu" in failed
    assert "3 missed fires, 2026-11-01 04:30:00Z to" in cli("runs", "show", "clean-uploads@20261115T043000Z").stdout


def test_a_large_result_is_shown_as_its_size_and_in_full_for_scripts(cli: Cli, scene: Scene) -> None:
    rows = ["x" * 1000] * 20
    large = replace(next(run for run in RUNS if run.id == SUCCEEDED), result=None, result_size=20_061, finish_id="f1")
    scene.backends.documents.runs[SUCCEEDED] = large
    asyncio.run(scene.backends.results.keep([LargeResult(id="f1", run=SUCCEEDED, text=orjson.dumps(rows).decode())]))
    shown = cli("runs", "show", SUCCEEDED).stdout
    assert f"result   20,061 bytes of JSON; print it with cronflow runs show {SUCCEEDED} -o json" in shown
    whole = parsed(cli("runs", "show", SUCCEEDED, "-o", "json"))
    assert (whole["result"], whole["result_size"]) == (rows, 20_061)
    listed = parsed(cli("runs", "list", "-o", "json"))
    assert [(one["result"], one["result_size"]) for one in listed if one["id"] == SUCCEEDED] == [(None, 20_061)]


@pytest.mark.usefixtures("scene")
def test_yaml_has_the_same_content_as_json(cli: Cli) -> None:
    assert yaml.safe_load(cli("runs", "show", FAILED, "-o", "yaml").stdout) == parsed(
        cli("runs", "show", FAILED, "-o", "json")
    )


@pytest.mark.usefixtures("scene")
def test_the_log_has_every_attempt_and_cannot_control_the_terminal(cli: Cli) -> None:
    assert cli("runs", "logs", RETRYING).stdout.splitlines() == [
        "2026-11-21 11:00:00.000Z INFO     sending 120 invoices",
        "2026-11-21 11:01:00.000Z ERROR    connection refused",
        f"── attempt 2, fence {FENCE + 1} ──",
        "2026-11-21 11:02:00.000Z INFO     sending 120 invoices",
        "2026-11-21 11:03:00.000Z PROGRESS 40/120",
        "2026-11-21 11:04:00.000Z WARN     red and ␛]0;a title␇ rest",
    ]


def test_the_log_as_json_has_one_object_per_line_across_pages(
    cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronflow.client.local_admin.PAGE", 2)
    lines = [orjson.loads(line) for line in cli("runs", "logs", RETRYING, "-o", "json").stdout.splitlines()]
    assert [(line["attempt"], line["n"], line["level"]) for line in lines] == [
        (1, 0, "info"),
        (1, 1, "error"),
        (2, 2, "info"),
        (2, 3, "progress"),
        (2, 4, "warn"),
    ]
    assert scene.backends.faults.calls["logs.read"] == 3
    assert [line["n"] for line in yaml.safe_load(cli("runs", "logs", RETRYING, "-o", "yaml").stdout)] == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("scene")
def test_a_run_without_lines_notes_the_possible_reason(cli: Cli) -> None:
    open_run, ended = cli("runs", "logs", RUNNING), cli("runs", "logs", SUCCEEDED)
    assert (open_run.stdout, ended.stdout) == ("", "")
    assert "wait for lines with -f" in open_run.stderr
    assert "no output, or its log lines have expired" in ended.stderr


def test_a_run_that_does_not_exist_exits_3_and_names_the_nearest(cli: Cli, scene: Scene) -> None:
    result = cli("runs", "show", "nightly-report@20261121T020000Z")
    assert result.exit_code == 3
    assert f"did you mean {FAILED}?" in result.stderr
    assert asyncio.run(scene.service.runs.get(FAILED)).id == FAILED


def test_a_traceback_is_shown_in_full_on_the_page_and_shortened_in_tables(cli: Cli, scene: Scene) -> None:
    runs: dict[str, Any] = scene.backends.documents.runs
    trace = "\nValueError: no rows\n\nTraceback (most recent call last):\n  File x\n"
    runs[FAILED] = replace(runs[FAILED], error=trace)
    assert row(cli("runs", "list"), FAILED).endswith("  ValueError: no rows")
    shown = cli("runs", "show", FAILED).stdout
    assert "\n         ValueError: no rows\n\n         Traceback (most recent call last):\n           File x\n" in shown


def test_a_run_that_was_split_is_shown_with_its_parts_which_are_listed_by_it(scene: Scene, cli: Cli) -> None:
    parent, *parts = a_split_run()
    asyncio.run(scene.backends.runs.insert([parent, *parts]))
    shown = cli("runs", "show", parent.id).stdout
    assert "parts    3: 2 succeeded, 1 failed" in shown
    assert f"its parts: cronflow runs list --parent {parent.id}" in shown
    assert f"part of  {parent.id}  index 2 of 3" in cli("runs", "show", parts[2].id).stdout
    listed = cli("runs", "list", "--parent", parent.id, "-o", "name").stdout.split()
    assert listed == [part.id for part in reversed(parts)]
    assert "No runs match these filters" in cli("runs", "list", "--parent", "nobody@1").stdout
    assert "into 3 parts: 2 succeeded, 1 failed" in cli("runs", "why", parent.id).stdout
    assert f"as a part of {parent.id}" in cli("runs", "why", parts[0].id).stdout
