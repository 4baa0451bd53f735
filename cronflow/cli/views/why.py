"""The page of `jobs why`: why a job ran, did not run or is waiting, from the schedule to the outcome.

The rule: the steps are in the order of the decisions, so the last line is the current state, followed by what to do
about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.formatting import BLUE, GRAY, GREEN, ORANGE, RED, Look
from cronflow.cli.terminal.output import console
from cronflow.cli.views.runs import resolution_text
from cronflow.domain.chain import On, Upstream
from cronflow.domain.cluster import node_name
from cronflow.domain.job import Overlap
from cronflow.domain.placement import NO_FREE_SLOT
from cronflow.domain.run import Outcome, RunState

if TYPE_CHECKING:
    from cronflow.schemas.runs import CoversSchema, PlacementSchema
    from cronflow.schemas.why import (
        EndedSchema,
        LatenessSchema,
        LateStartSchema,
        LinkSchema,
        PartsSchema,
        RefusedSchema,
        WhySchema,
    )

YES, NO, WAITS, PASSED = Look("✓", GREEN), Look("✗", RED), Look("…", ORANGE), Look("↷", GRAY)
TITLE = 12
BAR = 24
LATE_COLOURS = {"no_leader": RED, "maintenance": ORANGE, "waiting": ORANGE, "lock": ORANGE, "slot": ORANGE}

Step = tuple[Look, str, Sequence[str]]


def why_page(why: WhySchema, now: datetime) -> None:
    out = console()
    out.print(Text.assemble((why["job"], "bold"), "  ", times.both(why["at"], now)))
    out.print()
    steps = [_step(link, now) for link in why["chain"]]
    for n, (look, title, lines) in enumerate(steps):
        first, *more = lines or [""]
        out.print(Text.assemble((f"{look.glyph} {title:<{TITLE}} ", look.style), formatting.one_line(first)))
        bar = "│" if n + 1 < len(steps) else " "
        for line in more:
            out.print(Text.assemble((f"{bar} ", "dim"), " " * (TITLE + 1), formatting.clean(line)))
    # An API of an earlier version returns none.
    if (late := why.get("late")) is not None:
        out.print()
        for part in late_lines(late):
            out.print(part)
    if why["run"] is not None:
        out.print()
        out.print(Text(f"its run: cronflow runs show {why['run']}", style="dim"))
        if any(link["step"] == "ended" and link["dead"] for link in why["chain"]):
            out.print(Text(f"replay it: cronflow runs retry {why['run']}", style="dim"))
            out.print(Text(f"acknowledge it: cronflow runs ack {why['run']}", style="dim"))


def waits_for_node(why: WhySchema) -> str | None:
    """Each live node's reason, if no node can take the run. None also while one only lacks a free slot."""
    last = why["chain"][-1]
    waiting = last["waiting"] if last["step"] == "tries_again" else None
    nodes = [] if waiting is None else waiting["nodes"]
    if not nodes or any(node["reason"] == NO_FREE_SLOT for node in nodes):
        return None
    return "; ".join(f"{node_name(node['node'])}: {formatting.one_line(node['reason'])}" for node in nodes)


def _step(link: LinkSchema, now: datetime) -> Step:
    found = _schedule_step(link, now) or _planning_step(link, now) or _run_step(link, now) or _chain_step(link, now)
    # A newer API may return other steps.
    return found or (PASSED, link["step"], [""])


def _schedule_step(link: LinkSchema, now: datetime) -> Step | None:
    match link["step"]:
        case "due":
            return YES, "due", [link["schedule"], f"version {link['ver']}{_since(link['since'], link['by'])}"]
        case "not_due":
            lines = [link["reason"] if link["schedule"] is None else f"{link['reason']} ({link['schedule']})"]
            if link["before"] is not None:
                lines.append(f"previous: {times.absolute(link['before'])}")
            if link["after"] is not None:
                lines.append(f"next: {times.absolute(link['after'])}")
            return NO, "not due", lines
        case "upcoming":
            return WAITS, "upcoming", [f"due {times.relative(link['instant'], now)}"]
        case "held":
            lines = [f"by version {link['ver']}{_since(link['since'], link['by'])}"]
            # An API of 0.9 has neither.
            if note := link.get("note"):
                lines.append(note)
            if not link["recorded"]:
                until = f", by itself at {times.absolute(end)}" if (end := link.get("until")) else ""
                lines.append(f"it will be recorded as skipped when the job is resumed{until}")
            return PASSED, link["reason"], lines
        case "requested":
            replay = "" if link["replay_of"] is None else f", a replay of {link['replay_of']}"
            # An API of 0.9 has no backfills and no parts.
            backfill = "" if link.get("backfill") is None else f", by the backfill {link['backfill']}"
            part = f", as a part of {link['parent']}" if link.get("parent") else ", outside the schedule"
            return YES, "requested", [f"{times.absolute(link['at'])}{part}{replay}{backfill}"]
        case "unrecorded":
            return NO, "no run", [link["reason"]]
        case "backfilled":
            return YES, "backfill", [f"{link['run']} {link['state']}: cronflow runs show {link['run']}"]
    return None


