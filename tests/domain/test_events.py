"""Events: every kind has a sentence, and is read back as it was stored."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import pytest

from cronflow.domain.events import (
    KINDS,
    OLD_KINDS,
    Event,
    LeaderElected,
    RunsFailed,
    RunsLost,
    RunsReassigned,
    cursor_of,
    event_id,
    event_of,
    fields_of,
    stored_kinds,
)

VALUES: dict[type, Any] = {str: "words", int: 3, float: 1.5, bool: True}


def an_example(kind: type[Event]) -> Event:
    """One with a value in each field."""
    hints = get_type_hints(kind)
    return kind(**{one.name: VALUES[hints[one.name]] for one in fields(kind)})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_sentence_and_is_read_back_as_it_was(kind: str) -> None:
    event = an_example(KINDS[kind])
    assert event.kind == kind
    assert event.text
    assert "{" not in event.text
    assert event_of(kind, fields_of(event)) == event


def test_one_run_is_not_called_runs() -> None:
    assert RunsFailed("etl", 1, "etl@1", "no disk").text == "1 run of etl failed (etl@1): no disk"
    assert RunsFailed("etl", 3, "etl@1", "no disk").text == "3 runs of etl failed (for example etl@1): no disk"
    assert RunsLost("etl", 3, "etl@1").text == "3 runs of etl were lost (for example etl@1)"
    assert RunsReassigned(1, "etl@1").text == "1 run of a lost worker was reassigned (etl@1)"
    assert LeaderElected("n1", 1).text == "n1 is the leader, term 1", "a number without words is a number"


def test_what_another_version_wrote_is_passed_over() -> None:
    assert event_of("leader_flew", {}) is None
    assert event_of("leader_elected", {"node": "n1"}) is None
    assert event_of("leader_elected", {"node": "n1", "term": 1, "moon": "full"}) == LeaderElected("n1", 1)


@pytest.mark.parametrize(("old", "new"), OLD_KINDS.items())
def test_an_event_stored_under_an_old_kind_is_read_as_the_new_one(old: str, new: str) -> None:
    assert old not in KINDS
    event = an_example(KINDS[new])
    assert event_of(old, fields_of(event)) == event
    assert stored_kinds([old]) == stored_kinds([new]) == sorted([old, new])


def test_a_filter_by_kinds_leaves_out_names_of_no_kind() -> None:
    assert stored_kinds(["leader_elected", "leader_flew"]) == ["leader_elected"]


def test_a_long_error_is_cut() -> None:
    assert len(fields_of(RunsFailed("job", 1, "run", "x" * 10_000))["error"]) == 500


def test_ids_grow_with_time() -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    ids = [event_id(at + timedelta(microseconds=n), "ffff") for n in (0, 1, 16, 10**9, 10**15)]
    assert ids == sorted(ids)
    assert cursor_of(at) < ids[0] < cursor_of(at + timedelta(microseconds=1))
