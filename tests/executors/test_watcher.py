"""What is left of a node's commands when the node is gone, however it went."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cronflow.executors.watcher import Watcher
from tests.children import child_environment
from tests.executors import is_running
from tests.waiting import eventually

# Two groups: one ends at SIGTERM and one does not heed it; each has a child of its own. `forked` keeps the pipe open.
NODE = """
import os, signal, subprocess, sys, time
from cronflow.executors.watcher import Watcher
watcher = Watcher()
loop = "while :; do sleep 0.02; done"
for trap in ("", "trap '' TERM; "):
    words = ["/bin/sh", "-c", f"{trap}({trap}echo $(exec sh -c 'echo $PPID') >>{sys.argv[1]}; {loop}) & {loop}"]
    group = subprocess.Popen(words, start_new_session=True)
    watcher.add(group.pid)
    print(group.pid, flush=True)
gone = subprocess.Popen(["/bin/true"], start_new_session=True)
watcher.add(gone.pid)
gone.wait()
watcher.remove(gone.pid)
print(watcher.pid, flush=True)
if sys.argv[2] == "forked" and not os.fork():
    time.sleep(300)
if sys.argv[2] == "closed":
    watcher.close()
signal.pause()
"""


@contextmanager
def a_node(folder: Path, way: str = "") -> Iterator[tuple[subprocess.Popen[str], list[int], int]]:
    """A process with two commands: itself, all their processes, and the process that watches."""
    words = [sys.executable, "-W", "ignore", "-c", NODE, str(folder / "children"), way]
    environ = child_environment()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=True) as node:
        assert node.stdout is not None
        groups = [int(node.stdout.readline()), int(node.stdout.readline())]
        watching = int(node.stdout.readline())
        try:
            yield node, groups, watching
        finally:
            for group in (*groups, node.pid):
                try:
                    os.killpg(group, signal.SIGKILL)
                except ProcessLookupError:
                    pass


async def processes_of(folder: Path, groups: list[int]) -> list[int]:
    """The commands and the children that they noted."""

    def noted() -> list[str]:
        path = folder / "children"
        found = path.read_text().split() if path.exists() else []
        return found if len(found) == 2 else []

    return [*groups, *map(int, await eventually(noted, what="the children of both commands"))]


@pytest.mark.parametrize("way", ["", "forked", "closed"])
async def test_whole_groups_end_with_a_node_that_is_killed(tmp_path: Path, way: str) -> None:
    with a_node(tmp_path, way) as (node, groups, watching):
        everybody = await processes_of(tmp_path, groups)
        if way != "closed":
            assert all(map(is_running, everybody))
            node.kill()
        await eventually(lambda: not any(map(is_running, everybody)), what="the end of both groups")
        await eventually(lambda: not is_running(watching), what="the end of the watcher")


async def test_the_signals_that_end_a_node_s_session_do_not_end_the_watcher(tmp_path: Path) -> None:
    with a_node(tmp_path) as (node, groups, watching):
        everybody = await processes_of(tmp_path, groups)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(watching, number)
        os.killpg(node.pid, signal.SIGKILL)
        await eventually(lambda: not any(map(is_running, everybody)), what="the end of both groups")


async def test_a_killed_watcher_is_replaced_and_gets_all_groups(tmp_path: Path) -> None:
    watcher = Watcher()
    sleepers = [subprocess.Popen(["sleep", "300"], start_new_session=True) for _ in range(2)]
    try:
        watcher.add(sleepers[0].pid)
        first = watcher.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: not is_running(first), what="the end of the first watcher")
        watcher.add(sleepers[1].pid)
        assert watcher.pid not in (None, first)
        await asyncio.to_thread(watcher.close)
        assert [sleeper.wait(10) for sleeper in sleepers] == [-signal.SIGTERM] * 2
    finally:
        watcher.close()
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
