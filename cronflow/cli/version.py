"""`cronflow version`."""

from __future__ import annotations

import platform
from importlib.metadata import version as installed

from cronflow.cli.output import Format, Output, show
from cronflow.cli.tables import facts


def version(output: Output = Format.TABLE) -> None:
    """What is installed here: CronFlow, Python, and the platform."""
    own = installed("cronflow")
    answer = {"cronflow": own, "python": platform.python_version(), "platform": platform.platform()}
    show(output, answer, [own], lambda: facts(answer.items()))
