"""`cronflow cluster …` and `cronflow nodes …`: who leads, who is up, and how full they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.bulk import who
from cronflow.cli.clusterwatch import watch
from cronflow.cli.connect import call, deployed
from cronflow.cli.events import events
from cronflow.cli.lazy import new_group
from cronflow.cli.nodes import drain, show_node, undrain
from cronflow.cli.output import Format, Output, console, show
from cronflow.cli.sweep import sweep, sweep_words
from cronflow.cli.tables import Column, facts, table
from cronflow.schemas.cluster import StepdownSchema, cluster_schema, node_schema, node_state, queue_schema

if TYPE_CHECKING:
    from cronflow.domain.cluster import ClusterStatus, Member
    from cronflow.remote.usecases import Deployed, UseCases

NOBODY = "No node is up. Start one: cronflow node"

cluster = new_group("Who leads, and how full the cluster is.")
nodes = new_group("The nodes that are up.")
cluster.command()(sweep)


@nodes.command("list")
def list_nodes(output: Output = Format.TABLE) -> None:
    """The nodes that are up, by name, with their load."""
    status, known = call(_status)
    heartbeat = known.heartbeat

    def view() -> None:
        if status.members:
            _node_table(status.members, status.leader, heartbeat)
        else:
            console().print(NOBODY)

    answer = [node_schema(member, status.leader, heartbeat) for member in status.members]
    show(output, answer, [member.report.name for member in status.members], view)


nodes.command("show")(show_node)
nodes.command()(drain)
nodes.command()(undrain)


@cluster.command("status")
def cluster_status(output: Output = Format.TABLE) -> None:
    """The leader and its lease, the nodes, and what waits in their lists."""
    status, known = call(_status)
    show(
        output,
        cluster_schema(known.namespace, status, known.heartbeat),
        [member.report.name for member in status.members],
        lambda: _cluster_page(known.namespace, status, known.heartbeat, times.now()),
    )


@cluster.command()
def stepdown(output: Output = Format.TABLE) -> None:
    """Ask the leader to give its lead to another node; what runs goes on."""

    async def ask(service: UseCases) -> tuple[str, int]:
        return await service.stepdown(by=who()), (await service.status()).term

    leader, term = call(ask)

    def view() -> None:
        console().print(f"Asked {words.clean(leader)} to step down. Who leads now: cronflow cluster status")

    answer: StepdownSchema = {"asked": leader, "term": term}
    show(output, answer, [leader], view)


cluster.command()(events)
cluster.command()(watch)


async def _status(service: UseCases) -> tuple[ClusterStatus, Deployed]:
    return await service.status(), await deployed(service)


def _cluster_page(namespace: str, status: ClusterStatus, heartbeat: timedelta, now: datetime) -> None:
    queue = queue_schema(status)
    since = ""
    if status.elected_at is not None:
        since = f"  since {times.absolute(status.elected_at)}, {times.relative(status.elected_at, now)}"
    leader = Text.assemble(("none", words.RED), "  fires wait, and are planned as soon as a node leads")
    if status.leader is not None:
        leader = Text.assemble((f"♛ {words.clean(status.leader)}", "bold"), (since, ""), _unheard(status, heartbeat))
    lease = None if status.lease_left_s is None else f"{status.lease_left_s:.0f}s left"
    facts(
        [
            ("cluster", namespace),
            ("leader", leader),
            ("term", str(status.term)),
            ("lease", lease),
            (
                "work",
                (
                    f"{queue['in_flight']} running, {queue['queued']} queued, "
                    f"room for {queue['capacity']} more ({queue['slots']} slots)"
                ),
            ),
            ("sweep", None if status.sweep is None else sweep_words(status.sweep)),
        ]
    )
    console().print()
    if status.members:
        _node_table(status.members, status.leader, heartbeat)
    else:
        console().print(NOBODY)


def _unheard(status: ClusterStatus, heartbeat: timedelta) -> tuple[str, str]:
    """A leader that was killed has the lease until it runs out or is given back."""
    leader = next((member for member in status.members if member.report.name == status.leader), None)
    if leader is not None and node_state(leader, heartbeat) != "stale":
        return "", ""
    return ", not heard of any more: another node follows when the lease is over or given back", words.RED


def _node_table(members: Sequence[Member], leader: str | None, heartbeat: timedelta) -> None:
    table(
        [
            Column("STATE"),
            Column("NODE"),
            Column("ROLE"),
            Column("BUSY", align="right"),
            Column("QUEUED", drop=4, align="right"),
            Column("CPU", drop=2, align="right"),
            Column("MEMORY", drop=3, align="right"),
            Column("HEARTBEAT", drop=1, align="right"),
            Column("LABELS", drop=5, least=12),
            Column("HOST", drop=7),
            Column("VERSION", drop=8),
        ],
        [
            [
                words.word(node_state(member, heartbeat)),
                words.clean(member.report.name),
                Text("♛ leader", style="bold") if member.report.name == leader else "worker",
                f"{member.report.in_flight}/{member.report.slots}",
                str(member.queued),
                f"{member.report.cpu:.0%}",
                f"{member.report.memory:.0%}",
                f"{times.span(member.age)} ago",
                words.one_line(" ".join(f"{key}={value}" for key, value in sorted(member.report.labels.items()))),
                words.clean(member.report.host),
                words.clean(member.report.version),
            ]
            for member in members
        ],
    )