def _planning_step(link: LinkSchema, now: datetime) -> Step | None:
    match link["step"]:
        case "parts":
            return _parts(link)
        case "excluded":
            until = [] if link["until"] is None else [f"at least until {times.absolute(link['until'])}"]
            return PASSED, "excluded", [link["reason"], *until]
        case "lateness":
            return _lateness(link)
        case "overlapping":
            blocked = f"run {link['blocked_by']} was open" if link["blocked_by"] else "another run was open"
            if link["skipped"]:
                return PASSED, "overlap", [f"{blocked}, and the job has overlap: {link['policy']}"]
            why = "runs may overlap" if link["policy"] == Overlap.ALLOW else "no other run was open"
            return YES, "overlap", [f"{link['policy']}: {why}"]
        case "unplanned":
            since = f"{times.absolute(link['since'])} ({times.relative(link['since'], now)})"
            lines = [f"{link['reason']}, since {since}"]
            if link["blocked_by"]:
                lines.append(f"blocked by: cronflow runs show {link['blocked_by']}")
            return WAITS, "waits", [*lines, *_nodes(link["nodes"], link["more"])]
        case "placed":
            if link["placement"] is None:
                return YES, "placed", [f"{link['node']}; the reason was not recorded"]
            return YES, "placed", _placement(link["placement"])
        case "dispatched":
            again = f", dispatched again {formatting.plural(link['again'], 'time')}" if link["again"] else ""
            line = f"{times.absolute(link['at'])} by term {link['term']}, fence {link['fence']}{again}"
            if link["taken"]:
                return YES, "dispatched", [line]
            check = "" if link["check_at"] is None else f"; next check {times.relative(link['check_at'], now)}"
            return WAITS, "dispatched", [line, f"{link['node']} has not recorded a start yet{check}"]
    return None


def _parts(link: PartsSchema) -> Step:
    counts = ", ".join(f"{count} {state}" for state, count in link["counts"].items())
    if link["at"] is None:
        return WAITS, "waits", [f"not split yet: {link['waiting'] or 'the leader does that within a second'}"]
    return YES, "split", [f"into {formatting.plural(link['count'] or 0, 'part')}{': ' if counts else ''}{counts}"]


def _lateness(link: LatenessSchema) -> Step:
    late = times.duration(link["late_ms"])
    lines = [f"planned {late} late"]
    if link["missed"]:
        lines = [f"planned {late} late; later than {times.duration(link['late_after_ms'])} counts as missed"]
        lines.append(f"misfire: {link['policy']}")
    if link["covers"] is not None:
        lines.append(f"one run covers {_covered(link['covers'])}")
    if link["skipped"]:
        return PASSED, "missed", lines
    return (WAITS if link["missed"] else YES), ("missed" if link["missed"] else "on time"), lines


def _covered(covers: CoversSchema) -> str:
    count = "many instants" if covers["count"] is None else formatting.plural(covers["count"], "instant")
    return f"{count}, {times.absolute(covers['first'])} to {times.absolute(covers['last'])}"


