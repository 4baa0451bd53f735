"""The document of a job that means the same in every cluster: short, with all that settings would complete."""

from __future__ import annotations

from cronflow.documents.default_zone import FORMAT_ZONE, with_zone
from cronflow.documents.jobs import MISFIRE, job_document
from cronflow.documents.retry import write_retry
from cronflow.domain.job import Job
from cronflow.domain.schedule.kinds import Once


def complete_document(job: Job, *, with_misfire: bool = True) -> dict[str, object]:
    """A cluster refuses an `at` in the past only if the document leaves out `misfire`; `with_misfire` writes it for
    one-time jobs.
    """
    # Without empty parts, which an API of an older version does not know.
    retry = {key: value for key, value in write_retry(job.retry).items() if value not in (None, [])}
    document = {**job_document(job, compact=True), "retry": retry}
    if "schedule" in document:
        document["schedule"] = with_zone(document["schedule"], FORMAT_ZONE)
    if with_misfire and isinstance(job.schedule, Once):
        document["misfire"] = MISFIRE.write(job.misfire)
    return document
