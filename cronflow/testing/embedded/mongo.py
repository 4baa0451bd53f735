"""A MongoDB for `cronflow dev` and tests: a replica set of one, so that transactions and change streams work.

A write acknowledged with majority and journal survives any kill and is there at the next start, also on another port.
The replica set's configuration names its member by host and port, and a member that is not in it does not serve. So the
port is kept if possible; otherwise the configuration is rewritten by force, which is safe in a set of one. (mongod
first checks whether the old port is its own. If another program accepts connections there and does not answer, this
takes 30 s.)
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from cronflow.testing.embedded.binaries import (
    Binary,
    CannotStart,
    all_mongod,
    missing_libraries,
    not_found,
    without_libraries,
)
from cronflow.testing.embedded.server import HOST, Server

if TYPE_CHECKING:
    from pymongo.database import Database

REPLICA_SET = "rs0"
USER = "cronflow"
ANSWER_WITHIN_MS = 5_000

NOT_YET_INITIALIZED = 94
INVALID_REPLICA_SET_CONFIG = 93
"""Errors of `replSetGetStatus`: the set does not exist yet; this member is not in it (its port changed)."""


class MongoServer(Server):
    """A MongoDB on 127.0.0.1, which is primary when `start` returns; see `Server`."""

    service: ClassVar[str] = "MongoDB"
    name: ClassVar[str] = "mongod"
    version_in_log: ClassVar[str] = r'"Build Info".*?"version":"([\w.]+)"'

    oplog_mb: ClassVar[int] = 64

    client_options: Mapping[str, Any] = MappingProxyType({})
    """Options of the client that checks whether the server is ready, for servers with passwords or TLS."""

    @property
    def url(self) -> str:
        """`mongodb://127.0.0.1:PORT/?replicaSet=rs0`, with the password; RuntimeError before the first start.

        Not `directConnection=true`: a client of the set waits for the primary after a restart, as in production; a
        direct client would send its write to a secondary and be refused. Discovery leads back to the same address,
        because `start` puts it into the configuration.
        """
        if self._password is None:
            return f"mongodb://{HOST}:{self.port}/?replicaSet={REPLICA_SET}"
        return f"mongodb://{USER}:{self._password}@{HOST}:{self.port}/?replicaSet={REPLICA_SET}&authSource=admin"

    def _found(self) -> list[Binary]:
        return all_mongod()

    def _not_found(self) -> CannotStart:
        return not_found(self.service, "mongod", "CRONFLOW_MONGO_URL")

    def _arguments(self, port: int, folder: Path) -> list[str]:
        return [
            "--quiet",
            *("--replSet", REPLICA_SET),
            # In a replica set, a password for clients needs a key for the members, which may be the same.
            *([] if self._password is None else ["--keyFile", str(self._private_file("key", self._password))]),
            *("--port", str(port)),
            *("--bind_ip", HOST),
            "--nounixsocket",
            *("--dbpath", str(folder)),
            *("--oplogSize", str(self.oplog_mb)),
            *("--wiredTigerCacheSizeGB", "0.25"),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            # TTL indexes delete within a second instead of a minute, so that tests can observe it.
            *("--setParameter", "ttlMonitorSleepSecs=1"),
        ]

    def _ready(self, port: int, pid: int) -> bool:
        # A client whose first attempt fails waits half a second, so create it only when the port is open.
        if not _listens(port):
            return False
        from pymongo import MongoClient
        from pymongo.errors import PyMongoError

        client: MongoClient[dict[str, Any]] = MongoClient(
            HOST,
            port,
            directConnection=True,
            timeoutMS=ANSWER_WITHIN_MS,
            # timeoutMS does not bound `close`, which takes half a minute if the server has just died.
            serverSelectionTimeoutMS=ANSWER_WITHIN_MS,
            socketTimeoutMS=ANSWER_WITHIN_MS,
            **({} if self._password is None else self._member()),
            **self.client_options,
        )
        with client:
            try:
                return self._is_primary(client.admin, f"{HOST}:{port}", pid)
            except PyMongoError as error:
                self._obstacle = str(error)
                return False

    def _is_primary(self, admin: Database[dict[str, Any]], address: str, pid: int) -> bool:
        from pymongo.errors import OperationFailure

        # First of all: the steps below must not change a foreign server.
        if admin.command("serverStatus")["pid"] != pid:
            self._obstacle = f"another process answers on {address}"
            return False
        self._obstacle = "not primary yet"
        try:
            admin.command("replSetGetStatus")
        except OperationFailure as error:
            if error.code == NOT_YET_INITIALIZED:
                admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": [{"_id": 0, "host": address}]})
            elif error.code == INVALID_REPLICA_SET_CONFIG:
                config = admin.command("replSetGetConfig")["config"]
                config["members"] = [{**config["members"][0], "host": address}]
                config["version"] += 1
                admin.command("replSetReconfig", config, force=True)
            else:
                raise
        if not admin.command("hello").get("isWritablePrimary"):
            return False
        if self._password is not None:
            self._allow(admin, self._password)
        return True

    def _member(self) -> dict[str, Any]:
        """Log in as a member of the set, which needs no user: a new folder, or one of 0.6.0, has none."""
        return {"username": "__system", "password": self._password, "authSource": "local"}

    def _allow(self, admin: Database[dict[str, Any]], password: str) -> None:
        """Create the user of `url`, or give it this password, which may have changed."""
        verb = "updateUser" if admin.command("usersInfo", USER)["users"] else "createUser"
        admin.command(verb, USER, pwd=password, roles=["root"])

    def _died(self, binary: Path, code: int, log: list[str]) -> CannotStart:
        if libraries := missing_libraries(binary, log):
            return without_libraries(self.service, binary, libraries)
        return super()._died(binary, code, log)

    def _excerpt(self, log: list[str]) -> str:
        # After an error, mongod logs its shutdown at length; show only the error.
        errors = [line for line in log if re.search(r'"s":"[EF]"', line)]
        return super()._excerpt(errors or log)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), ANSWER_WITHIN_MS / 1000):
            return True
    except OSError:
        return False
