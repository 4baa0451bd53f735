"""`cronflow cluster …`: the leader, the load, events and sweeps. `cronflow nodes …`: the nodes, and draining them.

The rule: draining applies to the name of a node and survives restarts. A node is drained when it has confirmed the
request and has no runs and no spooled outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import connect
from cronflow.cli.commands.recovery import recovery
from cronflow.cli.completion import node_names
from cronflow.cli.connect import call, change, collect
from cronflow.cli.errors import FAILED, RUN_FAILED
from cronflow.cli.main import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.drawing import draw, drawn
from cronflow.cli.terminal.output import (
    Format,
    LineFormat,
    LineOutput,
    LiveOutput,
    Output,
    console,
    note,
    show,
    warn,
    write_json,
    yaml_text,
)
from cronflow.cli.views.cluster import cluster_page, event_text, maintenance_text, node_page, node_table, sweep_page
from cronflow.cli.views.lines import wait_for_end
from cronflow.cli.views.runs import went_well
from cronflow.domain.errors import CronFlowError, InvalidInput, NotFound, Problem

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.cluster import DrainSchema, SweepSchema
    from cronflow.schemas.runs import RunDetailSchema
    from cronflow.schemas.stream import EventSchema

EVENTS_POLL_S = 1.0
OVERLAP = timedelta(seconds=30)
"""Events may be stored late, and clocks differ: each poll reads this far back."""
MOST_EVENTS = 500

cluster = new_group("Show the leader, load and events of the cluster; start a sweep.")
cluster.add_typer(recovery, name="recovery")


@cluster.command("status")
def cluster_status(output: Output = Format.TABLE) -> None:
    """Show the leader, its lease, the nodes and their queues."""
    found = connect.call(lambda cluster: cluster.cluster.get())
    show(output, found, [node["name"] for node in found["nodes"]], lambda: cluster_page(found, times.now()))


@cluster.command()
def stepdown(output: Output = Format.TABLE) -> None:
    """Ask the leader to step down so that another node takes over. Running jobs continue."""
    found = connect.change(lambda cluster: cluster.cluster.stepdown())

    text = f"Asked {formatting.clean(found['asked'])} to step down. See the new leader: cronflow cluster status"
    show(output, found, [found["asked"]], text)


class Switch(StrEnum):
    ON = "on"
    OFF = "off"


@cluster.command()
def maintenance(
    switch: Annotated[Switch, typer.Argument(metavar="on|off", help="Turn maintenance on or off.")],
    text: Annotated[str, typer.Option("--note", metavar="TEXT", help="A note to show with it.")] = "",
    until: Annotated[
        str | None, typer.Option(metavar="2h|INSTANT", help="End it by itself after this time or at this instant.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Plan and dispatch no new runs in the whole cluster. Running jobs end, and each job's misfire policy decides about
    the fires that it misses.
    """
    on = switch is Switch.ON
    if not on and (text or until is not None):
        raise InvalidInput(Problem("", "--note and --until have no effect with off", "remove them"))
    end = None if until is None else times.instant_or_in(until, "--until")
    found = connect.change(lambda cluster: cluster.cluster.maintenance(on=on, note=text, until=end))
    show(output, found, [switch.value], maintenance_text(found, times.now()))


@cluster.command()
def sweep(output: Output = Format.TABLE) -> None:
    """Check all records for consistency, repair what is possible, and print the findings.

    Exit code 1: there are findings. Exit code 4: the sweep failed.
    """
    run, report = connect.change(_sweep)
    if not went_well(run):
        warn(f"the sweep failed: {formatting.one_line(run['error'] or run['state'])}")
        raise typer.Exit(RUN_FAILED)
    if report is None or report["run"] != run["id"]:
        raise CronFlowError(
            f"another sweep has finished since; see the result of this one: cronflow runs show {run['id']}"
        )
    show(output, report, [finding["where"] for finding in report["findings"]], lambda: sweep_page(report))
    if report["found"]:
        raise typer.Exit(FAILED)


async def _sweep(cluster: Cluster) -> tuple[RunDetailSchema, SweepSchema | None]:
    run = await cluster.runs.get((await cluster.cluster.sweep())["id"])
    if not [node async for node in cluster.nodes.list()]:
        warn("no nodes are up: the sweep waits for one; start one: cronflow node")
    return await wait_for_end(cluster, run), (await cluster.cluster.get())["sweep"]


