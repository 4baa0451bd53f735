"""Writes a ledger file: JSON lines, each of which contains the SHA-256 of the line before it.

A line is JSON in the canonical form of RFC 8785. Its values are texts, integers, booleans, nulls, lists and mappings
with ASCII keys, for which that form is: keys in order, no spaces, UTF-8, and no more escapes than JSON needs. The file
appears under its name when it is complete, and only its owner may read it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.ledger.derivation import LedgerSpan
from cronflow.ledger.reading import read_kept_from, read_ledger
from cronflow.node.resources import zone_data
from cronflow.schemas import iso, optional_iso
from cronflow.schemas.ledger import LedgerEntrySchema, LedgerExportSchema, LedgerJobSchema

if TYPE_CHECKING:
    from cronflow.ledger.reading import Cluster

FORMAT = "cronflow-ledger/1"
HEADER, JOB, ENTRY, FOOTER = "header", "job", "entry", "footer"
FLUSH_AT = 1 << 20
MOST_INTEGER = 2**53 - 1
"""The largest that every reader of JSON understands."""


async def export_ledger(
    cluster: Cluster, path: Path, asked: LedgerSpan, passed: LedgerSpan, names: Sequence[str], now: datetime
) -> LedgerExportSchema:
    """Write the ledger of `passed`, the part of the span that was `asked` for that is not in the future. `names`: only
    these jobs; empty: all. Raises InvalidInput if the file cannot be written, and NotFound.
    """
    kept_from = await read_kept_from(cluster)
    header = {
        "namespace": (await cluster.cluster.settings())["namespace"],
        "from": iso(asked.first),
        "to": iso(asked.last),
        "until": iso(passed.last),
        "jobs": sorted(set(names)) or None,
        "kept_from": optional_iso(kept_from),
        "exported_at": iso(now),
        "exported_by": await _author(cluster),
        "cronflow": version("cronflow"),
        "zone_data": zone_data(),
    }
    with LedgerWriter(path, header) as writer:
        async for found in read_ledger(cluster, passed, names, kept_from):
            writer.job(found.job)
            async for entry in found.entries:
                writer.entry(entry)
        sha256 = writer.finish()
    return {
        "file": str(path),
        "sha256": sha256,
        "entries": writer.entries,
        "lost": writer.lost,
        "doubled": writer.doubled,
    }


async def _author(cluster: Cluster) -> str:
    from cronflow.client.aio import AsyncClient

    return (await cluster.me())["name"] if isinstance(cluster, AsyncClient) else cluster.by


def canonical(value: object) -> bytes:
    """The canonical form. Raises TypeError for a value that the file must not contain."""
    _check(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(line: bytes) -> str:
    """The SHA-256 of a line without its end, in hexadecimal."""
    return hashlib.sha256(line).hexdigest()


def _check(value: object) -> None:
    match value:
        case None | bool() | str():
            return
        case int() if abs(value) <= MOST_INTEGER:
            return
        case list() | tuple():
            for item in value:
                _check(item)
        case Mapping():
            for key, item in value.items():
                if not isinstance(key, str) or not key.isascii():
                    raise TypeError(f"{key!r} is no key of a ledger")
                _check(item)
        case _:
            raise TypeError(f"{value!r} has no canonical form in a ledger")


class LedgerWriter:
    """Writes one file; a context manager. `finish` makes it appear. Without it nothing is left. Raises InvalidInput if
    the file exists or cannot be written.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self._path, self._header = path, header
        self._temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        self._previous: str | None = None
        self._lines = 0
        self._sha256 = hashlib.sha256()
        self._waiting = bytearray()
        self._file = -1
        self.entries = 0
        self.lost = 0
        self.doubled = 0

    def __enter__(self) -> Self:
        if self._path.exists():
            raise InvalidInput(Problem(str(self._path), "exists already", "choose another name"))
        try:
            self._file = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise self._failed(error) from None
        self._write(HEADER, {**self._header, "format": FORMAT})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)
        self._temporary.unlink(missing_ok=True)

    def job(self, job: LedgerJobSchema) -> None:
        """The entries that follow are of this job."""
        self._write(JOB, job)

    def entry(self, entry: LedgerEntrySchema) -> None:
        self.entries += 1
        self.lost += entry["verdict"] == "lost"
        self.doubled += entry["verdict"] == "doubled"
        self._write(ENTRY, entry)

    def finish(self) -> str:
        """Write the footer, and make the file appear. Returns the SHA-256 of the file."""
        self._write(FOOTER, {"entries": self.entries, "lost": self.lost, "doubled": self.doubled})
        try:
            self._flush()
            os.fsync(self._file)
            # Unlike a rename it fails if the file exists by now.
            os.link(self._temporary, self._path)
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._failed(error) from None
        return self._sha256.hexdigest()

    def _write(self, kind: str, fields: Mapping[str, Any]) -> None:
        line = canonical({**fields, "type": kind, "n": self._lines, "previous": self._previous})
        self._previous = digest(line)
        self._lines += 1
        self._sha256.update(line + b"\n")
        self._waiting += line + b"\n"
        if len(self._waiting) >= FLUSH_AT:
            try:
                self._flush()
            except OSError as error:
                raise self._failed(error) from None

    def _flush(self) -> None:
        while self._waiting:
            del self._waiting[: os.write(self._file, self._waiting)]

    def _failed(self, error: OSError) -> InvalidInput:
        return InvalidInput(Problem(str(self._path), f"cannot be written: {error.strerror}"))
