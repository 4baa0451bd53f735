"""What happens when a role of the leader meets an error that nobody expected: its node stops leading and works on.

Such an error is a bug, or a record that this version cannot read. A cluster must not be led in part, so the node leaves
the lead to another one; but the runs on the node are not affected, so they go on. Where every node meets the error, the
lead goes round, to each node at most once in five seconds, and the roles that work do their work in between. A step may
be repeated after any error, as after an outage, which interrupts it too.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from cronflow.domain.errors import BackendUnavailable
from cronflow.node.role_loop import NodeRole

RETRY_S = 5.0

log = structlog.get_logger("cronflow.node")


def guarded(role: NodeRole, failed: Callable[[str, str], None]) -> NodeRole:
    """The role, but an unexpected error in a step is logged and passed on to `failed` instead of ending the process."""

    async def step() -> float:
        try:
            return await role.step()
        except BackendUnavailable:
            raise
        except Exception as error:
            log.exception("a role of the leader failed", role=role.name)
            failed(role.name, f"{type(error).__name__}: {error}")
            return RETRY_S

    return NodeRole(role.name, step, role.wake)
