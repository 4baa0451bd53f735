"""The files of a spool: numbered segments of lines, each line with a checksum, appended and read in order.

Rules: a line is on the disk when `append` returns. What a crash leaves behind is either read, cut off and logged (a
torn tail), or moved to a `.bad` file and logged (a wrong checksum), and never dropped silently. Segments of an earlier
process are never appended to.

A lock file gives a folder to one process at a time. At the start, segments of neighbouring folders whose process is
gone are taken over, because a node with a random name does not come back for them.

All functions block; `spool` calls them in a thread.
"""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

SEGMENT_BYTES = READ_BYTES = 4 * 1024 * 1024
LOCK = "lock"
SEGMENT, ACKNOWLEDGED, BAD = ".spool", ".ack", ".bad"

log = structlog.get_logger("cronflow.node")


@dataclass(slots=True)
class Segment:
    """A file of lines: its valid bytes, how many of these are acknowledged, and the number of lines left."""

    path: Path
    size: int = 0
    done: int = 0
    lines: int = 0


class Segments:
    """The segments in a folder. Each method may raise OSError; `append` then has stored nothing.

    `lines` and `bytes` count what is not yet acknowledged.
    """

    def __init__(self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        # The thread of a cancelled caller may still be running when the next call begins.
        self._exclusive = threading.Lock()
        self._lock_fd: int | None = None
        self._file: int | None = None
        self._segments: list[Segment] = []
        self._number = 0
        self._read_to = 0
        self._read_lines = 0
        self.lines = 0
        self.bytes = 0

    # ------------------------------------------------------------------------------------------------------- lifetime

    def open(self) -> None:
        """Lock the folder and recover its segments. Raises BlockingIOError when another process holds the lock."""
        with self._exclusive:
            if self._lock_fd is not None:
                return
            lock_fd = _lock(self._folder)
            try:
                self._take_over_neighbours()
                self._segments = [segment for path in _numbered(self._folder) if (segment := _recover(path)).lines]
                self._number = max((int(path.stem) for path in self._folder.glob("[0-9]*.*")), default=0)
            except BaseException:
                os.close(lock_fd)
                raise
            self._lock_fd = lock_fd
            self._count()

    def close(self) -> None:
        """Unlock the folder; remove it if it is empty."""
        with self._exclusive:
            self._close_file()
            if self._lock_fd is None:
                return
            if not self._segments:
                _remove(self._folder)
            os.close(self._lock_fd)
            self._lock_fd = None

    # ---------------------------------------------------------------------------------------------------- the lines

    def append(self, texts: Sequence[bytes]) -> None:
        """Store these lines; they are on the disk when this returns."""
        with self._exclusive:
            segment = self._writable()
            block = b"".join(map(_framed, texts))
            assert self._file is not None
            try:
                _write(self._file, block)
                os.fsync(self._file)
            except OSError:
                # After a failed write or sync the content is unknown: cut the file where it was known.
                try:
                    os.ftruncate(self._file, segment.size)
                except OSError:
                    pass  # A reader stops at `size`; a later process may replay these lines, which is harmless.
                self._close_file()
                raise
            segment.size += len(block)
            segment.lines += len(texts)
            self._count()

    def read(self, most: int) -> list[bytes]:
        """The oldest lines: at most `most`, about READ_BYTES. Damaged lines are moved to a `.bad` file and logged."""
        with self._exclusive:
            if not self._segments:
                return []
            segment = self._segments[0]
            found: list[bytes] = []
            with segment.path.open("rb") as file:
                at = file.seek(segment.done)
                count = 0
                while count < most and at < min(segment.size, segment.done + READ_BYTES):
                    line = file.readline()
                    if not line:
                        log.error("spool segment is shorter than it was", file=str(segment.path))
                        at = segment.size
                        break
                    at += len(line)
                    count += 1
                    text = _unframed(line)
                    if text is None:
                        _set_aside(segment.path.with_suffix(BAD), line, "its checksum is wrong")
                    else:
                        found.append(text)
            self._read_to, self._read_lines = at, count
            return found

    def acknowledge(self) -> None:
        """Acknowledge what `read` returned last. A fully acknowledged segment is removed."""
        with self._exclusive:
            if not self._segments:
                return
            segment = self._segments[0]
            segment.done = max(segment.done, self._read_to)
            segment.lines = max(0, segment.lines - self._read_lines)
            self._read_to = self._read_lines = 0
            if segment.done < segment.size:
                mark = segment.path.with_suffix(ACKNOWLEDGED)
                # A fixed length, so that each mark overwrites the last. Not synced: a replay is harmless.
                mark.write_bytes(b"%020d" % segment.done)
            else:
                if len(self._segments) == 1:
                    self._close_file()
                del self._segments[0]
                _discard(segment.path)
            self._count()

    def set_aside(self, text: bytes, why: str) -> None:
        """Move a line to a `.bad` file, for people to look at."""
        with self._exclusive:
            _set_aside(self._folder / f"{self._number:08d}{BAD}", _framed(text), why)

    # -------------------------------------------------------------------------------------------------- the files

    def _writable(self) -> Segment:
        if self._file is not None and self._segments[-1].size >= self._segment_bytes:
            self._close_file()
        if self._file is None:
            self._number += 1
            path = self._folder / f"{self._number:08d}{SEGMENT}"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            self._segments.append(Segment(path))
            self._file = file
            try:
                _sync_folder(self._folder)
            except OSError:
                self._close_file()
                raise
        return self._segments[-1]

    def _count(self) -> None:
        self.lines = sum(segment.lines for segment in self._segments)
        self.bytes = sum(segment.size - segment.done for segment in self._segments)

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
            if self._segments and not self._segments[-1].size:
                _discard(self._segments.pop().path)

    def _take_over_neighbours(self) -> None:
        for neighbour in sorted(self._folder.parent.iterdir()):
            if neighbour == self._folder or not (neighbour / LOCK).exists():
                continue
            try:
                lock_fd = _lock(neighbour)
            except OSError:
                continue  # its process is alive
            try:
                self._take_over(neighbour)
                _remove(neighbour)
            finally:
                os.close(lock_fd)

    def _take_over(self, neighbour: Path) -> None:
        number = max((int(path.stem) for path in self._folder.glob("[0-9]*.*")), default=0)
        for stem in sorted({path.stem for path in neighbour.glob("[0-9]*.*")}):
            number += 1
            # The segment comes last: without its mark it would be replayed from the beginning.
            for suffix in (BAD, ACKNOWLEDGED, SEGMENT):
                path = neighbour / f"{stem}{suffix}"
                if path.exists():
                    path.rename(self._folder / f"{number:08d}{suffix}")
            log.warning("spool taken over", of=neighbour.name, segment=f"{number:08d}")
        _sync_folder(self._folder)


# ------------------------------------------------------------------------------------------------------------ helpers


def _framed(text: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _unframed(line: bytes) -> bytes | None:
    """The text of a line, or None when it is damaged. A missing newline alone is not damage."""
    text = line[9:].removesuffix(b"\n")
    return text if line[:9] == b"%08x " % zlib.crc32(text) and text else None


def _write(file: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(file, rest) :]


def _recover(path: Path) -> Segment:
    """Recover a segment of an earlier process: cut off a torn tail, read its mark and count its lines."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    tail = content[whole:]
    if tail:
        with path.open("r+b") as file:
            if _unframed(tail) is not None:
                file.seek(0, os.SEEK_END)
                file.write(b"\n")
                content += b"\n"
            else:
                # The process died while it wrote this line, so `append` never returned and the run kept its slot.
                log.warning("spool tail cut off", file=str(path), bytes=len(tail))
                file.truncate(whole)
                content = content[:whole]
            file.flush()
            os.fsync(file.fileno())
    done = _mark(path, content)
    lines = content.count(b"\n", done)
    if not lines:
        _discard(path)
    return Segment(path, len(content), done, lines)


def _mark(path: Path, content: bytes) -> int:
    try:
        done = int(path.with_suffix(ACKNOWLEDGED).read_bytes())
    except (FileNotFoundError, ValueError):
        return 0
    # A mark damaged by a power failure would hide outcomes; replaying some twice is harmless.
    return done if 0 < done <= len(content) and content[done - 1 : done] == b"\n" else 0


def _numbered(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob(f"[0-9]*{SEGMENT}"))


def _set_aside(path: Path, line: bytes, why: str) -> None:
    with path.open("ab") as file:
        file.write(line if line.endswith(b"\n") else line + b"\n")
        file.flush()
        os.fsync(file.fileno())
    log.error("spool record set aside", file=str(path), reason=why)


def _discard(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(ACKNOWLEDGED).unlink(missing_ok=True)


def _lock(folder: Path) -> int:
    """Create the folder if needed and lock it. Returns the descriptor of the lock. Raises BlockingIOError."""
    while True:
        # `mkdir` with `parents` would give the mode only to the last one; these are the spool, the namespace, the node.
        for one in (folder.parent.parent, folder.parent, folder):
            one.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            found = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue  # its last owner has just removed it
        try:
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A lock on a file that was removed meanwhile locks nothing.
            if (folder / LOCK).stat().st_ino == os.fstat(found).st_ino:
                return found
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(found)
            raise
        os.close(found)


def _remove(folder: Path) -> None:
    """Remove a locked folder that contains only the lock file."""
    if {path.name for path in folder.iterdir()} == {LOCK}:
        (folder / LOCK).unlink()
        folder.rmdir()


def _sync_folder(folder: Path) -> None:
    found = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(found)
    finally:
        os.close(found)
