"""Topics: which lines somebody wants to follow, `run:<id>` or `logs?level=warn&job=x&node=y`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.log_levels import at_least
from cronflow.domain.run import job_of
from cronflow.ports import LogLine


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it was written, and what it means. `run` is set for the lines of one run, `job` wherever all are of
    one.
    """

    text: str
    run: str | None = None
    levels: Collection[str] = ()
    job: str | None = None
    node: str | None = None

    def covers(self, line: LogLine) -> bool:
        """Whether a line belongs to it."""
        if self.run is not None:
            return line.run == self.run
        return (
            (not self.levels or line.level in self.levels)
            and (self.job is None or line.job == self.job)
            and (self.node is None or line.node == self.node)
        )


def topic_of(text: str) -> Topic:
    """Read a topic. Raises InvalidInput."""
    kind, mark, rest = text.partition(":")
    if kind == "run" and mark and rest:
        return Topic(text, run=rest, job=job_of(rest))
    path, _, query = text.partition("?")
    found = dict(parse_qsl(query))
    if path != "logs" or found.keys() - {"level", "job", "node"}:
        what = f"there is no topic {text[:100]!r}"
        raise InvalidInput(Problem("topic", what, "write run:<id> or logs?level=warn&job=name&node=name"))
    levels = at_least(found["level"]) if "level" in found else ()
    return Topic(text, levels=levels, job=found.get("job"), node=found.get("node"))
