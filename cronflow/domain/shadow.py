"""Shadow mode: a job is planned while another scheduler still executes its work.

The rule: a fire of a job in shadow mode becomes a skipped run with the reason SHADOWED, so the ledger shows when the
job would have run, and nothing executes. `shadow_report` compares these runs with what the other scheduler did.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cronflow.domain.errors import InvalidInput, Problem

SHADOWED = "shadow mode"
"""The reason of the skipped runs."""
LONGEST_COMMAND = 10_000
LONGEST_NAME = 255


class JobMode(StrEnum):
    """Whether the fires of a job are executed, or only recorded."""

    ACTIVE = "active"
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedLine:
    """The crontab line that a job replaces: its command as cron logs it, its user, and the host whose cron has it.
    Without a user or host, those of any log line match.
    """

    command: str
    user: str | None = None
    host: str | None = None

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise InvalidInput(Problem("command", "is empty", "copy the command from the crontab line"))
        for key, value, most in (
            ("command", self.command, LONGEST_COMMAND),
            ("user", self.user or "", LONGEST_NAME),
            ("host", self.host or "", LONGEST_NAME),
        ):
            if len(value) > most:
                raise InvalidInput(Problem(key, f"has {len(value):,} characters", f"write at most {most:,}"))

    def matches(self, command: str, user: str, host: str) -> bool:
        """Whether cron logged the execution of this line. White space counts as one space, as cron logs the space
        before a command too.
        """
        return (
            self.command.split() == command.split()
            and self.user in (None, user)
            and (self.host is None or self.host == host)
        )
