"""Reports to a supervisor, through a real datagram socket and real files, and by real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cronflow.domain.job import PythonTarget
from cronflow.supervision import Phase, ProcessStatus, PulseFiles, Supervisor, Systemd, supervised, supervisors
from tests import children
from tests.children import ADMIN, cluster_environment, python
from tests.node.cluster import a_cluster
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually

UP = ProcessStatus(Phase.UP, "worker")
WATCHED = {"WATCHDOG_USEC": "3000000"}


class Manager:
    """The service manager's end of the socket: every line that it was sent."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(address)
        self._lines: list[str] = []

    @property
    def lines(self) -> list[str]:
        """All until now."""
        while True:
            try:
                self._lines += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return self._lines

    def said(self, line: str) -> int:
        """How often."""
        return self.lines.count(line)

    def close(self) -> None:
        """Nobody listens from now on."""
        self._socket.close()


@pytest.fixture
def address() -> Iterator[str]:
    """Of a socket. The folder of a test may have a longer path than the 107 bytes that the kernel takes."""
    with tempfile.TemporaryDirectory(prefix="cronflow-") as folder:
        yield f"{folder}/notify"


@pytest.fixture
def manager(address: str) -> Iterator[Manager]:
    """It listens."""
    found = Manager(address)
    yield found
    found.close()


# -------------------------------------------------------------------------------------------------- what is told, when


def test_the_process_title_shows_what_is_unavailable() -> None:
    assert ProcessStatus(Phase.STARTING).status == "starting"
    assert ProcessStatus(Phase.UP, "leader").status == "leader"
    assert ProcessStatus(Phase.UP, "worker", ("Redis", "MongoDB")).status == "worker, without Redis and MongoDB"
    assert ProcessStatus(Phase.STOPPING, "leader", ("MongoDB",)).status == "stopping, without MongoDB"


def test_only_a_process_that_is_up_and_reaches_its_servers_is_ready() -> None:
    assert UP.ready
    assert not ProcessStatus(Phase.UP, "worker", ("MongoDB",)).ready
    assert not ProcessStatus(Phase.STARTING).ready
    assert not ProcessStatus(Phase.STOPPING, "worker").ready


def test_systemd_gets_status_changes_and_watchdog_pings(manager: Manager, address: str) -> None:
    told = Systemd(address, 30.0)
    assert told.every_s == 10
    for status in (
        ProcessStatus(Phase.STARTING),
        UP,
        UP,
        ProcessStatus(Phase.UP, "leader"),
        ProcessStatus(Phase.STOPPING),
    ):
        told.report(status)
    told.close()
    assert manager.lines == [
        *("WATCHDOG=1", "STATUS=starting"),
        *("WATCHDOG=1", "STATUS=worker", "READY=1"),
        "WATCHDOG=1",
        *("WATCHDOG=1", "STATUS=leader"),
        *("WATCHDOG=1", "STATUS=stopping", "STOPPING=1"),
    ]


def test_an_abstract_address_is_understood() -> None:
    address = f"@cronflow-test-{os.getpid()}"
    listening = Manager("\0" + address[1:])
    told = Systemd(address, None)
    told.report(UP)
    assert listening.said("READY=1") == 1
    told.close()
    listening.close()


