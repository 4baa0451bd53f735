"""`cronflow config …`: the settings as this process would have them, and what is wrong with them.

The rule: a password is never shown, and every problem is told at once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli import words
from cronflow.cli.connect import settings
from cronflow.cli.lazy import new_group
from cronflow.cli.output import Format, Output, console, note, show
from cronflow.cli.tables import Column, table

if TYPE_CHECKING:
    from cronflow.config import Settings

config = new_group("The settings, and where each comes from.")


@config.command("show")
def show_config(output: Output = Format.TABLE) -> None:
    """Every setting: its value, and whether a flag, the environment, a file or the default gave it."""
    from cronflow.config import describe

    read = settings()
    rows = describe(read)

    def view() -> None:
        table(
            [Column("SETTING"), Column("VALUE"), Column("SOURCE", drop=1, least=8)],
            [
                [
                    name,
                    words.clean(value),
                    Text(words.clean(source), style="dim" if source == "default" else words.BLUE),
                ]
                for name, value, source in rows
            ],
        )

    answer = [{"name": name, "value": value, "source": source} for name, value, source in rows]
    show(output, answer, [name for name, _, _ in rows], view)
    _notes(read)


@config.command()
def check(output: Output = Format.TABLE) -> None:
    """Tell all that is wrong with the settings; exit code 2 when something is."""
    from cronflow.config import describe

    read = settings()
    sources = Counter(source for _, _, source in describe(read))
    sources.pop("default", None)

    def view() -> None:
        given = ", ".join(sorted(sources)) or "all are defaults"
        console().print(Text.assemble(words.word("ok"), f"  the settings are understood and fit together ({given})"))

    show(output, {"ok": True, "sources": sorted(sources), "notes": list(read.notes)}, ["ok"], view)
    _notes(read)
    unset = [name for name, value in (("REDIS_URL", read.redis_url), ("MONGO_URL", read.mongo_url)) if value is None]
    if unset:
        note(f"{' and '.join(unset)} unset: commands that need servers will ask for CRONFLOW_{unset[0]}")


def _notes(read: Settings) -> None:
    for text in read.notes:
        note(f"note: {words.clean(text)}")
