"""Marks, the onset of failures, and the summary of an incident, from records that are made up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from cronflow.domain.events import Event, LeaderElected, NodeJoined, NodeLost, RecordedEvent, event_id
from cronflow.domain.failures import group
from cronflow.domain.incident import Incident, markdown
from cronflow.domain.marks import ClusterMark, MarkKind, marks_of
from cronflow.domain.onset import MatchKind, Onset, onset_of
from cronflow.domain.run import Run, RunState
from tests.cli.scene import NOON, run

MINUTE = timedelta(minutes=1)


def happened(minute: int, event: Event) -> RecordedEvent:
    at = NOON + minute * MINUTE
    return RecordedEvent(event_id(at, "t"), at, "node-a#1", event)


def history(states: str, **fields: object) -> list[Run]:
    """A run per minute: `s` succeeded, `f` failed."""
    state = {"s": RunState.SUCCEEDED, "f": RunState.FAILED}
    return [
        replace(run("etl", NOON + k * MINUTE, state[one]), error="no route to 10.0.0.1", **fields)  # type: ignore[arg-type]
        for k, one in enumerate(states)
    ]


def onset(runs: list[Run], *marks: ClusterMark) -> Onset:
    found = onset_of(runs, marks)
    assert found is not None
    return found


def test_the_onset_is_the_first_failure_since_the_last_three_successes_in_a_row() -> None:
    found = onset(history("sfssssfsff"))
    assert (found.first.fire_at, found.failed, found.since, found.before) == (NOON + 6 * MINUTE, 3, 4, 5)
    assert found.last_success is not None
    assert found.last_success.fire_at == NOON + 5 * MINUTE
    assert found.reason == "no route to <address>"
    assert found.matches == ()


def test_failures_that_are_over_and_jobs_that_never_failed_have_no_onset() -> None:
    assert onset_of(history("ffsss"), ()) is None
    assert onset_of(history("sss"), ()) is None
    assert onset_of([], ()) is None
    assert onset(history("ff")).last_success is None


def test_a_new_version_matches_only_if_no_older_run_of_it_succeeded() -> None:
    runs = [replace(one, job_ver=1 if k < 4 else 2) for k, one in enumerate(history("ssssff"))]
    (match,) = onset(runs).matches
    assert (match.kind, match.words) == (
        MatchKind.VERSION,
        "All 2 failures ran version 2 or later; all 4 earlier successes ran version 1 or earlier",
    )
    assert onset([*runs[:3], replace(runs[3], job_ver=2), *runs[4:]]).matches == ()


def test_a_node_matches_only_if_nothing_succeeded_on_it() -> None:
    runs = [replace(one, node="node-b#9" if one.state is RunState.FAILED else "node-a#1") for one in history("ssssff")]
    (match,) = onset(runs).matches
    assert match.kind is MatchKind.NODE
    assert match.words == "All 2 failures ran on node-b; none of the 4 successes did"
    assert onset([replace(runs[0], node="node-b#7"), *runs[1:]]).matches == ()


def test_a_failover_and_a_deployment_match_if_they_came_shortly_before() -> None:
    marks = marks_of(
        [
            happened(-20, LeaderElected("node-a", 7)),
            happened(3, LeaderElected("node-b", 8)),
            happened(4, NodeJoined("node-b", "0.14.0", 16)),
            happened(6, NodeLost("node-c", 1)),
        ],
        [happened(-60, NodeJoined("node-b", "0.13.2", 16))],
    )
    found = onset(history("sssssff"), *marks)
    assert [match.kind for match in found.matches] == [MatchKind.FAILOVER, MatchKind.DEPLOYMENT]
    assert found.matches[0].words == "node-b is the leader, term 8, 120 s before the first failure started"


def test_a_node_that_starts_again_as_it_was_is_no_deployment() -> None:
    starts = [NodeJoined("a", "1", 4, "c0de"), NodeJoined("a", "1", 4, "c0de"), NodeJoined("a", "1", 4, "beef")]
    marks = marks_of([happened(k, one) for k, one in enumerate(starts)])
    assert [(mark.at, mark.kind, mark.words) for mark in marks] == [
        (NOON + 2 * MINUTE, MarkKind.DEPLOYMENT, "a started with different modules")
    ]


def test_the_summary_has_every_part_and_cannot_be_broken_by_an_error() -> None:
    failed = [replace(one, error="a | b\n# not a heading") for one in history("ff")]
    incident = Incident(
        since=NOON,
        until=NOON + 30 * MINUTE,
        ended={"succeeded": 1200, "failed": 2},
        failures=group(failed),
        marks=marks_of([happened(3, LeaderElected("node-b", 8))]),
        latest_ms=24_300.0,
        notes=["Events for this time range are no longer stored."],
    )
    page = markdown(incident)
    assert "# Incident summary, 2026-11-21 12:00:00 to 2026-11-21 12:30:00\n" in page
    assert "- Failed and lost runs: 2, of 1 jobs\n- Ended runs: 1,200 succeeded, 2 failed\n" in page
    assert "- Longest lateness: about 24.3 s\n" in page
    (row,) = [line for line in page.splitlines() if line.startswith("| a ")]
    assert row.count(" | ") == 6
    assert "a \\| b" in row
    assert "- 2026-11-21 12:03:00: node-b is the leader, term 8" in page
    assert page.endswith("## Not recorded\n\n- Events for this time range are no longer stored.\n")
