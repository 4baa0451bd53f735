"""`cronflow dev`: a whole cluster on this machine, on real servers, with one command.

It reads and checks the files, finds or starts Redis and MongoDB, applies the jobs, starts the nodes and the API as
processes of their own, and shows what they do. A process that dies is started again, so that killing one is
something to try. With `--for` it ends by itself and proves that nothing was lost.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cronflow.cli.connect import settings
from cronflow.cli.terminal.output import Format
from cronflow.domain.durations import parse_duration
from cronflow.domain.errors import InvalidInput, Problem

DEFAULT_DATA = Path(".cronflow/dev")


def dev(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Jobs in YAML or JSON, or Python files with an App.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="The number of nodes.", min=1, max=20)] = 3,
    port: Annotated[int, typer.Option(help="The port of the API.", min=1, max=65535)] = 8500,
    duration: Annotated[str | None, typer.Option("--for", help="Stop after this time and print the summary.")] = None,
    data: Annotated[Path, typer.Option(help="The folder for the servers' data; it is kept.")] = DEFAULT_DATA,
    memory: Annotated[bool, typer.Option("--memory", help="Use no servers: one process, and no data is kept.")] = False,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="json: print only the summary, as one object.")
    ] = Format.TABLE,
) -> None:
    """Run a whole cluster on this machine, for development."""
    from cronflow.cli.dev import jobs
    from cronflow.cli.dev.cluster import Options, run

    if output not in (Format.TABLE, Format.JSON):
        raise InvalidInput(Problem("--output", f"{output.value!r} is not supported here", "use table or json"))
    limit = None
    if duration is not None:
        limit = parse_duration(float(duration) if duration.replace(".", "", 1).isdigit() else duration)
    options = Options(
        given=jobs.read(files or [], settings().retry),
        nodes=nodes,
        port=port,
        limit=limit,
        data=data,
        memory=memory,
        as_json=output is Format.JSON,
    )
    holds = asyncio.run(run(options))
    if not holds:
        raise typer.Exit(1)
