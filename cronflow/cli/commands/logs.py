"""`cronflow logs`: log lines of all runs, and with `-f` new lines as they are written.

The rule: each stored or new line is printed once, and a gap is reported where it occurs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli.completion import job_names, node_names
from cronflow.cli.connect import following
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import LineFormat, LineOutput, note, warn
from cronflow.cli.views.lines import LinePrinter
from cronflow.domain.run import at_least, contains

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.runs import LogSchema
    from cronflow.schemas.stream import LineMessage

COUNT, COUNT_FOLLOWED = 100, 10
TAIL = 1000


def logs(
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new lines until Ctrl-C.")] = False,
    level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL", help="Only lines of at least this level: debug, info, success, warn, error; or progress."
        ),
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only lines from this node.", autocompletion=node_names)
    ] = None,
    job: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only lines of this job's runs.", autocompletion=job_names)
    ] = None,
    grep: Annotated[str, typer.Option(metavar="TEXT", help="Only lines that contain this text, ignoring case.")] = "",
    since: Annotated[
        str | None,
        typer.Option(metavar="1h|INSTANT", help="Only lines written within this time or since this instant."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "-n", "--limit", metavar="COUNT", min=0, help=f"The maximum number of stored lines.  [{COUNT}, -f: 10]"
        ),
    ] = None,
    output: LineOutput = LineFormat.TABLE,
) -> None:
    """Print the latest log lines of all runs, oldest first."""
    if level is not None:
        at_least(level)
    begin = None if since is None else times.instant_or_ago(since, "--since")
    if count is None:
        count = COUNT_FOLLOWED if follow and since is None else COUNT
    printer = LinePrinter(output, many=True)

    async def read(cluster: Cluster) -> bool:
        search = cluster.logs.search(grep, level=level, job=job, node=node, since=begin, limit=count + 1)
        found = [line async for line in search]
        if len(found) > count and not follow:
            note(f"older lines are not shown; --limit {count * 5} shows more")
        shown = found[:count][::-1]
        printer.write(shown)
        if follow:
            # Lines older than the first one shown were left out on purpose.
            floor = datetime.fromisoformat(shown[0]["at"]) if shown else begin or times.now()
            async with aclosing(cluster.logs.follow(level=level, job=job, node=node, tail=TAIL)) as messages:
                await _follow(messages, grep, floor, shown, printer)
        return True

    ended = following(read)
    if ended and not printer.end():
        note("no lines match" if grep or level or node or job or since else "no output yet")


async def _follow(
    messages: AsyncIterator[LineMessage], text: str, floor: datetime, shown: Sequence[LogSchema], printer: LinePrinter
) -> None:
    """Print new lines, and those written since the search."""
    known = {(line["run"], line["fence"], line["n"]) for line in shown}
    async for message in messages:
        if message["t"] == "gap":
            missed = message["missed"]
            count = "some lines" if missed is None else formatting.plural(missed, "line")
            warn(f"{count} missing here; find them with cronflow logs --grep")
            continue
        line = message["line"]
        key = (line["run"], line["fence"], line["n"])
        if key in known:
            known.discard(key)
        elif contains(line["text"], text) and datetime.fromisoformat(line["at"]) >= floor:
            printer.write([line])
