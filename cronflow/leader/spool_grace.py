"""The grace for spools: how long the leader leaves runs alone whose outcomes may still lie on a node's disk.

The rule it protects: a run that has ended is not started again merely because its node could not say so. After a
takeover, and after a long outage of MongoDB, a run stays as it is for a while, as long as its node is up: this
incarnation, or a later one of the same name, which replays what its predecessor left. What is skipped is only the
dispatch to somebody else; the grace is finite, so no run stays open for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta

from cronflow.domain.cluster import node_name
from cronflow.domain.run import Run
from cronflow.domain.transitions import Transition
from cronflow.node.role_loop import Outage, Outages
from cronflow.node.timings import Timings
from cronflow.ports import Clock

GIVEN_UP_ON_WORKER = frozenset({Transition.REDISPATCH_LOST, Transition.MARK_LOST})
OWN_SPOOL_GRACES = 4
OWN_SPOOL_LOOK_S = 5.0


class SpoolGrace:
    """Asked by the reconciler. `spooled` says how many outcomes lie in this node's own spool; that one is given longer,
    because it is seen to be there.
    """

    def __init__(self, clock: Clock, timings: Timings, outages: Outages, spooled: Callable[[], int]) -> None:
        self._clock = clock
        self._timings = timings
        self._outages = outages
        self._spooled = spooled
        self._term: int | None = None
        self._leads_since = 0.0
        self._answered: Outage | None = None
        self._spooled_since: float | None = None

    def answered(self, term: int) -> None:
        """To be told in each round, when MongoDB has answered it."""
        now = self._clock.monotonic()
        if term != self._term:
            self._term, self._leads_since = term, now
        began = self._outages.began("MongoDB")
        # It may be away for some other role still, even for ever; the time to wait counts from the first answer.
        if began is not None and (self._answered is None or self._answered.began != began):
            self._answered = Outage(began, now)
        if not self._spooled():
            self._spooled_since = None
        elif self._spooled_since is None:
            self._spooled_since = now

    def left(self, run: Run, transition: Transition, names_up: Collection[str]) -> timedelta | None:
        """For how long not to change the run along this transition; None when nothing speaks against it. The own
        spool may be empty at any moment, and most runs are not in it, so it is looked at again soon.
        """
        if transition is not Transition.REDISPATCH_UNTAKEN and transition not in GIVEN_UP_ON_WORKER:
            return None
        if run.node is None or node_name(run.node) not in names_up:
            return None
        # A start is marked within a fraction of a second, so a run without a mark has ended unheard only if MongoDB
        # was away. A takeover alone does not hold up the many that were merely not pushed.
        until = self._after_outage()
        if transition in GIVEN_UP_ON_WORKER:
            until = max(until, self._leads_since + self._timings.spool_grace)
        now = self._clock.monotonic()
        left = max(until - now, min(self._own_spool() - now, OWN_SPOOL_LOOK_S))
        return timedelta(seconds=left) if left > 0 else None

    def _own_spool(self) -> float:
        """Until when this node's own spool is waited for."""
        if self._spooled_since is None:
            return 0.0
        return self._spooled_since + OWN_SPOOL_GRACES * self._timings.spool_grace

    def _after_outage(self) -> float:
        """Until when outcomes of an outage are waited for."""
        outage = self._latest()
        # Who came to lead during an outage has not seen how long it was.
        if outage is None or (
            outage.ended - outage.began < self._timings.long_outage and self._leads_since < outage.began
        ):
            return 0.0
        return outage.ended + self._timings.spool_grace

    def _latest(self) -> Outage | None:
        last = self._outages.last("MongoDB")
        if self._answered is None or (last is not None and last.began > self._answered.began):
            return last
        return self._answered
