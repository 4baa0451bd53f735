"""Plain documents of jobs and alerts: one form for YAML files, JSON, REST and the store.

Whatever `job_document` writes, `parse_job` reads back as an equal job; nothing unknown is ignored. These modules read
no files and have no line numbers (see `cronflow.files`); the domain checks the limits of values.
"""

from cronflow.documents.complete import complete_document
from cronflow.documents.default_zone import FORMAT_ZONE, with_zone
from cronflow.documents.jobs import JobForm, implicit_misfires, job_document, parse_job
from cronflow.documents.schedules import parse_schedule
from cronflow.documents.values import joined, nearest, under

__all__ = [
    "FORMAT_ZONE",
    "JobForm",
    "complete_document",
    "implicit_misfires",
    "job_document",
    "joined",
    "nearest",
    "parse_job",
    "parse_schedule",
    "under",
    "with_zone",
]
