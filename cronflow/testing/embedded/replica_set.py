"""A MongoDB replica set of three, so that one member can be killed, paused or stepped down while the set goes on.

Each member is a server of its own, with the port that the configuration of the set names.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cronflow.testing.embedded.binaries import CannotStart
from cronflow.testing.embedded.mongo import ANSWER_WITHIN_MS, REPLICA_SET, USER, MongoServer
from cronflow.testing.embedded.server import HOST, START_WITHIN_S

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.database import Database

MEMBERS = 3
POLL_S = 0.1


class MongoMember(MongoServer):
    """A member of a set. `start` returns when it answers, whatever its state in the set."""

    oplog_mb: ClassVar[int] = 4096

    def _is_primary(self, admin: Database[dict[str, Any]], address: str, pid: int) -> bool:
        if admin.command("serverStatus")["pid"] == pid:
            return True
        self._obstacle = f"another process answers on {address}"
        return False

    def connect(self) -> MongoClient[dict[str, Any]]:
        """A client of this member alone, with all rights. Blocking, at most 5 s a call."""
        from pymongo import MongoClient

        return MongoClient(
            HOST,
            self.port,
            directConnection=True,
            timeoutMS=ANSWER_WITHIN_MS,
            serverSelectionTimeoutMS=ANSWER_WITHIN_MS,
            socketTimeoutMS=ANSWER_WITHIN_MS,
            **({} if self._password is None else self._member()),
        )

    def is_primary(self) -> bool:
        """Whether it takes writes. False if it is down or paused."""
        from pymongo.errors import PyMongoError

        if not self.running:
            return False
        try:
            with self.connect() as client:
                return bool(client.admin.command("hello").get("isWritablePrimary"))
        except PyMongoError:
            return False

    def allow(self) -> None:
        """Create the user of the URL. Only on the primary."""
        if self._password is not None:
            with self.connect() as client:
                self._allow(client.admin, self._password)


class MongoReplicaSet:
    """Three members on 127.0.0.1 with their files in folders of `data_dir`. As a context manager it starts and stops.

    Its methods block. The data folder must be new.
    """

    def __init__(self, data_dir: Path, *, password: str | None = None) -> None:
        self._password = password
        self.members: Sequence[MongoMember] = [
            MongoMember(data_dir / f"mongo-{number}", password=password) for number in range(1, MEMBERS + 1)
        ]

    @property
    def addresses(self) -> list[str]:
        """`127.0.0.1:PORT` of each member."""
        return [f"{HOST}:{member.port}" for member in self.members]

    @property
    def url(self) -> str:
        """The URL of the set; RuntimeError before the first start."""
        return self.url_by(self.addresses)

    def url_by(self, addresses: Sequence[str]) -> str:
        """The URL of the set by way of other addresses of its members."""
        user, source = ("", "") if self._password is None else (f"{USER}:{self._password}@", "&authSource=admin")
        return f"mongodb://{user}{','.join(addresses)}/?replicaSet={REPLICA_SET}{source}"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for member in self.members:
                member.data_dir.mkdir(mode=0o700, parents=True)
                stack.callback(member.stop)
            with ThreadPoolExecutor(MEMBERS) as threads:
                list(threads.map(MongoMember.start, self.members))
            hosts = [{"_id": number, "host": address} for number, address in enumerate(self.addresses)]
            with self.members[0].connect() as client:
                client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": hosts})
            self.wait_for_primary().allow()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def primary(self) -> MongoMember | None:
        """The member that takes writes, if there is one."""
        return next((member for member in self.members if member.is_primary()), None)

    def wait_for_primary(self) -> MongoMember:
        """The member that takes writes. CannotStart if there is none after a minute."""
        deadline = time.monotonic() + START_WITHIN_S
        while (found := self.primary()) is None:
            if time.monotonic() > deadline:
                raise CannotStart("MongoDB", f"no member became primary within {START_WITHIN_S:g} s")
            time.sleep(POLL_S)
        return found

    def step_down(self) -> MongoMember | None:
        """Ask the primary to let another member become it. Returns the former primary, None if there was none."""
        from pymongo.errors import PyMongoError

        found = self.primary()
        if found is not None:
            try:
                with found.connect() as client:
                    client.admin.command("replSetStepDown", 10, secondaryCatchUpPeriodSecs=5)
            except PyMongoError:
                # It may close the connection, or have stepped down by itself.
                pass
        return found
