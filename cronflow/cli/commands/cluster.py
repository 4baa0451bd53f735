"""`cronflow cluster …`: the leader and the load, events, the live view, sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli import connect
from cronflow.cli.errors import FAILED, RUN_FAILED
from cronflow.cli.lazy import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.drawing import draw, drawn
from cronflow.cli.terminal.output import Format, LiveOutput, Output, console, note, show, warn, write_json, yaml_text
from cronflow.cli.views.cluster import cluster_page, event_text, sweep_page
from cronflow.cli.views.lines import LineFormat, wait_for_end
from cronflow.cli.views.runs import went_well
from cronflow.domain.errors import CronFlowError

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.cluster import SweepSchema
    from cronflow.schemas.runs import RunDetailSchema
    from cronflow.schemas.stream import EventSchema

POLL_S = 1.0
OVERLAP = timedelta(seconds=30)
"""Events may be stored late, and clocks differ: each poll reads this far back."""
MOST_EVENTS = 500

cluster = new_group("The leader, the load, events and sweeps of the cluster.")


@cluster.command("status")
def cluster_status(output: Output = Format.TABLE) -> None:
    """The leader and its lease, the nodes, and their queues."""

    found = connect.call(lambda cluster: cluster.cluster.get())
    show(output, found, [node["name"] for node in found["nodes"]], lambda: cluster_page(found, times.now()))


@cluster.command()
def stepdown(output: Output = Format.TABLE) -> None:
    """Ask the leader to step down, so that another node takes over; running jobs continue."""

    found = connect.call(lambda cluster: cluster.cluster.stepdown())

    def view() -> None:
        leader = formatting.clean(found["asked"])
        console().print(f"Asked {leader} to step down. See the new leader: cronflow cluster status")

    show(output, found, [found["asked"]], view)


@cluster.command()
def sweep(output: Output = Format.TABLE) -> None:
    """Check every record for consistency, repair what can be repaired, and report. Exit code 1 if there were findings.

    Exit code 4: the sweep itself failed.
    """
    run, report = connect.call(_sweep)
    if not went_well(run):
        warn(f"the sweep itself failed: {formatting.one_line(run['error'] or run['state'])}")
        raise typer.Exit(RUN_FAILED)
    if report is None or report["run"] != run["id"]:
        raise CronFlowError(
            f"another sweep has ended since; see the result of this one: cronflow runs show {run['id']}"
        )
    show(output, report, [finding["where"] for finding in report["findings"]], lambda: sweep_page(report))
    if report["found"]:
        raise typer.Exit(FAILED)


async def _sweep(cluster: Cluster) -> tuple[RunDetailSchema, SweepSchema | None]:
    run = await cluster.runs.get((await cluster.cluster.sweep())["id"])
    if not [node async for node in cluster.nodes.list()]:
        warn("no nodes are up; the sweep waits for one: cronflow node")
    return await wait_for_end(cluster, run), (await cluster.cluster.get())["sweep"]


@cluster.command()
def events(
    since: Annotated[str, typer.Option(help="How far back: 1h, or an instant such as 2026-11-21T12:00:00Z.")] = "24h",
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind, such as leader_elected; repeatable.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MOST_EVENTS, help="The maximum number.")] = 100,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue with new events.")] = False,
    output: Annotated[
        LineFormat, typer.Option("--output", "-o", help="Lines for people, a JSON object per line, or a YAML list.")
    ] = LineFormat.TABLE,
) -> None:
    """Events of the cluster: leaders, nodes, servers, failures, changes. The oldest first."""
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
            await times.sleep(POLL_S)
            await print_new(cluster, times.now() - OVERLAP, MOST_EVENTS)

    try:
        connect.call(read)
    except KeyboardInterrupt:
        # The way to stop following.
        return
    if not shown:
        if output is LineFormat.YAML:
            typer.echo("[]")
        note(f"no events since {times.absolute(begin)}")


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
    """Nodes, leader, load, queue, rates and events, live, updated each second; until Ctrl-C."""
    output.check_live()
    from cronflow.cli.views.clusterwatch import ClusterView, status_text

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
