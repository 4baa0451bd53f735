"""`cronflow node` and `cronflow api`: the two processes of a cluster.

The rule: flags, apps and settings are checked before a server is contacted; the log goes to stderr.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.app import App, import_from_working_directory, load_app
from cronflow.cli.process_log import LogFormat, log_of
from cronflow.cli.target import settings
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.config import Settings

Level = Annotated[
    str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warn or error.  [LOG_LEVEL]")
]
Form = Annotated[
    LogFormat | None, typer.Option("--log-format", help="Default: text on a terminal, else json.  [LOG_FORMAT]")
]


def node(
    app: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:APP", help="An App whose functions this node can run; repeatable.  [APP]"),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label that jobs can require; repeatable.  [LABELS]")
    ] = None,
    slots: Annotated[int | None, typer.Option(metavar="COUNT", help="The number of concurrent runs.  [SLOTS]")] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="COUNT", help="The number of processes that run Python functions.  [PROCESSES]"),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The name of the node.  [NODE_NAME]")] = None,
    clock_offset: Annotated[
        Path | None, typer.Option(hidden=True, help="File by which `cronflow chaos` steps the clock.")
    ] = None,
    log_level: Level = None,
    log_format: Form = None,
) -> None:
    """Run a cluster node until SIGTERM or Ctrl-C: it can become the leader, and it executes jobs.

    It waits up to START_WAIT for servers that are not up yet. After the first signal, running jobs may finish within
    DRAIN_TIMEOUT; the others move to other nodes. A second signal stops the node immediately.
    """
    flags: dict[str, object] = {
        "app": app or None,
        "labels": label or None,
        "slots": slots,
        "processes": processes,
        "node_name": name,
        "log_level": log_level,
        "log_format": log_format,
    }
    apps, read = _read(flags)
    log_of(read, role="node", node=read.node_name)
    _forget_settings()
    import asyncio

    from cronflow.bootstrap import node
    from cronflow.cli.handler_process import COMMAND

    clock = None
    if clock_offset is not None:
        from cronflow.testing.offset_clock import OffsetClock

        clock = OffsetClock(clock_offset)

    asyncio.run(
        node.run_node(
            read,
            apps=apps,
            labels=dict(pair.split("=", 1) for pair in read.labels),
            slots=None,
            name=None,
            handler_command=COMMAND,
            app_addresses=read.app,
            clock=clock,
        )
    )


def api(
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="The address to listen on; 0.0.0.0 accepts connections from other machines."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="The port to listen on; 0 selects a free port.")
    ] = 8500,
    chaos: Annotated[Path | None, typer.Option(hidden=True, help="Folder of the processes of `cronflow dev`.")] = None,
    log_level: Level = None,
    log_format: Form = None,
) -> None:
    """Serve the API until SIGTERM or Ctrl-C."""
    read = settings({"log_level": log_level, "log_format": log_format})
    log_of(read, role="api")
    _forget_settings()
    from cronflow.bootstrap import api

    breaks = None
    if chaos is not None:
        from cronflow.cli.dev.processes import DevChaos

        breaks = DevChaos(chaos, read.redis_url or "", read.namespace)
    api.serve_api(read, host, port, breaks)


def _forget_settings() -> None:
    """Jobs inherit the environment of this process, which may contain keys and passwords."""
    from cronflow.config import remove_settings

    remove_settings(os.environ)


def _read(flags: dict[str, object]) -> tuple[list[App], Settings]:
    """Read the settings and the apps. Raises InvalidInput with all problems. Apps that handler processes will load are
    left to them.
    """
    problems: list[Problem] = []
    problems_of_settings: Sequence[Problem] = ()
    apps: list[App] = []
    read = None
    try:
        read = settings(flags)
    except InvalidInput as error:
        problems_of_settings = error.problems
    given = flags["app"] if read is None else read.app
    addresses = list(given) if isinstance(given, list | tuple) else []
    if read is not None and read.processes > 1:
        if addresses:
            # Child processes of the node have its import path.
            import_from_working_directory()
        return [], read
    for address in addresses:
        try:
            apps.append(load_app(address))
        except InvalidInput as error:
            problems += error.problems
    problems += problems_of_settings
    if problems or read is None:
        raise InvalidInput(problems)
    return apps, read
