"""`cronflow logs`: what the runs of the whole cluster write, and with `-f` what they are writing.

The rule: history and what follows join, each line is written once; where some are missing, that is said in their place.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli import times, words
from cronflow.cli.lines import LineFormat, LinePrinter
from cronflow.cli.output import note, warn
from cronflow.cli.source import Source, Wanted, following
from cronflow.domain.log_levels import at_least, says

if TYPE_CHECKING:
    from cronflow.schemas.runs import LogSchema

COUNT, COUNT_FOLLOWED = 100, 10
TAIL = 1000


def logs(
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what is written.")] = False,
    level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="This one or a graver: debug, info, success, warn, error; or progress."),
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Written on this node alone.")] = None,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="By runs of this job alone.")] = None,
    grep: Annotated[str, typer.Option(metavar="TEXT", help="With this text, in any case.", show_default=False)] = "",
    since: Annotated[
        str | None, typer.Option(metavar="1h|INSTANT", help="Written in this last time, or from this instant on.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "-n", "--limit", metavar="COUNT", min=0, help=f"At most so many of the last ones.  [{COUNT}, -f: 10]"
        ),
    ] = None,
    output: Annotated[
        LineFormat, typer.Option("--output", "-o", help="Lines for people, a JSON object a line, or a YAML list.")
    ] = LineFormat.TABLE,
) -> None:
    """What runs wrote, of all jobs: the last lines, the oldest first."""
    if level is not None:
        at_least(level)
    begin = None if since is None else times.instant_or_ago(since, "--since")
    wanted = Wanted(grep, level, job, node, begin)
    if count is None:
        count = COUNT_FOLLOWED if follow and since is None else COUNT
    printer = LinePrinter(output, many=True)

    async def read(source: Source) -> bool:
        found, more = await source.search(wanted, count)
        if more and not follow:
            note(f"older lines are not shown; --limit {count * 5} shows more")
        printer.write(found)
        if follow:
            await _follow(source, wanted, found, printer)
        return True

    ended = following(read)
    if ended and not printer.written:
        if output is LineFormat.YAML:
            typer.echo("[]")
        note("no line matches" if grep or level or node or job or since else "nothing has been written yet")


async def _follow(source: Source, wanted: Wanted, shown: list[LogSchema], printer: LinePrinter) -> None:
    """The lines that come, and those that were written since the search."""
    known = {(line["run"], line["fence"], line["n"]) for line in shown}
    # What is older than the oldest that was shown was left out on purpose.
    floor = datetime.fromisoformat(shown[0]["at"]) if shown else wanted.since or times.now()
    async with aclosing(source.lines(replace(wanted, text="", since=None), TAIL)) as messages:
        async for message in messages:
            if message["t"] == "gap":
                missed = message["missed"]
                told = "some lines are" if missed is None else f"{words.plural(missed, 'line')} {_are(missed)}"
                warn(f"{told} missing here; cronflow logs finds what is stored")
                continue
            line = message["line"]
            if (line["run"], line["fence"], line["n"]) in known:
                known.discard((line["run"], line["fence"], line["n"]))
            elif says(line["text"], wanted.text) and datetime.fromisoformat(line["at"]) >= floor:
                printer.write([line])


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
