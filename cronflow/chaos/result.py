"""The result of an experiment: the counts, the failovers, and every violation of a promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.chaos.experiment import Injected, Leads, Observed
from cronflow.testing.audit import audit, expectations, percentile
from cronflow.testing.history.checker import Violation, check
from cronflow.testing.history.double_starts import DoubleStart, double_starts
from cronflow.testing.history.history import START, Ack

CLOCKS_APART = timedelta(milliseconds=50)
LIMITS = "H12"


@dataclass(frozen=True, slots=True)
class Failover:
    """How long there was no leader after a fault. `alone`: no other fault touches this time."""

    fault: str
    took: timedelta
    graceful: bool
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosResult:
    """The result. `lost` and `twice` are texts, one for each run or instant."""

    seed: int
    took: timedelta
    injected: Sequence[Injected]
    fires_due: int
    states: Mapping[str, int]
    starts: int
    lost: Sequence[str]
    twice: Sequence[str]
    doubles: Sequence[DoubleStart]
    fences_rejected: int
    violations: Sequence[Violation]
    failovers: Sequence[Failover]
    lateness: Sequence[timedelta]

    @property
    def limits_exceeded(self) -> int:
        return sum(violation.rule == LIMITS for violation in self.violations)

    @property
    def holds(self) -> bool:
        """Whether every promise was kept. False without a fire or a fault, because that proves nothing."""
        return not self.violations and self.fires_due > 0 and bool(self.injected)


def judge(observed: Observed, seed: int, took: timedelta) -> ChaosResult:
    """Judge the history of a round."""
    history, injected = observed.history, observed.injected
    versions = {record.name: expectations(history.versions(record.name)) for record in history.jobs}
    fires = audit(versions, history.runs, history.until)
    violations = check(history)
    return ChaosResult(
        seed=seed,
        took=took,
        injected=sorted(injected, key=lambda one: one.since),
        fires_due=fires.fires_due,
        states=fires.states,
        starts=sum(line.word == START for line in history.sink),
        lost=[f"{job} at {fire:%Y-%m-%d %H:%M:%SZ}" for job, fire in fires.lost],
        twice=[
            *(f"{job} at {fire:%Y-%m-%d %H:%M:%SZ}: two runs" for job, fire in fires.doubled),
            *(f"{one.where}: {one.what}" for one in violations if one.rule == "H2"),
        ],
        doubles=double_starts(history),
        fences_rejected=len(history.late),
        violations=violations,
        failovers=list(failovers(injected, observed.leads)),
        lateness=fires.lateness,
    )


def together(results: Sequence[ChaosResult]) -> ChaosResult:
    """The result of several rounds, at least one, as one."""
    states: Counter[str] = Counter()
    for result in results:
        states.update(result.states)
    return ChaosResult(
        seed=results[0].seed,
        took=sum((result.took for result in results), timedelta(0)),
        injected=[one for result in results for one in result.injected],
        fires_due=sum(result.fires_due for result in results),
        states=states,
        starts=sum(result.starts for result in results),
        lost=[one for result in results for one in result.lost],
        twice=[one for result in results for one in result.twice],
        doubles=[one for result in results for one in result.doubles],
        fences_rejected=sum(result.fences_rejected for result in results),
        violations=[one for result in results for one in result.violations],
        failovers=[one for result in results for one in result.failovers],
        lateness=sorted(late for result in results for late in result.lateness),
    )


def failovers(injected: Sequence[Injected], leads: Leads) -> Iterable[Failover]:
    """For each fault that took the lead: the time until another leader was elected. After a graceful end it counts from
    when the leader stepped down, until which it led.
    """
    for one in injected:
        if not (one.kind.takes_lead and one.term):
            continue
        elected = next((at for term, at in leads.elected if term > one.term and at >= one.since - CLOCKS_APART), None)
        began: datetime | None = one.since
        if one.kind.graceful:
            began = next((at for term, at in leads.stepped_down if term == one.term and at >= one.since), None)
        # A pause that is shorter than the lease does not change the leader.
        if elected is None or began is None or (one.until > one.since and elected > one.until):
            continue
        alone = not any(other.since <= elected and one.since <= other.until for other in injected if other is not one)
        yield Failover(one.name, max(elected - began, timedelta(0)), one.kind.graceful, alone)


def as_json(result: ChaosResult) -> dict[str, object]:
    """The contract of `cronflow chaos -o json`."""
    return {
        "holds": result.holds,
        "seed": result.seed,
        "faults": [
            {"fault": one.kind.name, "node": one.node or None, "since": one.since, "until": one.until}
            for one in result.injected
        ],
        "fires_due": result.fires_due,
        "runs": dict(sorted(result.states.items())),
        "starts": result.starts,
        "lost": len(result.lost),
        "committed_twice": len(result.twice),
        "double_starts": [{"run": one.run, "fault": cause(one)} for one in result.doubles],
        "fences_rejected": result.fences_rejected,
        "limits_exceeded": result.limits_exceeded,
        "violations": [str(one) for one in result.violations],
        "failover_ms": _quantiles_ms(one for one in result.failovers if not one.graceful),
        "graceful_failover_ms": _quantiles_ms(one for one in result.failovers if one.graceful),
    }


def cause(double: DoubleStart) -> str | None:
    """What explains a double start; None if nothing does."""
    match double.cause:
        case None:
            return None
        case Ack():
            return "an edit of the job"
        case fault:
            return fault.what


def _quantiles_ms(found: Iterable[Failover]) -> dict[str, float | None]:
    values = sorted(one.took for one in found)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: None if (value := percentile(values, share)) is None else round(value / timedelta(milliseconds=1), 1)
        for name, share in shares.items()
    }
