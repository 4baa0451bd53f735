"""Every Redis key and channel of a namespace. They share one hash tag, so a script may use several in a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from cronflow.domain.cluster import node_name

EXPIRING = ("q:", "run:", "ahead:", "lock:", "node:", "name:", "cancel:", "withdrawn:", "rate:", "ticket:", "live:")


@dataclass(frozen=True, slots=True)
class RedisKeys:
    """Each docstring gives the type and the content of a key."""

    namespace: str

    @property
    def prefix(self) -> str:
        return f"{{cf:{self.namespace}}}:"

    @property
    def leader(self) -> str:
        """String with a TTL: the leader, `<node>#<incarnation>#<nonce>`."""
        return self.prefix + "leader"

    @property
    def term(self) -> str:
        """String: the highest term seen."""
        return self.prefix + "term"

    @property
    def redis_epoch(self) -> str:
        """String: a random id of Redis's data. Absent means that Redis lost its data."""
        return self.prefix + "boot"

    @property
    def resign(self) -> str:
        """String with a TTL: the term whose leader is asked to step down."""
        return self.prefix + "resign"

    @property
    def nodes(self) -> str:
        """Sorted set: node id by the time of its last heartbeat, Redis milliseconds."""
        return self.prefix + "nodes"

    def node(self, node: str) -> str:
        """String with a TTL: the last report of a node."""
        return f"{self.prefix}node:{node}"

    def name(self, node: str) -> str:
        """String with a TTL: the incarnation that has the node's name."""
        return f"{self.prefix}name:{node_name(node)}"

    def queue(self, node: str) -> str:
        """List: assignments dispatched to a node and not yet taken."""
        return f"{self.prefix}q:{node}"

    def held(self, node: str) -> str:
        """Hash, kept for an hour: run -> fence of the runs that a node has taken and not released."""
        return f"{self.prefix}run:{node}"

    def ahead(self, node: str) -> str:
        """String with a TTL: how many runs the node accepts beyond its free slots."""
        return f"{self.prefix}ahead:{node}"

    def expires(self, key: str) -> bool:
        """Whether a key must have a TTL."""
        return key in (self.leader, self.resign) or key.startswith(tuple(self.prefix + kind for kind in EXPIRING))

    def node_of_queue(self, key: str) -> str | None:
        """The node whose list this key is. None for any other key."""
        prefix = self.queue("")
        return key.removeprefix(prefix) if key.startswith(prefix) else None

    def drain_deadline(self, name: str) -> str:
        """String: when nodes of this name that drain give up their running jobs, in ms; `0`: never."""
        return f"{self.prefix}drain-until:{node_name(name)}"

    def drain(self, name: str) -> str:
        """String: `1` while nodes of this name are to drain; `0`, for an hour, after the request was cancelled."""
        return f"{self.prefix}drain:{node_name(name)}"

    def cancel(self, run: str) -> str:
        """String with a TTL: this run was cancelled."""
        return f"{self.prefix}cancel:{run}"

    def withdrawn(self, run: str) -> str:
        """String with a TTL: the fence up to which this run was withdrawn by an edit."""
        return f"{self.prefix}withdrawn:{run}"

    def rate(self, key: str) -> str:
        """String or hash with a TTL: the state of a rate limit."""
        return f"{self.prefix}rate:{key}"

    def ticket(self, ticket: str) -> str:
        """String with a TTL: the principal of a ticket."""
        return f"{self.prefix}ticket:{ticket}"

    def login(self, key: str) -> str:
        """String with a TTL: the sealed state of a login that waits for the identity provider."""
        return f"{self.prefix}login:{key}"

    @property
    def builder(self) -> str:
        """String with a TTL: the process that builds the ticks of the live stream."""
        return self.prefix + "live:builder"

    @property
    def feed(self) -> str:
        """Capped stream with a TTL: ticks and events."""
        return self.prefix + "live:feed"

    @property
    def tail(self) -> str:
        """String with a TTL: present while the live tail has a viewer."""
        return self.prefix + "live:tail"

    @property
    def lines(self) -> str:
        """Capped stream with a TTL: the live tail."""
        return self.prefix + "live:lines"

    def signal(self, name: str) -> str:
        """Channel of a signal."""
        return f"{self.prefix}ch:{name}"

    def node_signal(self, node: str) -> str:
        """Channel of a node's own signal."""
        return f"{self.prefix}ch:w:{node}"
