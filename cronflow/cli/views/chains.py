"""Chains for people: the runs of a chain, and the graph of jobs that follow each other as text, DOT and Mermaid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import console
from cronflow.cli.terminal.tables import Column, table_of
from cronflow.domain.chain import Join, On

if TYPE_CHECKING:
    from cronflow.schemas.job_graph import GraphEdgeSchema, JobGraphSchema
    from cronflow.schemas.jobs import JobSchema
    from cronflow.schemas.runs import RunSchema

NO_GRAPH = "No job follows another one. Add after: NAME to a job to have it run when NAME has succeeded."


class GraphFormat(StrEnum):
    TEXT = "text"
    DOT = "dot"
    MERMAID = "mermaid"
    JSON = "json"


def in_order(runs: Sequence[RunSchema]) -> list[RunSchema]:
    """The runs of a chain: upstream runs before those that follow them, then by creation."""
    return sorted(runs, key=lambda run: (run["depth"], run["created_at"], run["id"]))


def chain_table(runs: Sequence[RunSchema], now: datetime, *, marked: str = "") -> None:
    """The runs of a chain, indented by their depth. The one that is `marked` is bold."""
    table_of(
        runs,
        [
            (Column("STATE"), lambda run: formatting.run_state(run["state"])),
            (Column("RUN"), lambda run: _indented(run, marked)),
            (Column("CREATED", drop=1), lambda run: times.relative(run["created_at"], now)),
            (
                Column("TOOK", drop=2, align="right"),
                lambda run: "" if run["duration_ms"] is None else times.duration(run["duration_ms"]),
            ),
            (
                Column("FOLLOWS", drop=4, least=16),
                lambda run: ", ".join(f"{one['job']} {one['state']}" for one in run["follows"]),
            ),
            (
                Column("WHY", drop=3, least=20),
                lambda run: formatting.gist(run["waiting"] or run["error"] or run["reason"]),
            ),
        ],
    )


def _indented(run: RunSchema, marked: str) -> Text:
    return Text.assemble("  " * min(run["depth"], 20), (run["id"], "bold" if run["id"] == marked else ""))


def follows_text(job: JobSchema) -> str | None:
    """What a job follows. An API of 0.9 does not return it."""
    after: Sequence[Mapping[str, object]] = job.get("after") or ()  # type: ignore[assignment]
    if not after:
        return None
    word = "" if len(after) == 1 else "any of " if job["join"] == Join.ANY else "all of "
    return word + ", ".join(map(_upstream_text, after))


def _upstream_text(upstream: Mapping[str, object]) -> str:
    within = "" if upstream["within"] is None else f" within {upstream['within']}"
    return f"{upstream['job']} {upstream['on']}{within}"


def print_graph(graph: JobGraphSchema, form: GraphFormat) -> None:
    """Print it as a tree, as DOT or as a Mermaid flowchart."""
    lines = {GraphFormat.DOT: dot_lines, GraphFormat.MERMAID: mermaid_lines}.get(form, tree_lines)(graph)
    out = console()
    for line in lines:
        out.print(Text(line))


def tree_lines(graph: JobGraphSchema) -> list[str]:
    """A tree from each job that follows none. A job that follows several is below each of them; what follows it, only
    the first time.
    """
    edges: dict[str, list[GraphEdgeSchema]] = {}
    upstream: dict[str, list[str]] = {}
    for edge in graph["edges"]:
        edges.setdefault(edge["upstream"], []).append(edge)
        upstream.setdefault(edge["job"], []).append(edge["upstream"])
    lines: list[str] = []
    shown: set[str] = set()
    # Jobs in a cycle, which two changes at the same time can make, have no beginning.
    for root in [*(job for job in graph["jobs"] if job not in upstream), *graph["jobs"]]:
        if root in shown:
            continue
        stack = [(root, "", "", root)]
        while stack:
            job, first, rest, text = stack.pop()
            again = job in shown and job in edges
            lines.append(f"{first}{text}{' …' if again else ''}")
            if job in shown:
                continue
            shown.add(job)
            below = edges.get(job, [])
            for n, edge in reversed([*enumerate(below, 1)]):
                last = n == len(below)
                label = edge["job"] + _edge_text(edge, upstream[edge["job"]])
                stack.append((edge["job"], rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), label))
    return lines


def _edge_text(edge: GraphEdgeSchema, upstream: Sequence[str]) -> str:
    parts = [] if edge["on"] == On.SUCCEEDED else [f"on {edge['on']}"]
    if len(upstream) > 1:
        parts.append(f"{edge['join']} of {', '.join(upstream)}")
    return f"  ({'; '.join(parts)})" if parts else ""


def dot_lines(graph: JobGraphSchema) -> list[str]:
    """For Graphviz."""
    lines = ["digraph jobs {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f"  {_quoted(job)};" for job in graph["jobs"]]
    for edge in graph["edges"]:
        label = f" [label={_quoted(text)}]" if (text := _label(edge, graph)) else ""
        lines.append(f"  {_quoted(edge['upstream'])} -> {_quoted(edge['job'])}{label};")
    return [*lines, "}"]


def mermaid_lines(graph: JobGraphSchema) -> list[str]:
    """For Mermaid. Names are only in labels, since they may be words of its language, such as `end`."""
    ids = {job: f"j{n}" for n, job in enumerate(graph["jobs"])}
    lines = ["flowchart LR"]
    lines += [f'  {ids[job]}["{job.replace("#", "#35;").replace(chr(34), "#quot;")}"]' for job in graph["jobs"]]
    for edge in graph["edges"]:
        label = f"|{text}|" if (text := _label(edge, graph)) else ""
        lines.append(f"  {ids[edge['upstream']]} -->{label} {ids[edge['job']]}")
    return lines


def _label(edge: GraphEdgeSchema, graph: JobGraphSchema) -> str:
    parts = [] if edge["on"] == On.SUCCEEDED else [str(edge["on"])]
    several = sum(other["job"] == edge["job"] for other in graph["edges"]) > 1
    if several and edge["join"] == Join.ANY:
        parts.append("any")
    return ", ".join(parts)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
