"""The live views of `cluster watch` and `runs watch`."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.connect import collect
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.drawing import Liveness, bar, clock, curve, hour, justified, unless_unavailable
from cronflow.cli.terminal.tables import Cell, Column, lines_of
from cronflow.cli.views.cluster import NO_NODES, event_text
from cronflow.cli.views.lines import progress_text
from cronflow.cli.views.runs import node_of, try_of
from cronflow.domain.job import SYSTEM_PREFIX
from cronflow.domain.run import OPEN, RunState

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.runs import LogSchema, RunSchema
    from cronflow.schemas.stream import EventSchema, LiveNodeSchema, LiveSchema, StreamMessage

EVENTS = 50
POINTS = 600
WIDE = 110
LOAD_BAR = 10
NAME = 9
HALF, FULL = 0.7, 0.9


class ClusterView:
    """The state of the cluster as reported by the live stream."""

    def __init__(self, cluster: Cluster) -> None:
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
        doc = self._doc
        right = Text.assemble(self._liveness.text(), (f"  {clock()}", "dim"))
        if doc is None:
            return [justified(Text("waiting for the first tick", style="dim"), right, width)]
        found = [justified(self._leader(doc), right, width), Text()]
        found += [*self._facts(doc, width), Text()]
        nodes = self._nodes(doc, width)
        # Leave space for a few events.
        rows = max(height - len(found) - 6, 3)
        found += nodes[:rows]
        more = max(len(nodes) - rows, 0) + doc["nodes_more"]
        if more:
            found.append(Text(f"… and {formatting.plural(more, 'more node')}", style="dim"))
        rows = height - len(found) - 2
        if self._events and rows > 0:
            found.append(Text())
            found += [_cut(event_text(event, within_day=True), width) for event in list(self._events)[-rows:]]
        return found

    def _leader(self, doc: LiveSchema) -> Text:
        if doc["leader"] is None:
            return Text.assemble(("no leader", f"bold {formatting.RED}"), ("  due runs wait until there is one", "dim"))
        since = "" if doc["elected_at"] is None else f"  since {hour(doc['elected_at'])}"
        return Text.assemble((f"♛ {formatting.clean(doc['leader'])}", "bold"), (f"  term {doc['term']}{since}", "dim"))

    def _facts(self, doc: LiveSchema, width: int) -> Sequence[Text]:
        queue, rates = doc["queue"], doc["rates"]
        wide = 30 if width >= WIDE else 20
        found: list[tuple[str, Text]] = []
        if doc["lease_left_s"] is not None:
            # Count down between two ticks.
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
        return lines_of(
            doc["nodes"],
            [
                (Column("STATE"), lambda node: formatting.word(node["state"])),
                (Column("NODE"), _name),
                (Column("BUSY"), lambda node: _busy(node, size)),
                (Column("QUEUED", drop=3, align="right"), lambda node: str(node["queued"])),
                (Column("CPU", drop=1), lambda node: _share(node["cpu"], size)),
                (Column("MEMORY", drop=2), lambda node: _share(node["memory"], size)),
                (Column("ENDED/S", drop=5, align="right"), lambda node: f"{node['rate']:.1f}"),
                (Column("LAG", drop=6, align="right"), lambda node: f"{node['lag_s'] * 1000:.1f}ms"),
                (Column("HEARTBEAT", drop=4, align="right"), lambda node: f"{node['age_s']:.0f}s ago"),
            ],
            width,
        )


def _name(node: LiveNodeSchema) -> Cell:
    name = formatting.clean(node["name"])
    return Text(f"♛ {name}", style="bold") if node["leads"] else f"  {name}"


def _busy(node: LiveNodeSchema, size: int) -> Text:
    used = node["in_flight"] / node["slots"] if node["slots"] else 0.0
    return Text.assemble(bar(used, size, _heat(used)), f" {node['in_flight']}/{node['slots']}")


def _share(share: float, size: int) -> Text:
    return Text.assemble(bar(share, size, _heat(share)), f" {share:4.0%}")


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


def _next(doc: LiveSchema, width: int) -> Text:
    """The next fires, as many as fit."""
    now, found = times.now(), ""
    for job in doc["next"]:
        # The list is up to ten seconds old: skip fires that are already due.
        if job["at"] is None or (at := datetime.fromisoformat(job["at"])) < now or job["job"].startswith(SYSTEM_PREFIX):
            continue
        more = f"{'   ' if found else ''}{formatting.clean(job['job'])} {times.relative(at, now)}"
        if len(found) + len(more) > width:
            break
        found += more
    return Text(found)


def status_text(doc: LiveSchema) -> Text:
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


MOST_OPEN = 200
ENDED = 50
LOOKED_UP = 50
BAR = 16
REMEMBERED = 5000
ENDED_STATES = tuple(sorted(set(RunState) - OPEN))
OPEN_ORDER = (RunState.RUNNING, RunState.DISPATCHED, RunState.RETRYING)


class RunsView:
    """Open runs, and recently ended ones; `changed` are those that the last message changed, oldest first."""

    def __init__(self, cluster: Cluster, job: str | None) -> None:
        self._cluster = cluster
        self._job = job
        self._liveness = Liveness()
        self._open: dict[str, RunSchema] = {}
        self._ended: dict[str, RunSchema] = {}
        self._shown: dict[str, tuple[object, ...]] = {}
        self._progress: dict[str, tuple[int, str]] = {}
        self._rates: dict[str, float] = {}
        self.changed: Sequence[RunSchema] = ()

    async def take(self, message: StreamMessage) -> None:
        """Read the runs again, and their progress from the message."""
        self._liveness.beat()
        if message["t"] == "tick":
            self._rates = message["patch"]["rates"]
            for chunk in message["logs"]:
                for line in chunk["lines"]:
                    self._read(line)
        if message["t"] != "gap":
            await self._refresh()

    def _read(self, line: LogSchema) -> None:
        if line["fence"] >= self._progress.get(line["run"], (0, ""))[0]:
            self._progress[line["run"]] = (line["fence"], line["text"])

    async def _refresh(self) -> None:
        found = await unless_unavailable(self._runs(sorted(OPEN), MOST_OPEN))
        ended = await unless_unavailable(self._runs(ENDED_STATES, ENDED))
        if found is None or ended is None:
            return
        now_open = {run["id"]: run for run in found}
        latest = {run["id"]: run for run in ended}
        for name in [name for name in self._open if name not in now_open and name not in latest][:LOOKED_UP]:
            run = await unless_unavailable(self._cluster.runs.get(name))
            if run is not None and run["ended_at"] is not None:
                latest[name] = run
        self._open = {name: run for name, run in now_open.items() if name not in latest}
        newest = sorted((self._ended | latest).values(), key=_ended_at, reverse=True)[:ENDED]
        self._ended = {run["id"]: run for run in newest}
        self._progress = {name: one for name, one in self._progress.items() if name in self._open}
        self._mark_changed([*self._open.values(), *reversed(newest)])

    async def _runs(self, states: Sequence[RunState], limit: int) -> list[RunSchema]:
        return await collect(self._cluster.runs.list(job=self._job, state=states, limit=limit))

    def _mark_changed(self, runs: Sequence[RunSchema]) -> None:
        began = bool(self._shown)
        self.changed = [run for run in runs if self._shown.get(run["id"]) != _progress_key(run)]
        self._shown |= {run["id"]: _progress_key(run) for run in self.changed}
        for name in list(self._shown)[: max(0, len(self._shown) - REMEMBERED)]:
            if name not in self._open:
                del self._shown[name]
        if not began:
            # Runs that ended before the view opened are not changes.
            self.changed = [run for run in self.changed if run["ended_at"] is None]

    def frame(self, width: int, height: int) -> Sequence[Text]:
        """One line per run: open runs first, then the ended ones."""
        shown = sorted(self._open.values(), key=lambda run: (OPEN_ORDER.index(RunState(run["state"])), run["fire_at"]))
        rows_left = max(height - 5, 3)
        counts = ", ".join(
            f"{count} {state.value}"
            for state in OPEN_ORDER
            if (count := sum(run["state"] == state for run in self._open.values()))
        )
        of = "" if self._job is None else f" of {self._job}"
        rate = f"   {self._rates['ended']:.1f} ended per second" if self._rates.get("ended") else ""
        head = Text.assemble((f"{counts or 'no open runs'}{of}", "bold"), (rate, "dim"))
        found = [justified(head, Text.assemble(self._liveness.text(), (f"  {clock()}", "dim")), width), Text()]
        # Show some of both.
        opens = shown[: max(rows_left - min(len(self._ended), rows_left // 3), 1)]
        ended = list(self._ended.values())[: max(rows_left - len(opens) - (len(shown) > len(opens)), 0)]
        now = times.now()
        if not opens and not ended:
            return [*found, Text("No runs yet. See what is due next: cronflow jobs list")]
        columns: list[tuple[Column, Callable[[RunSchema], Cell]]] = [
            (Column("STATE"), lambda run: formatting.run_state(run["state"])),
            (Column("RUN"), lambda run: run["id"]),
            (Column("TOOK", align="right", drop=2), lambda run: _took(run, now)),
            (Column("TRY", align="right", drop=4), try_of),
            (Column("PROGRESS", drop=1), self._progress_of),
            (Column("NODE", drop=3), node_of),
            (Column("ENDED", drop=6), lambda run: (run["ended_at"] and times.relative(run["ended_at"], now)) or ""),
            (Column("WHY", drop=5, least=16), lambda run: formatting.gist(run["error"] or run["reason"])),
        ]
        table = lines_of((*opens, *ended), columns, width)
        found += table[: 1 + len(opens)]
        if len(shown) > len(opens):
            found.append(Text(f"… and {len(shown) - len(opens)} more open", style="dim"))
        return [*found, *table[1 + len(opens) :]]

    def _progress_of(self, run: RunSchema) -> Cell:
        fence, text = self._progress.get(run["id"], (0, ""))
        current = run["state"] == RunState.RUNNING and fence == run["fence"]
        return progress_text(text, BAR) if text and current else ""


def _took(run: RunSchema, now: datetime) -> Cell:
    if run["duration_ms"] is not None:
        return times.duration(run["duration_ms"])
    if run["state"] == RunState.RUNNING and run["started_at"] is not None:
        # Whole seconds, so that it does not flicker.
        ran = math.floor((now - times.parsed(run["started_at"])).total_seconds())
        return Text(f"{times.span(timedelta(seconds=max(ran, 0)))}…", style=formatting.BLUE)
    if run["state"] == RunState.RETRYING and run["check_at"] is not None and run["attempt"]:
        return Text(times.relative(run["check_at"], now), style=formatting.ORANGE)
    return ""


def changed_text(run: RunSchema) -> Text:
    text = Text.assemble((f"{times.absolute(times.now())} ", "dim"))
    state = formatting.run_state(run["state"])
    text.append_text(state).append(" " * max(1, 13 - state.cell_len)).append(run["id"])
    if run["attempt"] > 1:
        text.append(f"  attempt {run['attempt']}")
    if run["duration_ms"] is not None:
        text.append(f"  took {times.duration(run['duration_ms'])}")
    if run["node"] is not None:
        text.append(f"  {node_of(run)}", style="dim")
    why = formatting.gist(run["error"] or run["reason"])
    return text.append(f"  {why}") if why else text


def _progress_key(run: RunSchema) -> tuple[object, ...]:
    return run["state"], run["attempt"], run["node"]


def _ended_at(run: RunSchema) -> str:
    return run["ended_at"] or run["fire_at"]
