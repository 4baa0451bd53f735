"""`cronflow cluster …` and `cronflow nodes …`."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cronflow.domain.resources import ResourceAmount
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import Scene
from tests.contracts.builders import a_run


@pytest.mark.usefixtures("scene")
def test_the_status_shows_leader_term_lease_and_load(cli: Cli) -> None:
    lines = cli("cluster", "status", columns=100).stdout.splitlines()
    assert lines[:5] == [
        "cluster  default",
        "leader   ♛ node-a  since 2026-11-21 12:00:00Z, now",
        "term     1",
        "lease    22s left",
        "work     7 running, 0 queued, capacity for 32 more (36 slots)",
    ]


@pytest.mark.usefixtures("scene")
def test_a_leader_without_a_heartbeat_is_marked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_HEARTBEAT", "3s")
    (line,) = [line for line in cli("cluster", "status", columns=160).stdout.splitlines() if line.startswith("leader")]
    assert line.startswith("leader   ♛ node-a  since 2026-11-21 12:00:00Z, now, no heartbeat; a new leader takes over")


@pytest.mark.usefixtures("scene")
def test_the_status_as_json_has_the_documented_fields(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_NAMESPACE", "shop")
    status = parsed(cli("cluster", "status", "-o", "json"))
    assert (status["namespace"], status["term"], status["leader"]) == ("shop", 1, "node-a")
    assert status["lease_left_s"] == pytest.approx(22.0)
    first = status["nodes"][0]
    expected = {
        "name": "node-a",
        "roles": ["leader", "worker"],
        "state": "up",
        "cpu": 0.42,
        "memory": 0.61,
        "slots": 16,
        "in_flight": 3,
        "heartbeat_age_s": 8.0,
        "labels": {"region": "eu", "disk": "ssd"},
    }
    assert {key: first[key] for key in expected} == expected
    assert status["queue"] == {"queued": 0, "in_flight": 7, "slots": 36, "capacity": 32}


@pytest.mark.usefixtures("scene")
def test_nodes_are_up_draining_or_stale(cli: Cli) -> None:
    result = cli("nodes", "list")
    assert row(result, "node-a").startswith("● up        node-a  ♛ leader  3/16")
    assert row(result, "node-b").startswith("↓ draining  node-b  worker    0/16")
    assert row(result, "node-c").startswith("! stale     node-c  worker     4/4")
    assert "19s ago" in row(result, "node-c")
    assert "disk=ssd region=eu" in row(result, "node-a")


def test_nodes_are_shown_with_what_is_reserved_of_their_capacity(cli: Cli, scene: Scene) -> None:
    assert "CPUs" not in cli("nodes", "show", "node-a").stdout
    [report] = [one.report for one in asyncio.run(scene.service.cluster.members()) if one.report.name == "node-a"]
    asyncio.run(scene.backends.membership.report(replace(report, capacity=ResourceAmount(4, 8 << 30)), 60.0))
    run = a_run("large", node=report.id, reserved=ResourceAmount(0.5, 256 << 20))
    asyncio.run(scene.backends.runs.insert([run]))
    reserved = "0.5 of 4 CPUs, 256 MiB of 8 GiB"
    assert reserved in row(cli("nodes", "list"), "node-a")
    assert reserved in cli("nodes", "show", "node-a").stdout
    node = parsed(cli("nodes", "show", "node-a", "-o", "json"))
    assert node["capacity"] == {"cpu": 4, "memory": 8 << 30}
    assert node["reserved"] == {"cpu": 0.5, "memory": 256 << 20}


@pytest.mark.usefixtures("scene")
def test_a_node_is_stale_after_two_heartbeats_of_the_settings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for heartbeat, state in (("8s", "! stale"), ("10s", "● up")):
        monkeypatch.setenv("CRONFLOW_HEARTBEAT", heartbeat)
        monkeypatch.setenv("CRONFLOW_NODE_TTL", "30s")
        assert row(cli("nodes", "list"), "node-c").startswith(state)


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("columns", [80, 120])
def test_the_tables_of_nodes_fit_the_terminal(cli: Cli, columns: int) -> None:
    lines = [*cli("nodes", "list", columns=columns).stdout.splitlines()]
    assert len(lines) == 4
    assert max(map(len, lines)) <= columns


@pytest.mark.usefixtures("empty")
def test_a_cluster_without_nodes_names_the_next_step(cli: Cli) -> None:
    status = cli("cluster", "status").stdout
    assert "leader   none" in status
    assert "No nodes are up. Start one: cronflow node" in status
    assert cli("nodes", "list").stdout == "No nodes are up. Start one: cronflow node\n"
    assert parsed(cli("cluster", "status", "-o", "json"))["leader"] is None


def test_the_leader_is_asked_to_step_down(cli: Cli, scene: Scene) -> None:
    assert cli("cluster", "stepdown").stdout.startswith("Asked node-a to step down.")
    assert scene.backends.memory.resign == 1


@pytest.mark.usefixtures("empty")
def test_stepping_down_without_a_leader_is_refused(cli: Cli) -> None:
    result = cli("cluster", "stepdown")
    assert result.exit_code == 3
    assert "start one: cronflow node" in result.stderr
