"""`docs/reference/settings.md` from the settings: `python -m cronflow.config.reference`, or `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field
from typing import Any

from cronflow.attribute_docs import texts
from cronflow.config import settings
from cronflow.config.sources import OLDER, PREFIX, SECRETS_DIR, TOML

HEAD = f"""# Settings

Made from the settings by `make docs`; do not edit it. `cronflow config show` prints the value of each and where it
comes from, `cronflow config check` says all that is wrong with them.

A setting is given in one of these ways. The first one in this order counts:

| | written as | |
|---|---|---|
| flag | `--log-level debug` | where the command has one, see [the commands](cli.md) |
| environment | `{PREFIX}LOG_LEVEL=debug` | the name with `{PREFIX}` before it; an empty variable counts as unset |
| folder of secrets | a file `LOG_LEVEL` with `debug` in it | in the folder that `{PREFIX}{SECRETS_DIR}` names |
| file | `log_level = "debug"` | `{TOML}` in the working directory, or the file that `{PREFIX}CONFIG` names |
| default | | |

A name that is not known is an error, and so is a value that cannot be read: nothing that was written is passed over.
Durations are written `500ms`, `30s`, `5m`, `2h`, `1d`; lists have commas between their words.

| setting | default | |
|---|---|---|"""

_MADE = {"node_name": "the host's name and four hexadecimal digits", "spool_dir": "`~/.local/state/cronflow/spool`"}
"""In words, where the default is another one on each machine."""


def page() -> str:
    """The page. LookupError for settings that have no text below them."""
    said = {name: text for owner, name, text in texts(settings) if owner == "Settings"}
    if silent := settings.FIELDS.keys() - said.keys():
        raise LookupError(f"{', '.join(sorted(silent))}: write below the field in config/settings.py what it means")
    rows = [f"| `{name.upper()}` | {_default(one)} | {_line(said[name])} |" for name, one in settings.FIELDS.items()]
    return "\n".join([HEAD, *rows, "", *_older()])


def _default(one: Field[Any]) -> str:
    if one.default is MISSING:
        return _MADE[one.name]
    shown = settings.shown(one.default)
    return shown if shown in ("unset", "none") else f"`{shown}`"


def _older() -> Iterator[str]:
    yield from ("## Older names", "", "They are understood as well, where the new one is not given.", "")
    yield from ("| older name | setting |", "|---|---|")
    yield from (f"| `{name}` | `{setting.upper()}` |" for name, setting in OLDER.items())


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
