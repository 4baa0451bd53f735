"""Nodes and commands on a Redis and a MongoDB with TLS, passwords and the least rights; and what they lack, said."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cronflow.backends.clock import SystemClock
from cronflow.backends.redis.keys import RedisKeys
from cronflow.backends.redis.rights import acl_rule
from cronflow.bootstrap.backends import open_backends
from cronflow.bootstrap.watcher import WatchOptions, watch_once
from cronflow.config import load_settings
from cronflow.domain.access import Principal, Role
from cronflow.domain.errors import AccessDenied, BackendUnavailable
from cronflow.domain.run import RunState
from cronflow.node.startup import check_servers, wait_for_servers
from cronflow.node.timings import Timings
from cronflow.ports import Backends, Signal
from cronflow.watcher.watcher import WatchRound
from tests.children import cluster_environment, python
from tests.processes.conftest import Processes, process_cluster
from tests.secured import PASSWORD, USER, Secured, secured_servers
from tests.servers import fast_folder
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.chaos


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Both servers; every test has users of its own."""
    with fast_folder(tmp_path_factory.mktemp("secured")) as folder, secured_servers(folder) as servers:
        yield servers


@dataclass
class Urls:
    """The URLs of a namespace, with the right password and authority or others."""

    secured: Secured
    port: int
    namespace: str

    def redis(self, **others: str | Path) -> str:
        return self.secured.redis_url(self.port, self.namespace, **others)  # type: ignore[arg-type]

    def mongo(self, **others: str | Path) -> str:
        return self.secured.mongo_url(self.namespace, **others)  # type: ignore[arg-type]


@pytest.fixture
async def urls(secured: Secured, namespace: str) -> AsyncIterator[Urls]:
    await asyncio.to_thread(secured.add_users, namespace)
    async with secured.tls() as port:
        yield Urls(secured, port, namespace)


@asynccontextmanager
async def nodes(urls: Urls, folder: Path) -> AsyncIterator[Processes]:
    async with process_cluster(urls.redis(), urls.mongo(), urls.namespace, folder) as cluster:
        yield cluster


async def command(urls: Urls, *words: str, redis: str | None = None, mongo: str | None = None) -> tuple[int, str]:
    """Its exit code and all of its output."""
    child = await asyncio.create_subprocess_exec(
        *python("-m", "cronflow", *words),
        env=cluster_environment(redis or urls.redis(), mongo or urls.mongo(), urls.namespace, COLUMNS="400"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(child.communicate(), PATIENCE_S)
    assert child.returncode is not None
    return child.returncode, out.decode()


async def succeeded(cluster: Processes, job: str) -> None:
    run_id = await cluster.service.jobs.trigger(job)

    async def done() -> bool:
        return (await cluster.service.runs.get(run_id)).state is RunState.SUCCEEDED

    await eventually(done, what=f"{run_id} has succeeded")


async def test_a_job_runs_to_its_end_with_tls_and_the_least_rights(urls: Urls, tmp_path: Path) -> None:
    async with nodes(urls, tmp_path) as cluster:
        await cluster.up("a")
        since = await cluster.apply(cluster.job("tick"), cluster.job("long", every=None, seconds=300))
        await succeeded(cluster, "tick")
        run_id = await cluster.service.jobs.trigger("long")
        await eventually(lambda: cluster.noted("start")[-1:] and run_id in dict(cluster.noted("start")))
        await cluster.service.runs.cancel(run_id, by="ada")

        async def cancelled() -> bool:
            return (await cluster.service.runs.get(run_id)).state is RunState.CANCELLED

        await eventually(cancelled, what="the run is cancelled")
        for words in (["nodes", "list"], ["nodes", "drain", "a"], ["nodes", "undrain", "a"]):
            assert (await command(urls, *words))[0] == 0
        code, checked = await command(urls, "doctor")
        assert code == 0, checked
        await the_other_ports(cluster)
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])
    with urls.secured.acl as redis:
        log = redis.execute_command("ACL", "LOG")
    denied = {entry["object"] for entry in log if entry["username"] == f"{USER}-{urls.namespace}"}
    # The driver introduces itself, and CronFlow asks how Redis is saved; both live without an answer.
    assert denied <= {"client|setinfo", "config|get"}


async def the_other_ports(cluster: Processes) -> None:
    """What an API, the live stream and the clean-up use."""
    backends = cluster.backends
    await backends.limiter.take("api", 10, 10)
    for _ in range(3):
        await backends.limiter.attempt("a", 1, 60, 900)
    await backends.limiter.take_back("a")
    await backends.limiter.forgive("a")
    await backends.tickets.put("t", Principal("ada", Role.ADMIN), 60)
    assert await backends.tickets.take("t") is not None
    assert await backends.feed.claim("me", 60)
    assert await backends.feed.tick("me", b"{}") is not None
    await backends.feed.event(b"{}")
    await backends.feed.read("0-1")
    await backends.feed.release("me")
    await backends.live_tail.add_viewer(60)
    await backends.live_tail.newest()
    await backends.live_tail.read("0-1")
    await backends.coordination_admin.keys_without_ttl()
    await backends.election.ask_to_resign(1)
    for server_clock in backends.server_clocks.values():
        await server_clock.now()
    for length in (2, 3):
        await backends.audit.keep(cluster.job("x").timeout * length)
    assert await backends.store_admin.missing_indexes() == []
    assert (await backends.store_admin.replica_set()).away is None, "only clusterMonitor reads it"


