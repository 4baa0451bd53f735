"""Tests of the executors, on real processes, threads and sockets; here stands what they share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from cronflow.domain.durations import parse_duration
from cronflow.domain.job import Job, Retry, Target
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.ports import Assignment

RUN = "demo@20261121T020000Z"
FENCE = 1_795_226_400_000_123


class Lines:
    """A LineSink that remembers."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []

    def __call__(self, level: str, text: str) -> None:
        self.all.append((level, text))

    def of(self, level: str) -> list[str]:
        return [text for line_level, text in self.all if line_level == level]


def assignment(
    target: Target,
    *,
    timeout: str = "20s",
    attempt: int = 1,
    args: Mapping[str, object] | None = None,
    success_exit_codes: tuple[int, ...] = (0,),
) -> Assignment:
    """One attempt of the target. The timeout is for the tests that do not reach it."""
    job = Job(
        name="demo",
        target=target,
        timeout=parse_duration(timeout),
        retry=Retry(),
        success_exit_codes=success_exit_codes,
    )
    fire_at = datetime(2026, 11, 21, 2, tzinfo=UTC)
    return Assignment(run=RUN, fence=FENCE, term=3, attempt=attempt, fire_at=fire_at, job=job, args=args or {})


async def timed_out(attempt: Callable[[str], Awaitable[AttemptResult]], started: Callable[[], object]) -> AttemptResult:
    """Make an attempt that never ends, with a timeout. On a busy machine the timeout may come before the program has
    `started` to do what the test is about; then the attempt is made again with a longer one."""
    for timeout in ("300ms", "3s", "30s"):
        result = await attempt(timeout)
        assert result.outcome is Outcome.TIMEOUT
        if started():
            return result
    raise AssertionError("the program did not start within 30 s")


def is_running(pid: int) -> bool:
    """Whether the process runs; one that waits for its parent to notice its end does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
