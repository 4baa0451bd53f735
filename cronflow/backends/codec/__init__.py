"""Conversion between domain values and BSON documents or JSON texts. Only this package uses stored field names."""

from __future__ import annotations

from cronflow.backends.codec.access import rights, rights_document
from cronflow.backends.codec.alerts import (
    alert_record,
    alert_record_document,
    crossing,
    crossing_document,
    notification,
    notification_document,
)
from cronflow.backends.codec.definitions import (
    KEYS_SINCE_0_12,
    NEWER_KEYS,
    NEWER_TARGET,
    NO_TARGET,
    RETRY_KEYS_OF_0_9,
    UNBOUND,
    calendar,
    calendar_text,
    definition,
    job_of_definition,
)
from cronflow.backends.codec.events import event, event_document
from cronflow.backends.codec.items import US, assignment, item, start_by_ms
from cronflow.backends.codec.jobs import pending_run_document, record, record_document, version, version_document
from cronflow.backends.codec.limits import limit_state, named_limit_document
from cronflow.backends.codec.lines import line, line_document, line_id, lines_from_json, lines_json
from cronflow.backends.codec.reports import report_from_json, report_json
from cronflow.backends.codec.runs import chain_link, late, outline, run, run_document
from cronflow.backends.codec.values import amount, attempt_document, plain, stored_instant

__all__ = [
    "KEYS_SINCE_0_12",
    "NEWER_KEYS",
    "NEWER_TARGET",
    "NO_TARGET",
    "RETRY_KEYS_OF_0_9",
    "UNBOUND",
    "US",
    "alert_record",
    "alert_record_document",
    "amount",
    "assignment",
    "attempt_document",
    "calendar",
    "calendar_text",
    "chain_link",
    "crossing",
    "crossing_document",
    "definition",
    "event",
    "event_document",
    "item",
    "job_of_definition",
    "late",
    "limit_state",
    "line",
    "line_document",
    "line_id",
    "lines_from_json",
    "lines_json",
    "named_limit_document",
    "notification",
    "notification_document",
    "outline",
    "pending_run_document",
    "plain",
    "record",
    "record_document",
    "report_from_json",
    "report_json",
    "rights",
    "rights_document",
    "run",
    "run_document",
    "start_by_ms",
    "stored_instant",
    "version",
    "version_document",
]
