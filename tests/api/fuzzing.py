"""Hostile requests from a seed: NUL, broken UTF-8, deep nesting, huge keys, many keys, truncated and wrong JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

LARGEST_ANSWER = 64 * 1024
"""The largest answer to a bad request, in bytes."""
BODIES = frozenset({"post", "put", "patch"})
RAW = ("%00", "%ff%fe", "%ED%A0%80", "%F0%9F%92%A9" * 50, "..%2f..", "%0d%0aX-Evil:%201", "$where", "[]", "%01" * 2000)
SIZES = (1, 20, 1000, 30_000)


class HostileRequest(NamedTuple):
    """A request; the path has its query."""

    method: str
    path: str
    content: bytes | None


def hostile_requests(document: Mapping[str, Any], seed: int, count: int) -> Iterator[HostileRequest]:
    """The same requests for the same seed, over all operations of the OpenAPI document in turn."""
    random = Random(seed)
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/api/")
    ]
    for n in range(count):
        method, path, operation = operations[n % len(operations)]
        parameters = operation.get("parameters", ())
        for parameter in parameters:
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", _path_part(random))
        names = [parameter["name"] for parameter in parameters if parameter["in"] == "query"]
        content = None
        if method in BODIES and random.random() < 0.9:
            media = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            content = _content(random, media.get("example", {}))
        yield HostileRequest(method.upper(), path + _query(random, names), content)


def _path_part(random: Random) -> str:
    known = ("nightly-report", "rotate-keys", "node-a", "billing", "nightly-report@20261121T020000Z")
    return random.choice((*known, *known, "x" * 3000, *(part for part in RAW if "/" not in part)))


def _query(random: Random, names: list[str]) -> str:
    if random.random() < 0.5:
        return ""
    parts = []
    for _ in range(random.choice((1, 2, 3, 500))):
        name = (
            random.choice(names) if names and random.random() < 0.8 else random.choice(("page", *RAW[:3], "k" * 2000))
        )
        value = random.choice((*RAW, "", "1", "-1", "9" * 400, "true", quote("0001-01-01T00:00:00+23:59"), "x" * 500))
        parts.append(f"{name}={value}")
    return f"?{'&'.join(parts)}"[:50_000]


def _content(random: Random, example: Any) -> bytes:
    kind = random.randrange(9)
    if kind == 0:
        start, end = random.choice(((b'{"a":', b"}"), (b"[", b"]"), (b'{"run":', b"}"), (b'{"labels":{"a":', b"}}")))
        depth = random.choice((40, 250, 400, 1000, 5000))
        return start * depth + b"1" + end * depth
    if kind == 1:
        return orjson.dumps({f"{random.choice(('k', chr(0)))}{n}": n for n in range(random.choice(SIZES))})
    if kind == 2:
        return orjson.dumps({"x" * random.choice((100, 5000, 400_000)): None, "\x01" * 50_000: [1]})
    if kind == 3:
        whole = orjson.dumps(example)
        return whole[: random.randrange(len(whole) + 1)] + random.choice((b"", b"\0", b"\xff", b"}"))
    if kind == 4:
        return random.randbytes(random.choice((1, 100, 5000)))
    return orjson.dumps(_spoilt(random, example))


def _spoilt(random: Random, value: Any) -> Any:
    """The value with some of its parts replaced or added."""
    if random.random() < 0.15:
        return random.choice(
            (None, True, -1, 2**63, 1e308, "", "\0", "\x01" * 2000, "é" * 3000, "x" * 50_000, [], {}, [[]] * 2000,
             {"\0": 1}, {"$where": "1"}, [None] * 20_000, "9999-12-31T23:59:59-23:59", "*/0 * * * *")
        )  # fmt: skip
    if isinstance(value, dict):
        made = {key: _spoilt(random, item) for key, item in value.items()}
        if random.random() < 0.3:
            made[random.choice(("nmae", "a\0b", "x" * 5000, "", "__proto__"))] = random.choice((1, {}, "\0"))
        return made
    if isinstance(value, list):
        return [_spoilt(random, item) for item in value] * random.choice((1, 1, 1, 50))
    return value
