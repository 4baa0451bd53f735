"""Verifies a ledger file without a cluster, and finds the first line that is wrong.

Two things are checked line by line: the chain of hashes, which any change breaks that does not rewrite everything after
it; and the content, that each instant which the schedules in the file have is followed by exactly one entry. Who
rewrites the file to its end can make both right, so only a hash that was noted down elsewhere proves that nobody did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.run import fire_of
from cronflow.ledger.derivation import DueInstant, LedgerSpan, LedgerVersion, due_instants, read_version
from cronflow.ledger.export import FORMAT, HEADER, canonical, digest
from cronflow.ledger.judging import UNDERIVED
from cronflow.schemas import iso
from cronflow.schemas.ledger import LedgerCheckSchema, LedgerFlawSchema

How = Literal["changed", "removed", "inserted", "reordered", "truncated", "replaced", "unreadable"]


class LedgerFlaw(Exception):
    """The first line that is wrong, how and why."""

    def __init__(self, line: int | None, how: How, what: str) -> None:
        super().__init__(what)
        self.line, self.how, self.what = line, how, what

    def schema(self) -> LedgerFlawSchema:
        return {"line": self.line, "how": self.how, "what": self.what}


def verify_ledger(path: Path, expected: str | None = None) -> LedgerCheckSchema:
    """Check a file. `expected` is the SHA-256 that was noted down when it was exported. Raises InvalidInput if the file
    cannot be read, or is no ledger of this format.
    """
    found = _Verification(path)
    flaw: LedgerFlaw | None = None
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                found.add(number, line)
        found.finish()
    except OSError as error:
        raise InvalidInput(Problem(str(path), f"cannot be read: {error.strerror}")) from None
    except LedgerFlaw as error:
        flaw = error
    sha256 = _sha256(path)
    if flaw is None and expected is not None and sha256 != expected.lower():
        flaw = LedgerFlaw(
            None, "replaced", f"the file is whole, but its SHA-256 is {sha256} and not {expected.lower()}"
        )
    checked: LedgerCheckSchema = {
        "file": str(path),
        "whole": flaw is None,
        "sha256": sha256,
        "entries": found.entries,
        "lost": found.verdicts["lost"],
        "doubled": found.verdicts["doubled"],
        "flaw": None if flaw is None else flaw.schema(),
    }
    if found.header is not None:
        checked["header"] = found.header
    return checked


class _Verification:
    """The lines of a file, one after the other. Every method raises LedgerFlaw."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._previous: str | None = None
        self._content = _Content()
        self._ended = False
        self._lines = 0
        self.header: dict[str, Any] | None = None
        self.entries = 0
        self.verdicts = {"lost": 0, "doubled": 0}

    def add(self, number: int, line: bytes) -> None:
        if self._ended:
            raise LedgerFlaw(number, "inserted", "it comes after the footer")
        if not line.endswith(b"\n"):
            raise LedgerFlaw(number, "truncated", "the file ends within this line")
        text = line[:-1]
        fields = _parsed(number, text)
        if fields.get("previous") != self._previous or fields.get("n") != self._lines:
            raise diagnose(self._path, number, self._previous, fields)
        self._check(number, fields)
        self._previous = digest(text)
        self._lines += 1

    def finish(self) -> None:
        if not self._ended:
            raise LedgerFlaw(self._lines + 1, "truncated", "the file ends without its footer")

    def _check(self, number: int, fields: Mapping[str, Any]) -> None:
        kind = fields.get("type")
        if (kind == HEADER) != (number == 1):
            raise LedgerFlaw(number, "inserted", "a header can only be the first line")
        try:
            match kind:
                case "header":
                    if fields["format"] != FORMAT:
                        what = f"has the format {fields['format']}, and this CronFlow reads {FORMAT}"
                        raise InvalidInput(Problem(str(self._path), what, "verify it with the CronFlow that wrote it"))
                    self.header = {key: fields[key] for key in fields if key not in ("type", "n", "previous")}
                    self._content.span = LedgerSpan(_instant(fields["from"]), _instant(fields["until"]))
                case "job":
                    self._content.job(number, fields)
                case "entry":
                    self._content.entry(number, fields)
                    self.entries += 1
                    if fields["verdict"] in self.verdicts:
                        self.verdicts[fields["verdict"]] += 1
                case "footer":
                    self._content.end(number)
                    counts = {"entries": self.entries, **self.verdicts}
                    if any(fields[key] != count for key, count in counts.items()):
                        raise LedgerFlaw(number, "changed", f"the file has {counts}, and the footer has other numbers")
                    self._ended = True
                case _:
                    raise LedgerFlaw(number, "inserted", f"{kind!r} is no kind of line")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LedgerFlaw(number, "changed", f"a field is missing or wrong: {error}") from None