def test_the_files_say_alive_and_ready_apart(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    files = PulseFiles(folder)
    files.report(ProcessStatus(Phase.STARTING))
    assert {file.name for file in folder.iterdir()} == {"alive"}
    files.report(UP)
    assert (folder / "ready").read_text() == "worker\n"
    files.report(ProcessStatus(Phase.UP, "worker", ("MongoDB",)))
    assert {file.name: file.read_text() for file in folder.iterdir()} == {"alive": "worker, without MongoDB\n"}
    files.close()
    assert not list(folder.iterdir())


def test_the_environment_names_the_supervisor_and_is_cleared(address: str, tmp_path: Path) -> None:
    def found(**environ: str) -> list[Supervisor]:
        return supervisors(None, environ)

    assert found() == []
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": str(os.getpid()), "PATH": "/bin"}
    both = supervisors(tmp_path, environ)
    assert [(type(one), one.every_s) for one in both] == [(Systemd, 2.0), (PulseFiles, 5.0)]
    assert environ == {"PATH": "/bin"}
    others = found(NOTIFY_SOCKET=address, WATCHDOG_USEC="6000000", WATCHDOG_PID="1")
    unset = found(NOTIFY_SOCKET=address, WATCHDOG_USEC="0")
    assert [one.every_s for one in (*others, *unset)] == [5.0, 5.0]
    for one in (both[0], *others, *unset):
        with pytest.raises(OSError, match="No such file"):
            one.close()  # Nobody listens; the socket is closed nevertheless.


async def test_a_supervisor_that_is_gone_is_no_reason_to_stop(address: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    unusable = PulseFiles(tmp_path / "file" / "below")
    with capture_logs() as logged:
        async with supervised([Systemd(address, 0.3), unusable], lambda: UP):
            await eventually(lambda: len(logged) == 2, what="both are missed")
            manager = Manager(address)
            await eventually(lambda: manager.said("WATCHDOG=1") > 1, what="one is told once it is there")
    assert manager.said("READY=1") == manager.said("STOPPING=1") == 1
    manager.close()
    assert [line["by"] for line in logged] == ["Systemd", "PulseFiles"]


async def test_an_error_in_the_supervision_loop_ends_the_process(manager: Manager, address: str) -> None:
    def broken() -> ProcessStatus:
        raise RuntimeError("no standing")

    with pytest.raises(RuntimeError, match="no standing"):
        async with supervised([Systemd(address, None)], broken):
            await asyncio.sleep(0)
    assert manager.said("STOPPING=1") == 1


async def test_a_node_is_ready_while_it_takes_part_and_reaches_its_servers() -> None:
    async with a_cluster("a") as cluster:
        [node] = cluster.nodes
        assert node.status == ProcessStatus(Phase.UP, "leader")
        cluster.backends.faults.fail_before("MongoDB", times=100)
        await cluster.elapse(5)
        assert node.status == ProcessStatus(Phase.UP, "leader", ("MongoDB",))
        cluster.backends.faults.heal()
        await cluster.elapse(30)
        assert node.status.ready
        node.stop()
        assert node.status.phase is Phase.STOPPING


# ------------------------------------------------------------------------------------------------------ real processes


@pytest.fixture
async def cluster(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path, address: str
) -> AsyncIterator[Processes]:
    """Its nodes find a service manager with a watchdog of three seconds, and a folder for their pulse."""
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as found:
        found.begin = children.start
        found.limits |= WATCHED | {"NOTIFY_SOCKET": address, "CRONFLOW_PULSE_DIR": str(tmp_path / "pulse")}
        yield found


@pytest.mark.chaos
async def test_a_node_reports_when_it_is_up_leads_and_stops(
    cluster: Processes, manager: Manager, tmp_path: Path
) -> None:
    await cluster.up("a")
    await eventually(lambda: manager.said("STATUS=leader"), what="it says that it leads")
    assert manager.said("READY=1") == 1
    await eventually((tmp_path / "pulse" / "ready").exists, what="it is ready")
    seen = manager.said("WATCHDOG=1")
    await eventually(lambda: manager.said("WATCHDOG=1") > seen, what="another sign of life")
    cluster.signal("a", signal.SIGTERM)
    assert await asyncio.to_thread(cluster.children["a"].wait, 30) == 0, cluster.log("a").read_text()
    assert manager.said("STOPPING=1") == 1
    assert not list((tmp_path / "pulse").iterdir())


@pytest.mark.chaos
async def test_a_loop_that_hangs_gives_no_sign_of_life_though_the_heartbeat_goes_on(
    cluster: Processes, manager: Manager
) -> None:
    await cluster.up("a")
    target = PythonTarget("tests.processes.handlers:block", {"sink": str(cluster.sink), "seconds": 4.0})
    await cluster.service.jobs.apply([replace(cluster.job("hang", every=None), target=target)])
    await cluster.service.jobs.trigger("hang")
    await eventually(lambda: cluster.noted("start"), what="the handler blocks the loop")
    before = manager.said("WATCHDOG=1")

    async def stalled() -> bool:
        return any(member.report.lag_s >= 2 for member in await cluster.service.cluster.members())

    await eventually(stalled, what="its heartbeat says that the loop does not turn")
    # Asked before the end of the handler is looked for: what comes after it does not count.
    alert_conditions = manager.said("WATCHDOG=1")
    assert cluster.noted("end") or alert_conditions == before
    await eventually(lambda: manager.said("WATCHDOG=1") > before, what="the loop turns again")


@pytest.mark.chaos
async def test_an_api_reports_when_it_serves_and_stops(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path, manager: Manager, address: str
) -> None:
    environment = cluster_environment(redis_url, mongo_url, namespace, **ADMIN, **WATCHED, NOTIFY_SOCKET=address)
    with (tmp_path / "api.log").open("wb") as log:
        api = await asyncio.create_subprocess_exec(
            *python("-m", "cronflow", "api", "--port", "0"), env=environment, stdout=log, stderr=log
        )
    try:
        await eventually(lambda: manager.said("READY=1"), what="it serves")
        seen = manager.said("WATCHDOG=1")
        await eventually(lambda: manager.said("WATCHDOG=1") > seen, what="another sign of life")
        assert manager.said("STATUS=serving") == 1
    finally:
        api.terminate()
    assert await asyncio.wait_for(api.wait(), 30) == 0, (tmp_path / "api.log").read_text()
    assert manager.said("STOPPING=1") == 1