REFUSALS: list[tuple[str, Callable[[Urls], dict[str, str]], list[str]]] = [
    ("a wrong password for Redis", lambda urls: {"redis": urls.redis(password="no")}, ["Redis", "invalid username"]),
    (
        "no password for Redis",
        lambda urls: {"redis": urls.redis().replace(f"{USER}-{urls.namespace}:a%20password@", "nobody:x@")},
        ["Redis", "invalid username"],
    ),
    ("a wrong password for MongoDB", lambda urls: {"mongo": urls.mongo(password="no")}, ["MongoDB", "authentication"]),
    (
        "no password for MongoDB",
        lambda urls: {"mongo": urls.mongo().replace(f"{USER}-{urls.namespace}:a%20password@", "")},
        ["MongoDB", "requires authentication"],
    ),
    (
        "another authority for Redis",
        lambda urls: {"redis": urls.redis(authority=urls.secured.certificates.another)},
        ["Redis", "certificate is not trusted", "ssl_ca_certs="],
    ),
    (
        "another authority for MongoDB",
        lambda urls: {"mongo": urls.mongo(authority=urls.secured.certificates.another)},
        ["MongoDB", "certificate is not trusted", "tlsCAFile="],
    ),
]


async def start(urls: Urls, redis: str | None = None, mongo: str | None = None) -> None:
    """What a node does until it takes part. It would wait a minute for a server that is away."""
    async with AsyncExitStack() as stack:

        async def opened() -> Backends:
            opening = open_backends(redis or urls.redis(), mongo or urls.mongo(), urls.namespace)
            return await stack.enter_async_context(opening)

        backends = await wait_for_servers(opened, SystemClock(), 60)
        await check_servers(backends.coordination_admin, backends.queue, Timings())


async def starting(urls: Urls, **others: str) -> AccessDenied:
    """The error of a node that starts, at once."""
    with capture_logs() as logs, pytest.raises(AccessDenied) as caught:
        await start(urls, **others)
    assert logs == []
    return caught.value


@pytest.mark.parametrize(("given", "expected"), [one[1:] for one in REFUSALS], ids=[one[0] for one in REFUSALS])
async def test_a_node_that_is_refused_names_the_reason_and_the_remedy(
    urls: Urls, given: Callable[[Urls], dict[str, str]], expected: list[str]
) -> None:
    error = await starting(urls, **given(urls))
    for text in ("denies access", *expected):
        assert text.lower() in f"{error} {error.remedy}".lower()
    assert "password@" not in str(error)


LACKING: list[tuple[str, str, list[str]]] = [
    ("-zadd -xadd", "readWrite", ["Redis", "may not run zadd, xadd on"]),
    ("-evalsha", "readWrite", ["Redis", "evalsha", "ACL line"]),
    ("-@all", "readWrite", ["Redis", "ping", "ACL line"]),
    ("resetkeys ~other:*", "readWrite", ["Redis", "key"]),
    ("resetchannels", "readWrite", ["Redis", "may not run publish, subscribe on"]),
    ("", "read", ["MongoDB", "may not run createIndexes on the database cronflow_", "readWrite"]),
    ("", "", ["MongoDB", "may not run find on the database cronflow_", "readWrite"]),
]


@pytest.mark.parametrize(("rule", "role", "expected"), LACKING, ids=[f"{rule} {role}" for rule, role, _ in LACKING])
async def test_a_node_that_lacks_a_right_names_it(urls: Urls, rule: str, role: str, expected: list[str]) -> None:
    urls.secured.allow(urls.namespace, rule)
    urls.secured.roles(urls.namespace, *role.split())
    error = await starting(urls)
    for text in expected:
        assert text in f"{error} {error.remedy}"


async def printed(code: int, out: str, *expected: str) -> None:
    """One error and one remedy, without a traceback."""
    assert code == 1, out
    [error] = [line for line in out.splitlines() if line.startswith("error: ")]
    [remedy] = [line for line in out.splitlines() if line.startswith("  → ")]
    assert "Traceback" not in out
    for text in ("denies access", *expected):
        assert text in f"{error} {remedy}", out


async def test_a_node_that_is_refused_ends_with_exit_code_1(urls: Urls) -> None:
    await printed(*await command(urls, "node", mongo=urls.mongo(password="no")), "MongoDB", "readWrite")
    urls.secured.allow(urls.namespace, "-zadd -xadd")
    await printed(*await command(urls, "node"), "Redis", "may not run zadd, xadd on", "ACL line")


