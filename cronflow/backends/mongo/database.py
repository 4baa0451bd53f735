"""One motor client, its safety settings, and the translation of its errors.

Every handle writes with majority and journal and reads with majority, so acknowledged writes survive any failover.
Every call goes through the process's circuit breaker: while MongoDB is unavailable, one call in five seconds is sent,
and others fail at once.

Time limits. `timeoutMS` bounds every command; without it the driver would wait forever for a stopped server. It does
not bound DNS, the wait for a thread of the driver, and the sum of a cursor's batches, so `translated` bounds its whole
block. No store uses MongoDB outside such a block, which contains a few commands; a loop has a block per round.
Only the API that motor shares with `pymongo.AsyncMongoClient` is used, so replacing motor changes only this file.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import bson
import pymongo
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import ASCENDING, ReadPreference, WriteConcern
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
    WTimeoutError,
)
from pymongo.monitoring import CommandListener
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri

from cronflow.backends.mongo.indexes import INDEXES
from cronflow.circuit_breaker import Circuit, CircuitOpen
from cronflow.domain import metrics
from cronflow.domain.cluster import PROTOCOL
from cronflow.domain.errors import AccessDenied, BackendUnavailable, InvalidInput, Problem
from cronflow.ports import UNMETERED, Meter

Document = Mapping[str, Any]
Record = TypeVar("Record")

CONCERN = WriteConcern("majority", j=True)
COMMAND_BYTES = 12 * 1024 * 1024
"""Less than the 16 MiB that a command may have, by more than one update."""
TIMEOUT_MS = 5000
CALL_TIMEOUT_S = 12.0
CLOSE_TIMEOUT_S = 1.0
DUPLICATE_KEY = 11000
OLDEST_WIRE_VERSION = 13  # MongoDB 5.0
UNAUTHORIZED = 13
AUTHENTICATION_CODES = {UNAUTHORIZED, 18, 8000}
UNAVAILABLE_CODES = AUTHENTICATION_CODES | {
    *(6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436),  # Retryable, by the drivers' specification.
    *(24, 46, 50, 112, 11601, 14031),  # Locks, a time limit, a conflict, an interruption, and a disk that is full.
    *(8, 63, 64, 133, 134, 150, 13388),  # Unknown causes, write concerns, and shards that move.
}
"""Of single writes in a bulk that may succeed later. Every other code is about the contents of the write."""
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
RIGHTS_REMEDY = (
    "correct the user, password and authSource in CRONFLOW_MONGO_URL, or grant the user readWrite on the database {}"
)
CA_REMEDY = "add tlsCAFile=/path/ca.pem to CRONFLOW_MONGO_URL, and use the host name of the certificate"
FAILURES_TO_OPEN = 5
RESET_S = 5.0
AGE = "age"
NO_ANSWER = "it did not answer in time"

log = logging.getLogger(__name__)
# The driver logs every failed server check as an error; the roles log once per change.
logging.getLogger("pymongo").setLevel(logging.CRITICAL)


def _newer_data(protocol: int) -> Problem:
    """The problem of data that a newer version may have written in a form that this one does not know."""
    what = f"a newer version of CronFlow has led this cluster (protocol {protocol}; this version knows {PROTOCOL})"
    return Problem("MongoDB", what, "install the version that led it, or restore a backup from before the upgrade")


def mongo_circuit() -> Circuit:
    """The circuit breaker of a process's MongoDB. Only an unavailable server is a failure, not a refused command."""
    return Circuit("MongoDB", failures=FAILURES_TO_OPEN, reset_s=RESET_S, counts=(BackendUnavailable,))


class Update(NamedTuple):
    """A compare-and-set: the filter, which contains an `_id`, and the operators or the pipeline of the change."""

    match: Document
    change: Document | Sequence[Document]


