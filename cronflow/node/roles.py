"""What the node's own process needs of the roles that bootstrap gives it: to stop leading, and to finish what runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from cronflow.domain.cluster import Tenure
from cronflow.node.role_loop import NodeRole, Wake


class Leadership(Protocol):
    """The elector. One that is not `willing` gives the lead back and does not campaign."""

    willing: bool
    last_term: int
    wake: Wake

    @property
    def tenure(self) -> Tenure | None:
        """The right to lead, or None."""

    @property
    def lease_left_s(self) -> float:
        """How long this node still leads unless the lease is renewed, in seconds."""

    async def resign(self) -> None:
        """Stop leading and never begin again."""


class Workload(Protocol):
    """The worker. `paused`: it takes nothing and gives back what waits."""

    paused: bool

    @property
    def in_flight(self) -> int:
        """How many runs are on this node."""

    def start(self, group: asyncio.TaskGroup) -> None:
        """Run attempts as tasks of this group, from now on."""

    def pause(self, paused: bool) -> None:
        """Take nothing until further notice."""

    async def drain(self, seconds: float) -> None:
        """Take nothing more; wait for what runs, then stop it and hand it on."""

    async def give_back(self) -> None:
        """Return what waits in the node's list to the leader."""


class Outcomes(Protocol):
    """The recorder: group commits that outlive the other roles, because runs end until the last moment."""

    def start_roles(self, group: asyncio.TaskGroup) -> Sequence[asyncio.Task[None]]:
        """Start the group commits."""

    async def replay_all(self) -> None:
        """Write what is spooled, as far as MongoDB allows. Never raises BackendUnavailable."""


class Flushed(Protocol):
    """A role that still has something to write when the node stops."""

    role: NodeRole

    async def flush(self) -> None:
        """Write what is left. Never raises BackendUnavailable."""