async def test_commands_without_a_right_print_one_sentence(urls: Urls) -> None:
    urls.secured.allow(urls.namespace, "-zrange")
    await printed(*await command(urls, "nodes", "list"), "Redis", "ACL line")
    code, out = await command(urls, "doctor", "-o", "json")
    found = {one["check"]: one for one in json.loads(out)["findings"]}
    assert (code, found["redis"]["state"], found["mongodb"]["state"]) == (1, "failed", "unchecked")
    assert "may not run zrange on" in found["redis"]["found"]
    assert "ACL line" in found["redis"]["remedy"]
    assert found["mongodb"]["found"] == "not checked, because Redis denies access"
    urls.secured.allow(urls.namespace, "+zrange")
    urls.secured.roles(urls.namespace, "read")
    await printed(*await command(urls, "jobs", "list"), "MongoDB", "createIndexes")


def add_reader(urls: Urls) -> tuple[str, str]:
    """The URLs of a user who may read this namespace, and write nothing."""
    user = f"reader-{urls.namespace}"
    with urls.secured.acl as redis:
        rule = f"{acl_rule(RedisKeys(urls.namespace))} -@write"
        redis.execute_command("ACL", "SETUSER", user, "reset", "on", f">{PASSWORD}", *rule.split())
    with urls.secured.admin() as client:
        role = {"role": "read", "db": f"cronflow_{urls.namespace}"}
        client.admin.command("createUser", user, pwd=PASSWORD, roles=[role])
    known = f"{USER}-{urls.namespace}:"
    return urls.redis().replace(known, f"{user}:"), urls.mongo().replace(known, f"{user}:")


async def test_a_watcher_needs_no_right_to_write_and_writes_nothing(urls: Urls, tmp_path: Path) -> None:
    redis, mongo = await asyncio.to_thread(add_reader, urls)

    async def found() -> WatchRound:
        environ = {"CRONFLOW_REDIS_URL": redis, "CRONFLOW_MONGO_URL": mongo, "CRONFLOW_NAMESPACE": urls.namespace}
        given = load_settings({}, environ=environ, folder=tmp_path)
        done, _ = await watch_once(given, WatchOptions(grace=timedelta(seconds=5), snapshot=tmp_path / "snapshot"))
        return done

    async with nodes(urls, tmp_path) as cluster:
        await cluster.up("a")
        await cluster.apply(cluster.job("tick"))
        await succeeded(cluster, "tick")
        await eventually(lambda: len(cluster.noted("start")) > 7, what="runs older than the grace time")

        async def nothing_found() -> bool:
            done = await found()
            return (done.observed, done.unknown) == ([], set()) and done.judged > 0

        # On a busy machine a connection with TLS may take too long.
        await eventually(nothing_found, what="a round that reaches both servers finds nothing")
    # In an empty database it would create collections and indexes, if it created any.
    with urls.secured.admin() as client:
        client.drop_database(f"cronflow_{urls.namespace}")
        assert {one.kind for one in (await found()).observed} == {"jobs_vanished", "no_leader"}
        assert client[f"cronflow_{urls.namespace}"].list_collection_names() == []


@pytest.mark.parametrize("server", ["Redis", "MongoDB"])
async def test_a_node_says_that_a_right_was_taken_away_and_recovers_when_it_is_back(
    urls: Urls, server: str, tmp_path: Path
) -> None:
    def grant(rights: bool) -> None:
        if server == "MongoDB":
            urls.secured.roles(urls.namespace, *["readWrite"][: int(rights)])
        else:
            urls.secured.allow(urls.namespace, acl_rule(RedisKeys(urls.namespace)) if rights else "-@all +ping")

    async with nodes(urls, tmp_path) as cluster:
        await cluster.up("a")
        await cluster.apply(cluster.job("tick", every=None))
        await succeeded(cluster, "tick")

        async def logged(text: str, times: int) -> None:
            def count() -> bool:
                lines = cluster.log("a").read_text().splitlines()
                return sum(text in line and f"service={server}" in line for line in lines) >= times

            await eventually(count, what=f"the log of the node has {text!r} {times} times")

        grant(False)
        await logged("service away", 1)
        assert cluster.children["a"].poll() is None
        grant(True)
        await logged("service back", 1)
        await cluster.all_up("a")
        await succeeded(cluster, "tick")
        grant(False)
        await logged("service away", 2)
        # Not SIGKILL: whatever is denied, a node ends within its time limits.
        cluster.signal("a", signal.SIGTERM)
        await asyncio.to_thread(cluster.children["a"].wait, PATIENCE_S)
        text = cluster.log("a").read_text()
        assert "Traceback" not in text
        assert "may not run" in text or "no permissions" in text


async def test_a_right_that_is_missing_within_a_script_is_an_outage_too(urls: Urls) -> None:
    """In the words of every version: a script that lacks a right answers without a code."""
    async with open_backends(urls.redis(), urls.mongo(), urls.namespace) as backends:
        urls.secured.allow(urls.namespace, "-zrange")
        with pytest.raises(AccessDenied):
            await backends.membership.members()
        urls.secured.allow(urls.namespace, "+zrange -publish")
        with pytest.raises(BackendUnavailable, match="publish"):
            await backends.bus.notify(Signal.JOBS)
        with pytest.raises(AccessDenied, match="may not run publish on"):
            await backends.coordination_admin.check_rights()