def _run_step(link: LinkSchema, now: datetime) -> Step | None:
    match link["step"]:
        case "started":
            late = times.duration(link["lateness_ms"])
            return YES, "started", [f"{times.absolute(link['at'])}, {late} after it was due"]
        case "tried":
            attempt = link["attempt"]
            length = "" if attempt["duration_ms"] is None else f" after {times.duration(attempt['duration_ms'])}"
            error = f": {formatting.gist(attempt['error'])}" if attempt["error"] else ""
            text = f"{attempt['outcome']}{length} on {node_name(attempt['node'])}{error}"
            if attempt["outcome"] in (Outcome.DECLINED, Outcome.DEFERRED, Outcome.DRAINED):
                return PASSED, "given back", [text]
            return (YES if attempt["outcome"] == Outcome.OK else NO), f"attempt {attempt['n']}", [text]
        case "runs":
            on = "" if link["node"] is None else f" on {node_name(link['node'])}"
            length = times.span(now - times.parsed(link["since"]))
            lines = [f"attempt {link['attempt']}{on}, for {length}"]
            # An API of 0.9 does not return the usual duration.
            if link.get("long") and link["usual_ms"] is not None:
                usual = f"95 % of the last {link['usual_of']} runs took at most {times.duration(link['usual_ms'])}"
                lines.append(f"longer than usual: {usual}")
            return Look("▶", BLUE), "running", lines
        case "tries_again":
            waiting = link["waiting"]
            if waiting is None:
                when = "" if link["at"] is None else f" {times.relative(link['at'], now)}"
                return WAITS, "waits", [f"attempt {link['attempt']}{when}"]
            text = f"attempt {link['attempt']}: {waiting['reason']}, since {times.absolute(waiting['since'])}"
            blocked = [f"blocked by: cronflow runs show {waiting['blocked_by']}"] if waiting["blocked_by"] else []
            return WAITS, "waits", [text, *blocked, *_nodes(waiting["nodes"], waiting["more"])]
        case "no_retries":
            rate = f"{link['failed']} of {link['attempts']} attempts had failed by {times.absolute(link['since'])}"
            lines = [f"circuit breaker open: {rate}", "if it fails, it is not retried"]
            return PASSED, "no retries", lines
        case "ended":
            return _ended(link)
    return None


def _chain_step(link: LinkSchema, now: datetime) -> Step | None:
    match link["step"]:
        case "follows":
            lines = [f"{one['run']} {one['state']}" for one in link["of"]]
            return YES, "follows", [*lines, f"the chain: cronflow runs chain {link['chain']}"]
        case "upstream":
            within = "" if link["within_ms"] is None else f" within {times.duration(link['within_ms'])}"
            name = f"{link['job']} (on {link['on']}{within})"
            if link["run"] is None or link["state"] is None:
                return WAITS, "upstream", [f"{name}: none of its runs has ended"]
            ended = "" if link["at"] is None else f" {times.relative(link['at'], now)}"
            counts = Upstream(link["job"], On(link["on"])).wants(RunState(link["state"]))
            line = f"{name}: last {link['state']}{ended}, {link['run']}"
            return YES if counts else PASSED, "upstream", [line]
        case "awaits":
            lines = [f"already ended: {one['run']} ({one['state']})" for one in link["arrived"]]
            until = "" if link["until"] is None else f", until {times.both(link['until'], now)}"
            chain = "" if link["chain"] is None else f" in the chain {link['chain']}"
            return WAITS, "waits", [f"for {', '.join(link['missing'])} to end{chain}{until}", *lines]
        case "held_back":
            return PASSED, "held back", [link["run"], link["reason"]]
    return None


def _ended(link: EndedSchema) -> Step:
    lines = ["" if link["at"] is None else times.absolute(link["at"])]
    if link["reason"]:
        lines.append(link["reason"])
    if link["error"]:
        lines.append(formatting.gist(link["error"]))
    if link["dead"]:
        lines.append("a dead letter: not replayed or acknowledged yet")
    if link["resolution"] is not None:
        lines.append(resolution_text(link["resolution"]))
    return formatting.RUNS[link["state"]], link["state"], lines


def _placement(placement: PlacementSchema) -> list[str]:
    lines = [f"{placement['node']}, rank {placement['rank']:g} (lowest rank wins)"]
    for other in placement["others"]:
        why = other["reason"] if "reason" in other else f"rank {other['rank']:g}"
        lines.append(f"not {other['node']}: {why}")
    return [*lines, *_more(placement["more"])]


def _nodes(nodes: Sequence[RefusedSchema], more: int) -> list[str]:
    return [*(f"not {one['node']}: {one['reason']}" for one in nodes), *_more(more)]


def _more(more: int) -> list[str]:
    return [f"and {formatting.plural(more, 'more node')}"] if more > 0 else []


def _since(instant: str, by: str) -> str:
    return f", since {times.absolute(instant)}" + (f" by {formatting.one_line(by)}" if by else "")


def late_lines(late: LateStartSchema) -> Iterator[Text]:
    """The parts of the lateness, each with a bar of its share."""
    whole = max(1, late["lateness_ms"])
    what = "started" if late["started"] else "not started"
    yield Text(f"{what} {times.duration(late['lateness_ms'])} after it was due:", style="bold")
    for part in late["parts"]:
        bar = "█" * max(1, round(BAR * part["ms"] / whole))
        colour = LATE_COLOURS.get(part["delay"], GRAY) if part["recorded"] else GRAY
        length = times.duration(part["ms"])
        yield Text.assemble((f"  {bar:<{BAR}} ", colour), f"{length:>9}  ", formatting.one_line(part["words"]))