class _Content:
    """Whether each instant that is due has its entry."""

    def __init__(self) -> None:
        self.span: LedgerSpan | None = None
        self._job: str | None = None
        self._versions: dict[int, LedgerVersion] = {}
        self._due: Iterator[DueInstant] = iter(())
        self._next: DueInstant | None = None
        self._last: datetime | None = None

    def job(self, number: int, fields: Mapping[str, Any]) -> None:
        self.end(number)
        name = fields["job"]
        if self._job is not None and name <= self._job:
            raise LedgerFlaw(number, "reordered", f"{name} comes after {self._job}")
        try:
            versions = [read_version(name, version) for version in fields["versions"]]
        except InvalidInput as error:
            raise LedgerFlaw(number, "changed", f"a schedule of {name} cannot be read: {error}") from None
        assert self.span is not None
        self._job, self._versions, self._last = name, {one.number: one for one in versions}, None
        self._due = due_instants(versions, self.span)
        self._next = next(self._due, None)

    def entry(self, number: int, fields: Mapping[str, Any]) -> None:
        at = _instant(fields["instant"])
        where = f"{fields['job']} at {fields['instant']}"
        if fields["job"] != self._job:
            raise LedgerFlaw(number, "reordered", f"an entry of {fields['job']} is among those of {self._job}")
        if self._last is not None and at < self._last:
            raise LedgerFlaw(number, "reordered", f"{where} comes after {iso(self._last)}")
        due = self._next
        if due is not None and due.at < at:
            raise self._lacks(number, due)
        is_due = due is not None and due.at == at
        if is_due and fields["verdict"] not in UNDERIVED:
            self._due_entry(number, where, fields)
            self._next = next(self._due, None)
        elif is_due:
            raise LedgerFlaw(number, "changed", f"{where} was due, and the verdict is {fields['verdict']}")
        elif fields["verdict"] not in UNDERIVED:
            how: How = "inserted"
            raise LedgerFlaw(number, how, f"{where} has a second entry" if at == self._last else f"{where} was not due")
        self._last = at

    def _due_entry(self, number: int, where: str, fields: Mapping[str, Any]) -> None:
        assert self._next is not None
        version = self._versions[self._next.version]
        if (fields["version"], fields["schedule"]) != (version.number, version.text):
            raise LedgerFlaw(number, "changed", f"{where} was due under version {version.number}: {version.text}")
        without = fields["verdict"] in ("lost", "waiting", "not_judged")
        if without != (fields["run"] is None) or (fields["run"] is not None and not _covers(fields)):
            raise LedgerFlaw(number, "changed", f"{where} is {fields['verdict']}, and its run is {fields['run']}")

    def end(self, number: int) -> None:
        if self._next is not None:
            raise self._lacks(number, self._next)

    def _lacks(self, number: int, due: DueInstant) -> LedgerFlaw:
        what = f"{self._job} was due at {iso(due.at)}, and has no entry before this line"
        return LedgerFlaw(number, "removed", what)


def _covers(fields: Mapping[str, Any]) -> bool:
    """Whether the run of the entry stands for its instant."""
    covers, at = fields["covers"], _instant(fields["instant"])
    if covers is None:
        return fire_of(fields["run"]) == at
    return _instant(covers["first"]) <= at <= _instant(covers["last"])


def diagnose(path: Path, number: int, previous: str | None, fields: Mapping[str, Any]) -> LedgerFlaw:
    """What happened where a line does not continue the chain: `previous` is the hash of the line before it. Reads the
    whole file again.
    """
    link, hashes = fields.get("previous"), _chain(path)
    target: int | None = None
    successor: int | None = None
    following: _Link | None = None
    own = ""
    for one in hashes:
        if one.hash == link and one.line != number:
            target = one.line
        if one.line > number and one.previous == previous and successor is None:
            successor = one.line
        if one.line == number:
            own = one.hash
        if one.line == number + 1:
            following = one
    if number == 1:
        return LedgerFlaw(1, "removed", "the file does not begin with its header")
    if target is not None and target > number:
        return LedgerFlaw(number, "reordered", f"it belongs after line {target}")
    if successor is not None:
        return LedgerFlaw(number, "inserted", f"line {successor} belongs after line {number - 1}")
    if target is not None:
        return LedgerFlaw(target + 1, "inserted", f"line {number} belongs after line {target}")
    count = fields.get("n")
    if isinstance(count, int) and count > number - 1:
        return LedgerFlaw(number, "removed", f"{count - number + 1} of the lines before it are missing")
    if following is not None and following.previous != own:
        return LedgerFlaw(number, "changed", "neither the line before it nor the one after it fits its content")
    return LedgerFlaw(number - 1, "changed", f"its hash is not the one that line {number} contains")


class _Link(NamedTuple):
    """A line's place in the chain. A line that cannot be read has no `previous`."""

    line: int
    hash: str
    previous: object


def _chain(path: Path) -> Iterator[_Link]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line.removesuffix(b"\n")
            try:
                fields = orjson.loads(text)
            except orjson.JSONDecodeError:
                fields = None
            yield _Link(number, digest(text), fields.get("previous") if isinstance(fields, dict) else "")


def _parsed(number: int, text: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(text)
        if isinstance(fields, dict) and canonical(fields) == text:
            return fields
    except (orjson.JSONDecodeError, TypeError):
        pass  # Reported with the same words.
    if number == 1:
        raise LedgerFlaw(1, "unreadable", "it is not the header of a ledger file")
    raise LedgerFlaw(number, "changed", "it is not an object of JSON in the canonical form")


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
