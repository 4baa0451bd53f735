"""The entry point: the table of all commands, and the group that loads a command when it is called.

The rule: `cronflow --help` imports no command, and a command imports no other one.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from cronflow.operating_system import hide_process

CONTEXT = {"help_option_names": ["-h", "--help"]}
STYLE: dict[str, Any] = {"context_settings": CONTEXT, "pretty_exceptions_enable": False, "rich_markup_mode": "markdown"}


class LazyCommand(NamedTuple):
    """The address of a function or a `typer.Typer` below `cronflow.cli`, and its entry in the help."""

    address: str
    help: str
    panel: str


RUN, MANAGE, INSPECT = "Run", "Manage", "Inspect"

COMMANDS = {
    "dev": LazyCommand("dev:dev", "Run a whole cluster on this machine for development.", RUN),
    "chaos": LazyCommand("commands.chaos:chaos", "Break a cluster on purpose and check every promise.", RUN),
    "init": LazyCommand("commands.init:init", "Write a folder with jobs and deployment files.", RUN),
    "node": LazyCommand("commands.node:node", "Run a cluster node.", RUN),
    "api": LazyCommand("commands.node:api", "Serve the API.", RUN),
    "watcher": LazyCommand("commands.watcher:watcher", "Watch a cluster from outside.", RUN),
    "jobs": LazyCommand("commands.jobs:jobs", "Define, list, run, pause and delete jobs.", MANAGE),
    "runs": LazyCommand("commands.runs:runs", "List, show, cancel and replay runs.", MANAGE),
    "backfills": LazyCommand("commands.backfills:backfills", "Follow and cancel backfills of jobs.", MANAGE),
    "nodes": LazyCommand("commands.cluster:nodes", "List and drain nodes.", MANAGE),
    "cluster": LazyCommand("commands.cluster:cluster", "Show the leader, load and events; start a sweep.", MANAGE),
    "users": LazyCommand("commands.access:users", "Manage users of the API and their roles.", MANAGE),
    "keys": LazyCommand("commands.access:keys", "Manage API keys for scripts.", MANAGE),
    "secrets": LazyCommand("commands.access:secrets", "Manage secret values that jobs refer to by name.", MANAGE),
    "sessions": LazyCommand("commands.sessions:sessions", "List and revoke the sessions of users.", MANAGE),
    "calendars": LazyCommand("commands.calendars:calendars", "Share holidays and windows between schedules.", MANAGE),
    "limits": LazyCommand("commands.limits:limits", "Limit how many runs execute at the same time.", MANAGE),
    "alerts": LazyCommand("commands.alerts:alerts", "Notify people and webhooks when something goes wrong.", MANAGE),
    "audit": LazyCommand("commands.audit:audit", "Show who changed what.", INSPECT),
    "ledger": LazyCommand("commands.ledger:ledger", "Prove that every due instant had exactly one run.", INSPECT),
    "logs": LazyCommand("commands.logs:logs", "Search and follow the log lines of all runs.", INSPECT),
    "login": LazyCommand("commands.login:login", "Log in to an API, which later commands use.", MANAGE),
    "logout": LazyCommand("commands.login:logout", "Log out; later commands connect to the servers.", MANAGE),
    "context": LazyCommand("commands.login:context", "List, choose and delete saved logins.", MANAGE),
    "whoami": LazyCommand("commands.login:whoami", "Show the current user, role and API.", MANAGE),
    "shadow": LazyCommand("commands.shadow:shadow", "Compare jobs in shadow mode with what cron starts.", INSPECT),
    "rehearse": LazyCommand("commands.rehearse:rehearse", "Forecast what the jobs do, on virtual time.", INSPECT),
    "import": LazyCommand(
        "commands.import_schedulers:imports", "Print jobs of other schedulers as a job file.", MANAGE
    ),
    "cron": LazyCommand("commands.cron:cron", "Explain cron expressions without a cluster.", INSPECT),
    "config": LazyCommand("commands.config:config", "Show and check the settings.", INSPECT),
    "doctor": LazyCommand("commands.doctor:doctor", "Check this machine and its servers for problems.", INSPECT),
    "version": LazyCommand("commands.config:version", "Show the installed versions.", INSPECT),
}


WITH_CONTEXT = frozenset(
    (
        "jobs",
        "runs",
        "backfills",
        "nodes",
        "cluster",
        "users",
        "sessions",
        "audit",
        "ledger",
        "keys",
        "secrets",
        "limits",
        "calendars",
        "alerts",
        "logs",
        "shadow",
        "rehearse",
        "logout",
        "whoami",
        "config",
    )
)
"""The commands that use a saved login, so they take `--context`."""

context_option: str | None = None
"""The value of `--context` of this command."""


class LazyGroup(TyperGroup):
    """Loads commands, and reports the errors that they raise. It takes `--context` as these commands do."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.params.append(_context_option())

    def make_context(self, *args: Any, **options: Any) -> Any:
        global context_option
        context_option = None
        return super().make_context(*args, **options)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = _load(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Expected errors become a message and an exit code; all others propagate."""
        from cronflow.cli import errors

        try:
            return super().invoke(ctx)
        except Exception as error:
            found = errors.expected(error) or errors.version_mismatch(error)
            if found is None:
                raise
            raise typer.Exit(errors.report(found)) from None


def new_group(text: str, *, cls: type[TyperGroup] = TyperGroup, add_completion: bool = False) -> typer.Typer:
    group = typer.Typer(cls=cls, help=text, no_args_is_help=True, add_completion=add_completion, **STYLE)
    # A group with a callback stays a group even with a single command.
    group.callback()(_placeholder)
    return group


def _placeholder() -> None:
    """Stands for a command that has not been loaded."""


@cache
def _load(name: str) -> Any:
    module, _, attribute = COMMANDS[name].address.partition(":")
    found = getattr(import_module(f"cronflow.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, **STYLE)
        single.command(name)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = name
    if name in WITH_CONTEXT:
        for one in getattr(command, "commands", {"": command}).values():
            one.params.append(_context_option())
    return command


def _choose_context(name: str | None) -> None:
    global context_option
    context_option = name or context_option


def _takes_context(
    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The saved login to use, from `cronflow context list`.",
            expose_value=False,
            callback=_choose_context,
        ),
    ] = None,
) -> None:
    """Stands for any command that takes `--context`."""


def _context_option() -> Any:
    single = typer.Typer(add_completion=False)
    single.command()(_takes_context)
    return typer.main.get_command(single).params[0]


app = new_group(
    "Cron for a cluster: schedules that survive the loss of any machine.", cls=LazyGroup, add_completion=True
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cronflow {version('cronflow')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Stands for the options of all commands."""


for _name, _entry in COMMANDS.items():
    app.command(_name, help=_entry.help, rich_help_panel=_entry.panel)(_placeholder)


def main() -> None:
    # First, because the environment may hold keys and passwords, and jobs of this machine may run as the same user.
    hide_process()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a glyph shows a question mark instead.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="cronflow")
