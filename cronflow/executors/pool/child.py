"""A handler process from the inside: runs the attempts that its node sends, and reports their lines and results.

It ends when the node asks for it or is gone. `cronflow.cli.handler_process` is the program.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson
from structlog.contextvars import bind_contextvars

from cronflow.app import App, load_app
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.run import AttemptResult
from cronflow.executors.handlers import failed
from cronflow.executors.pool.frames import FrameReader, FrameWriter, Message, frame
from cronflow.executors.pool.messages import HandlerOptions, assignment_of, result_document, valid_text
from cronflow.executors.prints import capturing_prints
from cronflow.executors.python import PythonExecutor, PythonTargets

READ_BYTES = 256 * 1024


def end_with_group() -> None:
    """End this process and every command of its handlers: the node is gone, so nobody can record their outcomes."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


def options_from(connection: socket.socket) -> HandlerOptions:
    """Wait for the first message. Raises EOFError if the node ends instead."""
    frames = FrameReader()
    while data := connection.recv(READ_BYTES):
        for kind, document in frames.feed(data):
            assert kind == "open"
            return HandlerOptions(**document)
    raise EOFError("the node has ended")


def load_apps(connection: socket.socket, options: HandlerOptions) -> list[App] | None:
    """Import the Apps, with the import path of the node. If that fails, report all problems and return None."""
    sys.path[:] = options.path
    apps: list[App] = []
    problems: list[Problem] = []
    for address in options.apps:
        try:
            apps.append(load_app(address))
        except InvalidInput as error:
            problems += error.problems
    if not problems:
        return apps
    texts = [[valid_text(text) for text in (one.place, one.what, one.remedy)] for one in problems]
    connection.sendall(frame([orjson.dumps(["refused", texts])]))
    return None


async def serve(
    connection: socket.socket,
    options: HandlerOptions,
    apps: Sequence[App],
    lost: Callable[[], None] = end_with_group,
) -> None:
    """Run attempts until the node sends `close`. `lost` is called if the node ends without it."""
    loop = asyncio.get_running_loop()
    targets = PythonTargets(apps, options.allow_python)
    async with PythonExecutor(targets, threads=options.threads, grace_s=options.grace_s) as executor:
        with capturing_prints():
            attempts = _Attempts(connection, executor, targets, lost)
            loop.add_reader(connection, attempts.read)
            try:
                attempts.writer.send("ready", sorted({ref.partition(":")[0] for app in apps for ref in app.functions}))
                await attempts.closed.wait()
            finally:
                loop.remove_reader(connection)


class _Attempts:
    """The attempts that run in this process, and the connection to the node.

    The socket blocks: a handler that writes lines faster than the node reads them waits, so that they do not pile up.
    """

    def __init__(
        self, connection: socket.socket, executor: PythonExecutor, targets: PythonTargets, lost: Callable[[], None]
    ) -> None:
        self.closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.writer = FrameWriter(self._write, self._loop)
        self._connection = connection
        self._executor = executor
        self._targets = targets
        self._lost = lost
        self._frames = FrameReader()
        self._running: dict[int, asyncio.Task[AttemptResult]] = {}
        self._resolving: set[asyncio.Task[None]] = set()

    def read(self) -> None:
        try:
            data = self._connection.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._node_gone()
            return
        for message in self._frames.feed(data):
            self._receive(message)

    def _write(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError:
            self._node_gone()

    def _node_gone(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            self._loop.remove_reader(self._connection)
            self._lost()

    def _receive(self, message: Message) -> None:
        match message:
            case ["run", number, document]:
                attempt = self._loop.create_task(self._run(number, document), name=f"run {document['run']}")
                self._running[number] = attempt
                attempt.add_done_callback(partial(self._ended, number))
            case ["cancel", number]:
                if (running := self._running.get(number)) is not None:
                    running.cancel()
            case ["resolve", number, ref]:
                question = self._loop.create_task(self._resolve(number, ref))
                self._resolving.add(question)
                question.add_done_callback(self._resolving.discard)
            case ["ping"]:
                self.writer.send("pong")
            case ["close"]:
                self.closed.set()

    async def _run(self, number: int, document: dict[str, Any]) -> AttemptResult:
        bind_contextvars(run=document["run"], job=document["job"], attempt=document["attempt"])
        return await self._executor.run(assignment_of(document), document["node"], partial(self._line, number))

    def _line(self, number: int, level: str, text: str) -> None:
        self.writer.send("line", number, level, valid_text(text))

    def _ended(self, number: int, attempt: asyncio.Task[AttemptResult]) -> None:
        # A callback, because a task that is cancelled before its first step runs none of its code.
        del self._running[number]
        if attempt.cancelled():
            self.writer.send("ended", number, None)
            return
        error = attempt.exception()
        self.writer.send("ended", number, result_document(attempt.result() if error is None else failed(error)))

    async def _resolve(self, number: int, ref: str) -> None:
        refused = None
        try:
            await asyncio.to_thread(self._targets.resolve, ref)
        except Exception as error:
            refused = result_document(failed(error))
        self.writer.send("resolved", number, refused)
