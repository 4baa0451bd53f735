"""Reads settings from flags, the environment, a secrets folder and a TOML file, and decides which value wins.

No CronFlow setting is ignored silently. An unknown name is a problem that suggests the nearest known name; a known name
without effect becomes a note. All problems are reported at once, each with the place of the value.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cronflow.config.settings import FIELDS, Settings
from cronflow.documents import nearest
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem

PREFIX = "CRONFLOW_"
TOML = "cronflow.toml"
SECRETS_DIR = "SECRETS_DIR"
LARGEST = 64 * 1024

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
OLDER = {
    "CRON_MAX_RETRIES": "retry_max",
    "CRON_RETRY_DELAY_MS": "retry_initial",
    "CRON_RETRY_DELAY_MULTIPLIER": "retry_multiplier",
    "DB_URL": "mongo_url",
    "SIMULATE_FAILURE": "simulate_failure",
}
_FLAGS = {"node_name": "--name", "labels": "--label"}
"""Flags whose name differs from the setting."""
_NO_SETTINGS = frozenset(
    {
        "ATTEMPT",
        "CONFIG",
        "CHAIN_ID",
        "FENCE",
        "FIRE_AT",
        "IDEMPOTENCY_KEY",
        "JOB",
        "RUN_ID",
        "SHARD_INDEX",
        "SHARD_TOTAL",
        SECRETS_DIR,
        "TEST_MONGO_URL",
        "TEST_REDIS_URL",
    }
)
"""Prefixed names that are not settings: where to look, test options, and variables that jobs receive."""
_LATER = {
    "SCHEDULER_NODE": "every node can lead",
}
"""Reserved names, and what this version does instead. They are refused, because they would have no effect."""


def load_settings(
    overrides: Mapping[str, object], *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """Load the settings of this process. `overrides` are flags by lower-case setting name; None means not given.

    `environ` and `folder` default to the process's environment and working directory. Empty variables count as unset.
    Raises InvalidInput with all problems, and TypeError for a flag that is not a setting.
    """
    loading = _Loading(os.environ if environ is None else environ, Path.cwd() if folder is None else folder)
    return loading.load(overrides)


def remove_settings(environ: MutableMapping[str, str]) -> None:
    """Remove all settings from an environment, once they are read: jobs and other children must not inherit keys and
    passwords.
    """
    for variable in list(environ):
        word = variable.removeprefix(PREFIX)
        # An application may have a DB_URL of its own.
        older = variable == "DB_URL" and environ[variable].startswith("mongodb")
        if older or (word != variable and (word.lower() in FIELDS or word == SECRETS_DIR)):
            del environ[variable]


@dataclass(frozen=True, slots=True)
class _Value:
    """A raw value, the name of its source, and its place for error messages."""

    raw: object
    source: str
    place: str


_Layer = dict[str, _Value]


class _Loading:
    """One load of the settings, which collects all problems."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._environ, self._folder = environ, folder
        self._problems: list[Problem] = []
        self._notes: list[str] = []

    def load(self, overrides: Mapping[str, object]) -> Settings:
        chosen: _Layer = {}
        for layer in reversed([_flags(overrides), self._environment(), self._secrets(), self._toml()]):
            chosen.update(layer)
        read: dict[str, Any] = {}
        for name, value in chosen.items():
            try:
                read[name] = FIELDS[name].metadata["read"](value.raw)
            except InvalidInput as error:
                self._problems += (Problem(value.place, one.what, one.remedy) for one in error.problems)
        settings = Settings(
            **read,
            sources={name: value.source for name, value in chosen.items()},
            notes=tuple(self._notes),
        )
        self._check_pair(settings, chosen, read, "leader_renew", "leader_ttl", "at most", strict=False)
        self._check_pair(settings, chosen, read, "heartbeat", "node_ttl", "less than", strict=True)
        if self._problems:
            raise InvalidInput(self._problems)
        return settings

    def _check_pair(
        self,
        settings: Settings,
        chosen: _Layer,
        read: Mapping[str, object],
        step: str,
        ttl: str,
        bound: str,
        *,
        strict: bool,
    ) -> None:
        """Check intervals that must fit twice into another one."""
        unread = chosen.keys() - read.keys()
        if unread & {step, ttl}:
            return
        short, long = getattr(settings, step), getattr(settings, ttl)
        if 2 * short < long or (2 * short == long and not strict):
            return
        what = f"{step.upper()} is {format_duration(short)} and {ttl.upper()} is {format_duration(long)}"
        remedy = f"{step.upper()} must be {bound} half of {ttl.upper()}, {format_duration(long / 2)}"
        # By default they fit.
        self._problems.append(Problem(chosen[step].place, what, remedy))

    def _environment(self) -> _Layer:
        layer: _Layer = {}
        for variable, raw in self._environ.items():
            word = variable.removeprefix(PREFIX)
            if word == variable or not raw.strip() or word in _NO_SETTINGS:
                continue
            if word.lower() in FIELDS and word.isupper():
                layer[word.lower()] = _Value(raw, f"environment {variable}", variable)
            else:
                self._not_known(variable, word.upper(), PREFIX)
        for variable in OLDER:
            self._older(layer, variable, self._environ.get(variable, ""), f"environment {variable}", variable)
        if self._environ.get("SCHEDULER_NODE"):
            self._not_known("SCHEDULER_NODE", "SCHEDULER_NODE", "")
        return layer

    def _older(self, layer: _Layer, variable: str, raw: str, source: str, place: str) -> None:
        name = OLDER[variable]
        if not raw.strip():
            return
        if name in layer:
            self._notes.append(f"{place} has no effect: {layer[name].place} is set too")
        elif variable == "DB_URL" and not raw.startswith("mongodb"):
            self._notes.append(f"{place} has no effect: it is not the address of a MongoDB server")
        else:
            in_ms = variable.endswith("_MS") and _NUMBER.fullmatch(raw.strip())
            layer[name] = _Value(f"{raw.strip()}ms" if in_ms else raw, source, place)

    def _secrets(self) -> _Layer:
        layer: _Layer = {}
        where = self._environ.get(f"{PREFIX}{SECRETS_DIR}")
        if not where:
            return layer
        folder = self._folder / where
        try:
            names = sorted(entry.name for entry in folder.iterdir())
        except OSError as error:
            self._problems.append(Problem(f"{PREFIX}{SECRETS_DIR}", f"{folder} cannot be read: {error.strerror}"))
            return layer
        for file in names:
            name, path = file.lower(), folder / file
            if file in (name.upper(), name) and (name in FIELDS or name.upper() in OLDER):
                raw = self._text(path, str(path)).strip()
                if name.upper() in OLDER:
                    self._older(layer, name.upper(), raw, f"secrets file {path}", str(path))
                elif raw:
                    layer.setdefault(name, _Value(raw, f"secrets file {path}", str(path)))
        return layer

    def _toml(self) -> _Layer:
        layer: _Layer = {}
        where = self._environ.get(f"{PREFIX}CONFIG")
        path, label = self._folder / (where or TOML), where or TOML
        if not where and not path.exists():
            return layer
        text = self._text(path, f"{PREFIX}CONFIG" if where else TOML)
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            self._problems.append(Problem(label, f"not TOML: {error}"))
            return layer
        for key, raw in values.items():
            line = re.search(rf"^\s*{re.escape(key)}\s*=", text, re.MULTILINE)
            place = f"{label}:{text.count(chr(10), 0, line.end()) + 1}: {key}" if line else f"{label}: {key}"
            if key.lower() in FIELDS:
                layer[key.lower()] = _Value(raw, label, place)
            else:
                self._not_known(place, key.upper(), "")
        return layer

    def _text(self, path: Path, place: str) -> str:
        """The text of a file; None, and a problem, if it cannot be read."""
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST + 1)
            if len(content) <= LARGEST:
                return content.decode()
            what = f"{path} is larger than 64 KiB"
        except OSError as error:
            what = f"{path} cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            what = f"{path} is not UTF-8"
        self._problems.append(Problem(place, what))
        return ""

    def _not_known(self, place: str, word: str, prefix: str) -> None:
        if word in _LATER:
            what = f"is not supported by this version: {_LATER[word]}"
            remedy = "remove it; CRONFLOW_NODE_NAME names a node" if word == "SCHEDULER_NODE" else "remove it"
            self._problems.append(Problem(place, what, remedy))
            return
        near = OLDER.get(word) or nearest(word.lower(), FIELDS)
        spelt = near and (prefix + near.upper() if prefix else near)
        self._problems.append(Problem(place, "unknown setting", f"did you mean {spelt}?" if spelt else "remove it"))


def _flags(overrides: Mapping[str, object]) -> _Layer:
    unknown = overrides.keys() - FIELDS.keys()
    if unknown:
        raise TypeError(f"no settings: {', '.join(sorted(unknown))}")
    given = {name: value for name, value in overrides.items() if value is not None}
    return {
        name: _Value(value, "flag", _FLAGS.get(name) or f"--{name.replace('_', '-')}") for name, value in given.items()
    }
