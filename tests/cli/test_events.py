"""`cronflow cluster events`."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import orjson
import pytest

from cronflow.cli.terminal import times
from cronflow.domain.events import JobPaused, LeaderElected, NodeLost, RecordedEvent, event_id
from tests.cli.conftest import Cli
from tests.cli.scene import NOON, Scene


def keep(scene: Scene, minutes_ago: float, event: Any) -> None:
    at = NOON - timedelta(minutes=minutes_ago)
    asyncio.run(scene.backends.events.append([RecordedEvent(event_id(at, "x"), at, "node-a", event)]))


@pytest.fixture
def happened(empty: Scene) -> Scene:
    keep(empty, 90, JobPaused("report", "eva"))
    keep(empty, 30, LeaderElected("node-a", 7))
    keep(empty, 20, NodeLost("node-b", 3))
    return empty


@pytest.mark.usefixtures("happened")
def test_events_are_printed_as_sentences_the_oldest_first(cli: Cli) -> None:
    assert cli("cluster", "events", "--since", "1h").stdout.splitlines() == [
        "2026-11-21 11:30:00Z INFO  node-a is the leader, term 7  node-a",
        "2026-11-21 11:40:00Z ERROR node-b was lost with 3 running jobs  node-a",
    ]


@pytest.mark.usefixtures("happened")
def test_events_of_one_kind_as_json(cli: Cli) -> None:
    (line,) = cli("cluster", "events", "--kind", "job_paused", "-o", "json").stdout.splitlines()
    event = orjson.loads(line)
    assert (event["kind"], event["severity"], event["fields"]) == (
        "job_paused",
        "info",
        {"job": "report", "by": "eva", "note": "", "until": ""},
    )
    assert cli("cluster", "events", "--kind", "job_paused", "-o", "yaml").stdout.startswith("- id:")


@pytest.mark.usefixtures("happened")
def test_the_newest_are_shown_when_there_are_more(cli: Cli) -> None:
    (line,) = cli("cluster", "events", "-n", "1").stdout.splitlines()
    assert "node-b was lost" in line


@pytest.mark.usefixtures("happened")
def test_an_unknown_kind_is_an_error_with_a_suggestion(cli: Cli) -> None:
    result = cli("cluster", "events", "--kind", "job_pause")
    assert result.exit_code == 2
    assert "did you mean job_paused?" in result.stderr


@pytest.mark.usefixtures("empty")
def test_without_events_a_note_is_printed(cli: Cli) -> None:
    result = cli("cluster", "events")
    assert result.stdout == ""
    assert "no events since" in result.stderr


def test_following_shows_each_event_once_including_late_ones(
    cli: Cli, happened: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise KeyboardInterrupt
        at = NOON - timedelta(seconds=20 - 15 * looks)
        event = NodeLost(f"node-{looks}", 0)
        await happened.backends.events.append([RecordedEvent(event_id(at, "y"), at, "node-a", event)])

    monkeypatch.setattr(times, "sleep", sleep)
    lines = cli("cluster", "events", "-f", "--since", "1h").stdout.splitlines()
    assert [re.findall(r"node-\w", line)[0] for line in lines] == ["node-a", "node-b", "node-1", "node-2"]
