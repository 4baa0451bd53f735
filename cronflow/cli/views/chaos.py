"""The result of `cronflow chaos` as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from rich.console import Console
from rich.text import Text

from cronflow.chaos.result import ChaosResult, Failover, cause
from cronflow.cli.terminal.formatting import GREEN, ORANGE, RED
from cronflow.domain.durations import span
from cronflow.testing.audit import percentile

SHOWN = 10


def view(console: Console, result: ChaosResult) -> None:
    """The table."""
    verdict = ("every promise was kept", GREEN) if result.holds else ("a promise was broken", RED)
    if not result.violations and not result.holds:
        verdict = ("nothing was tested", ORANGE)
    console.print()
    console.print(Text(f"{'✓' if result.holds else '✗'} {verdict[0]}", f"bold {verdict[1]}"))
    kinds = Counter(one.kind.name for one in result.injected)
    explained = Counter(cause(one) or "nothing" for one in result.doubles)
    crashes = [one for one in result.failovers if not one.graceful]
    rows = [
        ("time", f"{span(result.took)}, seed {result.seed}"),
        ("faults", f"{len(result.injected)}: " + ", ".join(f"{count} {name}" for name, count in sorted(kinds.items()))),
        ("fires due", f"{result.fires_due:,}"),
        ("runs", "  ".join(f"{count:,} {state}" for state, count in sorted(result.states.items())) or "none"),
        ("lost", f"{len(result.lost)}"),
        ("committed twice", f"{len(result.twice)}"),
        ("double starts", f"{len(result.doubles)} of {result.starts:,} starts, {_unexplained(explained)}"),
        ("fences rejected", f"{result.fences_rejected}"),
        ("limits exceeded", f"{result.limits_exceeded}"),
        ("failover", _times(crashes)),
        ("  without other faults", _times([one for one in crashes if one.alone])),
        ("  graceful", _times([one for one in result.failovers if one.graceful])),
        ("lateness", _quantiles(result.lateness)),
    ]
    for name, value in rows:
        console.print(f"  {name:<22} {value}", soft_wrap=True, highlight=False)
    for fault, count in explained.most_common(SHOWN):
        console.print(Text(f"  double start explained by {fault}: {count}"), soft_wrap=True)
    for violation in result.violations[:SHOWN]:
        console.print(Text(f"  {violation}", style=RED), soft_wrap=True)
    if len(result.violations) > SHOWN:
        console.print(Text(f"  … and {len(result.violations) - SHOWN} more violations", style=RED))


def _unexplained(explained: Mapping[str, int]) -> str:
    count = explained.get("nothing", 0)
    return f"{count} of them unexplained" if count else "each explained by a fault or an edit"


def _times(found: Sequence[Failover]) -> str:
    return f"{_quantiles(sorted(one.took for one in found))} (n={len(found)})" if found else "none"


def _quantiles(values: Sequence[timedelta]) -> str:
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    found = {name: percentile(values, share) for name, share in shares.items()}
    return ", ".join(f"{name} {span(value)}" for name, value in found.items() if value is not None) or "none"
