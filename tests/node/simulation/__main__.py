"""Tell one story again: `python -m tests.node.simulation "Story(…)"`, as a failed test printed it.

With `--log` before it, print what the nodes log.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.node.simulation.stories import Step, Story, report, told


def main() -> None:
    """Print the violations, the faults, and what happened to each run."""
    *options, text = sys.argv[1:]
    story = eval(text, {"Story": Story, "Step": Step})
    with TemporaryDirectory() as folder:
        history = told(story, Path(folder), log="--log" in options)
    for step in history.steps:
        print(f"{step.at:%T.%f} {step.run} {step.state} under {step.fence}, version {step.job_ver}, {step.node}")
    print(report(story, history))


if __name__ == "__main__":
    main()
