"""The cluster for people: nodes, the page of `cluster status`, sweeps, events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import console
from cronflow.cli.terminal.tables import Column, facts, table_of
from cronflow.domain.resources import shown_cpu, shown_size

if TYPE_CHECKING:
    from cronflow.schemas.cluster import (
        ClusterSchema,
        MaintenanceSchema,
        NodeDetailSchema,
        NodeSchema,
        SpoolSchema,
        SweepSchema,
    )
    from cronflow.schemas.stream import EventSchema

NO_NODES = "No nodes are up. Start one: cronflow node"

_SEVERITIES = {"info": formatting.BLUE, "warn": formatting.ORANGE, "error": formatting.RED}


def node_table(nodes: Sequence[NodeSchema]) -> None:
    table_of(
        nodes,
        [
            (Column("STATE"), lambda node: formatting.word(node["state"])),
            (Column("NODE"), lambda node: formatting.clean(node["name"])),
            (Column("ROLE"), lambda node: Text("♛ leader", style="bold") if "leader" in node["roles"] else "worker"),
            (Column("BUSY", align="right"), lambda node: f"{node['in_flight']}/{node['slots']}"),
            (Column("QUEUED", drop=4, align="right"), lambda node: str(node["queued"])),
            (Column("CPU", drop=2, align="right"), lambda node: f"{node['cpu']:.0%}"),
            (Column("MEMORY", drop=3, align="right"), lambda node: f"{node['memory']:.0%}"),
            (Column("RESERVED", drop=6), _reserved),
            (Column("HEARTBEAT", drop=1, align="right"), _heartbeat),
            (Column("LABELS", drop=5, least=12), _labels),
            (Column("HOST", drop=7), lambda node: formatting.clean(node["host"])),
            (Column("VERSION", drop=8), lambda node: formatting.clean(node["version"])),
        ],
        empty=NO_NODES,
    )


def node_page(node: NodeDetailSchema) -> None:
    out = console()
    out.print(Text.assemble(formatting.word(node["state"]), "  ", (formatting.clean(node["name"]), "bold")))
    out.print()
    breakers = ", ".join(f"{formatting.clean(name)} {state}" for name, state in node["breakers"].items())
    drained = ("yes" if node["drained"] else "not yet") if node["state"] == "draining" else None
    # An API of 0.12 does not send them.
    until = node.get("drain_until")
    apps = "\n".join(f"{formatting.clean(app)} {made}" for app, made in node.get("apps", {}).items())
    facts(
        [
            ("role", "♛ leader" if "leader" in node["roles"] else "worker"),
            ("id", formatting.clean(node["id"])),
            ("busy", f"{node['in_flight']} of {node['slots']} slots, {node['queued']} queued"),
            ("cpu", f"{node['cpu']:.0%}"),
            ("memory", f"{node['memory']:.0%}"),
            ("reserved", _reserved(node) or None),
            ("heartbeat", _heartbeat(node)),
            ("started", None if node["started_at"] is None else times.absolute(node["started_at"])),
            ("labels", _labels(node) or None),
            ("host", formatting.clean(node["host"]) or None),
            ("pid", str(node["pid"]) if node["pid"] else None),
            ("version", formatting.clean(node["version"]) or None),
            ("apps", apps or None),
            ("zone data", formatting.clean(node["zones"]) or None),
            ("breakers", breakers or None),
            ("spool", _spool(node["spool"])),
            ("drained", drained),
            ("deadline", None if until is None else times.absolute(until)),
            ("runs", "\n".join(node["runs"]) or None),
        ]
    )


def cluster_page(cluster: ClusterSchema, now: datetime) -> None:
    leader = Text.assemble(("none", formatting.RED), "  due runs wait until there is one")
    if cluster["leader"] is not None:
        since = "" if cluster["elected_at"] is None else f"  since {_since(cluster['elected_at'], now)}"
        leader = Text.assemble((f"♛ {formatting.clean(cluster['leader'])}", "bold"), since, _no_heartbeat(cluster))
    lease = None if cluster["lease_left_s"] is None else f"{cluster['lease_left_s']:.0f}s left"
    queue = cluster["queue"]
    work = f"{queue['in_flight']} running, {queue['queued']} queued, capacity for {queue['capacity']} more"
    facts(
        [
            ("cluster", cluster["namespace"]),
            ("leader", leader),
            ("term", str(cluster["term"])),
            ("lease", lease),
            ("work", f"{work} ({queue['slots']} slots)"),
            ("sweep", None if cluster["sweep"] is None else _sweep_result(cluster["sweep"])),
            ("maintenance", _maintenance(cluster, now)),
        ]
    )
    console().print()
    node_table(cluster["nodes"])


def maintenance_text(mode: MaintenanceSchema, now: datetime) -> Text:
    if not mode["on"] or mode["since"] is None:
        return Text("off")
    by = f" by {formatting.clean(mode['by'])}" if mode["by"] else ""
    until = f", until {times.both(mode['until'], now)}" if mode["until"] else ""
    note = f": {formatting.clean(mode['note'])}" if mode["note"] else ""
    return Text.assemble(("on", formatting.ORANGE), f" since {times.both(mode['since'], now)}{by}{until}{note}")


def _maintenance(cluster: ClusterSchema, now: datetime) -> Text | None:
    # An API of 0.9 does not know it.
    mode = cluster.get("maintenance")
    return None if mode is None or not mode["on"] else maintenance_text(mode, now)


def sweep_page(sweep: SweepSchema) -> None:
    checked = "  ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in sweep["checked"].items())
    facts([("sweep", _sweep_result(sweep)), ("checked", checked), ("took", f"{sweep['took_ms']:,} ms")])
    if not sweep["findings"]:
        return
    console().print()
    table_of(
        sweep["findings"],
        [
            (
                Column("REPAIRED"),
                lambda finding: (
                    Text("yes", style=formatting.GREEN) if finding["repaired"] else Text("no", style=formatting.RED)
                ),
            ),
            (Column("FINDING"), lambda finding: finding["kind"]),
            (Column("WHERE"), lambda finding: formatting.clean(finding["where"])),
            (Column("WHAT", least=20), lambda finding: finding["what"]),
        ],
    )
    if sweep["found"] > len(sweep["findings"]):
        console().print(f"and {sweep['found'] - len(sweep['findings']):,} more; the nodes' logs list all of them")


def event_text(event: EventSchema, *, within_day: bool = False) -> Text:
    """An event on one line; `within_day`: without the date."""
    at, severity = times.parsed(event["at"]), event["severity"]
    return Text.assemble(
        (f"{f'{at:%H:%M:%SZ}' if within_day else times.absolute(at)} ", "dim"),
        (f"{severity.upper():<5} ", _SEVERITIES.get(severity, "")),
        formatting.one_line(event["text"]),
        (f"  {formatting.clean(event['source'])}", "dim"),
    )


def _heartbeat(node: NodeSchema) -> str:
    return f"{times.duration(node['heartbeat_age_s'] * 1000)} ago"


def _reserved(node: NodeSchema) -> str:
    """What runs reserve of the node's capacity. An API of 0.9 returns neither."""
    capacity, reserved = node.get("capacity"), node.get("reserved")
    if capacity is None or reserved is None:
        return ""
    cpu = f"{shown_cpu(reserved['cpu'])} of {shown_cpu(capacity['cpu'])} CPUs"
    return f"{cpu}, {shown_size(reserved['memory'])} of {shown_size(capacity['memory'])}"


