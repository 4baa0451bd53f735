"""Emits an event when jobs become overdue or stuck, and when they recover.

Every ten seconds the leader reads both conditions and compares them with those of its last round. What a new leader
finds in its first round is not reported: its predecessor has reported it, or it is about to be planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cronflow.domain.events import JobsOverdue, JobsRecovered, JobsStuck
from cronflow.domain.job_health import HealthReport, JobCondition, JobHealth
from cronflow.domain.placement import BUSY
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.ports import EventSink
from cronflow.usecases.job_health import JobHealthReader

EVERY_S = 10.0
WATCHED = (JobHealth.OVERDUE, JobHealth.STUCK)
EVENTS: dict[JobHealth, Callable[[int, str, str], JobsOverdue | JobsStuck]] = {
    JobHealth.OVERDUE: JobsOverdue,
    JobHealth.STUCK: JobsStuck,
}


class JobHealthMonitor:
    def __init__(self, reader: JobHealthReader, elector: Elector, emit: EventSink) -> None:
        self._reader = reader
        self._elector = elector
        self._emit = emit
        self._term = 0
        self._known: dict[JobHealth, set[str]] = {}
        self.wake = Wake()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is not None:
            report = await self._reader.read(WATCHED)
            if tenure.term == self._term:
                self._compare(report)
            else:
                self._term, self._known = tenure.term, {}
            # Of more jobs than a round reads, those that it did not find may not have recovered.
            self._known = {
                health: report.names(health) | (self._known.get(health, set()) if health in report.cut else set())
                for health in WATCHED
            }
        return EVERY_S

    def _compare(self, report: HealthReport) -> None:
        for health in WATCHED:
            before, conditions = self._known[health], report.conditions[health]
            for jobs in _by_reason(one for one in conditions if one.job not in before and _is_news(one)).values():
                self._emit(EVENTS[health](len(jobs), jobs[0].job, jobs[0].reason))
            recovered = sorted(before - report.names(health))
            if recovered and health not in report.cut:
                self._emit(JobsRecovered(len(recovered), recovered[0], health.value))


def _is_news(condition: JobCondition) -> bool:
    """Runs that no node can run, and those that take long, are reported where they are found."""
    return condition.health is JobHealth.OVERDUE or condition.reason in BUSY


def _by_reason(conditions: Iterable[JobCondition]) -> dict[str, list[JobCondition]]:
    found: dict[str, list[JobCondition]] = {}
    for one in conditions:
        found.setdefault(one.reason, []).append(one)
    return found
