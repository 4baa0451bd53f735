"""The summary of an incident: what failed, was lost or was late in a time range, and what happened to the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cronflow.domain.failures import Failure
from cronflow.domain.marks import ClusterMark, MarkKind

MOST_REASONS = 20
MOST_JOBS = 10
TITLES = {
    MarkKind.LEADER: "Leader changes",
    MarkKind.NODE_LOST: "Nodes lost",
    MarkKind.DEPLOYMENT: "Deployments",
    MarkKind.SERVICE: "Redis and MongoDB",
    MarkKind.MAINTENANCE: "Maintenance",
}


@dataclass(frozen=True, slots=True)
class Incident:
    """`ended` counts the ended runs by state; `latest_ms` is the longest lateness, to within a fifth, and None if the
    counts are no longer kept. `notes` are the gaps of the records.
    """

    since: datetime
    until: datetime
    ended: Mapping[str, int]
    failures: Sequence[Failure]
    marks: Sequence[ClusterMark]
    latest_ms: float | None
    notes: Sequence[str]

    @property
    def jobs(self) -> dict[str, int]:
        """The failed and lost runs by job, the most first."""
        found: Counter[str] = Counter()
        for failure in self.failures:
            found.update(failure.jobs)
        return dict(found.most_common())


def markdown(incident: Incident) -> str:
    """The summary as a Markdown page."""
    return "\n".join(_lines(incident)).rstrip() + "\n"


def _lines(incident: Incident) -> Iterator[str]:
    minutes = (incident.until - incident.since).total_seconds() / 60
    yield f"# Incident summary, {_at(incident.since)} to {_at(incident.until)}"
    yield ""
    yield f"Time range: {minutes:,.0f} minutes. All times are UTC."
    yield ""
    failed = sum(failure.count for failure in incident.failures)
    yield f"- Failed and lost runs: {failed:,}, of {len(incident.jobs):,} jobs"
    yield f"- Ended runs: {_counts(incident.ended)}"
    late = "not recorded" if incident.latest_ms is None else f"about {_length(incident.latest_ms)}"
    yield f"- Longest lateness: {late}"
    for kind, title in TITLES.items():
        number = sum(mark.kind is kind for mark in incident.marks)
        yield f"- {title}: {number}"
    yield ""
    yield from _failures(incident)
    for kind, title in TITLES.items():
        found = [mark for mark in incident.marks if mark.kind is kind]
        if found:
            yield f"## {title}"
            yield ""
            yield from (f"- {_at(mark.at)}: {_plain(mark.words)}" for mark in found)
            yield ""
    if incident.notes:
        yield "## Not recorded"
        yield ""
        yield from (f"- {note}" for note in incident.notes)


def _failures(incident: Incident) -> Iterator[str]:
    if not incident.failures:
        return
    yield "## Failed and lost runs by reason"
    yield ""
    yield "| Newest error | Runs | Still open | First | Last | Jobs | Newest run |"
    yield "| --- | ---: | ---: | --- | --- | --- | --- |"
    for failure in incident.failures[:MOST_REASONS]:
        jobs = ", ".join(list(failure.jobs)[:3]) + (
            f" and {len(failure.jobs) - 3} more" if len(failure.jobs) > 3 else ""
        )
        cells = (
            _plain(failure.message), f"{failure.count:,}", f"{failure.open:,}", _at(failure.first), _at(failure.last),
            jobs, f"`{failure.example}`",
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    if len(incident.failures) > MOST_REASONS:
        yield ""
        yield f"{len(incident.failures) - MOST_REASONS} more reasons are not listed."
    yield ""
    yield "## Jobs"
    yield ""
    counts = incident.jobs
    yield from (f"- {job}: {count:,}" for job, count in list(counts.items())[:MOST_JOBS])
    if len(counts) > MOST_JOBS:
        yield f"- and {len(counts) - MOST_JOBS:,} more jobs"
    yield ""


def _at(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _counts(ended: Mapping[str, int]) -> str:
    if not ended:
        return "none recorded"
    return ", ".join(f"{count:,} {state}" for state, count in ended.items() if count)


def _length(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3g} s" if milliseconds < 120_000 else f"{milliseconds / 60_000:.0f} min"


def _plain(text: str) -> str:
    """The text in a cell of a table, without markup."""
    cleaned = " ".join(text.split())
    for special in ("\\", "|", "`", "*", "_", "<", ">", "[", "]"):
        cleaned = cleaned.replace(special, f"\\{special}")
    return cleaned
