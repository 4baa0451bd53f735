"""Leader election: how a node becomes the leader, how long its lease is valid, and how leadership ends.

Election. A candidate takes the leader's key in Redis with SET NX and a TTL, renews it at half of that TTL, and releases
it by compare-and-delete. The winner then asks MongoDB for a term and a range of fencing tokens, and announces the term
in Redis. Only then does it lead. Followers check the key when its TTL runs out, at the latest after the failover check;
a resigning leader sends them a signal.

Safety. The key prevents two leaders most of the time but guarantees nothing: a process may pause between any two
instructions, and Redis may lose data. MongoDB guarantees safety: terms are counted in one linearizable document, a job
is moved only by a compare-and-set that fails after a newer term, and a run is changed only under its fence. Two leaders
at once are therefore harmless. This module keeps such a time short.

Lease. The lease is valid until `valid_until`: the monotonic time *before* the successful request, plus the TTL, minus a
margin. Counting from after the reply would add the request's own delay, in which the key may already have expired
(kubernetes #125761, cilium #42920). A renewal counts only when both Redis and MongoDB have confirmed it. After any
error or unknown outcome it is retried every fifth of the interval until the lease expires.

End. Leadership ends with a lost key, a newer term, an expired lease, a blocked planner loop, a leader step that hangs,
a wrong clock, an outage of MongoDB of fifteen seconds, a request of an operator, or the end of the process. After an
outage of MongoDB a node campaigns only once MongoDB answers it, and for a minute the former leader takes the key only
if all others had the time to take it and did not. A node that gets no term because a newer protocol has led campaigns
only at the failover check, and works on.

A leader that steps down on request first lets the steps of its roles end, for a second at most. A push under the old
term would be refused once another node leads, and its runs, which are recorded as dispatched, would start ten seconds
late.

The key is released on every exit path, as soon as Redis accepts it, so that another node leads within 10 ms and a few
round trips; only a process that exits while Redis is unavailable leaves the key to expire. An expired lease releases it
too, because renewals that MongoDB did not confirm have extended the key. The same holds for a campaign without a reply
and for a node that was killed and restarted: a live node's name is unique, so a key in the name of a node that does not
lead belongs to nobody.

The elector runs in the keep-alive thread, because a handler that blocks the main loop must not end leadership. `tenure`
may be read from any thread; the other leader roles read it before each round and stop when it is None.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable

import structlog

from cronflow.documents.values import instant_text
from cronflow.domain import metrics
from cronflow.domain.cluster import Fences, Renewal, Tenure, node_name
from cronflow.domain.errors import BackendUnavailable, Deposed
from cronflow.domain.events import LeaderElected, LeaderSteppedDown, RedisStateRestored
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import UNMETERED, Clock, Control, Election, EventSink, Meter, discard_event

FOLLOWER_LOOK_S = 5.0
PTTL_JITTER_S = 0.25
SIGNAL_JITTER_S = 0.01
ABSTAIN_S = 3.0
ABSTAIN_LOOK_S = 0.5
OTHERS_FIRST_S = 0.5
FITNESS_LOOK_S = 2.0
HANDOVER_S = 1.0
HANDOVER_LOOK_S = 0.005

log = structlog.get_logger("cronflow.node")


class Elector:
    """`on_change` is called when this node starts or stops leading; `unfit` returns why it must not lead, or None;
    `dispatching` whether a role is in a step that may push runs. A node that is not `willing` releases the key and does
    not campaign.
    """

    def __init__(
        self,
        node: str,
        election: Election,
        control: Control,
        clock: Clock,
        timings: Timings,
        on_change: Callable[[], None] = lambda: None,
        unfit: Callable[[], str | None] = lambda: None,
        mongo_away_s: Callable[[], float] = lambda: 0.0,
        dispatching: Callable[[], bool] = lambda: False,
        emit: EventSink = discard_event,
        meter: Meter = UNMETERED,
    ) -> None:
        self._node = node
        self._election = election
        self._control = control
        self._clock = clock
        self._timings = timings
        self._on_change = on_change
        self._unfit = unfit
        self._mongo_away_s = mongo_away_s
        self._dispatching = dispatching
        self._emit = emit
        self._meter = meter
        self._seen_holder: str | None = None
        self.last_term = 0
        self._tenure: Tenure | None = None
        # True from a campaign until Redis shows otherwise, and at the start: an earlier incarnation may have led.
        self._may_hold_key = True
        self._valid_until = 0.0
        self._renew_at = 0.0
        self._abstain_until = 0.0
        self._outdated = False
        self._mongo_unsure = False
        self._others_first_until = 0.0
        self._free_since: float | None = None
        self._notified = False
        self._failure: str | None = None
        self._stopped = False
        self._seen_at = clock.monotonic()
        self.willing = True
        self._exclusive = asyncio.Lock()
        self.wake = Wake()

    @property
    def tenure(self) -> Tenure | None:
        """The right to lead, or None. Ask again before every round of work."""
        if self._tenure is not None and self._clock.monotonic() >= self._valid_until:
            self._stand_down("lease not renewed in time")
        return self._tenure

    @property
    def lease_left_s(self) -> float:
        """How long this node's lease is still valid, in seconds."""
        return max(0.0, self._valid_until - self._clock.monotonic()) if self._tenure is not None else 0.0

    @property
    def unseen_s(self) -> float:
        """How long ago this node last saw a leader, in seconds; 0 while it leads itself."""
        return 0.0 if self.tenure is not None else self._clock.monotonic() - self._seen_at

    def notify(self) -> None:
        """The leader's key has changed."""
        self._notified = True
        self.wake.set()

    async def step(self) -> float:
        """Renew the lease, or check whether the key is free."""
        async with self._exclusive:
            reason = self._unfit()
            if self.tenure is not None and reason is not None:
                self._stand_down(reason)
            failure, self._failure = self._failure, None
            if self.tenure is not None and failure is not None:
                self._let_others_go_first()
                await self._give_back(failure)
                return SIGNAL_JITTER_S
            if self.tenure is not None:
                return await self._renew_when_due()
            await self._return_key()
            return FITNESS_LOOK_S if reason is not None else await self._follow()

    async def renew_now(self) -> Tenure | None:
        """Renew at once, because Redis seems to have lost its data. Returns the tenure if it is still valid."""
        async with self._exclusive:
            if self.tenure is not None:
                await self._renew()
            return self.tenure

    async def resign(self) -> None:
        """Stop leading for good and signal the followers."""
        async with self._exclusive:
            self._stopped = True
            await self._give_back("shutting down")

    def deposed(self, reason: str) -> None:
        """A role found proof of a newer leader."""
        if self._tenure is not None:
            self._stand_down(reason)

    def role_failed(self, reason: str) -> None:
        """A role of this leader met an unexpected error. May be called from any thread."""
        self._failure = reason
        self.wake.set()

    # --------------------------------------------------------------------------------------------------- leading

    async def _renew_when_due(self) -> float:
        if not self.willing:
            await self._give_back("its node is drained")
            return SIGNAL_JITTER_S
        now = self._clock.monotonic()
        if now >= self._renew_at or self._notified:
            self._notified = False
            try:
                await self._renew()
            except BackendUnavailable as error:
                self._mongo_unsure |= error.service == "MongoDB"
                # Schedule the retry here and not in the role loop, whose pause may outlast the lease.
                self._renew_at = self._clock.monotonic() + self._timings.leader_renew / 5
                if self.tenure is None:
                    raise
                if self._mongo_away_s() >= self._timings.mongo_away_limit:
                    await self._leave_to_others()
                    raise
                log.warning("renewal failed", term=self._tenure.term if self._tenure else None)
        if self._tenure is None:
            return SIGNAL_JITTER_S
        now = self._clock.monotonic()
        return max(0.0, min(self._renew_at - now, self._valid_until - now, FITNESS_LOOK_S))

    async def _renew(self) -> None:
        tenure = self._tenure
        assert tenure is not None
        began = self._clock.monotonic()
        answer = await self._election.renew(tenure.holder, self._timings.leader_ttl, tenure.term, tenure.redis_epoch)
        if answer is Renewal.LOST:
            self._stand_down("another node has the key")
            return
        if answer is Renewal.ASKED:
            # Set first: releasing the key may fail, and is then retried before the next campaign.
            self._abstain_until = self._clock.monotonic() + ABSTAIN_S
            await self._give_back("step-down requested")
            return
        if answer is Renewal.AGAIN:
            log.warning("redis had lost the leader's key", term=tenure.term)
            self._emit(RedisStateRestored(tenure.term))
        high = await self._control.extend(tenure.term, tenure.holder)
        if high is None:
            self._stand_down("a newer term exists")
            return
        tenure.fences.extend(high)
        self._valid_until = began + self._timings.leader_ttl - self._timings.leader_margin
        self._renew_at = began + self._timings.leader_renew

    def _stand_down(self, reason: str) -> None:
        tenure, self._tenure = self._tenure, None
        if tenure is None:
            return
        self._seen_at = self._clock.monotonic()
        log.warning("leader stepped down", term=tenure.term, reason=reason)
        self._emit(LeaderSteppedDown(node_name(self._node), tenure.term, reason))
        self._on_change()
        self.wake.set()

    async def _give_back(self, reason: str) -> None:
        self._stand_down(reason)
        # Without a tenure no further step acts.
        deadline = self._clock.monotonic() + HANDOVER_S
        while self._dispatching() and self._clock.monotonic() < deadline:
            await self._clock.sleep(HANDOVER_LOOK_S)
        await self._return_key()

    async def _return_key(self) -> None:
        """Release a key in this node's name: otherwise no node could lead until it expires."""
        if self._may_hold_key:
            present = await self._election.holder()
            if present is not None and self._is_of_this_name(present[0]):
                await self._election.resign(present[0])
                if not present[0].startswith(f"{self._node}#"):
                    # The incarnation that led has died of something: other nodes, which have the signal, go first.
                    self._abstain_until = self._clock.monotonic() + OTHERS_FIRST_S
            self._may_hold_key = False

    def _is_of_this_name(self, holder: str) -> bool:
        return node_name(holder) == node_name(self._node)

    async def _leave_to_others(self) -> None:
        """MongoDB has been unavailable for too long, perhaps only from this node."""
        self._let_others_go_first()
        try:
            await self._return_key()
        finally:
            # Last, so that this role reports the outage before others, which only stop asking, seem to end it.
            self._stand_down("MongoDB is unavailable")

    def _let_others_go_first(self) -> None:
        self._others_first_until = self._clock.monotonic() + self._timings.abstain
        self._free_since = None

    # ------------------------------------------------------------------------------------------------- following

    async def _follow(self) -> float:
        if self._stopped or not self.willing:
            return FOLLOWER_LOOK_S
        left = self._abstain_until - self._clock.monotonic()
        if left > 0:
            return left
        if self._mongo_unsure:
            # A node that cannot reach MongoDB must not take the key from one that can.
            await self._control.ping()
            self._mongo_unsure = False
        if self._clock.monotonic() < self._others_first_until and await self._others_may_lead():
            return ABSTAIN_LOOK_S
        if self._notified:
            # All followers get the signal at once: spread the campaigns a little.
            self._notified = False
            await self._clock.sleep(random.uniform(0, SIGNAL_JITTER_S))
        if await self._campaign():
            return 0.0
        present = await self._election.holder()
        self._may_hold_key = present is not None and self._is_of_this_name(present[0])
        if present is None:
            return random.uniform(0, SIGNAL_JITTER_S)
        if self._may_hold_key:
            return 0.0
        self._saw(present[0])
        pause = min(present[1] + random.uniform(0, PTTL_JITTER_S), FOLLOWER_LOOK_S)
        return min(pause, self._timings.failover_check)

    def _saw(self, holder: str) -> None:
        """Note the present leader. Each campaign has its own holder id, so another id is another tenure."""
        self._seen_at = self._clock.monotonic()
        if self._seen_holder not in (None, holder):
            self._meter.add(metrics.LEADER_CHANGES)
        self._seen_holder = holder

    async def _others_may_lead(self) -> bool:
        """Whether another node leads or may still take the key: every follower checks a free key within this time."""
        present = await self._election.holder()
        if present is not None:
            self._may_hold_key = self._is_of_this_name(present[0])
            self._free_since = None
            self._saw(present[0])
            return True
        now = self._clock.monotonic()
        if self._free_since is None:
            self._free_since = now
        return now - self._free_since <= FOLLOWER_LOOK_S + PTTL_JITTER_S

    async def _campaign(self) -> bool:
        began = self._clock.monotonic()
        holder = f"{self._node}#{secrets.token_hex(8)}"
        self._may_hold_key = True
        if not await self._election.acquire(holder, self._timings.leader_ttl):
            return False
        redis_epoch = secrets.token_hex(8)
        try:
            term = await self._control.begin_term(holder)
            installed = await self._election.install(holder, term.number, redis_epoch)
        except BackendUnavailable:
            # There is no leader without a term: a node that reaches MongoDB should get the key.
            self._mongo_unsure = True
            await self._return_key()
            raise
        except Deposed as error:
            # During an upgrade, a node of the older version works on, and leaves the lead to the newer ones.
            self._abstain_until = self._clock.monotonic() + self._timings.failover_check
            if not self._outdated:
                self._outdated = True
                log.warning("this node may not lead", node=self._node, reason=str(error))
            await self._return_key()
            return False
        if not installed:
            await self._return_key()
            return False
        self._valid_until = began + self._timings.leader_ttl - self._timings.leader_margin
        self._renew_at = began + self._timings.leader_renew
        # Last: another thread may read `tenure` at any moment, and compares `_valid_until`.
        self._tenure = Tenure(term=term.number, holder=holder, redis_epoch=redis_epoch, fences=Fences(term))
        self.last_term = term.number
        self._saw(holder)
        log.info("leader elected", term=term.number, node=self._node)
        previous = term.previous
        self._emit(
            LeaderElected(node_name(self._node), term.number)
            if previous is None
            else LeaderElected(
                node_name(self._node), term.number, node_name(previous.holder), instant_text(previous.renewed_at)
            )
        )
        self._on_change()
        return True
