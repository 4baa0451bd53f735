"""Generates `docs/reference/settings.md` from the settings: `python -m tools.docs.settings`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import Field
from typing import Any

from cronflow.api.field_docs import texts
from cronflow.config import settings
from cronflow.config.sources import OLDER, PREFIX, SECRETS_DIR, TOML

HEAD = f"""# Settings

Generated from the settings by `make docs`; do not edit it. `cronflow config show` prints the value of each setting and
its source; `cronflow config check` reports every problem.

A setting comes from one of these sources; the first in this order wins:

| | written as | |
|---|---|---|
| flag | `--log-level debug` | where the command has one, see [the commands](cli.md) |
| environment | `{PREFIX}LOG_LEVEL=debug` | the name prefixed with `{PREFIX}`; an empty variable counts as unset |
| folder of secrets | a file `LOG_LEVEL` that contains `debug` | in the folder that `{PREFIX}{SECRETS_DIR}` names |
| file | `log_level = "debug"` | `{TOML}` in the working directory, or the file that `{PREFIX}CONFIG` names |
| default | | |

An unknown name is an error, and so is a value that cannot be parsed. Durations are written `500ms`, `30s`, `5m`, `2h`,
`1d`; lists are separated by commas.

| setting | default | |
|---|---|---|"""

_MADE = {
    "node_name": "the host name and four hexadecimal digits",
    "spool_dir": "`~/.local/state/cronflow/spool`",
    "leader_renew": "`15s`, at most half of `LEADER_TTL`",
    "heartbeat": "`5s`, at most a third of `NODE_TTL`",
}
"""Defaults that differ from machine to machine, or depend on another setting."""


def page() -> str:
    """The page. Raises LookupError when a setting is not documented."""
    documented = {name: text for owner, name, text in texts(settings) if owner == "Settings"}
    if missing := settings.FIELDS.keys() - documented.keys():
        raise LookupError(f"{', '.join(sorted(missing))}: add a docstring to the field in config/settings.py")
    rows = [
        f"| `{name.upper()}` | {_default(one)} | {_line(documented[name])} |" for name, one in settings.FIELDS.items()
    ]
    return "\n".join([HEAD, *rows, "", *_older()])


def _default(one: Field[Any]) -> str:
    if one.name in _MADE:
        return _MADE[one.name]
    shown = settings.shown(one.default)
    return shown if shown in ("unset", "none") else f"`{shown}`"


def _older() -> Iterator[str]:
    yield from ("## Older names", "", "Older names are accepted too, unless the new one is set.", "")
    yield from ("| older name | setting |", "|---|---|")
    yield from (f"| `{name}` | `{setting.upper()}` |" for name, setting in OLDER.items())


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
