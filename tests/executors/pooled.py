"""An App whose functions run in handler processes. They leave notes in files, because they share no memory with a
test.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from cronflow import App, Context
from tests.executors.endings import end

app = App("pooled")


@app.job()
async def tells_from_a_loop(ctx: Context, region: str = "eu") -> dict[str, object]:
    return {"pid": os.getpid(), "run": ctx.run_id, "fence": ctx.fence, "node": ctx.node, "region": region}


@app.job()
def tells_from_a_thread(ctx: Context) -> dict[str, object]:
    return {"pid": os.getpid(), "attempt": ctx.attempt, "fire_at": ctx.fire_at, "key": ctx.idempotency_key}


@app.job()
def tells_its_shard(ctx: Context) -> list[int] | None:
    return None if ctx.shard is None else [ctx.shard.index, ctx.shard.total]


@app.job(process=True)
def tells_from_a_child() -> list[int]:
    return [os.getpid(), os.getppid()]


@app.job()
def chatters(ctx: Context, word: str, lines: int) -> None:
    for n in range(lines):
        print(word, n)
        ctx.log.warning(word, n=n)
        time.sleep(0)
    for _ in ctx.progress([word]):
        ctx.heartbeat()


@app.job()
async def floods(ctx: Context, lines: int) -> None:
    for n in range(lines):
        ctx.log.info("line", n=n, text="x" * 200)


@app.job()
def writes_what_json_cannot() -> str:
    print("half a pair: \ud800")
    raise ValueError("\udfff")


@app.job()
def logs() -> None:
    logging.getLogger("shop").warning("sold out")


@app.job()
async def returns(value: object = None, size: int = 0) -> object:
    return "x" * size if size else value


@app.job()
def returns_a_set() -> set[int]:
    return {1, 2}


@app.job()
def ends(how: str) -> None:
    end(how)


@app.job()
async def dies(how: str) -> None:
    match how:
        case "exit":
            os._exit(4)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "disconnect":
            os.close(int(sys.argv[1]))
            await asyncio.sleep(300)
        case "garbage":
            os.write(int(sys.argv[1]), b"\xff" * 16)
            await asyncio.sleep(300)


def leave(note: str, text: str) -> None:
    """Write with one call to a new file, so that a test never reads half of it."""
    Path(f"{note}.new").write_text(text)
    Path(f"{note}.new").rename(note)


@app.job()
async def waits(note: str, until: str = "") -> str:
    leave(note, str(os.getpid()))
    try:
        while not until or not os.path.exists(until):  # noqa: ASYNC240, PTH110
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        leave(note, "cleaned up")
        raise
    return "done"


@app.job()
def looks(ctx: Context, note: str) -> str:
    leave(note, str(os.getpid()))
    while not ctx.cancelled:
        time.sleep(0.01)
    leave(note, "saw it")
    return "stopped"


@app.job()
def holds_the_lock(note: str, seconds: int, command: bool = False) -> None:
    """Hold the interpreter lock in a C function, so that no other thread of the process runs."""
    pids = [os.getpid()]
    if command:
        pids.append(subprocess.Popen(["sleep", "300"]).pid)
    leave(note, " ".join(map(str, pids)))
    ctypes.PyDLL(None).sleep(seconds)


@app.job()
async def dies_but_leaves_a_daemon(note: str) -> None:
    """The daemon is outside the process group and has the connection open."""
    if os.fork():
        await asyncio.sleep(300)
    os.setsid()
    leave(note, str(os.getpid()))
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(300)  # noqa: ASYNC251


@app.job()
def starts_a_command(script: str) -> int:
    return subprocess.run(["/bin/sh", "-c", script], check=False).returncode


@app.job()
def names_its_environment() -> list[str]:
    return [name for name in os.environ if name.startswith(("CRONFLOW_", "SHOP_"))]


@app.job()
def passes_its_connection_on() -> bool:
    return os.get_inheritable(int(sys.argv[1]))


@app.job()
def shows_its_memory() -> bool:
    return "PATH" in Path("/proc/self/environ").read_text()


@app.job()
def leaves_at_exit(note: str) -> None:
    atexit.register(Path(note).write_text, "left in order")


@app.job()
def leaves_a_thread(note: str) -> None:
    leave(note, str(os.getpid()))
    threading.Thread(target=time.sleep, args=(300,)).start()
