"""Who may lead, by the protocol that the control document names: on a real MongoDB, where versions of CronFlow meet."""

from __future__ import annotations

import pytest

from cronflow.backends.mongo.control import MongoControl
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.cluster import PROTOCOL
from cronflow.domain.errors import Deposed


async def test_a_cluster_that_a_newer_protocol_has_led_accepts_no_older_leader(mongo_url: str, namespace: str) -> None:
    async with MongoDatabase(mongo_url, namespace) as database:
        control = MongoControl(database)
        await control.begin_term("n1#a#x")
        assert (await database["control"].find_one({"_id": "leader"}))["proto"] == PROTOCOL
        await database["control"].update_one({"_id": "leader"}, {"$set": {"proto": PROTOCOL + 1}})
        with pytest.raises(Deposed, match="newer version"):
            await control.begin_term("n2#b#y")
        found = await database["control"].find_one({"_id": "leader"})
        assert (found["term"], found["holder"], found["proto"]) == (1, "n1#a#x", PROTOCOL + 1)


async def test_a_cluster_that_an_older_protocol_has_led_is_led_on(mongo_url: str, namespace: str) -> None:
    async with MongoDatabase(mongo_url, namespace) as database:
        control = MongoControl(database)
        await control.begin_term("n1#a#x")
        await database["control"].update_one({"_id": "leader"}, {"$set": {"proto": PROTOCOL - 1}})
        assert (await control.begin_term("n2#b#y")).number == 2