class MongoDatabase:
    """The database of one namespace, as an async context manager.

    Entering creates the indexes, which needs a majority. It raises BackendUnavailable if the server does not answer, is
    not a replica set, or is older than 5.0; InvalidInput for an invalid URL, and if a newer protocol has led the
    cluster: then it changes nothing. Clients of one process share a `circuit`.
    """

    def __init__(
        self,
        url: str,
        namespace: str,
        listeners: Sequence[CommandListener] = (),
        circuit: Circuit | None = None,
        meter: Meter = UNMETERED,
    ) -> None:
        self._meter = meter
        self.revisions: dict[str, Any] = {}
        """What was read once and never changes, for those that read it; see `bound_jobs`."""
        self.circuit = circuit or mongo_circuit()
        try:
            # A `mongodb+srv` URL is looked up here.
            parsed = parse_uri(url, validate=True, connect_timeout=TIMEOUT_MS / 1000)
        except (InvalidURI, ValueError) as error:
            raise InvalidInput(Problem("MONGO_URL", str(error), "mongodb://host:27017/?replicaSet=rs0")) from None
        except PyMongoError as error:
            raise BackendUnavailable("MongoDB", "MONGO_URL", str(error)) from error
        self.address = ",".join(f"{host}:{port}" for host, port in parsed["nodelist"])
        self._client: Any = AsyncIOMotorClient(
            url,
            timeoutMS=TIMEOUT_MS,
            # For what the driver sends by itself, which ignores timeoutMS.
            serverSelectionTimeoutMS=TIMEOUT_MS,
            connectTimeoutMS=TIMEOUT_MS,
            socketTimeoutMS=TIMEOUT_MS,
            retryWrites=True,
            retryReads=True,
            appname="cronflow",
            event_listeners=list(listeners),
        )
        self._database = self._client.get_database(
            f"{parsed['database'] or 'cronflow'}_{namespace}".replace(".", "-"),
            codec_options=CodecOptions(tz_aware=True),
            read_preference=ReadPreference.PRIMARY,
            write_concern=CONCERN,
            read_concern=ReadConcern("majority"),
        )

    async def __aenter__(self) -> Self:
        try:
            async with self.translated():
                hello = await self._client.admin.command("hello")
                if not hello.get("setName"):
                    raise BackendUnavailable(
                        "MongoDB", self.address, "it is not a replica set; start it with --replSet"
                    )
                if hello["maxWireVersion"] < OLDEST_WIRE_VERSION:
                    raise BackendUnavailable("MongoDB", self.address, "it is older than 5.0")
                leader = await self._database["control"].find_one({"_id": "leader"}) or {}
            if (protocol := leader.get("proto", PROTOCOL)) > PROTOCOL:
                raise InvalidInput(_newer_data(protocol))
            await self.make_indexes()
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        # The driver ends its sessions on the server, and would wait for one that does not answer.
        with pymongo.timeout(CLOSE_TIMEOUT_S):
            self._client.close()

    def __getitem__(self, collection: str) -> Any:
        return self._database[collection]

    @asynccontextmanager
    async def translated(self) -> AsyncIterator[None]:
        """Wrap a few commands in this: it applies the circuit breaker, and raises BackendUnavailable if MongoDB is
        unavailable or the block takes longer than CALL_TIMEOUT_S. Errors of invalid commands propagate, because those
        are our bugs.
        """
        try:
            with self.circuit.calling():
                began = time.perf_counter()
                try:
                    async with asyncio.timeout(CALL_TIMEOUT_S):
                        yield
                except (PyMongoError, TimeoutError) as error:
                    reason = _reason_away(error) if isinstance(error, PyMongoError) else NO_ANSWER
                    if reason is None:
                        raise
                    self._meter.add(metrics.BACKEND_FAILURES, "mongodb")
                    raise self._denied(error) or BackendUnavailable("MongoDB", self.address, reason) from error
                self._meter.observe(metrics.BACKEND_SECONDS, time.perf_counter() - began, "mongodb")
        except CircuitOpen as error:
            reason = f"circuit open, asked again within {error.retry_in_s:.1f} s"
            raise BackendUnavailable("MongoDB", self.address, reason) from None

    def _denied(self, error: PyMongoError | TimeoutError) -> AccessDenied | None:
        """The error if MongoDB refuses this user, or its certificate is not trusted."""
        if UNTRUSTED in str(error):
            return AccessDenied("MongoDB", self.address, "its certificate is not trusted", CA_REMEDY)
        if not isinstance(error, OperationFailure) or error.code not in AUTHENTICATION_CODES:
            return None
        # Without the command, which contains the data.
        reason = str(error).partition(", full error")[0]
        if right := re.search(r"not authorized on (\S+) to execute command \{ (\w+)", reason):
            reason = f"the user may not run {right[2]} on the database {right[1]}"
        return AccessDenied("MongoDB", self.address, reason.rstrip("."), RIGHTS_REMEDY.format(self._database.name))

    async def ping(self) -> float:
        """Round trip to the primary in seconds."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self.translated():
            hello = await self._client.admin.command("hello")
        if not hello.get("isWritablePrimary"):
            raise BackendUnavailable("MongoDB", self.address, "there is no primary")
        return loop.time() - began

    async def time(self) -> datetime:
        async with self.translated():
            hello = await self._client.admin.command("hello")
        shown: datetime = hello["localTime"]
        return shown if shown.tzinfo is not None else shown.replace(tzinfo=UTC)

    async def make_indexes(self) -> None:
        """Create the missing indexes. One whose values must be unique waits until they are, instead of stopping the
        process.
        """
        for collection, indexes in INDEXES.items():
            try:
                async with self.translated():
                    await self._database[collection].create_indexes(indexes)
            except DuplicateKeyError as error:
                found = (error.details or {}).get("keyValue")
                log.warning("an index of %s is not created: several have %s; delete all but one", collection, found)

    async def insert_new(self, collection: str, documents: Sequence[dict[str, Any]]) -> set[str]:
        """Insert documents with a new `_id`. Returns the ids inserted; duplicates are not errors."""
        if not documents:
            return set()
        ids = {document["_id"] for document in documents}
        async with self.translated():
            try:
                await self._database[collection].insert_many(documents, ordered=False)
            except BulkWriteError as error:
                details = error.details or {}
                failures = details.get("writeErrors", [])
                if details.get("writeConcernErrors") or any(f["code"] != DUPLICATE_KEY for f in failures):
                    raise
                return ids - {failure["op"]["_id"] for failure in failures}
        return ids

    async def compare_and_set(self, collection: str, updates: Sequence[Update]) -> int:
        """Send updates in any order. Returns how many matched; if the reply was lost, how many matched when they were
        sent again.

        These are plain commands. For the driver's retryable writes the server keeps a record of each update, which is a
        fifth of the work, and a compare-and-set needs none: it is sent again, and one that was applied no longer
        matches. BulkWriteError if the server refuses an update.
        """
        matched = 0
        for part in _parts([RawBSONDocument(bson.encode({"q": one.match, "u": one.change})) for one in updates]):
            command = {"update": collection, "updates": part, "ordered": False, "writeConcern": CONCERN.document}
            with pymongo.timeout(TIMEOUT_MS / 1000):
                try:
                    reply = await self._database.command(command)
                except AutoReconnect:
                    reply = await self._database.command(command)
            concern = reply.get("writeConcernError")
            if concern is not None or "writeErrors" in reply:
                details = {
                    "writeErrors": reply.get("writeErrors", []),
                    "writeConcernErrors": [] if concern is None else [concern],
                }
                raise BulkWriteError(details)
            matched += reply["n"]
        return matched

    async def expire(self, collection: str, field: str, after: timedelta) -> None:
        """Create a TTL index on `field`, or change its age."""
        seconds, documents = round(after.total_seconds()), self._database[collection]
        async with self.translated():
            present = (await documents.index_information()).get(AGE)
            if present is None:
                await documents.create_index([(field, ASCENDING)], name=AGE, expireAfterSeconds=seconds)
            elif present.get("expireAfterSeconds") != seconds:
                index: dict[str, Any] = {"name": AGE, "expireAfterSeconds": seconds}
                try:
                    await self._database.command("collMod", collection, index=index)
                except OperationFailure as error:
                    if error.code != UNAUTHORIZED:
                        raise
                    # The role readWrite does not include collMod.
                    await documents.drop_index(AGE)
                    await documents.create_index([(field, ASCENDING)], **index)


class NamedCollection:
    """Base of the stores whose documents have names."""

    collection: str

    def __init__(self, database: MongoDatabase) -> None:
        self._database, self._documents = database, database[self.collection]

    async def insert(self, document: Document) -> bool:
        async with self._database.translated():
            try:
                await self._documents.insert_one(document)
            except DuplicateKeyError:
                return False
        return True

    async def one(self, name: str, read: Callable[[Document], Record]) -> Record | None:
        async with self._database.translated():
            document = await self._documents.find_one({"_id": name})
        return None if document is None else read(document)

    async def page(self, after: str, limit: int, read: Callable[[Document], Record]) -> list[Record]:
        async with self._database.translated():
            found = await self._documents.find({"_id": {"$gt": after}}).sort("_id", 1).limit(limit).to_list(None)
        return [read(document) for document in found]

    async def delete(self, name: str) -> bool:
        async with self._database.translated():
            result = await self._documents.delete_one({"_id": name})
        return bool(result.deleted_count)


def _parts(updates: Sequence[RawBSONDocument]) -> Iterator[list[RawBSONDocument]]:
    """The updates in commands that are not too large."""
    part: list[RawBSONDocument] = []
    size = 0
    for update in updates:
        if part and size + len(update.raw) > COMMAND_BYTES:
            yield part
            part, size = [], 0
        part.append(update)
        size += len(update.raw)
    if part:
        yield part


def _reason_away(error: PyMongoError) -> str | None:
    """The reason in a few words if MongoDB is unavailable; None if the request was wrong."""
    if isinstance(error, BulkWriteError):
        return _bulk_reason(error)
    if isinstance(error, ConnectionFailure | WTimeoutError | WriteConcernError | ConfigurationError):
        return _short(error)
    refused = isinstance(error, OperationFailure) and error.code in AUTHENTICATION_CODES
    return _short(error) if error.timeout or refused else None


def _bulk_reason(error: BulkWriteError) -> str | None:
    """None if the server refused each write that failed because of what it contains: the same would fail again."""
    details = error.details or {}
    causes = details.get("writeConcernErrors", [])
    causes += [one for one in details.get("writeErrors", []) if one.get("code") in UNAVAILABLE_CODES]
    return str(causes[0].get("errmsg", causes[0])) if causes else None


def _short(error: Exception) -> str:
    # Selection errors contain the whole topology; the first clause is enough.
    return str(error).split(", Timeout:", 1)[0].split(" (configured timeouts", 1)[0] or type(error).__name__
