"""Which jobs a command acts on: names, patterns, labels, or all.

The rule: jobs that are named are changed at once, and all of them must exist; a command that selects them in another
way prints their number and asks first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli.completion import job_names
from cronflow.cli.terminal.output import confirm
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import SYSTEM_PREFIX

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.jobs import JobSchema

WILDCARDS = frozenset("*?[")

Selected = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Names of jobs, or patterns such as 'etl-*'.", autocompletion=job_names),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="KEY[=VALUE]", help="Jobs with this label; repeatable, all must match."),
]
Everything = Annotated[bool, typer.Option("--all", help="All jobs but those of the system.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs of a command. Raises InvalidInput if nothing is selected, or in two ways."""

    names: Sequence[str]
    labels: Sequence[str]
    everything: bool

    def __post_init__(self) -> None:
        ways = [bool(self.names), bool(self.labels), self.everything]
        if sum(ways) != 1:
            what = "no jobs selected" if not any(ways) else "names, --label and --all cannot be combined"
            raise InvalidInput(Problem("", what, "give names or patterns, or --label, or --all"))

    @property
    def named(self) -> bool:
        """Whether it consists of names alone."""
        return bool(self.names) and not any(WILDCARDS & set(name) for name in self.names)

    async def find(self, cluster: Cluster) -> list[str]:
        """The names of the jobs. Raises NotFound if one that is named does not exist, and InvalidInput for a pattern
        that matches none.
        """
        if self.named:
            for name in self.names:
                await cluster.jobs.get(name)
            return list(dict.fromkeys(self.names))
        found = [
            job["name"]
            async for job in cluster.jobs.list(label=self.labels)
            if not job["name"].startswith(SYSTEM_PREFIX)
        ]
        if not self.names:
            return found
        for pattern in self.names:
            if not any(fnmatchcase(name, pattern) for name in found):
                raise InvalidInput(Problem("", f"no job matches {pattern!r}", "list the jobs: cronflow jobs list"))
        return [name for name in found if any(fnmatchcase(name, pattern) for pattern in self.names)]


async def change_selected(
    cluster: Cluster,
    selection: Selection,
    what: str,
    act: Callable[[Cluster, str], Awaitable[JobSchema]],
    *,
    yes: bool,
) -> list[JobSchema]:
    """Act on the jobs of a selection, after asking for confirmation if they are not named. Returns them as they are
    now.
    """
    names = await selection.find(cluster)
    if names and not selection.named:
        confirm(len(names), what, yes=yes, kind="job")
    return [await act(cluster, name) for name in names]
