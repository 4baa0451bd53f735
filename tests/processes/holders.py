"""A load of runs that hold keys under a limit, and the judgement of what their handlers wrote.

The sink is independent of CronFlow's records: handlers append a line when they start and when they end, and the test
appends one after it has killed a node. The order of the lines is the order of events, because each is one write.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cronflow.domain.concurrency import KeyedConcurrency
from cronflow.domain.job import Job, JobRecord, Overlap, PythonTarget, Retry
from cronflow.domain.planning import run_on_request
from cronflow.domain.run import Kind, Run

JOB = "hold"


@dataclass(frozen=True, slots=True)
class Judged:
    """The most handlers that held one key at the same time, the attempts that started and ended, and the first line at
    which more held a key than the limit allows.
    """

    most: int
    started: int
    ended: int
    excess: str | None


def judge(lines: Iterable[str], limit: int) -> Judged:
    """Count the handlers of each key, line by line. A killed node ends its handlers."""
    holders: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
    most = started = ended = 0
    excess = None
    for line in lines:
        match line.split():
            case ["start", run, fence, node, key, *_]:
                started += 1
                holders[key].add((run, fence, node))
                most = max(most, len(holders[key]))
                if len(holders[key]) > limit and excess is None:
                    excess = f"{line}: {sorted(holders[key])}"
            case ["end", run, fence, node, key, *_]:
                ended += 1
                holders[key].discard((run, fence, node))
            case ["killed", node]:
                for held in holders.values():
                    held -= {one for one in held if one[2] == node}
    return Judged(most, started, ended, excess)


def holding_job(sink: Path, limit: int, seconds: float) -> Job:
    """A job whose runs hold the key of their argument for some time."""
    return Job(
        name=JOB,
        target=PythonTarget("tests.processes.handlers:hold", {"sink": str(sink), "seconds": seconds}),
        overlap=Overlap.ALLOW,
        retry=Retry(max=3, initial="1s"),
        concurrency=(KeyedConcurrency("{args.key}", limit),),
    )


def requested_runs(record: JobRecord, count: int, keys: int, seed: int = 1) -> list[Run]:
    """Runs on request, of keys drawn at random."""
    chosen = random.Random(seed)
    now = datetime.now(UTC)
    return [
        run_on_request(
            record,
            f"{JOB}@manual-{k:05d}",
            Kind.MANUAL,
            now.replace(microsecond=0),
            {"key": f"k{chosen.randrange(keys)}"},
            now,
        )
        for k in range(count)
    ]
