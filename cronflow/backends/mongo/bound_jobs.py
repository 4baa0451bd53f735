"""Jobs and versions as they were written: bound to the revisions of calendars that their documents pin.

Revisions never change, so those that were read once are kept. Jobs without calendars cost nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cronflow.backends import codec
from cronflow.backends.mongo.database import Document, MongoDatabase
from cronflow.domain.job import JobRecord
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.pins import name_of_pin
from cronflow.domain.schedule.windows import Period
from cronflow.domain.schedule.zones import EARLIEST, LATEST
from cronflow.domain.version import Version

MOST_KEPT = 2000

log = logging.getLogger(__name__)


async def records(database: MongoDatabase, documents: Sequence[Document]) -> list[JobRecord]:
    """The jobs of these documents."""
    calendars = await _pinned(database, documents)
    return [codec.record(document, calendars) for document in documents]


async def versions(database: MongoDatabase, documents: Sequence[Document]) -> list[Version]:
    """The versions of these documents."""
    calendars = await _pinned(database, documents)
    return [codec.version(document, calendars) for document in documents]


async def _pinned(database: MongoDatabase, documents: Sequence[Document]) -> Mapping[str, Calendar]:
    wanted = {pin for document in documents for pin in document.get("calendars", ())}
    if not wanted:
        return codec.UNBOUND
    kept: dict[str, Any] = database.revisions
    if missing := wanted - kept.keys():
        await _read(database, missing)
    found = {pin: kept[pin] if pin in kept else _lost(pin) for pin in wanted}
    while len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]
    return found


async def _read(database: MongoDatabase, pins: Collection[str]) -> None:
    async with database.translated():
        found = await database["calendar_revisions"].find({"_id": {"$in": list(pins)}}).to_list(None)
    for document in found:
        if document["definition"] is not None:
            database.revisions[document["_id"]] = codec.calendar(document["definition"], document["rev"])


def _lost(pin: str) -> Calendar:
    """A calendar that excludes everything and says why: its job must not run on a day that it may have excluded, and
    the other jobs must not wait because this one cannot be read.
    """
    log.error("%s is pinned by jobs, and is missing in MongoDB; apply the calendar again", pin)
    always = Period(EARLIEST, LATEST, f"{pin} is missing in MongoDB; apply the calendar again")
    return Calendar(name=name_of_pin(pin), windows=(always,), rev=int(pin.partition("@")[2]))
