"""A `cronflow` program for the blocks of the documentation, without a terminal and without fixed ports.

One process imports CronFlow and forks for each command, because starting Python and importing the drivers takes far
longer than most commands. It answers prompts, replaces ports, runs `cronflow dev` in memory, shows only the help of
`cronflow chaos`, and sends Ctrl-C to commands that never end, once they have printed something. Otherwise commands run
unchanged.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import cronflow
from cronflow.operating_system import die_with_parent
from cronflow.testing.embedded.server import free_port

PASSWORD = "only-for-this-test"
SIGNING = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
QUIET_S = 2.0
"""How long to wait for the first output of a follower before Ctrl-C; perhaps nothing happens."""
START_S = 60.0
"""The same for commands that serve."""

CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({path!r})
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(line, [len(request).to_bytes(4, "big")], [0, 1, 2])
    line.sendall(request)
    sys.exit(int(line.recv(16) or 70))
"""
"""The program on the PATH: it sends its arguments, environment and files to the server, and waits for the exit code."""


def runs_until_interrupted(words: list[str]) -> bool:
    """Whether the command runs until Ctrl-C."""
    match words:
        case ["node" | "api", *_] | [_, "watch", *_]:
            return True
        case ["watcher", *rest]:
            return "--once" not in rest
        case ["logs", *rest] | ["cluster", "events", *rest]:
            return "-f" in rest
    return False


def adapted(words: list[str]) -> tuple[list[str], str | None]:
    """The arguments to use instead, and the input to type."""
    match words:
        case ["login", *rest] if not any(word.endswith("-stdin") or word == "--sso" for word in rest):
            return [*words, "--password-stdin"], PASSWORD
        case ["login" | "users", *_]:
            return words, PASSWORD
        case ["secrets", "set", *_]:
            return words, SIGNING
        case ["runs", "retry" | "ack", first, *_] if first.startswith("--") and "--yes" not in words:
            return [*words, "--yes"], None
        case ["api", *_]:
            os.environ.setdefault("CRONFLOW_JWT_SECRET", "of-thirty-two-bytes-or-some-more")
            if "CRONFLOW_ADMIN_PASSWORD_FILE" not in os.environ:
                os.environ["CRONFLOW_ADMIN_PASSWORD"] = PASSWORD
            return [*words, "--port", "0"], None
        case ["chaos", *_]:
            # Its options are read, and no cluster is broken.
            return [*words, "--help"], None
        case ["dev", *rest]:
            return [
                "dev",
                *(re.sub(r"^\d+s$", "2s", word) for word in rest),
                "--memory",
                "--port",
                str(free_port()),
            ], None
    return words, None


def serve(path: str) -> NoReturn:
    """Accept commands until this process is stopped."""
    for module in pkgutil.walk_packages(cronflow.__path__, "cronflow."):
        importlib.import_module(module.name)
    importlib.import_module("rich.progress")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    server = os.getpid()
    while True:
        line, _ = listening.accept()
        with line:
            if os.fork() == 0:
                die_with_parent(server)
                listening.close()
                execute(line)


def execute(line: socket.socket) -> NoReturn:
    """In a forked process: run the requested command and send its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, _, _ = socket.recv_fds(line, 4, 3)
    request = b""
    while len(request) < int.from_bytes(size, "big"):
        request += line.recv(1 << 20)
    words, folder, environment = json.loads(request)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    streams_on_these_files()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, folder)
    words, typed = adapted(words)
    if typed is not None and Path("/dev/fd/0").samefile("/dev/null"):
        reading, writing = os.pipe()
        os.write(writing, f"{typed}\n".encode())
        os.close(writing)
        os.dup2(reading, 0)
    code = until_first_output(words) if runs_until_interrupted(words) else command(words)
    line.sendall(str(code).encode())
    os._exit(0)


def streams_on_these_files() -> None:
    """Reopen Python's streams on the files that were received."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        setattr(sys, name, os.fdopen(number, mode, closefd=False))


def command(words: list[str]) -> int:
    from cronflow.cli.main import main

    sys.argv = ["cronflow", *words]
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 1


def until_first_output(words: list[str]) -> int:
    """Run the command in a child process until it prints something, then send Ctrl-C. 0 if it exits cleanly."""
    reading, writing = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        die_with_parent(parent)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        streams_on_these_files()
        os._exit(command(words))
    os.close(writing)
    select.select([reading], [], [], START_S if words[0] in ("node", "api", "watcher") else QUIET_S)
    os.kill(child, signal.SIGINT)
    with os.fdopen(reading, "rb") as output:
        text = output.read().decode()
    os.write(1, text.encode())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 0 if code in (0, 130, -signal.SIGINT) and "Traceback" not in text else code or 1


if __name__ == "__main__":
    serve(sys.argv[1])
