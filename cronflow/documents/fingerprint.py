"""Recognizes the same code on several nodes by what it defines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import orjson

from cronflow.documents.jobs import job_document
from cronflow.domain.job import Job

DIGITS = 12


def fingerprint(jobs: Iterable[Job]) -> str:
    """The same for the same jobs, in any order."""
    documents = sorted((job_document(job) for job in jobs), key=lambda document: document["name"])
    text = orjson.dumps(documents, option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(text).hexdigest()[:DIGITS]
