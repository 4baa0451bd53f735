"""What `jobs apply` would change: the lines of each job that go and come, key by key.

The rule: colour never carries the meaning alone; a line begins with -, + or a space.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.output import console
from cronflow.documents import complete_document
from cronflow.documents.differences import Difference, differences

if TYPE_CHECKING:
    from cronflow.domain.job import Job
    from cronflow.schemas.jobs import AppliedSchema

STYLES = {"-": formatting.RED, "+": formatting.GREEN}
RESULTS = ("created", "changed", "deleted", "unchanged")
CONTEXT = 2


def with_created(found: Sequence[AppliedSchema], jobs: Sequence[Job]) -> list[AppliedSchema]:
    """The plan, in which new jobs have their keys as changes too."""
    from cronflow.documents.masking import masked

    new = {job.name: job for job in jobs}
    made: list[AppliedSchema] = []
    for one in found:
        if one["result"] == "created" and "changes" not in one:
            document = masked(complete_document(new[one["name"]]))
            changes = differences(None, {key: value for key, value in document.items() if key != "name"})
            one = {**one, "changes": [{"field": path, "before": old, "after": now} for path, old, now in changes]}
        made.append(one)
    return made


def diff_page(changed: Sequence[AppliedSchema], found: Sequence[AppliedSchema], days: int) -> None:
    for one in changed:
        print_difference(
            one["name"], one["result"], [(c["field"], c["before"], c["after"]) for c in one.get("changes", ())]
        )
        if days and (runs := one.get("runs")) is not None and runs["compared"]:
            added, removed = ("many" if count is None else f"{count:,}" for count in (runs["added"], runs["removed"]))
            console().print(Text(f"  runs in {formatting.plural(days, 'day')}: +{added} -{removed}", style="dim"))
    counts = [f"{sum(one['result'] == result for one in found)} {result}" for result in RESULTS]
    console().print(Text(f"{formatting.plural(len(found), 'job')}: {', '.join(counts)}", style="dim"))


def print_difference(name: str, result: str, changes: Sequence[Difference]) -> None:
    """The heading of a document, and the lines that differ."""
    out = console()
    glyph = formatting.OTHERS[result]
    out.print(Text.assemble((f"{glyph.glyph} {name}", f"bold {glyph.style}"), f"  {result}"))
    for line in difference_lines(changes):
        out.print(Text(f"  {line}", style=STYLES.get(line[0], "dim")))
    out.print()


def difference_lines(changes: Sequence[Difference]) -> Iterator[str]:
    for path, before, after in changes:
        if isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
            yield f"  {path}:"
            yield from _text_lines(before, after)
            continue
        if before is not None:
            yield f"- {path}: {_value(before)}"
        if after is not None:
            yield f"+ {path}: {_value(after)}"


def _text_lines(before: str, after: str) -> Iterator[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=CONTEXT, lineterm="")
    for line in list(lines)[2:]:
        yield f"{line[0]}   {formatting.clean(line[1:])}" if line[0] in "+- " else f"  {line}"


def _value(value: object) -> str:
    import orjson

    return formatting.one_line(orjson.dumps(value).decode())
