"""The benchmarks with commands of their own that `make bench-peers` runs too, each in a process of its own.

Each records its figures, so that it may also run alone, for example `python -m tests.bench.idle`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.bench import results, traffic
from tests.bench.words import say
from tests.children import child_environment, python

LIMIT_S = 1800
"""How long a command may take."""


@dataclass(frozen=True, slots=True)
class Further:
    """`module` and the options of each of its runs. `missing` returns why it cannot run here, or None."""

    module: str
    full: Sequence[str]
    quick: Sequence[str]
    missing: Callable[[], str | None] = lambda: None

    def run(self, home: str, *, quick: bool) -> None:
        """CalledProcessError or TimeoutExpired if a command fails; its output goes to the terminal."""
        results.forget(f"python -m {self.module}")
        if reason := self.missing():
            say(self.module, f"skipped: {reason}")
            return
        for options in self.quick if quick else self.full:
            say(f"python -m {self.module}", options)
            command = python("-m", self.module, *options.split())
            subprocess.run(command, env=child_environment(HOME=home), check=True, timeout=LIMIT_S)


KILLED = "--faults kill --together --ttl 30 9 3 --trials"
HANDED_OVER = "--faults stop stepdown --ttl 30 --trials"

FURTHER = {
    "apply": Further("tests.bench.apply", full=["--jobs 20000"], quick=["--jobs 10000 --changed 1000"]),
    "idle": Further("tests.bench.idle", full=["--seconds 30"], quick=["--jobs 100000 --seconds 10"]),
    "lists": Further("tests.bench.api_lists", full=["--requests 200"], quick=["--runs 50000 --requests 50"]),
    "failover": Further(
        "tests.bench.failover",
        full=[f"{KILLED} 5 12 25", f"{HANDED_OVER} 20"],
        quick=[f"{KILLED} 1 3 6", f"{HANDED_OVER} 5"],
    ),
    "traffic": Further(
        "tests.bench.traffic",
        full=["--seconds 30"],
        quick=["--seconds 20 --views /,/jobs,/runs,/dead-letters"],
        missing=traffic.missing,
    ),
}
