"""Which server wrote the data in a folder.

An older or another server may be unable to read it: when Debian's Redis is installed, it comes before the embedded one
on PATH, and cannot open the files of that. So a folder remembers its server.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Writer:
    """The program and its version."""

    path: Path
    version: str

    def __str__(self) -> str:
        return f"{self.path.name} {self.version} ({self.path})"

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """None if the folder has no data, or data of a CronFlow that did not remember the server."""
        try:
            content = json.loads(file.read_text("utf-8"))
            return cls(Path(content["path"]), str(content["version"]))
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def as_json(self) -> str:
        """The text of the file."""
        return json.dumps({"path": str(self.path), "version": self.version}) + "\n"
