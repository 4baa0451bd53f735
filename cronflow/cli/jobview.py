"""How jobs look to people: the table of `jobs list` and the page of `jobs show`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.output import console, yaml_text
from cronflow.cli.runview import run_table
from cronflow.cli.tables import Cell, Column, facts, table
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run
from cronflow.domain.schedule.describe import describe
from cronflow.schemas.jobs import job_state


def job_table(records: Sequence[JobRecord], now: datetime) -> None:
    """A line for each job."""
    table(
        [
            Column("STATE"),
            Column("NAME"),
            Column("SCHEDULE", least=18),
            Column("NEXT", drop=1),
            Column("NEXT FIRE (UTC)", drop=2, style="dim"),
        ],
        [[state_of(record), record.name, schedule_of(record), *next_of(record, now)] for record in records],
    )


def state_of(record: JobRecord) -> Text:
    """The state with its glyph."""
    return words.word(job_state(record).replace("_", " "))


def schedule_of(record: JobRecord) -> str:
    """When it runs, in words; a zone is named unless it is UTC."""
    return "" if record.job.schedule is None else describe(record.job.schedule).removesuffix(" (UTC)")


def next_of(record: JobRecord, now: datetime) -> tuple[Cell, Cell]:
    """The next fire as a distance and in UTC; nothing for a job that will not be planned."""
    if record.next_fire is None or not record.active:
        return "", ""
    return next_words(record.next_fire, now), times.absolute(record.next_fire)


def next_words(fire: datetime, now: datetime) -> Text:
    """The distance to a fire; one that is past and not yet planned is due."""
    if fire <= now:
        return Text(f"due {times.relative(fire, now)}", style=words.ORANGE)
    return Text(times.relative(fire, now))


def job_page(record: JobRecord, latest: Sequence[Run], now: datetime) -> None:
    """Everything about a job."""
    from cronflow.documents import job_document

    job, out = record.job, console()
    out.print(Text.assemble(state_of(record), "  ", (job.name, "bold")))
    if job.description:
        out.print(Text(words.clean(job.description)))
    out.print()
    next_fire = None
    if record.next_fire is not None:
        next_fire = Text.assemble(times.absolute(record.next_fire), "  ", next_words(record.next_fire, now))
        if not record.active:
            next_fire = Text(f"{times.absolute(record.next_fire)}  not planned while the job is {job_state(record)}")
    facts(
        [
            ("schedule", schedule_of(record) or f"none; run it by hand: cronflow jobs run {job.name}"),
            ("next fire", next_fire),
            ("planned last", _pend(record, now)),
            ("version", f"{record.ver}, written {_when(record.updated_at, now)}"),
            ("created", _when(record.created_at, now)),
        ]
    )
    if latest:
        out.print()
        out.print(Text("Latest runs", style="bold"))
        run_table(latest, now, of_one_job=True)
    out.print()
    out.print(Text("Document, with every default", style="bold"))
    typed = yaml_text(job_document(job))
    out.print(Text(words.clean(typed).rstrip("\n")))


def _pend(record: JobRecord, now: datetime) -> str | None:
    pending_run = record.pending_run
    if pending_run is None:
        return None
    shown = f"{_when(pending_run.fire, now)}, {pending_run.state.value}"
    if pending_run.reason:
        shown += f" ({words.one_line(pending_run.reason)})"
    if pending_run.covers is not None:
        count = "many" if pending_run.covers.count is None else str(pending_run.covers.count)
        shown += f", for {count} fires until {times.absolute(pending_run.covers.last)}"
    return shown


def _when(instant: datetime, now: datetime) -> str:
    return f"{times.absolute(instant)}  {times.relative(instant, now)}"
