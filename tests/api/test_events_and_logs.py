"""Events and lines of all runs over the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from cronflow.api.pagination import cursor_of
from cronflow.domain.events import Event, JobPaused, LeaderElected, NodeLost, RecordedEvent, ServiceRecovered, event_id
from cronflow.ports import AuditQuery, LogLine
from cronflow.schemas.runs import log_schema
from cronflow.schemas.stream import event_schema
from cronflow.usecases import UseCases
from tests.api.conftest import Client, client_of
from tests.cli.scene import NOON, Scene

EVENTS: Sequence[tuple[float, Event]] = (
    (90, JobPaused("report", "eva")),
    (30, LeaderElected("node-a", 7)),
    (20, NodeLost("node-b", 3)),
    (20, LeaderElected("node-c", 8)),
)
LEVELS = ("info", "warn", "error")


@pytest.fixture
async def recorded(scene: Scene) -> list[RecordedEvent]:
    """Events, newest first."""
    found = []
    for n, (minutes_ago, event) in enumerate(EVENTS):
        at = NOON - timedelta(minutes=minutes_ago)
        found.append(RecordedEvent(event_id(at, f"{n:04x}"), at, "node-a", event))
    await scene.backends.events.append(found)
    return found[::-1]


async def test_events_are_listed_page_by_page_newest_first(client: Client, recorded: list[RecordedEvent]) -> None:
    shown = await client.all("/events", limit=1)
    assert shown == [event_schema(happened) for happened in recorded]
    assert [event["kind"] for event in shown] == ["leader_elected", "node_lost", "leader_elected", "job_paused"]
    assert shown[1]["severity"] == "error"
    assert (await client.get("/events", params={"limit": 4}))["next_cursor"] is None


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        ({"since": "2026-11-21T11:30:00Z"}, [0, 1, 2]),
        ({"since": "2026-11-21T11:30:00.000001Z"}, [0, 1]),
        ({"kind": "leader_elected"}, [0, 2]),
        ({"kind": ["leader_elected", "job_paused"], "since": "2026-11-21T11:35:00Z"}, [0]),
        ({"node": "node-b"}, [1]),
        ({"node": "nobody"}, []),
    ],
)
async def test_events_are_chosen_by_kind_and_age(
    client: Client, recorded: list[RecordedEvent], params: dict[str, Any], wanted: list[int]
) -> None:
    assert await client.all("/events", limit=1, **params) == [event_schema(recorded[n]) for n in wanted]


async def test_each_change_emits_one_event_and_is_in_the_audit_log(scene: Scene) -> None:
    emitted: list[Event] = []
    service = UseCases(scene.backends, scene.clock, emitted.append)
    async with client_of(service) as client:
        await client.post("/jobs/nightly-report/pause")
        assert emitted == [JobPaused("nightly-report", "the-admin")]
        await client.post("/cluster/stepdown", status=202, who="operator")
        await client.post("/nodes/node-a/drain", who="operator")
        assert [event.kind for event in emitted] == ["job_paused", "stepdown_requested"]
        assert [(entry.action, entry.by) for entry in await service.backends.audit.find(AuditQuery(limit=3))] == [
            ("node.drain", "the-operator"),
            ("cluster.stepdown", "the-operator"),
            ("job.pause", "the-admin"),
        ]


@pytest.fixture
async def lines(scene: Scene) -> list[LogLine]:
    """Lines of two jobs on two nodes, the newest first, and no others."""
    logs = scene.backends.logs
    scene.backends.documents.lines.clear()
    made = [
        LogLine(
            run=f"{job}@1",
            job=job,
            fence=7,
            attempt=1,
            n=n,
            at=NOON + timedelta(seconds=n, milliseconds=len(job)),
            level=LEVELS[n % 3],
            text=f"Wrote {n} rows",
            node=f"node-{n % 2}",
        )
        for n in range(6)
        for job in ("report", "sync")
    ]
    await logs.append(made)
    return sorted(made, key=lambda line: line.at, reverse=True)


@pytest.mark.parametrize(
    ("params", "takes"),
    [
        ({}, lambda line: True),
        ({"q": "wrote 4"}, lambda line: line.n == 4),
        ({"level": "warn"}, lambda line: line.level != "info"),
        ({"level": "ERROR", "job": "sync"}, lambda line: line.level == "error" and line.job == "sync"),
        ({"node": "node-1"}, lambda line: line.n % 2 == 1),
        ({"since": "2026-11-21T12:00:03Z"}, lambda line: line.n >= 3),
        ({"until": "2026-11-21T12:00:03Z"}, lambda line: line.n < 3),
        ({"since": "2026-11-21T12:00:02Z", "until": "2026-11-21T12:00:04Z"}, lambda line: 2 <= line.n < 4),
        ({"job": "nothing"}, lambda line: False),
    ],
)
async def test_lines_of_all_runs_are_found_page_by_page_the_newest_first(
    client: Client, lines: list[LogLine], params: dict[str, Any], takes: Any
) -> None:
    assert await client.all("/logs", limit=2, **params) == [log_schema(line) for line in lines if takes(line)]


@pytest.mark.parametrize(
    ("path", "params", "place"),
    [
        ("/events", {"kind": "leader_electd"}, "kind"),
        ("/events", {"since": "yesterday"}, "since"),
        ("/events", {"cursor": "xyz"}, "cursor"),
        ("/events", {"job": "report"}, "job"),
        ("/logs", {"level": "loud"}, "level"),
        ("/logs", {"since": "2026-11-21T12:00:00"}, "since"),
        ("/logs", {"cursor": cursor_of("report")}, "cursor"),
        ("/logs", {"until": "tomorrow"}, "until"),
        ("/logs", {"to": "2026-11-21T12:00:00Z"}, "to"),
        ("/logs", {"q": "x" * 201}, "q"),
    ],
)
async def test_what_cannot_be_asked_is_refused_at_its_place(
    client: Client, path: str, params: dict[str, str], place: str
) -> None:
    answer = await client.get(path, 422, params=params)
    assert [error["place"] for error in answer["errors"]] == [place]


@pytest.mark.parametrize("path", ["/events", "/logs"])
async def test_both_need_a_login(client: Client, path: str) -> None:
    await client.get(path, 401, who=None)
    await client.get(path, who="viewer")


async def test_a_filter_accepts_the_old_name_of_a_kind(scene: Scene, client: Client) -> None:
    happened = RecordedEvent(event_id(NOON, "0001"), NOON, "node-a", ServiceRecovered("redis", 3.0))
    await scene.backends.events.append([happened])
    for kind in ("service_found", "service_recovered"):
        assert await client.all("/events", limit=5, kind=kind) == [event_schema(happened)]
