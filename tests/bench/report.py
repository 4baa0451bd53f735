"""The report of `make bench-peers`: tables and a plot of the latest figures, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import plot, targets
from tests.bench.plot import Bar, Chart
from tests.bench.targets import EXECUTORS, HERDS, PEERS, PROCESSES, TARGETS, Target
from tests.children import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "images" / "benchmarks.svg"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
MISSING = "-"

Row = Sequence[str]
Figures = Mapping[str, float]


def tables(figures: Figures, setups: Mapping[str, str]) -> list[tuple[str, list[Row]]]:
    """All tables, each with its title; the first row is the head. `setups` names the setups of CronFlow by their
    figure.
    """
    return [
        ("Targets", _targets(figures)),
        ("No-op executions per second, and CPU milliseconds per execution", _drains(figures, setups)),
        ("Lateness in milliseconds of jobs that are due at one instant", _herds(figures)),
    ]


def markdown(headings: Sequence[str], found: Sequence[tuple[str, list[Row]]]) -> str:
    """The generated block: lines about the run, then the tables."""
    parts = ["\n".join(f"* {line}" for line in headings)]
    for title, rows in found:
        head, *body = rows
        lines = [head, ["---"] * len(head), *body]
        parts.append(f"### {title}\n\n" + "\n".join("| " + " | ".join(cells) + " |" for cells in lines))
    return "\n\n".join(parts)


def text(found: Sequence[tuple[str, list[Row]]]) -> str:
    """The tables in columns, for the terminal."""
    parts = []
    for title, rows in found:
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        parts.append("\n".join([title, "", *lines]))
    return "\n\n".join(parts) + "\n"


def replaced(page: str, block: str) -> str:
    """The page with another generated block. ValueError if it has no markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{BEGIN} and {END} are missing")
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"


def write(headings: Sequence[str], found: Sequence[tuple[str, list[Row]]], figures: Figures, page: Path = PAGE) -> None:
    """Update the page and its picture."""
    page.write_text(replaced(page.read_text("utf-8"), markdown(headings, found)), "utf-8")
    PICTURE.write_text(picture(figures), "utf-8")


def picture(figures: Figures) -> str:
    """What is drawn: drains, and the herds of ten thousand."""
    drains = []
    for name in PEERS:
        for label, processes in (("1 process", (1,)), ("best number of processes", PROCESSES)):
            values = [figures[found] for k in processes if (found := targets.peer(name, k)) in figures]
            if values:
                drains.append(Bar(f"{name}, {label}", max(values)))
    drains += _bars(figures, {"drain_default": "CronFlow, 1 node, default", "drain_best": "CronFlow, best setup"})
    if "bare_path" in figures:
        drains.append(Bar("bare path on the same stores", figures["bare_path"], plot.LIMIT))
    herds = []
    for kind, size in HERDS:
        if size == 10_000:
            for executor in EXECUTORS:
                name = targets.apscheduler(executor, kind, size)
                if name in figures:
                    herds.append(Bar(f"APScheduler, {executor}, {kind}", figures[name]))
            herds += _bars(
                figures,
                {
                    f"herd_default_{kind}_{size}_p99": f"CronFlow, 1 node, default, {kind}",
                    f"herd_best_{kind}_{size}_p99": f"CronFlow, best setup, {kind}",
                },
            )
    charts = [
        Chart("No-op executions per second (more is better)", drains),
        Chart("10,000 jobs due at one instant: p99 lateness in ms (less is better)", herds),
    ]
    return plot.svg(charts, "Executions per second and lateness of CronFlow and of Python peers")


def _bars(figures: Figures, labels: Mapping[str, str]) -> list[Bar]:
    return [Bar(label, figures[name], plot.OWN) for name, label in labels.items() if name in figures]


def _targets(figures: Figures) -> list[Row]:
    rows: list[Row] = [["#", "target", "limit", "measured", "result"]]
    for target in TARGETS:
        value = target.measured(figures)
        rows.append(
            [
                str(target.number),
                target.what,
                _limit(target),
                MISSING if value is None else _with_unit(value, target.unit),
                target.verdict(figures),
            ]
        )
    return rows


def _drains(figures: Figures, setups: Mapping[str, str]) -> list[Row]:
    rows: list[Row] = [["", *(f"{k} process{'es' * (k > 1)}" for k in PROCESSES), "CPU ms, 1 process"]]
    labels = {name: name for name in PEERS} | {targets.DEFAULT_PREFETCH: "dramatiq, default prefetch"}
    for name, label in labels.items():
        names = [targets.peer(name, k) for k in PROCESSES]
        rows.append([label, *(_number(figures.get(found)) for found in names), _cpu(figures.get(f"{names[0]}_cpu"))])
    for figure, setup in setups.items():
        rows.append([f"CronFlow, {setup}", _number(figures.get(figure)), "", "", _cpu(figures.get(f"{figure}_cpu"))])
    for figure, label in (("bare_path", "bare path"), ("bare_path_plain", "bare path without secondary indexes")):
        rows.append([label, _number(figures.get(figure)), "", "", _cpu(figures.get(f"{figure}_cpu"))])
    return rows


def _herds(figures: Figures) -> list[Row]:
    rows: list[Row] = [["jobs", "", "p50", "p99", "max"]]
    for kind, size in HERDS:
        owners = {f"apscheduler_{executor}": f"APScheduler, {executor}" for executor in EXECUTORS}
        owners |= {
            "default": "CronFlow, 1 node, default",
            "look_ahead": "CronFlow, 1 node, LOOK_AHEAD=2s",
            "best": "CronFlow, best setup",
        }
        for owner, label in owners.items():
            names = [f"herd_{owner}_{kind}_{size}_{part}" for part in ("p50", "p99", "max")]
            if names[0] in figures:
                rows.append([f"{size:,} {kind}", label, *(_number(figures.get(name)) for name in names)])
    if "mass_p99" in figures:
        parts = [_number(figures.get(f"mass_{part}")) for part in ("p50", "p99", "max")]
        rows.append(["100,000 once", "CronFlow, best setup", *parts])
    return rows


def _limit(target: Target) -> str:
    if target.limit is None:
        return MISSING
    return f"{'≤' if target.at_most else '≥'} {_with_unit(target.limit, target.unit)}"


def _with_unit(value: float, unit: str) -> str:
    space = "" if unit in ("x", "%") else " "
    return f"{_short(value)}{space}{unit}".rstrip()


def _short(value: float) -> str:
    if value == round(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}"


def _cpu(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"
