"""The live view of `cluster watch`: nodes, the leader and its lease, load, queue, rates and events."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.connect import collect
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.drawing import Liveness, bar, beside, clock, curve, hour, unless_unavailable
from cronflow.cli.terminal.tables import Cell, Column, lines
from cronflow.cli.views.cluster import NO_NODES, event_text
from cronflow.domain.job import SYSTEM_PREFIX

if TYPE_CHECKING:
    from cronflow.cli import connect
    from cronflow.schemas.stream import EventSchema, LiveNodeSchema, LiveSchema, StreamMessage

EVENTS = 50
POINTS = 600
WIDE = 110
LOAD_BAR = 10
NAME = 9
HALF, FULL = 0.7, 0.9


class ClusterView:
    """The state of the cluster, from the messages of the live stream."""

    def __init__(self, cluster: connect.Cluster) -> None:
        self._cluster = cluster
        self._liveness = Liveness()
        self._doc: LiveSchema | None = None
        self._updated_at = 0.0
        self._lease = 1.0
        self._events: deque[EventSchema] = deque(maxlen=EVENTS)
        self._ended: deque[float] = deque(maxlen=POINTS)
        self._queued: deque[float] = deque(maxlen=POINTS)

    async def take(self, message: StreamMessage) -> None:
        """Apply a snapshot or a tick. After a gap the events are read again."""
        self._liveness.beat()
        missed = False
        match message["t"]:
            case "snap":
                self._doc = message["doc"]
                series = message["doc"]["series"]["cluster"]
                self._ended.extend(_numbers(series["ended"]))
                self._queued.extend(_numbers(series["queued"]))
                missed = True
            case "tick":
                self._doc = message["patch"]
                self._ended.append(self._doc["rates"].get("ended", 0.0))
                self._queued.append(self._doc["queue"]["queued"])
                self._events.extend(message["events"])
                missed = message["dropped"] > 0
        self._updated_at = time.monotonic()
        if self._doc is not None:
            self._lease = max(self._lease, self._doc["lease_left_s"] or 0.0)
        if missed:
            found = await unless_unavailable(collect(self._cluster.events.list(limit=EVENTS)))
            if found is not None:
                self._events.clear()
                self._events.extend(reversed(found))

    def frame(self, width: int, height: int) -> Sequence[Text]:
        """The whole page; events use the remaining lines."""
        doc = self._doc
        right = Text.assemble(self._liveness.text(), (f"  {clock()}", "dim"))
        if doc is None:
            return [beside(Text("waiting for the first tick", style="dim"), right, width)]
        found = [beside(self._leader(doc), right, width), Text()]
        found += [*self._facts(doc, width), Text()]
        nodes = self._nodes(doc, width)
        # A few events stay visible, however many nodes there are.
        room = max(height - len(found) - 6, 3)
        found += nodes[:room]
        more = max(len(nodes) - room, 0) + doc["nodes_more"]
        if more:
            found.append(Text(f"… and {formatting.plural(more, 'more node')}", style="dim"))
        room = height - len(found) - 2
        if self._events and room > 0:
            found.append(Text())
            found += [_cut(event_text(event, within_day=True), width) for event in list(self._events)[-room:]]
        return found

    def _leader(self, doc: LiveSchema) -> Text:
        if doc["leader"] is None:
            return Text.assemble(
                ("no leader", f"bold {formatting.RED}"),
                ("  due runs wait for a leader", "dim"),
            )
        since = "" if doc["elected_at"] is None else f"  since {hour(doc['elected_at'])}"
        return Text.assemble((f"♛ {formatting.clean(doc['leader'])}", "bold"), (f"  term {doc['term']}{since}", "dim"))

    def _facts(self, doc: LiveSchema, width: int) -> Sequence[Text]:
        queue, rates = doc["queue"], doc["rates"]
        wide = 30 if width >= WIDE else 20
        found: list[tuple[str, Text]] = []
        if doc["lease_left_s"] is not None:
            # It runs down between two ticks.
            left = max(doc["lease_left_s"] - (time.monotonic() - self._updated_at), 0.0)
            share = left / self._lease
            style = formatting.GREEN if share > 1 - HALF else formatting.ORANGE
            found.append(("lease", Text.assemble(bar(share, wide, style), f" {left:3.0f}s left")))
        used = queue["in_flight"] / queue["slots"] if queue["slots"] else 0.0
        opened = "" if queue["open"] is None else f", {queue['open']:,} open"
        work = f" {queue['in_flight']:,} of {queue['slots']:,} running, {queue['queued']:,} queued{opened}"
        found.append(("work", Text.assemble(bar(used, wide, _heat(used)), work)))
        failed = rates.get("failed", 0.0)
        found.append(
            (
                "ended",
                Text.assemble(
                    (curve([*self._ended], wide), formatting.BLUE),
                    f" {rates.get('ended', 0.0):.1f} per second",
                    (f", {failed:.1f} failed", formatting.RED if failed else ""),
                ),
            )
        )
        for name, title in (("lateness_ms", "late"), ("duration_ms", "took")):
            shown = _quantiles(doc, name)
            if shown is not None:
                found.append((title, shown))
        if doc["jobs"] is not None:
            jobs = doc["jobs"]
            text = Text(f"{jobs['active']:,} active, {jobs['paused']:,} paused, {jobs['idle']:,} idle")
            if doc["dead_letters"]:
                text.append(f"   {formatting.plural(doc['dead_letters'], 'dead letter')}", style=formatting.ORANGE)
            found.append(("jobs", text))
        found.append(("servers", _servers(doc)))
        for breaker in doc["breakers"]:
            where = ", ".join(map(formatting.clean, breaker["nodes"]))
            text = Text(f"{formatting.clean(breaker['service'])}: circuit open on {where}", style=formatting.ORANGE)
            found.append(("breaker", text))
        following = _next(doc, width - NAME)
        if following.plain:
            found.append(("next", following))
        return [_cut(Text.assemble((title.ljust(NAME), "dim"), text), width) for title, text in found]

    def _nodes(self, doc: LiveSchema, width: int) -> Sequence[Text]:
        if not doc["nodes"]:
            return [Text(NO_NODES)]
        size = LOAD_BAR if width >= WIDE else LOAD_BAR // 2 + 1
        columns = [
            Column("STATE"),
            Column("NODE"),
            Column("BUSY"),
            Column("QUEUED", drop=3, align="right"),
            Column("CPU", drop=1),
            Column("MEMORY", drop=2),
            Column("ENDED/S", drop=5, align="right"),
            Column("LAG", drop=6, align="right"),
            Column("HEARTBEAT", drop=4, align="right"),
        ]
        return lines(columns, [_node(node, size) for node in doc["nodes"]], width)


def _node(node: LiveNodeSchema, size: int) -> Sequence[Cell]:
    used = node["in_flight"] / node["slots"] if node["slots"] else 0.0
    name = formatting.clean(node["name"])
    return [
        formatting.word(node["state"]),
        Text(f"♛ {name}", style="bold") if node["leads"] else f"  {name}",
        Text.assemble(bar(used, size, _heat(used)), f" {node['in_flight']}/{node['slots']}"),
        str(node["queued"]),
        Text.assemble(bar(node["cpu"], size, _heat(node["cpu"])), f" {node['cpu']:4.0%}"),
        Text.assemble(bar(node["memory"], size, _heat(node["memory"])), f" {node['memory']:4.0%}"),
        f"{node['rate']:.1f}",
        f"{node['lag_s'] * 1000:.1f}ms",
        f"{node['age_s']:.0f}s ago",
    ]


def _heat(share: float) -> str:
    if share >= FULL:
        return formatting.RED
    return formatting.ORANGE if share >= HALF else formatting.GREEN


def _quantiles(doc: LiveSchema, name: str) -> Text | None:
    latency: Mapping[str, Mapping[str, float | None]] = doc["latency"]  # type: ignore[assignment]
    shown = [f"{word} {times.duration(value)}" for word, value in latency.get(name, {}).items() if value is not None]
    return Text("   ".join(shown)) if shown else None


def _servers(doc: LiveSchema) -> Text:
    found = Text()
    for title, name in (("Redis", "redis"), ("MongoDB", "mongodb")):
        server = doc["servers"].get(name, {})
        if found.plain:
            found.append("   ")
        if "error" in server:
            found.append(f"✗ {title} {formatting.one_line(server['error'])}", style=formatting.RED)
        else:
            found.append("✓ ", style=formatting.GREEN).append(f"{title} {server.get('ms', 0.0):.1f} ms")
    return found


def _next(doc: LiveSchema, room: int) -> Text:
    """As many whole entries as fit."""
    now, found = times.now(), ""
    for job in doc["next"]:
        # The list is read every ten seconds; entries that came due meanwhile are skipped.
        if job["at"] is None or (at := datetime.fromisoformat(job["at"])) < now or job["job"].startswith(SYSTEM_PREFIX):
            continue
        more = f"{'   ' if found else ''}{formatting.clean(job['job'])} {times.relative(at, now)}"
        if len(found) + len(more) > room:
            break
        found += more
    return Text(found)


def status_text(doc: LiveSchema) -> Text:
    """The cluster on a line."""
    queue, rates = doc["queue"], doc["rates"]
    leader = "no leader" if doc["leader"] is None else f"leader {formatting.clean(doc['leader'])}, term {doc['term']}"
    return Text.assemble(
        (f"{times.absolute(doc['at'])} ", "dim"),
        f"{leader}; {formatting.plural(len(doc['nodes']) + doc['nodes_more'], 'node')}; "
        f"{queue['in_flight']}/{queue['slots']} running, {queue['queued']} queued; "
        f"{rates.get('ended', 0.0):.1f} ended per second, {rates.get('failed', 0.0):.1f} failed",
    )


def _numbers(values: Sequence[str | float | None]) -> list[float]:
    return [value if isinstance(value, int | float) else 0.0 for value in values]


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text
