"""`make compare-schedules`: CronFlow's fires compared with those of cronsim, croniter and APScheduler.

It prints, for each library, how many lines are equal in every zone, and each cause of a difference with an example.
`docs/reference/schedules-compared.md` explains the causes. It exits with 1 when a difference has no known cause.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.comparison.comparing import Outcome, compare
from tests.comparison.libraries import CRONFLOW, OTHERS, Library
from tests.comparison.lines import FIRST, LAST, LINES, ZONES


def main() -> int:
    compared = f"{len(LINES)} lines in {len(ZONES)} zones, {FIRST:%Y-%m-%d} to {LAST:%Y-%m-%d}"
    _say(f"{CRONFLOW.name} {CRONFLOW.version}: {compared}")
    unexplained = 0
    for library in OTHERS:
        outcomes = [compare(library, line, zone) for line in LINES for zone in ZONES]
        _report(library, outcomes)
        unexplained += sum(len(outcome.findings) for outcome in outcomes)
    _say("", f"{unexplained} differences without a known cause")
    return 1 if unexplained else 0


def _report(library: Library, outcomes: list[Outcome]) -> None:
    different = {outcome.line for outcome in outcomes if not outcome.same}
    fires = sum(outcome.fires for outcome in outcomes)
    _say(
        "", f"{library.name} {library.version}: {len(LINES) - len(different)} of {len(LINES)} lines equal in all zones"
    )
    _say(f"  {fires:,} fires compared")
    lines = Counter(cause for cause, _ in {(cause, one.line) for one in outcomes for cause in one.causes})
    for cause, count in lines.most_common():
        first = next(one.causes[cause] for one in outcomes if cause in one.causes)
        _say(f"  {cause:<52} {count:>3} line{' ' if count == 1 else 's'}", f"      {first}")
    for outcome in outcomes:
        for finding in outcome.findings:
            _say(f"  NOT EXPLAINED: {finding}")


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
