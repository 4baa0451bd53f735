"""The entry point, and the table of all commands: name, module and help."""

from __future__ import annotations

import sys

from cronflow.cli.lazy import Place, root

RUN, MANAGE, INSPECT = "Run", "Manage", "Inspect"

PLACES = {
    "dev": Place("cronflow.cli.dev:dev", "Run a whole cluster on this machine, for development.", RUN),
    "node": Place("cronflow.cli.commands.node:node", "Run a cluster node.", RUN),
    "api": Place("cronflow.cli.commands.node:api", "Serve the API.", RUN),
    "jobs": Place("cronflow.cli.commands.jobs:jobs", "Define, list, run, pause and delete jobs.", MANAGE),
    "runs": Place("cronflow.cli.commands.runs:runs", "List, show, cancel and replay runs.", MANAGE),
    "nodes": Place("cronflow.cli.commands.nodes:nodes", "List and drain nodes.", MANAGE),
    "cluster": Place("cronflow.cli.commands.cluster:cluster", "The leader, the load, events and sweeps.", MANAGE),
    "users": Place("cronflow.cli.commands.access:users", "Users of the API and their roles.", MANAGE),
    "keys": Place("cronflow.cli.commands.access:keys", "API keys, for scripts.", MANAGE),
    "secrets": Place("cronflow.cli.commands.access:secrets", "Secret values that jobs refer to by name.", MANAGE),
    "alerts": Place("cronflow.cli.commands.alerts:alerts", "Notify webhooks when something goes wrong.", MANAGE),
    "logs": Place("cronflow.cli.commands.logs:logs", "Search and follow the log lines of all runs.", INSPECT),
    "login": Place("cronflow.cli.commands.login:login", "Log in to an API; commands then go through it.", MANAGE),
    "logout": Place("cronflow.cli.commands.login:logout", "Log out; commands connect to the servers again.", MANAGE),
    "whoami": Place("cronflow.cli.commands.login:whoami", "Show the current user, role and API.", MANAGE),
    "cron": Place("cronflow.cli.commands.cron:cron", "Explain cron expressions, without a cluster.", INSPECT),
    "config": Place("cronflow.cli.commands.config:config", "Show and check the settings.", INSPECT),
    "doctor": Place("cronflow.cli.doctor:doctor", "Check this machine and its servers, with remedies.", INSPECT),
    "version": Place("cronflow.cli.commands.config:version", "Show the installed versions.", INSPECT),
}

app = root(PLACES, "Cron for a cluster: schedules that survive the loss of any machine.")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a glyph shows a question mark instead.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="cronflow")
