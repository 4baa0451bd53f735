"""Translates the service of a systemd timer into the target of a job.

The rule: each directive becomes a key of the job, or a note that it has no equivalent. A command becomes a line of the
shell only where it needs one: several commands, variables, files of variables.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from cronflow.documents.values import duration_text
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.importers.imported import ImportNote
from cronflow.importers.unit_file import UnitFile, parse_span

PRESENT = ("ConditionPathExists", "ConditionFileIsExecutable", "ConditionFileNotEmpty", "ConditionPathIsDirectory",
           "AssertPathExists")  # fmt: skip
_COMMANDS = ("ExecStartPre", "ExecStart", "ExecStartPost")
_LIMITS = {
    "LimitCPU": "cpu",
    "LimitAS": "memory",
    "LimitFSIZE": "file_size",
    "LimitNOFILE": "files",
    "LimitNPROC": "processes",
}
_EXITS = {"EX_USAGE": 64, "EX_DATAERR": 65, "EX_NOINPUT": 66, "EX_UNAVAILABLE": 69, "EX_SOFTWARE": 70, "EX_OSERR": 71,
          "EX_CANTCREAT": 73, "EX_IOERR": 74, "TEMPFAIL": 75, "EX_TEMPFAIL": 75, "EX_NOPERM": 77, "NOPERM": 77,
          "EX_CONFIG": 78, "SIGHUP": 129, "SIGINT": 130, "SIGPIPE": 141, "SIGTERM": 143, "SIGKILL": 137}  # fmt: skip
_KNOWN = (*_COMMANDS, *_LIMITS, "Type", "User", "WorkingDirectory", "Environment", "EnvironmentFile",
          "SuccessExitStatus", "TimeoutStartSec", "TimeoutSec", "RuntimeMaxSec", "Restart", "RestartSec",
          "MemoryMax", "CPUQuota", "StandardOutput", "StandardError", "SyslogIdentifier")  # fmt: skip
_SIZES = {"K": "KiB", "M": "MiB", "G": "GiB", "T": "TiB"}
_VARIABLE = re.compile(r"\$(?:\{\w+\}|\w+)")


def service_keys(service: UnitFile, instance: str, notes: list[ImportNote]) -> dict[str, Any]:
    """The keys of the job that follow from its service, `run` first. Raises InvalidInput when it has no command."""
    document: dict[str, Any] = {"run": _run(service, instance, notes)}
    document |= _timeout(service, notes)
    document |= _retry(service, notes)
    document |= _resources(service, notes)
    codes = [0]
    for word in " ".join(service.all("Service", "SuccessExitStatus")).split():
        code = _EXITS.get(word, int(word) if word.isdigit() else None)
        if code is None:
            notes.append(ImportNote(("success_exit_codes",), f"SuccessExitStatus={word} is not translated."))
        elif code not in codes:
            codes.append(code)
    if len(codes) > 1:
        document["success_exit_codes"] = codes
    left = service.others("Service", _KNOWN)
    unit = service.others("Unit", ("Description", "Documentation", "SourcePath", *PRESENT))
    if left or unit:
        notes.append(ImportNote((), f"No equivalent, so not imported: {'; '.join([*left, *unit])}"))
    return document


def _run(service: UnitFile, instance: str, notes: list[ImportNote]) -> dict[str, Any]:
    commands: list[str] = []
    argv: list[str] = []
    needs_shell = False
    for key in _COMMANDS:
        for text in service.all("Service", key):
            words, prefixes = _words(_specified(text, instance, service.name), service.name)
            argv = words
            ignored = "-" in prefixes
            commands.append(_shell_line(words) + (" || true" if ignored else ""))
            needs_shell |= ignored or any(_VARIABLE.search(word) for word in words)
            if set(prefixes) & set("+!"):
                notes.append(ImportNote(("run",), f"{key}={text}: its full privileges have no equivalent."))
    if not service.all("Service", "ExecStart"):
        raise InvalidInput(Problem(service.name, "it has no ExecStart", "write what to run"))
    files = service.all("Service", "EnvironmentFile")
    for name in files:
        path = shlex.quote(name.removeprefix("-"))
        commands.insert(files.index(name), f"[ ! -e {path} ] || . {path}" if name.startswith("-") else f". {path}")
    if files:
        commands = ["set -a", *commands[: len(files)], "set +a", *commands[len(files) :]]
        text = "EnvironmentFile is read by the shell: put values with spaces or $ in it into single quotes."
        notes.append(ImportNote(("run",), text))
    run: dict[str, Any]
    if len(commands) == 1 and len(argv) == 3 and argv[0] in ("/bin/sh", "/usr/bin/sh", "sh") and argv[1] == "-c":
        run = {"shell": argv[2].replace("$$", "$")}
    elif len(commands) == 1 and not needs_shell:
        run = {"argv": [word.replace("$$", "$") for word in argv]}
    else:
        run = {"shell": "set -e\n" + "\n".join(commands) + "\n" if len(commands) > 1 else commands[0]}
    return run | _surroundings(service, notes)


def _surroundings(service: UnitFile, notes: list[ImportNote]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    folder = (service.last("Service", "WorkingDirectory") or "").removeprefix("-")
    if folder.startswith("/"):
        found["cwd"] = folder
    elif folder:
        notes.append(ImportNote(("run",), f"WorkingDirectory={folder} is not translated: add cwd."))
    env = {}
    for text in service.all("Service", "Environment"):
        for pair in _split(text, service.name):
            name, _, value = pair.partition("=")
            env[name] = value
    if env:
        found["env"] = env
    found["run_as"] = service.last("Service", "User") or "root"
    limits = {}
    for key, name in _LIMITS.items():
        value = (service.last("Service", key) or "infinity").partition(":")[0]
        if value != "infinity":
            limits[name] = _limit(name, value)
    if limits:
        found["limits"] = limits
    return found


def _limit(name: str, value: str) -> Any:
    if name == "cpu":
        return duration_text(parse_span(value))
    return _size(value) if name in ("memory", "file_size") else int(value) if value.isdigit() else value


def _size(value: str) -> str:
    return f"{value[:-1]}{_SIZES[value[-1]]}" if value[-1:] in _SIZES else f"{value}B"


def _timeout(service: UnitFile, notes: list[ImportNote]) -> dict[str, Any]:
    is_oneshot = service.last("Service", "Type") == "oneshot"
    for key in ("TimeoutStartSec", "TimeoutSec") if is_oneshot else ("RuntimeMaxSec",):
        value = service.last("Service", key)
        if value and value not in ("infinity", "0"):
            notes.append(ImportNote(("timeout",), f"From {key}."))
            return {"timeout": duration_text(parse_span(value))}
    return {}


def _retry(service: UnitFile, notes: list[ImportNote]) -> dict[str, Any]:
    restart = service.last("Service", "Restart") or "no"
    if restart == "no":
        return {}
    delay = max(parse_span(service.last("Service", "RestartSec") or "100ms"), parse_span("1s"))
    burst = service.last("Unit", "StartLimitBurst") or "5"
    most = int(burst) - 1 if burst.isdigit() and 1 <= int(burst) <= 100 else 4
    text = (
        f"From Restart={restart}. systemd restarts until StartLimitBurst; here the run fails after this many retries."
    )
    notes.append(ImportNote(("retry",), text))
    return {"retry": {"max": most, "initial": duration_text(delay), "multiplier": 1}}


def _resources(service: UnitFile, notes: list[ImportNote]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    memory, quota = service.last("Service", "MemoryMax"), service.last("Service", "CPUQuota")
    if memory and re.fullmatch(r"\d+[KMGT]?", memory):
        found["memory"] = _size(memory)
    if quota and re.fullmatch(r"\d+%", quota):
        found["cpu"] = int(quota[:-1]) / 100
    if not found:
        return {}
    text = "MemoryMax and CPUQuota become a reservation: no node takes more runs than fit, but nothing enforces it."
    notes.append(ImportNote(("resources",), text))
    return {"resources": found}


# -------------------------------------------------------------------------------------------------------------- words


def _specified(text: str, instance: str, name: str) -> str:
    """The text with the specifiers for the instance and the name of the unit. Raises InvalidInput for others."""

    def value(found: re.Match[str]) -> str:
        values = {"%": "%", "i": instance, "I": instance.replace("-", "/"), "n": name, "N": name.rpartition(".")[0],
                  "p": name.partition("@")[0].removesuffix(".service")}  # fmt: skip
        if found[1] not in values:
            what = f"the specifier %{found[1]} is not translated"
            raise InvalidInput(Problem(name, what, "write its value into the unit and import it again"))
        return values[found[1]]

    return re.sub(r"%(.)", value, text)


def _words(text: str, name: str) -> tuple[list[str], str]:
    """The words of a command, and its prefixes."""
    command = text.lstrip("-@:+!")
    prefixes = text[: len(text) - len(command)]
    words = _split(command, name)
    if "@" in prefixes:
        del words[1:2]  # the name that the program is told that it has
    if not words:
        raise InvalidInput(Problem(name, f"{text!r} has no command", "write the path of a program"))
    if ";" in words:
        raise InvalidInput(Problem(name, "several commands in one ExecStart", "write one ExecStart for each"))
    return words, prefixes


def _split(text: str, name: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise InvalidInput(Problem(name, f"a quote is not closed in {text[:80]!r}", "close it")) from None


def _shell_line(words: list[str]) -> str:
    return " ".join(_shell_word(word) for word in words)


def _shell_word(word: str) -> str:
    """The word in quotes; systemd splits the value of `$NAME` into words, and not that of `${NAME}`."""
    if re.fullmatch(r"\$\w+", word):
        return word
    if not _VARIABLE.search(word.replace("$$", "")):
        return shlex.quote(word.replace("$$", "$"))
    return '"' + re.sub(r'(["`\\])', r"\\\1", word).replace("$$", "\\$") + '"'
