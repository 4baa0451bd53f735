"""The time limits of a node, in seconds, and the relations between them that safety and liveness depend on."""

from __future__ import annotations

from dataclasses import dataclass

from cronflow.domain.errors import InvalidInput, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """All in seconds. The defaults are for production; tests shorten them together."""

    leader_ttl: float = 30.0
    leader_renew: float = 15.0
    failover_check: float = 45.0
    heartbeat: float = 5.0
    node_ttl: float = 15.0
    run_lease: float = 45.0
    lock_buffer: float = 5.0
    safety_poll: float = 0.25
    reconcile: float = 1.0
    plan_age: float = 10.0
    take_poll: float = 1.0
    group_commit: float = 0.005
    start_mark: float = 0.1
    drain: float = 60.0
    look_ahead: float = 0.0

    def __post_init__(self) -> None:
        rules = [
            (2 * self.leader_renew <= self.leader_ttl, "leader_renew", "must be at most half of leader_ttl"),
            (self.leader_ttl >= 1, "leader_ttl", "must be at least 1 s"),
            (2 * self.heartbeat < self.node_ttl, "heartbeat", "must be less than half of node_ttl"),
            (self.run_lease >= 1, "run_lease", "must be at least 1 s"),
            (0 <= self.look_ahead <= 2, "look_ahead", "must be from 0 s to 2 s"),
        ]
        problems = [Problem(name, f"{getattr(self, name):g} s {what}") for holds, name, what in rules if not holds]
        if problems:
            raise InvalidInput(problems)

    @property
    def stop(self) -> float:
        """How long a stop takes at most. After `drain`, handlers have ten seconds to end; the rest is for recording
        outcomes, and for leaving the cluster although servers may not answer.
        """
        return self.drain + 15.0

    @property
    def exit(self) -> float:
        """When the process ends, whatever still hangs: a stop, and the time to write events and close connections."""
        return self.stop + 10.0

    @property
    def leader_margin(self) -> float:
        """How much earlier than the key in Redis the leader's lease expires."""
        return self.leader_ttl / 10

    @property
    def unrenewed_limit(self) -> float:
        """How long after the last renewal of its lease a run with limits is stopped. The rest of the lease is for the
        stop itself.
        """
        return self.run_lease * 7 / 9

    @property
    def mongo_away_limit(self) -> float:
        """How long a leader continues without MongoDB before it leaves leadership to nodes that may reach it."""
        return self.leader_ttl / 2

    @property
    def abstain(self) -> float:
        """How long after that it lets every other candidate go first."""
        return self.leader_ttl * 2

    @property
    def long_outage(self) -> float:
        """The length from which an outage of MongoDB leaves outcomes in spools that are worth waiting for."""
        return self.leader_ttl / 3

    @property
    def spool_grace(self) -> float:
        """How long nodes have to replay their spools after a takeover or a long outage."""
        return self.leader_ttl

    @property
    def job_lock(self) -> float:
        """The TTL of a job lock: the leader's TTL and the buffer."""
        return self.leader_ttl + self.lock_buffer

    @property
    def heartbeat_valid(self) -> float:
        """How long after its last successful heartbeat a node may still take work."""
        return self.node_ttl * 0.8

    @property
    def stale_after(self) -> float:
        """The age of its heartbeat from which a node gets no more work."""
        return self.heartbeat * 2
