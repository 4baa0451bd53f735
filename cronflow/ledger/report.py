"""Counts the ledger of a cluster by job. It keeps the instants that are lost or doubled, at most MOST_VIOLATIONS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cronflow.ledger.derivation import LedgerSpan
from cronflow.ledger.judging import UNDERIVED, VIOLATIONS
from cronflow.ledger.reading import read_kept_from, read_ledger
from cronflow.schemas import iso, optional_iso
from cronflow.schemas.ledger import LedgerCountsSchema, LedgerEntrySchema, LedgerReportSchema

if TYPE_CHECKING:
    from cronflow.ledger.reading import Cluster

MOST_VIOLATIONS = 10_000


async def read_report(cluster: Cluster, span: LedgerSpan, names: Sequence[str]) -> LedgerReportSchema:
    """The report of these jobs, or of all. Raises NotFound for a name that no job has."""
    kept_from = await read_kept_from(cluster)
    jobs: list[LedgerCountsSchema] = []
    violations: list[LedgerEntrySchema] = []
    async for found in read_ledger(cluster, span, names, kept_from):
        counts = _counts(found.job["job"], found.job["known_from"])
        entries = 0
        async for entry in found.entries:
            entries += 1
            _count(counts, entry)
            if entry["verdict"] in VIOLATIONS and len(violations) < MOST_VIOLATIONS:
                violations.append(entry)
        if entries:
            jobs.append(counts)
    return {
        "first": iso(span.first),
        "last": iso(span.last),
        "kept_from": optional_iso(kept_from),
        "whole": not violations,
        "jobs": jobs,
        "violations": violations,
    }


def _counts(job: str, known_from: str | None) -> LedgerCountsSchema:
    return {
        "job": job,
        "due": 0,
        "ran": {},
        "covered": {},
        "skipped": {},
        "missed": {},
        "open": 0,
        "waiting": 0,
        "not_judged": 0,
        "lost": 0,
        "doubled": 0,
        "not_derivable": 0,
        "unexpected": 0,
        "known_from": known_from,
    }


def _count(counts: LedgerCountsSchema, entry: LedgerEntrySchema) -> None:
    verdict = entry["verdict"]
    counts["due"] += verdict not in UNDERIVED
    match verdict:
        case "ran" | "covered":
            word = entry["state"] or ""
            counts[verdict][word] = counts[verdict].get(word, 0) + 1
        case "skipped" | "missed":
            word = entry["reason"] or ""
            counts[verdict][word] = counts[verdict].get(word, 0) + 1
        case _:
            counts[verdict] += 1
