"""Use cases for the cluster: status, nodes, draining, leadership, events and health."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from cronflow.documents import nearest
from cronflow.documents.values import instant_text
from cronflow.domain.cluster import ClusterStatus, Member, lead_of, node_name
from cronflow.domain.durations import to_the_minute
from cronflow.domain.errors import BackendUnavailable, InvalidInput, NotFound, Problem
from cronflow.domain.events import (
    KINDS,
    MaintenanceEnded,
    MaintenanceStarted,
    RecordedEvent,
    StepdownRequested,
    current_kind,
)
from cronflow.domain.job import SWEEP
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.placement_rules import Occupancy
from cronflow.domain.rollup import Span, Tally, over
from cronflow.ports import Backends, Clock
from cronflow.usecases.audit import Auditor, Changed
from cronflow.usecases.jobs import JobUseCases, notify_leader

PING_WITHIN_S = 2.0


class ClusterUseCases:
    def __init__(
        self, backends: Backends, clock: Clock, audit: Auditor, jobs: JobUseCases, machine_clock: Clock
    ) -> None:
        self._backends = backends
        self._clock, self._machine_clock = clock, machine_clock
        self._audit = audit
        self._jobs = jobs

    async def members(self) -> list[Member]:
        """The nodes that are up, by name."""
        return sorted(await self._backends.membership.members(), key=lambda member: member.report.name)

    async def node(self, name: str) -> tuple[Member, Mapping[str, int]]:
        """A node that is up, with what is reserved on it and the deadline of its drain, and the runs that it has taken
        with their fences. Raises NotFound.
        """
        found = [member for member in await self._backends.membership.members() if member.report.name == name]
        if not found:
            raise NotFound("node", name)
        [member] = await self._with_reservations(found[:1])
        if member.draining:
            member = replace(member, drain_until=await self._backends.membership.drain_deadline(name, None))
        holdings = await self._backends.membership.holdings([member.id])
        return member, holdings[member.id][1]

    async def _with_reservations(self, members: Sequence[Member]) -> list[Member]:
        try:
            occupancy = Occupancy(await self._backends.runs.reserving())
        except BackendUnavailable:
            # The nodes are in Redis, and most wanted in an outage.
            return list(members)
        return [replace(member, reserved=occupancy.reserved(member.id)) for member in members]

    async def drain(self, name: str, *, until: datetime | None = None, by: str = "") -> Member:
        """Make a node finish its running jobs and accept no new ones, also after a restart, until `undrain`. What still
        runs at `until` moves to other nodes, but for `at_most_once`. A further request replaces `until`. Raises
        NotFound, and InvalidInput for an `until` that has passed.
        """
        if until is not None and until <= self._clock.now():
            raise InvalidInput(Problem("until", f"{to_the_minute(until)} has passed", "choose a later time"))
        await self.node(name)
        await self._backends.membership.drain(name, wanted=True, until=until)
        after = None if until is None else {"until": instant_text(until)}
        await self._audit.record(by, Changed("node.drain", f"node:{name}", None, after))
        # The node hands back the runs that it has not started; the leader places them elsewhere.
        await notify_leader(self._backends.bus)
        return (await self.node(name))[0]

    async def undrain(self, name: str, *, by: str = "") -> Member | None:
        """Let the node accept work again. Returns it, or None if it is drained but not up. Raises NotFound if no node
        with this name is up or drained.
        """
        was_drained = await self._backends.membership.drain(name, wanted=False)
        up = next((member for member in await self.members() if member.report.name == name), None)
        if up is None and not was_drained:
            raise NotFound("node", name)
        await self._audit.record(by, Changed("node.undrain", f"node:{name}"))
        return up

    async def status(self) -> ClusterStatus:
        """The leader, its term and the nodes that are up, with what is reserved on each."""
        held = await self._backends.election.holder()
        record = await self._backends.control.leader()
        led = lead_of(held, record)
        return ClusterStatus(
            leader=None if led is None else led.leader,
            term=0 if record is None else record.term,
            lease_left_s=None if led is None else led.lease_left_s,
            elected_at=None if led is None or record is None else record.elected_at,
            members=await self._with_reservations(await self.members()),
            sweep=await self._backends.store_admin.report(),
            maintenance=await self.maintenance(),
        )

    async def maintenance(self) -> MaintenanceMode | None:
        """The maintenance mode, if it is on."""
        mode = await self._backends.control.maintenance()
        return mode if mode is not None and mode.holds(self._clock.now()) else None

    async def begin_maintenance(
        self, *, note: str = "", until: datetime | None = None, by: str = ""
    ) -> MaintenanceMode:
        """Plan and dispatch nothing new in the whole cluster, until it is turned off or until this instant. The leader
        follows at once, or within five seconds if Redis is away. If it is on, it gets the new note and end. Raises
        InvalidInput for an end that has passed.
        """
        now = self._clock.now()
        if until is not None and until <= now:
            raise InvalidInput(Problem("until", f"{to_the_minute(until)} has passed", "choose a later time"))
        present = await self.maintenance()
        mode = MaintenanceMode(since=now if present is None else present.since, by=by, note=note, until=until)
        if mode != present:
            await self._backends.control.begin_maintenance(mode)
            end = "" if until is None else instant_text(until)
            changed = Changed("cluster.maintenance", "cluster", _mode(present), _mode(mode))
            await self._audit.record_events(by, (changed, MaintenanceStarted(by, note, end)))
        await notify_leader(self._backends.bus)
        return mode

    async def end_maintenance(self, *, by: str = "") -> None:
        """Turn the maintenance mode off; it may be off already."""
        present = await self.maintenance()
        if await self._backends.control.end_maintenance() and present is not None:
            changed = Changed("cluster.maintenance", "cluster", _mode(present), _mode(None))
            await self._audit.record_events(by, (changed, MaintenanceEnded(by)))
        await notify_leader(self._backends.bus)

    async def sweep(self, *, by: str = "") -> str:
        """Start a sweep now and return its run id. Raises NotFound if the cluster has never had a leader."""
        return await self._jobs.trigger(SWEEP, by=by)

    async def stepdown(self, *, by: str = "") -> str:
        """Ask the leader to hand over to another node, and return its name. Raises NotFound if there is no leader."""
        held = await self._backends.election.holder()
        record = await self._backends.control.leader()
        if held is None or record is None:
            raise NotFound("leader")
        await self._backends.election.ask_to_resign(record.term)
        leader = node_name(held[0])
        changed = Changed("cluster.stepdown", f"node:{leader}", None, {"term": record.term})
        await self._audit.record_events(by, (changed, StepdownRequested(leader, by)))
        return leader

    async def events(
        self,
        *,
        kinds: Collection[str] = (),
        node: str = "",
        since: datetime | None = None,
        after: str = "",
        before: str = "",
        limit: int = 100,
    ) -> list[RecordedEvent]:
        """With `after`, the events after this id, oldest first; otherwise those before `before`, newest first.
        With `node`, only those about this node.

        Raises InvalidInput for an unknown kind.
        """
        for kind in kinds:
            if current_kind(kind) not in KINDS:
                near = nearest(kind, KINDS)
                raise InvalidInput(
                    Problem("kind", f"there is no kind of event {kind!r}", f"did you mean {near}?" if near else "")
                )
        return await self._backends.events.find(
            kinds=kinds, node=node, since=since, after=after, before=before, limit=limit
        )

    async def series(self, span: Span, until: datetime | None = None) -> list[tuple[datetime, Tally]]:
        """Finished runs, their delays and durations over a span that ends now by default, oldest point first."""
        now = self._clock.now() if until is None else min(until, self._clock.now())
        points = span.points(now)
        buckets = await self._backends.rollups.read(span.resolution, points[0], now)
        return list(zip(points, over(points, buckets), strict=True))

    async def health(self) -> Mapping[str, float | str]:
        """By server, the round trip in seconds or the reason why it is unavailable."""
        redis, mongodb = await asyncio.gather(_answer(self._backends.queue.ping), _answer(self._backends.control.ping))
        return {"redis": redis, "mongodb": mongodb}

    async def offsets(self) -> Mapping[str, float]:
        """By server, how many seconds its clock is ahead of this machine's, give or take half a round trip."""
        found = {}
        for name, server_clock in self._backends.server_clocks.items():
            before = self._machine_clock.now()
            theirs = await server_clock.now()
            found[name] = (theirs - before - (self._machine_clock.now() - before) / 2).total_seconds()
        return found


async def _answer(ping: Callable[[], Awaitable[float]]) -> float | str:
    """A server that hangs is reported before a probe or a page gives up waiting."""
    try:
        async with asyncio.timeout(PING_WITHIN_S):
            return await ping()
    except BackendUnavailable as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {PING_WITHIN_S:g} s"


def _mode(mode: MaintenanceMode | None) -> Mapping[str, object]:
    if mode is None:
        return {"on": False}
    return {"on": True, "note": mode.note, "until": None if mode.until is None else instant_text(mode.until)}
