"""Nodes, the cluster, its sweep and its events, out of their shapes; the counterpart of `cronflow.schemas.cluster`."""

from __future__ import annotations

from datetime import timedelta

from cronflow.domain.cluster import NODE_SEPARATOR, Backlog, ClusterStatus, Member, NodeReport
from cronflow.domain.events import RecordedEvent, event_of
from cronflow.domain.sweep import Finding, Flaw, SweepReport
from cronflow.remote.plain import instant, optional_instant
from cronflow.schemas.cluster import ClusterSchema, NodeSchema, SweepSchema
from cronflow.schemas.events import EventSchema


def member_of(shape: NodeSchema) -> Member:
    """A node. Whether it has heard that it is to be drained is only known of one that is."""
    return Member(
        report=NodeReport(
            name=shape["name"],
            incarnation=shape["id"].partition(NODE_SEPARATOR)[2],
            cpu=shape["cpu"],
            memory=shape["memory"],
            slots=shape["slots"],
            in_flight=shape["in_flight"],
            rate=shape["rate"],
            labels=shape["labels"],
            draining=shape["drained"],
            version=shape["version"],
            pid=shape["pid"],
            host=shape["host"],
            started_at=optional_instant(shape["started_at"]),
            breakers=shape["breakers"],
            spool=Backlog(
                shape["spool"]["outcomes"], shape["spool"]["bytes"], optional_instant(shape["spool"]["since"])
            ),
            zones=shape["zones"],
        ),
        age=timedelta(seconds=shape["heartbeat_age_s"]),
        queued=shape["queued"],
        held=shape["held"],
        drain_asked=shape["state"] == "draining",
    )


def status_of(shape: ClusterSchema) -> ClusterStatus:
    """The cluster at a glance."""
    return ClusterStatus(
        leader=shape["leader"],
        term=shape["term"],
        lease_left_s=shape["lease_left_s"],
        elected_at=optional_instant(shape["elected_at"]),
        members=[member_of(node) for node in shape["nodes"]],
        sweep=None if shape["sweep"] is None else sweep_of(shape["sweep"]),
    )


def sweep_of(shape: SweepSchema) -> SweepReport:
    """What a sweep looked at and found."""
    return SweepReport(
        at=instant(shape["at"]),
        run=shape["run"],
        took_ms=shape["took_ms"],
        checked=shape["checked"],
        found=shape["found"],
        findings=[
            Finding(kind=Flaw(one["kind"]), where=one["where"], what=one["what"], repaired=one["repaired"])
            for one in shape["findings"]
        ],
    )


def happened_of(shape: EventSchema) -> RecordedEvent | None:
    """An event; None for one of a kind that this version does not know."""
    event = event_of(shape["kind"], shape["fields"])
    return None if event is None else RecordedEvent(shape["id"], instant(shape["at"]), shape["source"], event)
