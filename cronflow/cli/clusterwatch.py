"""`cronflow cluster watch`: the nodes, the leader and its lease, load, queue, rates and what happens, as it happens."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.bars import bar, curve
from cronflow.cli.events import event_text
from cronflow.cli.frames import Pulse, beside, clock, draw, drawn, hour, unless_away
from cronflow.cli.output import Format, console, write_json
from cronflow.cli.tables import Cell, Column, lines
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import SYSTEM_PREFIX

if TYPE_CHECKING:
    from cronflow.cli.source import Source
    from cronflow.schemas.events import EventSchema
    from cronflow.schemas.stream import LiveNodeSchema, LiveSchema, StreamMessage

EVENTS = 50
POINTS = 600
WIDE = 110
LOAD_BAR = 10
NAME = 9
HALF, FULL = 0.7, 0.9


def watch(
    output: Annotated[
        Format, typer.Option("--output", "-o", help="A view for people, or json: a message of the stream a line.")
    ] = Format.TABLE,
) -> None:
    """The cluster as it is, each second: nodes, leader, load, queue, rates and events; until Ctrl-C."""
    if output not in (Format.TABLE, Format.JSON):
        raise InvalidInput(Problem("--output", f"{output.value!r} is not offered here", "use table or json"))
    from cronflow.cli.source import following

    async def use(source: Source) -> None:
        if output is Format.TABLE and drawn():
            await draw(source.messages(), Cluster(source))
            return
        async with aclosing(source.messages()) as messages:
            async for message in messages:
                if output is Format.JSON:
                    write_json(message, lines=True)
                elif message["t"] == "tick":
                    for event in message["events"]:
                        console().print(event_text(event))
                    console().print(_line(message["patch"]))

    following(use)


class Cluster:
    """The cluster as the messages told it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pulse = Pulse()
        self._doc: LiveSchema | None = None
        self._told_at = 0.0
        self._lease = 1.0
        self._events: deque[EventSchema] = deque(maxlen=EVENTS)
        self._ended: deque[float] = deque(maxlen=POINTS)
        self._queued: deque[float] = deque(maxlen=POINTS)

    async def take(self, message: StreamMessage) -> None:
        """A snapshot, or what a second changed. After a gap the events are read anew."""
        self._pulse.beat()
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
        self._told_at = time.monotonic()
        if self._doc is not None:
            self._lease = max(self._lease, self._doc["lease_left_s"] or 0.0)
        if missed:
            found = await unless_away(self._source.events(EVENTS))
            if found is not None:
                self._events.clear()
                self._events.extend(found)

    def frame(self, width: int, height: int) -> Sequence[Text]:
        """The whole page; events have what room is left."""
        doc = self._doc
        right = Text.assemble(self._pulse.text(), (f"  {clock()}", "dim"))
        if doc is None:
            return [beside(Text("waiting for the first tick", style="dim"), right, width)]
        found = [beside(self._leader(doc), right, width), Text()]
        found += [*self._facts(doc, width), Text()]
        nodes = self._nodes(doc, width)
        # A few events stay in sight, however many nodes there are.
        room = max(height - len(found) - 6, 3)
        found += nodes[:room]
        more = max(len(nodes) - room, 0) + doc["nodes_more"]
        if more:
            found.append(Text(f"… and {words.plural(more, 'more node')}", style="dim"))
        room = height - len(found) - 2
        if self._events and room > 0:
            found.append(Text())
            found += [_cut(event_text(event, within_day=True), width) for event in list(self._events)[-room:]]
        return found

    def _leader(self, doc: LiveSchema) -> Text:
        if doc["leader"] is None:
            return Text.assemble(("no leader", f"bold {words.RED}"), ("  fires wait until a node leads", "dim"))
        since = "" if doc["elected_at"] is None else f"  since {hour(doc['elected_at'])}"
        return Text.assemble((f"♛ {words.clean(doc['leader'])}", "bold"), (f"  term {doc['term']}{since}", "dim"))

    def _facts(self, doc: LiveSchema, width: int) -> Sequence[Text]:
        queue, rates = doc["queue"], doc["rates"]
        wide = 30 if width >= WIDE else 20
        found: list[tuple[str, Text]] = []
        if doc["lease_left_s"] is not None:
            # Between two ticks it drains by itself.
            left = max(doc["lease_left_s"] - (time.monotonic() - self._told_at), 0.0)
            share = left / self._lease
            style = words.GREEN if share > 1 - HALF else words.ORANGE
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
                    (curve([*self._ended], wide), words.BLUE),
                    f" {rates.get('ended', 0.0):.1f} a second",
                    (f", {failed:.1f} failed", words.RED if failed else ""),
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
                text.append(f"   {words.plural(doc['dead_letters'], 'dead letter')}", style=words.ORANGE)
            found.append(("jobs", text))
        found.append(("servers", _servers(doc)))
        for breaker in doc["breakers"]:
            where = ", ".join(map(words.clean, breaker["nodes"]))
            text = Text(f"{words.clean(breaker['service'])} is left alone by {where}", style=words.ORANGE)
            found.append(("breaker", text))
        following = _next(doc, width - NAME)
        if following.plain:
            found.append(("next", following))
        return [_cut(Text.assemble((title.ljust(NAME), "dim"), text), width) for title, text in found]

    def _nodes(self, doc: LiveSchema, width: int) -> Sequence[Text]:
        if not doc["nodes"]:
            return [Text("No node is up. Start one: cronflow node")]
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
    name = words.clean(node["name"])
    return [
        words.word(node["state"]),
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
        return words.RED
    return words.ORANGE if share >= HALF else words.GREEN


def _quantiles(doc: LiveSchema, name: str) -> Text | None:
    latency: Mapping[str, Mapping[str, float | None]] = doc["latency"]  # type: ignore[assignment]
    shown = [
        f"{word} {times.span(timedelta(milliseconds=value))}"
        for word, value in latency.get(name, {}).items()
        if value is not None
    ]
    return Text("   ".join(shown)) if shown else None


def _servers(doc: LiveSchema) -> Text:
    found = Text()
    for title, name in (("Redis", "redis"), ("MongoDB", "mongodb")):
        server = doc["servers"].get(name, {})
        if found.plain:
            found.append("   ")
        if "error" in server:
            found.append(f"✗ {title} {words.one_line(server['error'])}", style=words.RED)
        else:
            found.append("✓ ", style=words.GREEN).append(f"{title} {server.get('ms', 0.0):.1f} ms")
    return found


def _next(doc: LiveSchema, room: int) -> Text:
    """As many as there is room for, whole."""
    now, found = times.now(), ""
    for job in doc["next"]:
        # They are read every ten seconds: what was due meanwhile is next no more.
        if job["at"] is None or (at := datetime.fromisoformat(job["at"])) < now or job["job"].startswith(SYSTEM_PREFIX):
            continue
        more = f"{'   ' if found else ''}{words.clean(job['job'])} {times.relative(at, now)}"
        if len(found) + len(more) > room:
            break
        found += more
    return Text(found)


def _line(doc: LiveSchema) -> Text:
    """The cluster on a line, where nothing is drawn."""
    queue, rates = doc["queue"], doc["rates"]
    leader = "no leader" if doc["leader"] is None else f"{words.clean(doc['leader'])} leads, term {doc['term']}"
    return Text.assemble(
        (f"{times.absolute(datetime.fromisoformat(doc['at']))} ", "dim"),
        f"{leader}; {words.plural(len(doc['nodes']) + doc['nodes_more'], 'node')}; "
        f"{queue['in_flight']}/{queue['slots']} running, {queue['queued']} queued; "
        f"{rates.get('ended', 0.0):.1f} ended a second, {rates.get('failed', 0.0):.1f} failed",
    )


def _numbers(values: Sequence[str | float | None]) -> list[float]:
    return [value if isinstance(value, int | float) else 0.0 for value in values]


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text
