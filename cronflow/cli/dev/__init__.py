"""`cronflow dev`: a whole cluster on this machine, on real servers, with one command.

It checks the files, finds or starts Redis and MongoDB, applies the jobs, starts the nodes and the API as separate
processes, and prints their output. Processes that die are restarted, so you can try killing one. With `--for` it
stops after that time and proves that nothing was lost.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cronflow.cli.target import settings
from cronflow.cli.terminal.output import Format
from cronflow.cli.terminal.times import length_of

DEFAULT_DATA = Path(".cronflow/dev")


def dev(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Jobs in YAML or JSON, or Python files with an App.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="The number of nodes to start.", min=1, max=20)] = 3,
    port: Annotated[int, typer.Option(help="The port of the API.", min=1, max=65535)] = 8500,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="30s", help="Stop after this time and print a summary.")
    ] = None,
    data: Annotated[Path, typer.Option(help="The folder for the servers' data, which is kept.")] = DEFAULT_DATA,
    memory: Annotated[
        bool, typer.Option("--memory", help="Run in one process without servers; no data is kept.")
    ] = False,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="With json, print only the summary as one object.")
    ] = Format.TABLE,
) -> None:
    """Run a whole cluster on this machine for development."""
    from cronflow.cli.dev import inputs
    from cronflow.cli.dev.cluster import Options, run

    output.check_live()
    options = Options(
        given=inputs.read(files or [], settings().retry, settings().timezone),
        nodes=nodes,
        port=port,
        limit=None if duration is None else length_of(duration, "--for"),
        data=data,
        memory=memory,
        as_json=output is Format.JSON,
    )
    holds = asyncio.run(run(options))
    if not holds:
        raise typer.Exit(1)
