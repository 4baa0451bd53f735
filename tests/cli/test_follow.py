"""Following: live views on a terminal, lines for pipes and scripts, and how they end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import orjson
import pytest
from rich.console import Console

from cronflow.cli import connect
from cronflow.cli.terminal import formatting
from cronflow.cli.views import lines, watch
from cronflow.cli.views.lines import Status, progress_text
from cronflow.cli.views.watch import ClusterView, RunsView
from cronflow.domain.run import OPEN, RunState
from cronflow.schemas.runs import run_detail_schema
from tests.cli.conftest import Cli
from tests.cli.scene import NOON, RUNNING, RUNS
from tests.cli.scripted import ScriptedClient

[SOME] = [run for run in RUNS if run.id == RUNNING]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> ScriptedClient:
    made = ScriptedClient()
    monkeypatch.setattr(connect, "open_client", made.open)
    return made


def a_run(state: RunState = RunState.RUNNING, **fields: Any) -> dict[str, Any]:
    over = {} if state in OPEN else {"ended_at": "2026-11-21T11:59:58Z", "duration_ms": 3200}
    return {**run_detail_schema(SOME, [], None), "state": state, **over, **fields}


def a_line(text: str, n: int = 0, level: str = "info", **fields: Any) -> dict[str, Any]:
    at = (NOON + timedelta(seconds=n)).isoformat().replace("+00:00", "Z")
    line = {"run": RUNNING, "job": "reindex-search", "attempt": 1, "fence": SOME.fence, "n": n, "at": at}
    return line | {"level": level, "node": "node-c", "text": text} | fields


def state(run: dict[str, Any]) -> dict[str, Any]:
    return {"t": "state", "run": run}


def line(text: str, n: int = 0, **fields: Any) -> dict[str, Any]:
    return {"t": "line", "line": a_line(text, n, **fields)}


# ------------------------------------------------------------------------------------------------------------- a run


def test_the_lines_of_a_run_are_printed_as_they_arrive(cli: Cli, scripted: ScriptedClient) -> None:
    scripted.of_run = [state(a_run()), line("one"), line("2/4", 1, level="progress"), state(a_run(RunState.SUCCEEDED))]
    scripted.interrupted = False
    result = cli("runs", "logs", RUNNING, "-f")
    assert result.stdout.splitlines() == [
        "2026-11-21 12:00:00.000Z INFO     one",
        "2026-11-21 12:00:01.000Z PROGRESS 2/4",
    ]
    assert result.stderr == f"{RUNNING} succeeded\n"
    written = [orjson.loads(text) for text in cli("runs", "logs", RUNNING, "-f", "-o", "json").stdout.splitlines()]
    assert [one["text"] for one in written] == ["one", "2/4"]


def test_ctrl_c_ends_following_with_0_and_waiting_with_130(cli: Cli, scripted: ScriptedClient) -> None:
    scripted.of_run = scripted.of_lines = [line("one")]
    scripted.polls = [[]]
    for command in (["runs", "logs", RUNNING, "-f"], ["logs", "-f"], ["cluster", "watch"], ["runs", "watch"]):
        assert cli(*command).exit_code == 0, command
    assert cli("jobs", "run", "reindex-search", "--follow").exit_code == 130


@pytest.mark.parametrize(
    ("ended", "outcome", "code"),
    [(RunState.SUCCEEDED, "ok", 0), (RunState.FAILED, "error", 4), (RunState.SKIPPED, "skipped", 0)],
)
def test_following_a_run_exits_like_waiting_for_it(
    cli: Cli, scripted: ScriptedClient, ended: RunState, outcome: str, code: int
) -> None:
    scripted.interrupted = False
    last = a_run(ended, outcome=outcome, result={"rows": 42}, error="it broke" if code else None)
    scripted.of_run = [state(a_run()), line("one"), state(last)]
    result = cli("jobs", "run", "reindex-search", "--follow", "--arg", "a=1")
    assert result.exit_code == code
    assert scripted.requested == [("reindex-search", {"a": 1})]
    lines = result.stdout.splitlines()
    assert lines[0].endswith("INFO     one")
    assert lines[1].endswith(f" {ended}  {RUNNING}  took 3.2s")
    assert ("error   it broke" in lines) == bool(code)
    assert "requested reindex-search@manual-1" in result.stderr
    assert "▶ running, node-c" in result.stderr
    messages = cli("jobs", "run", "reindex-search", "--follow", "-o", "json").stdout.splitlines()
    assert [orjson.loads(text)["t"] for text in messages] == ["state", "line", "state"]
    assert cli("jobs", "run", "reindex-search", "--follow", "-o", "name").stdout == f"{RUNNING}\n"


def test_the_progress_of_a_run_is_shown_below_its_lines() -> None:
    status = Status(RUNNING)
    assert status.text().plain == f"◌ {RUNNING}"
    status.run = a_run(started_at="2026-11-21T11:59:00Z")  # type: ignore[assignment]
    status.read(a_line("30/120", level="progress"))  # type: ignore[arg-type]
    assert f"▶ running  {RUNNING}" in status.text().plain
    assert status.text().plain.endswith("██████··················  25%  30/120")
    # Of an earlier attempt.
    status.run = a_run(fence=SOME.fence + 1)  # type: ignore[assignment]
    assert "30/120" not in status.text().plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1/2", "██··  50%  1/2"), ("3/3", "████ 100%  3/3"), ("12", "12"), ("x/0", "x/0"), ("1/0", "1/0")],
)
def test_progress_is_a_bar_where_the_total_is_known(text: str, shown: str) -> None:
    assert progress_text(text, 4).plain == shown


def test_on_a_terminal_progress_is_drawn_instead_of_printed(
    cli: Cli, scripted: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "console", lambda: Console(force_terminal=True))
    scripted.interrupted = False
    scripted.of_run = [state(a_run()), line("one"), line("2/4", 1, level="progress"), state(a_run(RunState.SUCCEEDED))]
    written = cli("runs", "logs", RUNNING, "-f", columns=100).stdout
    assert "INFO     one" in written
    assert "PROGRESS" not in written


# ------------------------------------------------------------------------------------------------------ all the lines


def test_lines_of_all_runs_show_the_id_of_their_run(cli: Cli, scripted: ScriptedClient) -> None:
    scripted.stored = [a_line(f"text {n}", n) for n in range(5)]
    result = cli("logs", "-n", "2", "--level", "warn", "--job", "reindex-search", "--node", "node-c", "--grep", "Text")
    assert result.stdout.splitlines() == [f"2026-11-21 12:00:0{n}.000Z INFO     text {n}  {RUNNING}" for n in (3, 4)]
    assert "older lines are not shown; --limit 10 shows more" in result.stderr
    assert scripted.wanted == [
        {"q": "Text", "level": "warn", "job": "reindex-search", "node": "node-c", "since": None, "limit": 3}
    ]
    scripted.stored = []
    result = cli("logs", "--since", "1h", "-o", "yaml")
    assert (result.stdout, result.stderr) == ("[]\n", "no lines match\n")
    assert cli("logs", "--level", "grave").exit_code == 2


def test_stored_and_new_lines_join_and_each_is_printed_once(cli: Cli, scripted: ScriptedClient) -> None:
    scripted.stored = [a_line(f"wanted {n}", n) for n in (3, 4)]
    scripted.of_lines = [
        line("wanted, but older than what was shown", 1),
        line("wanted 3", 3),
        line("wanted 4", 4),
        line("other", 5),
        line("WANTED 6", 6),
        {"t": "gap", "missed": 1},
        {"t": "gap", "missed": None},
        line("wanted 7", 7),
    ]
    result = cli("logs", "-f", "--grep", "wanted", "-n", "2", "-o", "json")
    assert [orjson.loads(text)["text"] for text in result.stdout.splitlines()] == [
        "wanted 3",
        "wanted 4",
        "WANTED 6",
        "wanted 7",
    ]
    assert "1 line missing here" in result.stderr
    assert "some lines missing here" in result.stderr


# ------------------------------------------------------------------------------------------------------ the live views


def a_doc(**fields: Any) -> dict[str, Any]:
    node = {"id": "x", "leads": False, "state": "up", "cpu": 0.42, "memory": 0.61, "lag_s": 0.002, "slots": 16}
    node |= {"in_flight": 3, "queued": 2, "rate": 1.5, "age_s": 1.2}
    quantiles = {"p50": 12.0, "p95": 90.0, "p99": 1234.0}
    return {
        "at": "2026-11-21T12:00:00Z",
        "leader": "node-a",
        "term": 7,
        "elected_at": "2026-11-21T11:00:00Z",
        "lease_left_s": 21.0,
        "nodes": [node | {"name": "node-a", "leads": True}, node | {"name": "node-b", "state": "draining"}],
        "nodes_more": 0,
        "queue": {"queued": 4, "in_flight": 6, "slots": 32, "capacity": 22, "open": 11},
        "rates": {"ended": 3.2, "succeeded": 3.0, "failed": 0.2},
        "latency": {"lateness_ms": quantiles, "duration_ms": quantiles},
        "jobs": {"total": 12, "active": 9, "paused": 1, "idle": 2},
        "dead_letters": 3,
        "next": [
            {"job": "past", "at": "2026-11-21T11:59:50Z"},
            {"job": "nightly-report", "at": "2026-11-21T12:00:42Z"},
            {"job": "_sys:sweep", "at": "2026-11-22T00:00:00Z"},
        ],
        "breakers": [{"service": "api.example.com", "nodes": ["node-b"]}],
        "servers": {"redis": {"ms": 0.4}, "mongodb": {"error": "no primary"}},
        **fields,
    }


def a_snap(**fields: Any) -> dict[str, Any]:
    columns = {"ended": [0.0, 1.0, 2.0], "queued": [0, 0, 4]}
    series = {"cluster": columns, "nodes": {"at": [], "by_name": {}}}
    return {"t": "snap", "seq": "1-0", "doc": {**a_doc(**fields), "series": series}}


def a_tick(*events: dict[str, Any], logs: list[Any] | None = None, dropped: int = 0, **fields: Any) -> dict[str, Any]:
    patch = a_doc(**fields)
    tick = {"t": "tick", "seq": "2-0", "ts": patch["at"], "patch": patch, "events": [*events]}
    return tick | {"logs": logs or [], "dropped": dropped}


def an_event(text: str, second: int = 0) -> dict[str, Any]:
    at = f"2026-11-21T12:00:{second:02}Z"
    return {"id": at, "at": at, "kind": "x", "severity": "warn", "source": "node-a", "text": text, "fields": {}}


def runs_view(client: Any, job: str | None) -> RunsView:
    return RunsView(client, job)


def a_view(client: Any) -> ClusterView:
    return ClusterView(client)


def drawn(view: Any, *messages: Any, width: int, height: int = 40) -> list[str]:
    """The frame after these messages on a terminal of this width."""

    async def take() -> None:
        for message in messages:
            await view.take(message)

    asyncio.run(take())
    return [text.plain for text in view.frame(width, height)]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_cluster_fits_and_shows_leader_load_and_events(scripted: ScriptedClient, width: int) -> None:
    scripted.happened = [an_event("before")]
    frame = drawn(a_view(scripted), a_snap(), a_tick(an_event("node-c was lost with 2 runs on it", 5)), width=width)
    assert max(map(len, frame)) <= width
    shown = "\n".join(frame)
    assert frame[0].startswith("♛ node-a  term 7  since 11:00:00Z")
    assert frame[0].endswith("● live  12:00:00Z")
    for part in (
        "21s left",
        "6 of 32 running, 4 queued, 11 open",
        "3.2 per second, 0.2 failed",
        "p50 12ms   p95 90ms   p99 1.2s",
        "9 active, 1 paused, 2 idle   3 dead letters",
        "✓ Redis 0.4 ms   ✗ MongoDB no primary",
        "api.example.com: circuit open on node-b",
        "next     nightly-report in 42s",
        "♛ node-a",
        "↓ draining",
        "12:00:05Z WARN  node-c was lost with 2 runs on it  node-a",
        "12:00:00Z WARN  before  node-a",
    ):
        assert part in shown, part
    assert "past" not in shown
    assert "_sys:sweep" not in shown


def test_a_low_terminal_shows_fewer_nodes_and_still_the_events(scripted: ScriptedClient) -> None:
    node = a_doc()["nodes"][1]
    nodes = [node | {"name": f"n{n}"} for n in range(200)]
    frame = drawn(a_view(scripted), a_snap(), a_tick(an_event("it"), nodes=nodes, nodes_more=7), width=80, height=30)
    assert len(frame) <= 30
    assert any(text.endswith(" more nodes") for text in frame)
    assert frame[-1].endswith("it  node-a")


def test_without_a_leader_or_a_tick_the_view_shows_that(
    scripted: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    view = a_view(scripted)
    assert "waiting for the first tick" in drawn(view, width=80)[0]
    assert "◌ connecting" in drawn(view, width=80)[0]
    frame = drawn(view, a_snap(leader=None, lease_left_s=None, nodes=[]), width=80)
    assert frame[0].startswith("no leader  due runs wait until there is one")
    assert "No nodes are up. Start one: cronflow node" in frame
    now += 7.0
    assert "! no updates for 7s" in drawn(view, width=80)[0]


def test_after_missed_ticks_the_events_are_read_again(scripted: ScriptedClient) -> None:
    view = a_view(scripted)
    drawn(view, a_snap(), width=80)
    scripted.happened = [an_event("meanwhile")]
    assert drawn(view, a_tick(dropped=4), width=80)[-1].endswith("meanwhile  node-a")


def test_without_a_terminal_the_cluster_is_one_line_per_second(cli: Cli, scripted: ScriptedClient) -> None:
    scripted.stream = [a_snap(), a_tick(an_event("it happened")), a_tick(leader=None)]
    numbers = "2 nodes; 6/32 running, 4 queued; 3.2 ended per second, 0.2 failed"
    assert cli("cluster", "watch").stdout.splitlines() == [
        "2026-11-21 12:00:00Z WARN  it happened  node-a",
        f"2026-11-21 12:00:00Z leader node-a, term 7; {numbers}",
        f"2026-11-21 12:00:00Z no leader; {numbers}",
    ]
    written = [orjson.loads(text) for text in cli("cluster", "watch", "-o", "json").stdout.splitlines()]
    assert written == scripted.stream
    assert cli("cluster", "watch", "-o", "yaml").exit_code == 2


def test_runs_are_drawn_with_their_progress_and_move_down_when_they_end(scripted: ScriptedClient) -> None:
    begun, waiting = a_run(started_at="2026-11-21T11:58:58Z"), a_run(RunState.DISPATCHED, id="waits@1")
    over = a_run(RunState.FAILED, id="over@1", error="ValueError: no rows", duration_ms=48)
    scripted.polls = [[], [begun, waiting, over], [waiting, over]]
    view = runs_view(scripted, None)
    progress = {"topic": "logs?level=progress", "gap": 0, "lines": [a_line("30/120", level="progress")]}
    frame = drawn(view, a_tick(logs=[progress]), width=140)
    assert frame[0].startswith("1 running, 1 dispatched   3.2 ended per second")
    rows = [text.split() for text in frame[3:]]
    assert [row[2] for row in rows] == [RUNNING, "waits@1", "over@1"]
    assert "████············  25%  30/120" in frame[3]
    assert " 1m 2s… " in frame[3]
    assert frame[5].endswith("ValueError: no rows")
    # It was due long ago and ended now, so no list of the newest runs contains it.
    scripted.details = {RUNNING: a_run(RunState.SUCCEEDED, ended_at="2026-11-21T11:59:59Z")}
    frame = drawn(view, a_tick(), width=140)
    assert [text.split()[1:3] for text in frame[3:]] == [
        ["dispatched", "waits@1"],
        ["succeeded", RUNNING],
        ["failed", "over@1"],
    ]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_if_runs_do_not_fit_some_ended_ones_are_still_shown(scripted: ScriptedClient, width: int) -> None:
    runs = [a_run(id=f"many-{n}@1") for n in range(60)] + [a_run(RunState.FAILED, id=f"e-{n}@1") for n in range(9)]
    scripted.polls = [runs]
    frame = drawn(runs_view(scripted, None), a_tick(), width=width, height=24)
    assert len(frame) <= 23
    assert max(map(len, frame)) <= width
    assert "… and 47 more open" in frame
    assert sum("failed" in text for text in frame) == 5


def test_the_view_without_runs_names_the_next_step(scripted: ScriptedClient) -> None:
    scripted.polls = [[]]
    frame = drawn(runs_view(scripted, "report"), a_tick(rates={}), width=80)
    assert frame[0].startswith("no open runs of report")
    assert frame[-1].startswith("No runs yet.")


def test_without_a_terminal_each_changed_run_is_one_line(cli: Cli, scripted: ScriptedClient) -> None:
    over = a_run(RunState.SUCCEEDED, id="over@1")
    scripted.polls = [[], [a_run(), over], [a_run(), over], [a_run(RunState.SUCCEEDED), over]]
    scripted.stream = [a_snap(), a_tick(), {"t": "gap", "missed": None}, a_tick()]
    assert [text[21:] for text in cli("runs", "watch", "--job", "reindex-search").stdout.splitlines()] == [
        f"▶ running    {RUNNING}  node-c",
        f"✓ succeeded  {RUNNING}  took 3.2s  node-c",
    ]
    assert scripted.topics[-1] == ()
    scripted.polls = [[], [a_run()], [a_run(RunState.SUCCEEDED)]]
    scripted.stream = [a_snap(), a_tick()]
    written = cli("runs", "watch", "-o", "json").stdout.splitlines()
    assert [orjson.loads(text)["state"] for text in written] == ["running", "succeeded"]


def test_every_state_of_a_run_has_its_place_in_the_view() -> None:
    assert {*watch.OPEN_ORDER, *watch.ENDED_STATES} == set(RunState) == set(formatting.RUNS)