def _labels(node: NodeSchema) -> str:
    return formatting.one_line(" ".join(f"{key}={value}" for key, value in sorted(node["labels"].items())))


def _spool(spool: SpoolSchema) -> str | None:
    if not spool["outcomes"]:
        return None
    since = "" if spool["since"] is None else f" since {times.absolute(spool['since'])}"
    return f"{formatting.plural(spool['outcomes'], 'result')}, {spool['bytes']:,} bytes, waiting for MongoDB{since}"


def _since(instant: str, now: datetime) -> str:
    return f"{times.absolute(instant)}, {times.relative(instant, now)}"


def _no_heartbeat(cluster: ClusterSchema) -> tuple[str, str]:
    # A leader that was killed holds the lease until it expires.
    states = {node["name"]: node["state"] for node in cluster["nodes"]}
    if states.get(cluster["leader"] or "", "stale") != "stale":
        return "", ""
    return ", no heartbeat; a new leader takes over when the lease expires, running jobs continue", formatting.RED


def _sweep_result(sweep: SweepSchema) -> Text:
    found = Text("no findings", style=formatting.GREEN)
    if sweep["found"]:
        repaired = sum(finding["repaired"] for finding in sweep["findings"])
        found = Text(f"{formatting.plural(sweep['found'], 'finding')}, {repaired} repaired", style=formatting.RED)
    return Text.assemble(f"{_since(sweep['at'], times.now())}  ", found)
