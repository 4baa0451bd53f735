"""Makes `blocking.py` from `aio.py`: `python -m tests.client.generate`. A test refuses an older one."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parents[2] / "cronflow" / "client"
SOURCE, TARGET = HERE / "aio.py", HERE / "blocking.py"

_WORDS = (
    (
        r'"""The client for asyncio\. .*?"""',
        '"""The blocking client. Made from `aio.py` by `tests.client.generate`; change that one."""',
    ),
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
)


def generated() -> str:
    """What `blocking.py` should be."""
    text = SOURCE.read_text()
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE | re.DOTALL)
    return text


if __name__ == "__main__":
    TARGET.write_text(generated())
