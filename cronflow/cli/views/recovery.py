"""The recovery after an outage for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import console
from cronflow.cli.terminal.tables import Column, facts, table_of

if TYPE_CHECKING:
    from cronflow.schemas.recovery import RecoverySchema

NO_RECOVERY = "No recovery: no missed runs have been held back."
_WAITS = {
    "waiting": "wait for approval",
    "counting": "are being counted",
    "draining": "are starting",
    "skipping": "are being skipped",
    "ended": "",
}


def recovery_page(found: RecoverySchema, now: datetime) -> None:
    out = console()
    if found["state"] == "none":
        out.print(NO_RECOVERY)
        return
    held = f"  {formatting.plural(found['held_runs'], 'missed run')} {_WAITS[found['state']]}"
    out.print(Text.assemble(formatting.word(found["state"]), held if found["state"] != "ended" else ""))
    out.print()
    by = f" by {formatting.clean(found['by'])}" if found["by"] else ""
    missed = f"{formatting.plural(found['runs'], 'run')} of {formatting.plural(found['jobs'], 'job')}"
    priorities = ", ".join(f"{runs:,} of priority {priority}" for priority, runs in found["by_priority"].items())
    facts(
        [
            ("missed", missed if found["state"] != "counting" else None),
            ("held", formatting.plural(found["held_jobs"], "job") if found["held_jobs"] else None),
            ("oldest", None if found["oldest"] is None else times.both(found["oldest"], now)),
            ("priorities", priorities or None),
            ("outage", None if found["cause"] is None else formatting.clean(found["cause"])),
            ("until", None if found["outage_end"] is None else times.both(found["outage_end"], now)),
            ("rate", found["rate"] or "as fast as slots are free"),
            ("ends", None if found["ends_at"] is None else f"{times.both(found['ends_at'], now)} at the earliest"),
            ("approved", ", ".join(map(formatting.clean, found["approved"])) or None),
            ("skipped", ", ".join(map(formatting.clean, found["skipped"])) or None),
            ("decided", None if found["decided_at"] is None else times.both(found["decided_at"], now) + by),
            ("note", None if found["note"] is None else formatting.clean(found["note"])),
            ("ended", None if found["ended_at"] is None else times.both(found["ended_at"], now)),
        ]
    )
    if not found["top"]:
        return
    out.print()
    table_of(
        found["top"],
        [
            (Column("JOB"), lambda one: one["job"]),
            (Column("MISSED RUNS", align="right"), lambda one: f"{one['runs']:,}"),
            (Column("SINCE"), lambda one: times.both(one["since"], now)),
        ],
    )
    if found["held_jobs"] > len(found["top"]):
        out.print(Text(f"and {found['held_jobs'] - len(found['top']):,} more jobs", style="dim"))
