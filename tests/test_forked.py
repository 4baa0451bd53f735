"""A forked child is like one that is started: its identity, files, signals and exit codes are the same."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import children, forked
from tests.children import Child, child_environment
from tests.waiting import eventually

BOTH = pytest.mark.parametrize("begin", [children.start, forked.start], ids=["started", "forked"])
Begin = Callable[..., Child]

PROBE = """
import ctypes, json, os, random, signal, sys, threading, time, zoneinfo

def shown():
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    return {
        "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgid(0), "session": os.getsid(0),
        "dies with its parent": number.value, "folder": os.getcwd(), "environment": dict(os.environ),
        "zone": time.tzname, "arguments": sys.argv, "path": sys.path[:2], "name": __name__,
        "time zones": zoneinfo.TZPATH, "random": random.random(),
        "files": [n for n in range(3, 64) if os.path.exists(f"/proc/self/fd/{n}")],
        "input": sys.stdin.read(), "threads": threading.active_count(), "umask": os.umask(0o22),
        "signals": [status[key] for key in ("SigBlk", "SigIgn", "SigCgt")],
        "streams": [(s.encoding, s.errors, s.line_buffering) for s in (sys.stdin, sys.stdout, sys.stderr)],
    }

match sys.argv[1:]:
    case ["show", *_]:
        print(json.dumps(shown()))
    case ["exit", code]:
        sys.exit(int(code))
    case ["fail"]:
        threading.Thread(target=lambda: (time.sleep(0.05), print("the thread ends"))).start()
        raise RuntimeError("on purpose")
    case ["wait", file]:
        open(file, "w").close()
        try:
            while True:
                time.sleep(60)
        finally:
            print("tidied up")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The folder of the module `probe`."""
    (tmp_path / "probe.py").write_text(PROBE)
    return tmp_path


def run(begin: Begin, folder: Path, *words: str, own_session: bool = False, **own: str) -> tuple[int, str]:
    """The exit code and the output."""
    log = folder / "log"
    with log.open("wb") as output:
        child = begin(["probe", *words], child_environment(**own), folder, output, own_session=own_session)
    return child.wait(60), log.read_text()


@pytest.mark.parametrize("own_session", [False, True])
def test_a_forked_child_sees_what_a_started_one_sees(program: Path, own_session: bool) -> None:
    started, forked_ = (
        json.loads(run(begin, program, "show", "ä", own_session=own_session, TZ="Asia/Kathmandu", OWN="1")[1])
        for begin in (children.start, forked.start)
    )
    for found in (started, forked_):
        assert found["parent"] == os.getpid()
        pid, expected = found.pop("pid"), os.getpgid(0)
        assert (found.pop("group"), found.pop("session")) == ((pid, pid) if own_session else (expected, os.getsid(0)))
        assert found["dies with its parent"] == signal.SIGKILL
    assert started.pop("random") != forked_.pop("random")
    assert forked_ == started
    assert (started["zone"], started["environment"]["OWN"]) == (["+0545", "+0545"], "1")


def test_forked_children_do_not_share_a_sequence_of_random_numbers(program: Path) -> None:
    first, second = (json.loads(run(forked.start, program, "show")[1])["random"] for _ in range(2))
    assert first != second


@BOTH
def test_it_ends_with_its_own_code(program: Path, begin: Begin) -> None:
    assert run(begin, program, "exit", "7") == (7, "")
    code, output = run(begin, program, "fail")
    assert code == 1
    assert output.endswith("RuntimeError: on purpose\nthe thread ends\n")


@BOTH
def test_signals_reach_it_and_nobody_else(program: Path, begin: Begin) -> None:
    for number, last in ((signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, ""), (signal.SIGKILL, "")):
        up, log = program / f"up-{number}", program / f"log-{number}"
        with log.open("wb") as output:
            child = begin(["probe", "wait", str(up)], child_environment(), program, output, own_session=True)
        asyncio.run(eventually(up.exists, what="it runs"))
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.01)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert child.poll() is None
        child.send_signal(number)
        child.send_signal(signal.SIGCONT)
        assert (child.wait(60), child.poll(), child.returncode) == (-number,) * 3
        child.kill()  # It has been reaped; its id may be another's.
        assert ("tidied up" in log.read_text()) == (number == signal.SIGINT)
        assert last in log.read_text()


def test_a_child_whose_environment_has_settings_of_python_is_started(program: Path) -> None:
    code, output = run(forked.start, program, "show", PYTHONTZPATH="/zones")
    assert (code, json.loads(output)["time zones"]) == (0, ["/zones"])


def test_a_home_that_is_not_of_the_tests_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as output, pytest.raises(AssertionError, match=r"use tests\.children"):
        forked.start(["cronflow", "node"], {"PATH": "/usr/bin"}, tmp_path, output)


def test_orphans_are_adopted_only_while_a_child_is_forked(program: Path) -> None:
    run(forked.start, program, "exit", "0")
    adopts = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(37, ctypes.byref(adopts), 0, 0, 0)
    assert adopts.value == 0
