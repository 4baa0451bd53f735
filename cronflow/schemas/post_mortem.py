"""The past: incidents, the onset of failures, the jobs of an instant, and what a timeline shows besides its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronflow.domain.incident import Incident, markdown
from cronflow.domain.marks import ClusterMark, MarkKind
from cronflow.domain.onset import MatchKind, Onset
from cronflow.schemas import Schema, iso, optional_iso
from cronflow.schemas.jobs import job_words
from cronflow.schemas.runs import FailureSchema, MarkSchema, failure_schema, mark_schema

if TYPE_CHECKING:
    from cronflow.usecases.post_mortem import PastJob, TimelineExtras


class ClusterMarkSchema(Schema):
    """Something that happened to the cluster."""

    at: str
    """When."""
    kind: MarkKind
    """Of which kind."""
    words: str
    """What happened."""
    node: str | None
    """The node that it concerns."""


class TimelineFireSchema(Schema):
    """A fire that is yet to come."""

    job: str
    """The job."""
    at: str
    """The instant."""


class TimelineSchema(Schema):
    """What a timeline shows besides its runs."""

    runs: int
    """The number of runs that are due in the time range."""
    more: bool
    """Whether there are more runs; they are counted up to 100,000."""
    marks: list[ClusterMarkSchema]
    """The marks in the time range, oldest first."""
    fires: list[TimelineFireSchema]
    """The next fires by the schedules, earliest first."""
    more_fires: bool
    """Whether there are more fires than 500."""


class IncidentSchema(Schema):
    """The summary of a time range."""

    since: str
    """The beginning."""
    until: str
    """The end."""
    ended: dict[str, int]
    """Ended runs by state, from the counts for charts."""
    failures: list[FailureSchema]
    """Failed and lost runs by reason, the most frequent first."""
    jobs: dict[str, int]
    """Failed and lost runs by job."""
    marks: list[ClusterMarkSchema]
    """What happened to the cluster."""
    latest_ms: float | None
    """The longest lateness, to within a fifth; null: not recorded."""
    notes: list[str]
    """What is not recorded."""
    markdown: str
    """The summary as a Markdown page."""


class OnsetMatchSchema(Schema):
    """Something that changed when the failures began."""

    kind: MatchKind
    """What changed."""
    words: str
    """How it matches, with numbers."""
    at: str | None
    """When it changed."""


class OnsetSchema(Schema):
    """When a job began to fail."""

    first: MarkSchema
    """The first failed run."""
    last_success: MarkSchema | None
    """The last successful run before it."""
    failed: int
    """How many of the runs from it on failed."""
    since: int
    """The number of the runs from it on."""
    before: int
    """The number of the successful runs before it that were looked at."""
    reason: str
    """Why the first one failed, without variable parts."""
    matches: list[OnsetMatchSchema]
    """What changed then. A match is no proof of a cause."""


class OnsetAnswerSchema(Schema):
    """The onset of a job's failures."""

    onset: OnsetSchema | None
    """Null: the latest runs of the job did not fail."""


class PastJobSchema(Schema):
    """A job as it was at an instant."""

    name: str
    """Its name."""
    ver: int
    """Its version then."""
    by: str
    """Who made that version."""
    since: str
    """When it took effect."""
    held: str | None
    """`paused` or `disabled`; null: active."""
    words: str | None
    """The schedule in words; null: it ran only on request."""
    last: MarkSchema | None
    """Its last run that was due before, in its present state."""


def timeline_schema(found: TimelineExtras) -> TimelineSchema:
    return {
        "runs": found.runs,
        "more": found.more,
        "marks": [cluster_mark_schema(mark) for mark in found.marks],
        "fires": [{"job": job, "at": iso(at)} for job, at in found.fires],
        "more_fires": found.more_fires,
    }


def cluster_mark_schema(mark: ClusterMark) -> ClusterMarkSchema:
    return {"at": iso(mark.at), "kind": mark.kind, "words": mark.words, "node": mark.node}


def incident_schema(incident: Incident) -> IncidentSchema:
    return {
        "since": iso(incident.since),
        "until": iso(incident.until),
        "ended": dict(incident.ended),
        "failures": [failure_schema(failure) for failure in incident.failures],
        "jobs": incident.jobs,
        "marks": [cluster_mark_schema(mark) for mark in incident.marks],
        "latest_ms": incident.latest_ms,
        "notes": list(incident.notes),
        "markdown": markdown(incident),
    }


def onset_schema(onset: Onset) -> OnsetSchema:
    return {
        "first": mark_schema(onset.first),
        "last_success": None if onset.last_success is None else mark_schema(onset.last_success),
        "failed": onset.failed,
        "since": onset.since,
        "before": onset.before,
        "reason": onset.reason,
        "matches": [{"kind": one.kind, "words": one.words, "at": optional_iso(one.at)} for one in onset.matches],
    }


def past_job_schema(past: PastJob) -> PastJobSchema:
    version = past.version
    return {
        "name": version.job.name,
        "ver": version.ver,
        "by": version.by,
        "since": iso(version.at),
        "held": version.held,
        "words": job_words(version.job),
        "last": None if past.last is None else mark_schema(past.last),
    }
