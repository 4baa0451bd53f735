"""The log of a process."""

from __future__ import annotations

import logging
import re

import orjson
import pytest
import structlog

from cronflow.cli.process_log import LogFormat, People, configure


def test_a_line_for_people_has_time_level_event_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", LogFormat.TEXT)
    structlog.get_logger("x").info("leader elected", term=7, node="node-a", reason="two words", nothing=None)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(
        r'20\d\d-\d\d-\d\dT[\d:.]+Z INFO    leader elected  term=7 node=node-a reason="two words"\n', captured.err
    )


def test_json_logs_have_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", LogFormat.JSON)
    structlog.get_logger("x").warning("job waits", job="a", at_once={1: object})
    event = orjson.loads(capsys.readouterr().err)
    assert (event["level"], event["event"], event["job"]) == ("warn", "job waits", "a")
    assert list(event)[:3] == ["at", "level", "event"]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["DEBUG", "INFO", "SUCCESS", "WARN", "ERROR"]),
        ("info", ["INFO", "SUCCESS", "WARN", "ERROR"]),
        ("warn", ["WARN", "ERROR"]),
        ("error", ["ERROR"]),
    ],
)
def test_events_below_the_level_are_not_logged(
    level: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(level, LogFormat.TEXT)
    log = structlog.get_logger("x")
    for name in ("debug", "info", "success", "warning", "error"):
        getattr(log, name)("it happened")
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == expected


def test_lines_of_libraries_look_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", LogFormat.JSON)
    logging.getLogger("uvicorn.error").info("Started on port %d", 8500)
    logging.getLogger("uvicorn.error").debug("not this")
    [line] = capsys.readouterr().err.splitlines()
    event = orjson.loads(line)
    assert (event["level"], event["event"]) == ("info", "Started on port 8500")
    assert event["at"].endswith("Z")


def test_an_exception_follows_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", LogFormat.TEXT)
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger("x").exception("it broke")
    lines = capsys.readouterr().err.splitlines()
    assert "ERROR   it broke" in lines[0]
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: broken"


def test_logged_values_cannot_break_out_of_their_line() -> None:
    line = People(colour=False)(None, "", {"at": "T", "level": "info", "event": "a\x1b[2Jb", "text": "x\ny\x9b0;z"})
    assert line == 'T INFO    a␛[2Jb  text="x\\ny\\u009b0;z"'


@pytest.mark.parametrize(
    ("level", "code"), [("debug", 90), ("info", 36), ("success", 32), ("warning", 33), ("error", 31)]
)
def test_each_level_has_its_colour(level: str, code: int) -> None:
    line = People(colour=True)(None, "", {"at": "T", "level": level, "event": "e"})
    assert re.search(rf"\x1b\[{code}m[A-Z]+ *\x1b\[0m e", line)
