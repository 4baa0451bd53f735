"""The ledger for people: the table of jobs with what is lost or doubled, and results of exports and verifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import times
from cronflow.cli.terminal.formatting import GREEN, ORANGE, RED, clean, plural
from cronflow.cli.terminal.output import console
from cronflow.cli.terminal.tables import Column, table_of

if TYPE_CHECKING:
    from cronflow.schemas.ledger import (
        LedgerCheckSchema,
        LedgerCountsSchema,
        LedgerEntrySchema,
        LedgerExportSchema,
        LedgerReportSchema,
    )

MOST_REASONS = 5


def report_page(report: LedgerReportSchema) -> None:
    out = console()
    jobs = report["jobs"]
    out.print(
        Text(f"Instants from {times.absolute(report['first'])} to {times.absolute(report['last'])}", style="bold")
    )
    out.print()
    table_of(
        jobs,
        [
            (Column("", drop=1), _mark),
            (Column("JOB"), lambda job: job["job"]),
            (Column("DUE", align="right"), lambda job: f"{job['due']:,}"),
            (Column("RAN", align="right"), lambda job: _number(sum(job["ran"].values()))),
            (Column("COVERED", drop=3, align="right"), lambda job: _number(sum(job["covered"].values()))),
            (Column("SKIPPED", drop=2, align="right"), lambda job: _number(sum(job["skipped"].values()))),
            (Column("MISSED", drop=2, align="right"), lambda job: _number(sum(job["missed"].values()))),
            (Column("OPEN", drop=3, align="right"), lambda job: _number(job["open"] + job["waiting"])),
            (Column("NOT JUDGED", drop=3, align="right"), lambda job: _number(job["not_judged"])),
            (Column("LOST", align="right"), lambda job: _number(job["lost"])),
            (Column("DOUBLED", align="right"), lambda job: _number(job["doubled"])),
        ],
        empty="Nothing was due.",
    )
    for note in _notes(report):
        out.print(Text(note))
    for title, kind in (("ran", "ran"), ("skipped because", "skipped"), ("missed because", "missed")):
        _reasons(title, [job[kind] for job in jobs])  # type: ignore[literal-required]
    out.print()
    for entry in report["violations"]:
        out.print(_violation(entry))
    due, wrong = sum(job["due"] for job in jobs), sum(job["lost"] + job["doubled"] for job in jobs)
    if wrong:
        out.print(Text(f"✗ {wrong:,} of {plural(due, 'instant')} lost or doubled", f"bold {RED}"))
    else:
        out.print(Text(f"✓ none of {plural(due, 'instant')} is lost or doubled", f"bold {GREEN}"))


def export_page(done: LedgerExportSchema) -> None:
    out = console()
    out.print(f"{done['entries']:,} entries written to {clean(done['file'])}")
    if done["lost"] or done["doubled"]:
        out.print(Text(f"! {done['lost']:,} lost, {done['doubled']:,} doubled", f"bold {ORANGE}"))
    out.print(f"SHA-256 {done['sha256']}")


def checked_page(checked: LedgerCheckSchema, *, noted: bool) -> None:
    """`noted`: it was compared with a hash that somebody noted down."""
    out = console()
    if (flaw := checked["flaw"]) is not None:
        place = "" if flaw["line"] is None else f"line {flaw['line']:,} "
        out.print(Text(clean(f"✗ {place}{flaw['how']}: {flaw['what']}"), f"bold {RED}"))
        return
    header = checked["header"]
    out.print(Text(f"✓ the file is whole: {checked['entries']:,} entries", f"bold {GREEN}"))
    rows = [
        ("namespace", header["namespace"]),
        ("span", f"{times.absolute(header['from'])} to {times.absolute(header['until'])}"),
        ("exported", f"{times.absolute(header['exported_at'])} by {header['exported_by']}"),
        ("with", f"CronFlow {header['cronflow']}, time zone data {header['zone_data'] or 'unknown'}"),
        ("lost", f"{checked['lost']:,}"),
        ("doubled", f"{checked['doubled']:,}"),
        ("SHA-256", checked["sha256"]),
    ]
    for name, value in rows:
        out.print(clean(f"  {name:<10} {value}"))
    if not noted:
        out.print("Somebody could have rewritten the whole file: compare the SHA-256 that was noted down, with --hash")


def _mark(job: LedgerCountsSchema) -> Text:
    return Text("✗", RED) if job["lost"] or job["doubled"] else Text("✓", GREEN)


def _number(count: int) -> str:
    return f"{count:,}" if count else "-"


def _notes(report: LedgerReportSchema) -> list[str]:
    found: list[str] = []
    jobs = report["jobs"]
    if report["kept_from"] is not None and any(job["not_judged"] for job in jobs):
        found.append(f"not judged: no run, but runs from before {times.absolute(report['kept_from'])} are not kept")
    for job in jobs:
        name = clean(job["job"])
        if job["known_from"] is not None and job["known_from"] > report["first"]:
            found.append(f"{name}: not judged before {times.absolute(job['known_from'])}, its versions are not kept")
        if job["not_derivable"]:
            found.append(f"{name}: {plural(job['not_derivable'], 'run')} not derivable, such as after_completion")
        if job["unexpected"]:
            found.append(f"{name}: {plural(job['unexpected'], 'run')} at an instant that no version in force has")
    return ["", *found] if found else []


def _reasons(title: str, counted: Sequence[Mapping[str, int]]) -> None:
    total: dict[str, int] = {}
    for one in counted:
        for word, count in one.items():
            total[word] = total.get(word, 0) + count
    for word, count in sorted(total.items(), key=lambda item: -item[1])[:MOST_REASONS]:
        console().print(Text(clean(f"{title} {word}: {count:,}"), style="dim"))


def _violation(entry: LedgerEntrySchema) -> Text:
    where = f"{entry['job']} at {times.absolute(entry['instant'])}"
    runs = "" if entry["run"] is None else f": {', '.join([entry['run'], *entry['others']])}"
    return Text(clean(f"{entry['verdict']}: {where}{runs}"), RED)
