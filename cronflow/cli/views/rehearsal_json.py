"""A rehearsal as JSON: the whole result. `docs/how-to/rehearse.md` documents it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cronflow.rehearsal.comparison import Difference, JobSums
from cronflow.rehearsal.report import RunForecast, Summary
from cronflow.schemas import iso, optional_iso

if TYPE_CHECKING:
    from cronflow.cli.rehearsing import Result

Document = dict[str, object]


def rehearsal_document(result: Result) -> Document:
    """Everything that the rehearsal found."""
    rehearsal = result.rehearsal
    performance = rehearsal.performance
    scenario = performance.scenario
    outage = scenario.outage
    return {
        "first": iso(scenario.first),
        "until": iso(scenario.until),
        "why": result.period.why or None,
        "jobs": result.jobs,
        "durations_from_history": result.from_history,
        "nodes": [{"name": node.name, "slots": node.slots, "labels": dict(node.labels)} for node in scenario.nodes],
        "outage": None if outage is None else {"from": iso(outage.at), "until": iso(outage.end)},
        "killed_leader": performance.killed,
        "leaderless": [{"from": iso(begin), "until": iso(end)} for begin, end in performance.leaderless],
        "summary": _summary(rehearsal.summary),
        "clock_changes": [
            {
                "job": change.job,
                "tz": change.zone,
                "at": iso(change.at),
                "what": change.what,
                "local_first": change.local[0].isoformat(),
                "local_last": change.local[1].isoformat(),
                "count": change.count,
                "fires": [iso(fire) for fire in change.fires],
            }
            for change in rehearsal.clock_changes
        ],
        "runs": [_run(run) for run in rehearsal.runs],
        "waiting": [
            {"job": name, "first": iso(first), "fires": count, "why": why}
            for name, (first, count, why) in rehearsal.waiting.items()
        ],
        "comparison": _comparison(result),
        "left_out": [{"job": one.job, "reason": one.reason, "fires": one.fires} for one in result.left_out],
        "notes": list(result.notes),
    }


def _summary(summary: Summary) -> Document:
    latest, busiest, most = summary.latest, summary.busiest_minute, summary.most_slots
    return {
        "fires_due": summary.due,
        "on_time": summary.on_time,
        "late": summary.late,
        "max_late_ms": 0 if latest is None else _ms(latest.late),
        "latest": None if latest is None else latest.run,
        "covered": summary.covered,
        "skipped": dict(summary.skipped),
        "waiting": summary.waiting,
        "waiting_for_approval": summary.missed_held,
        "other_runs": summary.other_runs,
        "overlapping": summary.overlapping,
        "interrupted": summary.interrupted,
        "timed_out": summary.timed_out,
        "busiest_minute": None if busiest is None else {"at": iso(busiest[0]), "starts": busiest[1]},
        "most_slots": None if most is None else {"at": _rounded(most[0]), "used": most[1]},
        "slots": summary.slots,
        "leaderless_ms": _ms(summary.leaderless),
    }


def _run(run: RunForecast) -> Document:
    covers = run.covers
    return {
        "run": run.run,
        "job": run.job,
        "kind": run.kind.value,
        "fire_at": iso(run.fire_at),
        "state": run.state.value,
        "started_at": None if run.started_at is None else _rounded(run.started_at),
        "ended_at": None if run.ended_at is None else _rounded(run.ended_at),
        "node": run.node,
        "late_ms": None if run.late is None else _ms(run.late),
        "why": run.why,
        "reason": run.reason,
        "fires": run.fires,
        "covers": None if covers is None else {"first": iso(covers.first), "last": iso(covers.last)},
        "overlaps": run.overlaps,
        "interrupted": run.interrupted,
        "timed_out": run.timed_out,
    }


def _comparison(result: Result) -> Document | None:
    before = result.before
    if before is None or result.compared is None:
        return None
    return {
        "before": result.compared[0],
        "after": result.compared[1],
        "summary_before": _summary(before.summary),
        "differences": [_difference(one) for one in result.differences],
    }


def _difference(one: Difference) -> Document:
    return {
        "job": one.job,
        "result": word_of(one),
        "gone": [iso(fire) for fire in one.gone],
        "added": [iso(fire) for fire in one.added],
        "before": _sums(one.before),
        "after": _sums(one.after),
    }


def word_of(one: Difference) -> str:
    """`created`, `deleted`, `moved` if it has other fires, otherwise `changed`."""
    if not one.known_before:
        return "created"
    if not one.known_after:
        return "deleted"
    return "moved" if one.gone or one.added else "changed"


def _sums(sums: JobSums) -> Document:
    return {
        "runs": len(sums.fires),
        "late": sums.late,
        "max_late_ms": _ms(sums.max_late),
        "covered": sums.covered,
        "skipped": sums.skipped,
        "waiting": sums.waiting,
    }


def _ms(length: timedelta | None) -> int:
    return 0 if length is None else round(length / timedelta(milliseconds=1))


def _rounded(instant: datetime) -> str | None:
    """To milliseconds: the rest is noise of the virtual clock."""
    return optional_iso(instant.replace(microsecond=instant.microsecond // 1000 * 1000))
