"""Who owns a job: the label `owner` names it.

A change with an owner touches only jobs of this owner and jobs without one, and deletes only jobs of this owner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cronflow.domain.errors import Conflict
from cronflow.domain.job import JobRecord

OWNER = "owner"
"""The label."""


def permit_all(_names: Sequence[str]) -> None:
    """Allow the deletion of any job."""


@dataclass(frozen=True, slots=True)
class Prune:
    """Also delete the jobs of this owner that the change does not contain. `permit` gets their names and raises if who
    asks may not delete one of them.
    """

    owner: str
    permit: Callable[[Sequence[str]], None] = permit_all

    def guard(self, record: JobRecord) -> None:
        """Refuses a job that has got another owner since it was checked. Raises Conflict."""
        theirs = record.job.labels.get(OWNER)
        if theirs not in (None, self.owner):
            raise Conflict(f"{record.name} now belongs to {theirs!r}, not {self.owner!r}; it was not changed")

    def guard_deletion(self, record: JobRecord) -> None:
        """The same, for a job that is to be deleted: it must still have the owner."""
        self.guard(record)
        if OWNER not in record.job.labels:
            raise Conflict(f"{record.name} no longer belongs to {self.owner!r}; it was not deleted")
