"""The entry point, and the table of all commands: what each is called, where it stands, what it is for."""

from __future__ import annotations

import sys

from cronflow.cli.lazy import Place, root

RUN, MANAGE, LOOK = "Run", "Manage", "Look into"

PLACES = {
    "dev": Place("cronflow.cli.dev:dev", "A whole cluster on this machine, to try things out.", RUN),
    "node": Place("cronflow.cli.node:node", "Be a node of the cluster: take part in leading, and run jobs.", RUN),
    "api": Place("cronflow.cli.node:api", "Serve the API.", RUN),
    "jobs": Place("cronflow.cli.jobs:jobs", "Define jobs, look at them, run, pause and delete them.", MANAGE),
    "runs": Place("cronflow.cli.runs:runs", "What ran, what runs, and what it wrote.", MANAGE),
    "nodes": Place("cronflow.cli.cluster:nodes", "The nodes that are up.", MANAGE),
    "cluster": Place("cronflow.cli.cluster:cluster", "Who leads, and how full the cluster is.", MANAGE),
    "users": Place("cronflow.cli.users:users", "Who may log in to the API, and as what.", MANAGE),
    "keys": Place("cronflow.cli.keys:keys", "API keys: what scripts log in with.", MANAGE),
    "secrets": Place("cronflow.cli.secrets:secrets", "Values that jobs name and nobody reads.", MANAGE),
    "alerts": Place("cronflow.cli.alerts:alerts", "Who is told when something goes wrong.", MANAGE),
    "logs": Place("cronflow.cli.tail:logs", "What runs wrote, of the whole cluster, and what they write.", LOOK),
    "login": Place("cronflow.cli.login:login", "Log in to an API: commands then go through it.", MANAGE),
    "logout": Place("cronflow.cli.login:logout", "Log out: commands ask the servers again.", MANAGE),
    "whoami": Place("cronflow.cli.login:whoami", "Who is logged in, where, and as what.", MANAGE),
    "cron": Place("cronflow.cli.cron:cron", "Cron expressions in words, without a cluster.", LOOK),
    "config": Place("cronflow.cli.config:config", "The settings, and where each comes from.", LOOK),
    "doctor": Place("cronflow.cli.doctor:doctor", "Check this machine and its servers, with a remedy each.", LOOK),
    "version": Place("cronflow.cli.version:version", "What is installed here.", LOOK),
}

app = root(PLACES, "Cron for a cluster: schedules that survive the loss of any machine.")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a glyph shows a question mark; it is no reason to fail.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="cronflow")
