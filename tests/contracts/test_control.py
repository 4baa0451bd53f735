"""Who may lead, by the protocol that the control document names: on a real MongoDB, where versions of CronFlow meet."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient

from cronflow.backends.mongo.control import MongoControl
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.cluster import PROTOCOL
from cronflow.domain.errors import Deposed, InvalidInput


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


async def test_what_a_newer_protocol_has_led_is_not_opened_and_not_changed(mongo_url: str, namespace: str) -> None:
    leader = {"_id": "leader", "proto": PROTOCOL + 1, "holder": "n1#a#x"}
    with MongoClient[dict[str, Any]](mongo_url) as client:
        database = client[f"cronflow_{namespace}"]
        database["control"].insert_one(leader)
        with pytest.raises(InvalidInput) as refused:
            async with MongoDatabase(mongo_url, namespace):
                pytest.fail("it was opened")
        # Opening would have created the indexes of every collection.
        assert database.list_collection_names() == ["control"]
        assert list(database["control"].find()) == [leader]
    assert str(refused.value) == (
        "MongoDB: a newer version of CronFlow has led this cluster"
        f" (protocol {PROTOCOL + 1}; this version knows {PROTOCOL})"
        " (install the version that led it, or restore a backup from before the upgrade)"
    )


@pytest.mark.parametrize("protocol", [PROTOCOL - 1, PROTOCOL])
async def test_what_this_or_an_older_protocol_has_led_is_opened(mongo_url: str, namespace: str, protocol: int) -> None:
    with MongoClient[dict[str, Any]](mongo_url) as client:
        client[f"cronflow_{namespace}"]["control"].insert_one({"_id": "leader", "proto": protocol})
    async with MongoDatabase(mongo_url, namespace) as database:
        assert await database["control"].count_documents({}) == 1
