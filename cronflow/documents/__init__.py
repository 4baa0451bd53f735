"""A job as a plain document, and back: one shape for YAML files, JSON, REST and the store.

The rule it protects: whatever `job_document` writes, `parse_job` reads back as an equal job, and nothing that it does
not understand is passed over in silence. It reads no files and knows no lines (see `jobfiles`), and every limit of a
value is the domain's to check.
"""

from cronflow.documents.forms import JobForm
from cronflow.documents.reading import parse_job, parse_schedule
from cronflow.documents.values import joined, nearest, under
from cronflow.documents.writing import job_document

__all__ = ["JobForm", "job_document", "joined", "nearest", "parse_job", "parse_schedule", "under"]
