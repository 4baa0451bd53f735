"""Text of user code that UTF-8 cannot carry, on its way to the stores."""

from __future__ import annotations

import io
from typing import cast

import orjson

from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.storable import fits_document, storable_text
from cronflow.executors.child import Messages
from cronflow.ports import LogLine
from cronflow.testing.clock import FakeClock
from cronflow.worker.attempt_log import AttemptLog
from cronflow.worker.log_writer import LogWriter
from tests.contracts.builders import an_assignment

BROKEN = "caf\udce9"


class Lines:
    """A writer that keeps what it gets."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.stored: list[str] = []

    def publish(self, line: LogLine) -> None:
        """For live tails."""
        self.published.append(line.text)

    def store(self, line: LogLine) -> None:
        """For the log."""
        self.stored.append(line.text)


def test_a_line_can_be_stored_and_published() -> None:
    lines = Lines()
    log = AttemptLog(cast(LogWriter, lines), an_assignment(), "n1", FakeClock(), 100)
    log.add("info", BROKEN)
    assert lines.stored == lines.published == ["caf?"]


def test_a_function_in_its_own_process_sends_lines_and_errors() -> None:
    pipe = io.BytesIO()
    messages = Messages(pipe)
    messages.line("info", BROKEN)
    messages.end(AttemptResult(Outcome.ERROR, error=BROKEN))
    line, end = map(orjson.loads, pipe.getvalue().splitlines())
    assert (line["text"], end["error"]) == ("caf?", "caf?")


def test_other_text_stays_as_it_is() -> None:
    for text in ("", "plain", "é, \0 and 😀"):
        assert storable_text(text) == text


def test_what_a_document_cannot_hold_is_found_at_any_place() -> None:
    held: list[object] = [None, True, 2**63 - 1, -(2**63), 1.5, "a\0b", [], {}, {"$set": [{"a.b": "$x"}]}]
    for bad in (2**63, {"a\0": 1}):
        assert not fits_document(bad)
        assert not fits_document([1, {"a": [bad]}])
    for good in held:
        assert fits_document(good)
        assert fits_document([1, {"a": [good]}])
