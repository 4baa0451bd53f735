"""What the history of an upgrade proves, and its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cronflow.testing.audit import audit, expectations
from cronflow.testing.history.checker import RULES, Violation, check
from cronflow.testing.history.history import START, History
from tests.upgrade.cluster import Stage

ONE_OUTCOME = "H2"
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts of instants that fell due, of those without a run and with several, of runs and of started handlers."""

    due: int
    lost: int
    doubled: int
    runs: int
    starts: int
    violations: Sequence[Violation]

    @property
    def holds(self) -> bool:
        """Whether every instant has one run, and the history breaks no rule."""
        return self.due > 0 and not (self.lost or self.doubled or self.violations)

    @property
    def committed_twice(self) -> int:
        """Runs with more than one accepted outcome, or with one that no handler had."""
        return sum(violation.rule == ONE_OUTCOME for violation in self.violations)


def judged(history: History) -> Verdict:
    """The verdict about a history."""
    expected = {record.name: expectations(history.versions(record.name)) for record in history.jobs}
    found = audit(expected, history.runs, history.until)
    starts = sum(line.word == START for line in history.sink)
    return Verdict(found.fires_due, len(found.lost), len(found.doubled), len(history.runs), starts, check(history))


def table(stages: Sequence[Stage], verdict: Verdict) -> Iterator[str]:
    """The lines of the table."""
    yield f"{'stage':<54} {'leader':<8} {'nodes':<26} starts"
    for stage in stages:
        nodes, starts = _by_version(stage.nodes, "of"), _by_version(stage.starts, "on")
        yield f"{stage.what:<54} {stage.leader:<8} {nodes:<26} {starts}"
    yield (
        f"{verdict.due:,} instants due, {verdict.runs:,} runs, {verdict.starts:,} starts: lost {verdict.lost}, "
        f"doubled {verdict.doubled}, committed twice {verdict.committed_twice}, "
        f"violations of {len(RULES)} rules {len(verdict.violations)}"
    )
    yield from (f"  {violation}" for violation in verdict.violations[:SHOWN])


def _by_version(counts: Mapping[str, int], sign: str) -> str:
    return ", ".join(f"{count} {sign} {version}" for version, count in sorted(counts.items()))
