"""Events of jobs, limits, calendars, backfills and alerts."""

from __future__ import annotations

from cronflow.domain.events.base import Event, Severity, event


@event
class JobCreated(Event):
    job: str
    by: str
    message = "{job} was created"


@event
class JobChanged(Event):
    job: str
    by: str
    message = "{job} was changed"


@event
class JobDefinitionDiffers(Event):
    """The code of a job on a node, and perhaps on others, is not what is stored. `keys` are those that differ; another
    difference of the same job has another `digest`.
    """

    job: str
    node: str
    keys: str
    digest: str
    severity = Severity.WARN
    message = "the code of {job} on {node} differs from the stored job: {keys}"


@event
class FiresSkipped(Event):
    """An edit skipped due fires, which are recorded as one run. `reason` is the reason of that run."""

    job: str
    fires: str
    reason: str
    by: str
    severity = Severity.WARN
    message = "{job} was {reason} before its next run was planned; skipped {fires}"


@event
class JobPaused(Event):
    """`note` and `until` are empty if there are none; `until` is an instant."""

    job: str
    by: str
    note: str = ""
    until: str = ""
    message = "{job} was paused"

    @property
    def text(self) -> str:
        until = f" until {self.until}" if self.until else ""
        return f"{self.job} was paused{until}{f': {self.note}' if self.note else ''}"


@event
class JobPausedAfterFailures(Event):
    """The last runs of a job failed, as many as its `pause_after` allows, so the job was paused."""

    job: str
    failures: int
    run: str
    severity = Severity.ERROR
    message = "{job} was paused after {failures:failed run|failed runs in a row}, the last one {run}"


@event
class JobResumed(Event):
    job: str
    by: str
    message = "{job} was resumed"


@event
class JobBreakerOpened(Event):
    """So many of the last attempts of a job failed that its failing runs are not retried for a while."""

    job: str
    failed: int
    attempts: int
    severity = Severity.ERROR
    message = "the circuit breaker of {job} opened: {failed} of its last {attempts:attempt|attempts} failed"


@event
class JobBreakerClosed(Event):
    """Failing runs of the job are retried again."""

    job: str
    reason: str
    message = "the circuit breaker of {job} closed: {reason}"


@event
class JobDeleted(Event):
    job: str
    by: str
    message = "{job} was deleted"


@event
class LimitDefined(Event):
    limit: str
    by: str
    message = "limit {limit} was defined"


@event
class LimitDeleted(Event):
    limit: str
    by: str
    message = "limit {limit} was deleted"


@event
class CalendarChanged(Event):
    """A calendar was created or changed, and with it the jobs that use it."""

    calendar: str
    revision: int
    jobs: int
    by: str
    message = "calendar {calendar} was changed (revision {revision}); {jobs:job uses|jobs use} it"


@event
class CalendarDeleted(Event):
    calendar: str
    by: str
    message = "calendar {calendar} was deleted"


@event
class CalendarUpdatesFinished(Event):
    """The leader bound jobs to the current calendars because the process that changed a calendar had not."""

    jobs: int
    message = "{jobs:job was|jobs were} bound to the current calendars after an interrupted change"


@event
class PermitsRecovered(Event):
    """Runs ended, or moved to another node, without releasing their permits."""

    permits: int
    run: str
    severity = Severity.WARN
    message = "{permits:permit|permits} of ended attempts {permits:=was|were} recovered ({permits:=|for example }{run})"


@event
class BackfillRequested(Event):
    backfill: str
    runs: int
    by: str
    message = "backfill {backfill} of {runs:run|runs} was requested"


@event
class BackfillCancelled(Event):
    backfill: str
    by: str
    reason: str
    message = "backfill {backfill} was cancelled"


@event
class BackfillEnded(Event):
    """Every run of a backfill has ended. `others` did not succeed."""

    backfill: str
    runs: int
    others: int
    message = "backfill {backfill} ended: {runs:run|runs}, {others} did not succeed"


@event
class RunHeldBack(Event):
    """A run of a job that follows others was skipped, because of the runs that it would have followed."""

    run: str
    job: str
    reason: str
    severity = Severity.WARN
    message = "{run} was skipped: {reason}"


@event
class AlertGaveUp(Event):
    """A receiver did not accept a notification, within a day or for good; it is not sent again."""

    alert: str
    subject: str
    attempts: int
    error: str
    severity = Severity.ERROR
    message = "alert {alert} could not notify about {subject} after {attempts:attempt|attempts}: {error}"


@event
class EventsDropped(Event):
    """Too many events occurred to record them all; the rest were counted."""

    count: int
    severity = Severity.WARN
    message = "{count:event was|events were} dropped"
