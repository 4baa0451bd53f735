"""Makes the blocking client from that for asyncio: `python -m tests.client.generate`. A test refuses an older one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parents[2] / "cronflow" / "client"
MADE = {"blocking.py": "aio.py", "following_blocking.py": "following.py", "admin_blocking.py": "admin.py"}

_NAMES = {"aio": "blocking", "following": "following_blocking", "admin": "admin_blocking"}
_WORDS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (
        r'"""The client for asyncio\. .*?"""',
        '"""The blocking client. Made from `aio.py` by `tests.client.generate`; change that one."""',
    ),
    (
        r'"""Following over the live stream, for asyncio\. .*?\n',
        '"""Following over the live stream. Made from `following.py` by `tests.client.generate`; change that one.\n',
    ),
    (
        r'"""What admins manage, for asyncio: (.*?) `cronflow.client.admin_blocking` is\nmade from this file\.\n"""',
        r'"""What admins manage: \1 Made from `admin.py` by\n`tests.client.generate`; change that one.\n"""',
    ),
    (r"\bcronflow\.client\.(aio|following|admin)\b", lambda found: f"cronflow.client.{_NAMES[found[1]]}"),
    (r"\bwebsockets\.asyncio\.client\b", "websockets.sync.client"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\baclosing\b", "closing"),
    (r"async with asyncio\.timeout\((\w+)\):\n +text = await (\w+)\.recv\(\)", r"text = \2.recv(\1)"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncBaseTransport\b", "BaseTransport"),
    (r"\bAsyncClient\b", "Client"),
    (r"`async with`", "`with`"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\basyncio\.Lock\b", "threading.Lock"),
    (r"^import asyncio\nimport secrets\n", "import secrets\nimport threading\nimport time\n"),
    (r"^import asyncio\nimport time\n", "import time\n"),
)


def generated(name: str) -> str:
    """What that file should be."""
    text = (HERE / MADE[name]).read_text()
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE | re.DOTALL)
    return text


if __name__ == "__main__":
    for name in MADE:
        (HERE / name).write_text(generated(name))
