"""Forks the programs that tests start, from one process that has imported CronFlow: see `tests.forked`.

    python -m tests.fork_server <descriptor of the socket to the tests>

Each request is one message: a module, its arguments, directory and environment, with the three standard files. The
child runs the module as `python -m` would, and ends as Python ends. It is forked twice, so that the process of the
tests, the nearest subreaper, becomes its parent: it can wait for the child, and the kernel kills the child with it.
Nothing of CronFlow is changed or replaced here.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import time
from collections.abc import Sequence

import cronflow
from cronflow.operating_system import die_with_parent

REQUEST_BYTES = 1 << 17
LEFT_OUT = "cronflow.__main__"
"""runpy warns about a main module that is already imported."""


def import_everything() -> None:
    """Import CronFlow and what it uses, and keep it out of the garbage collections of the children."""
    for module in pkgutil.walk_packages(cronflow.__path__, "cronflow."):
        if module.name != LEFT_OUT:
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def serve(line: socket.socket) -> str:
    """Fork for each request until the tests have ended. Returns in the children only: the module to run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The tests end this process, also after Ctrl-C.
    while True:
        request, files, _, _ = socket.recv_fds(line, REQUEST_BYTES, 3)
        if not request:
            os._exit(0)
        between = os.fork()
        if between == 0:
            between = os.getpid()
            if os.fork():
                os._exit(0)
            return become(request, files, between, line)
        os.waitpid(between, 0)
        for file in files:
            os.close(file)


def become(request: bytes, files: Sequence[int], between: int, line: socket.socket) -> str:
    """Turn this process into the requested child, and report its id."""
    words, folder, environment, own_session, parent = json.loads(request)
    while os.getppid() == between:
        os.sched_yield()
    die_with_parent(parent)
    if own_session:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    # The first entry is the directory in which this process was started.
    sys.path[:] = [folder, *given, *(entry for entry in sys.path[1:] if entry not in given)]
    module, *arguments = words
    sys.argv = [module, *arguments]
    line.send(str(os.getpid()).encode())
    line.close()
    return str(module)


if __name__ == "__main__":
    import_everything()
    runpy.run_module(serve(socket.socket(fileno=int(sys.argv[1]))), run_name="__main__", alter_sys=True)
