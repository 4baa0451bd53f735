"""Generates the blocking client from the one for asyncio: `python -m tools.blocking_client`, or `make client`.

`unasync` renames tokens; PHRASES are the few expressions that differ in more than one token, and the words of
docstrings. ruff then sorts the imports and formats the file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import unasync

CLIENT = Path(__file__).parents[1] / "cronflow" / "client"
SOURCES: Mapping[str, str] = {
    "blocking.py": "aio.py",
    "following_blocking.py": "following.py",
    "admin_blocking.py": "admin.py",
}
"""Each generated file and its source."""

TOKENS = {"AsyncBaseTransport": "BaseTransport", "aclose": "close", "aclosing": "closing"}
TOKENS |= {Path(source).stem: Path(made).stem for made, source in SOURCES.items()}
PHRASES: Mapping[str, str] = {
    "import asyncio\n": "import threading\nimport time\n",
    "asyncio.sleep": "time.sleep",
    "asyncio.Lock": "threading.Lock",
    "websockets.asyncio.client": "websockets.sync.client",
    "AsyncClient": "Client",
    "`async with`": "`with`",
    "`aclose`": "`close`",
    "`aclosing`": "`closing`",
}
RECEIVE = re.compile(r"async with asyncio\.timeout\((\w+)\):\n +text = await (\w+)\.recv\(\)")
"""The one statement of another form: the blocking `recv` takes the timeout itself."""
RUFF = (sys.executable, "-m", "ruff")


def generated(name: str) -> str:
    """The content that this file should have."""
    source = SOURCES[name]
    text = RECEIVE.sub(r"text = \2.recv(\1)", (CLIENT / source).read_text("utf-8"))
    text = re.sub(r'\A"""[^"\n]*', f'"""Generated from `{source}` by `make client`; edit that file.', text)
    for phrase, replacement in PHRASES.items():
        text = text.replace(phrase, replacement)
    with TemporaryDirectory() as folder:
        read, written = Path(folder, "aio", source), Path(folder, "blocking", source)
        read.parent.mkdir()
        read.write_text(text, "utf-8")
        unasync.unasync_files([str(read)], [unasync.Rule("/aio/", "/blocking/", TOKENS)])
        text = written.read_text("utf-8")
    for step in (("check", "--fix", "--select", "F401,I"), ("format",)):
        command = [*RUFF, *step, "--quiet", "--stdin-filename", str(CLIENT / name), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    for name in SOURCES:
        (CLIENT / name).write_text(generated(name), "utf-8")
