"""Combines held notifications into digests: those of a group, and those of a quiet time at its end.

Rule: nothing is reported twice and nothing is lost, whoever leads. The latest digest of an alert is settled first: its
members, which its document names, are marked as grouped. What is still held then is in no digest, and becomes the next
one. Its id follows from its number, so of two leaders one inserts it, and both settle the members of the stored one.

A round reads one page of an alert, and the next round goes on behind it, so a group that is due does not wait for
older notifications that are not. In a quiet time only the urgent kinds are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from cronflow.documents.notifications import digest_of
from cronflow.domain.alert_grouping import QUIET, in_quiet
from cronflow.domain.alerts import AlertRecord, Notification
from cronflow.ports import Clock, JobStore, Outbox

MOST_MEMBERS = 1000


class NotificationGrouper:
    def __init__(self, outbox: Outbox, jobs: JobStore, clock: Clock) -> None:
        self._outbox, self._jobs, self._clock = outbox, jobs, clock
        self._empty: set[str] = set()
        self._places: dict[str, tuple[datetime, str]] = {}
        """Of an alert that holds more than a page: the last notification that was looked at."""

    async def look(self, records: Sequence[AlertRecord]) -> None:
        """Send the digests that are due. Alerts that hold nothing, and never did, cost no read."""
        for record in records:
            holds = record.alert.group is not None or record.alert.quiet is not None
            edit = f"{record.name} {record.rev}"
            # What is held may be from before an edit, or another leader, so each edit is looked at once in any case.
            if holds or edit not in self._empty:
                await self._digests(record, edit)

    async def _digests(self, record: AlertRecord, edit: str) -> None:
        now = self._clock.now()
        latest = await self._outbox.latest_digest(record.name)
        number = 0
        if latest is not None and latest.number is not None:
            await self._outbox.settle(latest.id, now)
            number = latest.number
        held = await self._next_page(record, now)
        if not held:
            self._empty.add(edit)
        else:
            self._empty.discard(edit)
        for group, members in (await self._groups(record, held, now)).items():
            if not await self._is_due(record, group, members, now):
                continue
            number += 1
            digest = digest_of(record, number, group, members, now)
            inserted = await self._outbox.put([digest])
            await self._outbox.settle(digest.id, now)
            if not inserted:
                # Another leader has made it of other members; what is left is read again in the next round.
                return

    async def _next_page(self, record: AlertRecord, now: datetime) -> Sequence[Notification]:
        quiet = record.alert.quiet
        kinds = quiet.urgent if quiet is not None and quiet.active(now) else None
        after = self._places.pop(record.name, None)
        held = await self._outbox.held(record.name, MOST_MEMBERS, after=after, kinds=kinds)
        if not held and after is not None:
            held = await self._outbox.held(record.name, MOST_MEMBERS, kinds=kinds)
        if len(held) == MOST_MEMBERS:
            self._places[record.name] = held[-1].created_at, held[-1].id
        return held

    async def _groups(
        self, record: AlertRecord, held: Sequence[Notification], now: datetime
    ) -> dict[str, list[Notification]]:
        alert, found = record.alert, dict[str, list[Notification]]()
        labels = await self._labels(record, held)
        for one in held:
            if in_quiet(alert.quiet, one.kind, now):
                continue
            if in_quiet(alert.quiet, one.kind, one.created_at):
                group = QUIET
            elif alert.group is None:
                group = ""
            else:
                group = alert.group.group_of(one.kind, one.job, labels.get(one.job or "", {}))
            found.setdefault(group, []).append(one)
        return found

    async def _labels(self, record: AlertRecord, held: Sequence[Notification]) -> Mapping[str, Mapping[str, str]]:
        if record.alert.group is None or not record.alert.group.labels:
            return {}
        jobs = {one.job for one in held if one.job is not None}
        return {found.name: found.job.labels for found in await self._jobs.get(jobs)} if jobs else {}

    async def _is_due(self, record: AlertRecord, group: str, members: Sequence[Notification], now: datetime) -> bool:
        grouping = record.alert.group
        if group == QUIET or grouping is None:
            return True
        if now < members[0].created_at + grouping.wait:
            return False
        last = await self._outbox.latest_digest(record.name, group)
        return last is None or now >= last.created_at + grouping.interval
