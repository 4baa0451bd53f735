"""Where a follower stands: what is yielded once, what is a gap, when it is over. Messages in, messages out."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from cronflow.client.calls import ApiError
from cronflow.client.places import RESUMED_TAIL, Interrupted, Patience, Place, stream_url
from cronflow.domain.errors import BackendUnavailable

RUN = "run:a@1"
LOGS = "logs?level=warn"


def line(n: int, fence: int = 7, at: str = "2026-11-21T12:00:10Z") -> dict[str, Any]:
    return {"run": "a@1", "fence": fence, "n": n, "at": at, "level": "info", "text": f"{fence}.{n}"}


def chunk(topic: str, *lines: dict[str, Any], gap: int | None = 0) -> dict[str, Any]:
    return {"topic": topic, "gap": gap, "lines": [*lines]}


def snap(seq: str = "1-0") -> str:
    return orjson.dumps({"t": "snap", "seq": seq, "doc": {"at": "2026-11-21T12:00:00Z"}}).decode()


def tick(seq: str, *logs: dict[str, Any]) -> str:
    return orjson.dumps({"t": "tick", "seq": seq, "ts": "2026-11-21T12:00:01Z", "logs": [*logs]}).decode()


def take(place: Place, *texts: str) -> list[Any]:
    """What is yielded, in short: gaps, snapshots, and of ticks each gap and line."""
    found: list[Any] = []
    for text in texts:
        for message in place.take(text):
            if message["t"] != "tick":
                found.append(message["t"])
                continue
            for part in message["logs"]:
                found += [] if part["gap"] == 0 else [part["gap"]]
                found += [one["text"] for one in part["lines"]]
    return found


def hello(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(place.hello("t"))
    return found


def test_it_goes_on_behind_the_last_message() -> None:
    place = Place([RUN], None, 5)
    assert hello(place) == {"op": "hello", "ticket": "t", "since": None, "topics": [RUN], "tail": 5}
    take(place, snap("1-0"), tick("2-0"))
    assert hello(place) == {"op": "hello", "ticket": "t", "since": "2-0", "topics": [RUN], "tail": RESUMED_TAIL}
    assert hello(Place([], "9-0", 0))["since"] == "9-0"


def test_a_snapshot_instead_of_what_was_missed_is_a_gap_and_the_first_one_is_none() -> None:
    place = Place([], None, 0)
    assert take(place, snap("1-0")) == ["snap"]
    assert take(place, snap("5-0")) == ["gap", "snap"]
    assert take(Place([], "1-0", 0), snap("5-0")) == ["gap", "snap"]


@pytest.mark.parametrize("topic", [RUN, LOGS])
def test_lines_that_come_again_after_a_loss_are_yielded_once(topic: str) -> None:
    place = Place([topic], None, 0)
    assert take(place, snap(), tick("2-0", chunk(topic, line(0), line(1)))) == ["snap", "7.0", "7.1"]
    hello(place)
    assert take(place, tick("3-0", chunk(topic, line(0), line(1), line(2)), chunk(topic, line(3)))) == ["7.2", "7.3"]


@pytest.mark.parametrize("topic", [RUN, LOGS])
def test_lines_that_do_not_meet_the_last_ones_have_a_gap_before_them(topic: str) -> None:
    place = Place([topic], None, 0)
    take(place, snap(), tick("2-0", chunk(topic, line(0))))
    hello(place)
    many = [line(n) for n in range(5000, 5000 + RESUMED_TAIL)]
    assert take(place, tick("3-0", chunk(topic, *many)))[:2] == [None, "7.5000"]
    # Only what comes first after the loss may have one.
    more = [line(n) for n in range(7000, 7000 + RESUMED_TAIL)]
    assert take(place, tick("4-0", chunk(topic, *more)))[:1] == ["7.7000"]


def test_fewer_lines_than_are_sent_at_most_are_all_that_there_are() -> None:
    place = Place([LOGS], None, 0)
    take(place, snap(), tick("2-0", chunk(LOGS, line(0))))
    hello(place)
    assert take(place, tick("3-0", chunk(LOGS, line(1), line(2)))) == ["7.1", "7.2"]


def test_history_that_was_not_asked_for_does_not_come_with_a_new_connection() -> None:
    place = Place([RUN], None, 0)
    take(place, snap())
    hello(place)
    old, new = line(0, at="2026-11-21T11:00:00Z"), line(1)
    assert take(place, tick("2-0", chunk(RUN, old, new))) == ["7.1"]


def test_a_gap_of_the_server_is_passed_on() -> None:
    place = Place([RUN], None, 0)
    assert take(place, snap(), tick("2-0", chunk(RUN, gap=3), chunk(RUN, line(9), gap=None))) == [
        "snap",
        3,
        None,
        "7.9",
    ]


def test_a_topic_that_is_refused_is_the_end_and_a_server_that_is_away_is_not() -> None:
    refused = {"t": "error", "op": "sub", "detail": "unknown topic 'x'"}
    with pytest.raises(ApiError, match="422: unknown topic 'x'"):
        take(Place(["x"], None, 0), orjson.dumps(refused | {"again": False}).decode())
    with pytest.raises(Interrupted, match="MongoDB is away"):
        take(Place([RUN], None, 0), orjson.dumps(refused | {"detail": "MongoDB is away", "again": True}).decode())


def closed(code: int, reason: str) -> ConnectionClosedError:
    return ConnectionClosedError(Close(code, reason), None)


def test_a_login_that_is_over_is_renewed_and_one_that_stays_over_is_the_end() -> None:
    patience = Patience("http://x", 300.0)
    assert patience.pause_s(closed(4401, "the login has ended")) > 0
    patience.reset()
    assert patience.pause_s(closed(4401, "the login has ended")) > 0
    assert patience.pause_s(closed(4401, "the login has ended")) > 0
    with pytest.raises(ApiError, match="401: the login has ended"):
        patience.pause_s(closed(4401, "the login has ended"))


def test_pauses_grow_to_a_limit_and_are_never_equal_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    patience = Patience("http://x", None)
    pauses = [patience.pause_s(OSError("refused")) for _ in range(9)]
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]
    patience.reset()
    assert patience.pause_s(closed(1012, "the server stops")) == 0.25


def test_it_gives_up_after_its_time_without_a_message_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    patience = Patience("http://x", 60.0)
    now = 30.0
    assert patience.pause_s(ApiError(503, "Redis is away"))
    now = 61.0
    with pytest.raises(ApiError, match=r"503: http://x had no live stream for 61 s: 503: Redis is away"):
        patience.pause_s(ApiError(503, "Redis is away"))


def test_an_unavailable_api_ends_a_command_at_its_first_request_and_is_retried_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    unavailable = BackendUnavailable("the API", "http://x", "refused")
    patience = Patience("http://x", 60.0)
    with pytest.raises(BackendUnavailable):
        patience.pause_s(unavailable)
    patience.reset()
    assert patience.pause_s(unavailable) > 0
    assert Patience("http://x", 60.0, connected=True).pause_s(unavailable) > 0
    now = 61.0
    with pytest.raises(BackendUnavailable):
        patience.pause_s(unavailable)


@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_what_the_api_refuses_is_the_end_at_once(status: int) -> None:
    with pytest.raises(ApiError, match=str(status)):
        Patience("http://x", None).pause_s(ApiError(status, "no"))


def test_where_the_stream_is() -> None:
    assert stream_url("http://h:8500") == "ws://h:8500/api/v1/stream"
    assert stream_url("https://h/cf") == "wss://h/cf/api/v1/stream"
