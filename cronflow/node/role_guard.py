"""What happens when a role that may fail meets an error that nobody expected: the process and its runs go on.

Such an error is a bug, or a record that this version cannot read. A role of the leader costs its node the lead, because
a cluster must not be led in part. Where every node meets the error, the lead goes round, to each node at most once in
five seconds, and the roles that work do their work in between. A role on which neither the lead nor a run depends is
only tried again. A step may be repeated after any error, as after an outage, which interrupts it too.

An error in any other role ends the process: a node whose leases or outcomes are not written must not hold runs.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from cronflow.domain.errors import BackendUnavailable
from cronflow.node.role_loop import NodeRole

RETRY_S = 5.0

log = structlog.get_logger("cronflow.node")


def guarded(role: NodeRole, failed: Callable[[str, str], None]) -> NodeRole:
    """The role, but an unexpected error in a step is logged, and `failed` is called with its name and the error."""

    async def step() -> float:
        try:
            return await role.step()
        except BackendUnavailable:
            raise
        except Exception as error:
            log.exception("a role failed", role=role.name)
            failed(role.name, f"{type(error).__name__}: {error}")
            return RETRY_S

    return NodeRole(role.name, step, role.wake)