@cluster.command()
def events(
    since: Annotated[str, typer.Option(help="A time such as 1h, or an instant such as 2026-11-21T12:00:00Z.")] = "24h",
    kind: Annotated[
        list[str] | None, typer.Option(help="Only events of this kind, such as leader_elected; repeatable.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MOST_EVENTS, help="The maximum number of events.")
    ] = 100,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new events until Ctrl-C.")] = False,
    output: LineOutput = LineFormat.TABLE,
) -> None:
    """List events, oldest first: leaders, nodes, servers, failures, changes."""
    begin = times.instant_or_ago(since, "--since")
    shown: set[str] = set()

    async def print_new(cluster: Cluster, since: datetime, limit: int) -> None:
        found = [event async for event in cluster.events.list(since=since, kind=kind or (), limit=limit)]
        fresh = [event for event in reversed(found) if event["id"] not in shown]
        shown.update(event["id"] for event in fresh)
        _print(fresh, output)

    async def read(cluster: Cluster) -> None:
        await print_new(cluster, begin, limit)
        while follow:
            await times.sleep(EVENTS_POLL_S)
            await print_new(cluster, times.now() - OVERLAP, MOST_EVENTS)

    try:
        connect.call(read)
    except KeyboardInterrupt:
        return
    if not shown:
        if output is LineFormat.YAML:
            typer.echo("[]")
        note(f"no events since {times.absolute(begin)}")


@cluster.command()
def incident(
    since: Annotated[str, typer.Option(metavar="1h|INSTANT", help="The beginning: a time ago, or an instant.")] = "1h",
    until: Annotated[
        str | None, typer.Option(metavar="30m|INSTANT", help="The end: a time ago, or an instant; by default now.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Summarise a time range as Markdown: what failed, was lost or late, and what happened to the cluster."""
    begin = times.instant_or_ago(since, "--since")
    end = None if until is None else times.instant_or_ago(until, "--until")
    found = call(lambda cluster: cluster.events.incident(begin, end))
    examples = [failure["example"] for failure in found["failures"]]
    show(output, found, examples, lambda: typer.echo(found["markdown"], nl=False))


def _print(found: Sequence[EventSchema], form: LineFormat) -> None:
    if form is LineFormat.YAML and found:
        typer.echo(yaml_text(found), nl=False)
    for event in found if form is not LineFormat.YAML else ():
        if form is LineFormat.JSON:
            write_json(event, lines=True)
        else:
            console().print(event_text(event))


@cluster.command()
def watch(output: LiveOutput = Format.TABLE) -> None:
    """Watch nodes, load, queue, rates and events until Ctrl-C; updated every second."""
    output.check_live()
    from cronflow.cli.views.watch import ClusterView, status_text

    async def use(cluster: Cluster) -> None:
        if output is Format.TABLE and drawn():
            await draw(cluster.follow(), ClusterView(cluster))
            return
        async with aclosing(cluster.follow()) as messages:
            async for message in messages:
                if output is Format.JSON:
                    write_json(message, lines=True)
                elif message["t"] == "tick":
                    for event in message["events"]:
                        console().print(event_text(event))
                    console().print(status_text(message["patch"]))

    connect.following(use)


DRAIN_POLL_S = 0.5

nodes = new_group("List nodes and drain them.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the node.", autocompletion=node_names)]


@nodes.command("list")
def list_nodes(output: Output = Format.TABLE) -> None:
    """List the nodes that are up, with their load."""
    found = call(lambda cluster: collect(cluster.nodes.list()))
    show(output, found, [node["name"] for node in found], lambda: node_table(found))


@nodes.command("show")
def show_node(name: Name, output: Output = Format.TABLE) -> None:
    """Show a node: its state, load, labels and runs."""
    found = call(lambda cluster: cluster.nodes.get(name))
    show(output, found, [name], lambda: node_page(found))


@nodes.command()
def drain(
    name: Name,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the node has no runs left.")] = False,
    deadline: Annotated[
        str | None,
        typer.Option(metavar="5m|INSTANT", help="Move what still runs then to other nodes, except at_most_once jobs."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Drain a node: it finishes its runs and accepts no new ones, even after a restart, until you undrain it."""
    until = None if deadline is None else times.instant_or_in(deadline, "--deadline")

    async def act(cluster: Cluster) -> DrainSchema:
        found = await cluster.nodes.drain(name, until=until)
        while wait and not found["drained"]:
            await times.sleep(DRAIN_POLL_S)
            try:
                found["drained"] = (await cluster.nodes.get(name))["drained"]
            except NotFound:
                # It has stopped.
                found["drained"] = True
        return found

    found = change(act)

    text = "drained" if found["drained"] else "accepts no new runs"
    show(output, found, [name], Text.assemble(formatting.word("draining"), f"  {formatting.clean(name)}: {text}"))
    if not found["drained"]:
        note(f"running jobs continue; wait for them with --wait; undo with cronflow nodes undrain {name}")


@nodes.command()
def undrain(name: Name, output: Output = Format.TABLE) -> None:
    """Undo a drain: the node accepts runs again."""
    found = change(lambda cluster: cluster.nodes.undrain(name))

    view = Text.assemble(formatting.word("up"), f"  {formatting.clean(name)}: accepts runs again")
    show(output, found, [name], view)
    if not found["up"]:
        note(f"node {name} is not up; it will accept runs when it starts")
