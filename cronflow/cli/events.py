"""`cronflow cluster events`: what happened, and with `-f` what happens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.connect import call
from cronflow.cli.output import console, note, write_json, yaml_text
from cronflow.schemas.events import event_schema

if TYPE_CHECKING:
    from cronflow.domain.events import RecordedEvent
    from cronflow.remote.usecases import UseCases
    from cronflow.schemas.events import EventSchema

LOOK_EVERY_S = 1.0
LOOK_BACK = timedelta(seconds=30)
"""An event may be written some time after it happened, and clocks differ: so far back is looked again."""
PAGE = 500

_COLOURS = {"info": words.BLUE, "warn": words.ORANGE, "error": words.RED}


class EventFormat(StrEnum):
    """The forms of a list that may go on."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def events(
    since: Annotated[str, typer.Option(help="How far back: 1h, or an instant such as 2026-11-21T12:00:00Z.")] = "24h",
    kind: Annotated[
        list[str] | None, typer.Option(help="Only of this kind, such as leader_elected; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=PAGE, help="At most so many.")] = 100,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what happens.")] = False,
    output: Annotated[
        EventFormat, typer.Option("--output", "-o", help="Lines for people, a JSON object a line, or a YAML list.")
    ] = EventFormat.TABLE,
) -> None:
    """What happened in the cluster: leaders, nodes, servers, failures, edits. The oldest first."""
    begin = times.instant_or_ago(since, "--since")
    shown: set[str] = set()

    async def read(service: UseCases) -> None:
        found = await service.events(kinds=kind or (), since=begin, limit=limit)
        _write(found[::-1], output, shown)
        while follow:
            await times.sleep(LOOK_EVERY_S)
            _write(await _fresh(service, kind or (), times.now() - LOOK_BACK), output, shown)

    try:
        call(read)
    except KeyboardInterrupt:
        # How following ends.
        return
    if not shown:
        if output is EventFormat.YAML:
            typer.echo("[]")
        note(f"nothing happened since {times.absolute(begin)}")


async def _fresh(service: UseCases, kinds: Sequence[str], since: datetime) -> list[RecordedEvent]:
    found = await service.events(kinds=kinds, since=since, limit=PAGE)
    return found[::-1]


def _write(found: Sequence[RecordedEvent], form: EventFormat, shown: set[str]) -> None:
    fresh = [happened for happened in found if happened.id not in shown]
    shown.update(happened.id for happened in fresh)
    if form is EventFormat.YAML:
        if fresh:
            typer.echo(yaml_text([event_schema(happened) for happened in fresh]), nl=False)
        return
    for happened in fresh:
        if form is EventFormat.JSON:
            write_json(event_schema(happened), lines=True)
            continue
        console().print(event_text(event_schema(happened)))


def event_text(event: EventSchema, *, within_day: bool = False) -> Text:
    """An event for people; its instant with the date, or within the day."""
    at, severity = datetime.fromisoformat(event["at"]), event["severity"]
    return Text.assemble(
        (f"{f'{at:%H:%M:%SZ}' if within_day else times.absolute(at)} ", "dim"),
        (f"{severity.upper():<5} ", _COLOURS[severity]),
        words.one_line(event["text"]),
        (f"  {words.clean(event['source'])}", "dim"),
    )
