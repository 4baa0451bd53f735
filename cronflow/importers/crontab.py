"""Reads crontabs as Debian's cron does: /etc/crontab and files of /etc/cron.d with a user column, and those of users.

The rules: environment lines hold for the lines below them; `%` ends the command and begins its input; a line that cron
itself refuses is refused. Commands are rewritten only by `shell_line`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from cronflow.documents.values import duration_text
from cronflow.importers.command_names import command_name
from cronflow.importers.imported import NO_RETRIES, ImportedFile, ImportedJob, ImportNote, ImportRefusal, job_name
from cronflow.importers.shell_line import SYSTEMD_FOLDER, ShellLine, read_shell_line

SHELL = "/bin/sh"
LONGEST_RUN = "1d"
_VARIABLE = re.compile(r"(?P<q>[\"']?)([A-Za-z_][A-Za-z0-9_]*)(?P=q)\s*=\s*(.*)")
_ENTRY = re.compile(r"(@\w+|(?:\S+\s+){4}\S+)\s+(\S.*)")
_WITH_USER = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*\$?)\s+(\S.*)")
_SYSTEM_USERS = frozenset(("root", "www-data", "nobody", "daemon", "postgres"))
"""Users of nearly every machine whose names are no commands."""
_INPUT_END = "END_OF_INPUT"

DEFAULTS: Mapping[str, Any] = {
    "retry": NO_RETRIES,
    "overlap": "allow",
    "misfire": "skip",
    "timeout": LONGEST_RUN,
}
_DEFAULT_NOTES = {
    "retry": "cron does not run a failed command again. Remove this to use the retries of the cluster. A run whose "
    "node died is started again on another one; `delivery: at_most_once` prevents that.",
    "overlap": "cron starts a command while its previous run is still running. `forbid` is usually what is meant.",
    "misfire": "cron drops the times at which it was not running. `fire_once` makes up for them with one run.",
    "timeout": "cron never stops a command. CronFlow stops it after 1h unless this says otherwise.",
}


class _Line(NamedTuple):
    """An entry of a crontab."""

    place: str
    text: str
    expression: str
    command: str
    user: str | None
    variables: Mapping[str, str]


def read_crontab(text: str, source: str, *, tz: str | None = None, user_column: bool | None = None) -> ImportedFile:
    """The jobs of a crontab. `source` is its path, which also shows what kind it is; `user_column` overrides that."""
    return read_crontabs({source: text}, tz=tz, user_column=user_column)


def read_crontabs(texts: Mapping[str, str], *, tz: str | None = None, user_column: bool | None = None) -> ImportedFile:
    """The jobs of several crontabs, by their paths, as one file."""
    lines: list[_Line] = []
    names: list[str] = []
    refusals: list[ImportRefusal] = []
    columns: dict[str, None] = {}
    for source, text in texts.items():
        place = "line" if len(texts) == 1 else f"{source}, line"
        found, wrong, column = _lines(text, source, place, user_column)
        lines += found
        names += _names(found, source)
        refusals += wrong
        columns[column] = None
    locks = [read_shell_line(_command_and_input(line.command)[0]).lock for line in lines]
    jobs = [_job(line, name, tz, locks) for line, name in zip(lines, names, strict=True)]
    notes = [*(ImportNote((), text) for text in columns), *_file_notes(lines, jobs, tz)]
    defaults = {**({} if tz is None else {"tz": tz}), **DEFAULTS} if jobs else {}
    if jobs:
        notes += [ImportNote(("defaults", key), note) for key, note in _DEFAULT_NOTES.items()]
        if tz is not None:
            notes.append(ImportNote(("defaults", "tz"), "From --tz. cron used the time zone of its machine."))
    source = next(iter(texts)) if len(texts) == 1 else ""
    return ImportedFile(
        f"crontab {source}" if source else f"{len(texts)} crontabs",
        tuple(jobs),
        tuple(refusals),
        defaults,
        tuple(notes),
    )


def _lines(
    text: str, source: str, place: str, user_column: bool | None
) -> tuple[list[_Line], list[ImportRefusal], str]:
    """The entries of a crontab except @reboot, what is refused, and how the user column was read."""
    entries, refusals = _entries(text, place)
    if PurePath(source).name == "anacrontab":
        what = "anacron counts days since the last run, which no crontab line does"
        remedy = 'write for example schedule: {every: 1d, time: "07:35"} with misfire: fire_once and the same command'
        found = [ImportRefusal(entry.place, entry.text, what, remedy) for entry in entries]
        return [], [*refusals, *found], "Read as an anacrontab."
    reason = "as the option says"
    if user_column is None:
        user_column, reason = _has_users(source, [entry.command for entry in entries])
    lines, wrong = _with_users(entries, user_column, _owner(source, user_column))
    at_boot = [line for line in lines if line.expression.lower() == "@reboot"]
    what = "a cluster does not boot, so @reboot has no time"
    remedy = "let systemd start it with the machine, or run the job by hand: cronflow jobs run NAME"
    refusals += [*wrong, *(ImportRefusal(line.place, line.text, what, remedy) for line in at_boot)]
    column = f"Read {'with' if user_column else 'without'} a user column, {reason}."
    return [line for line in lines if line not in at_boot], refusals, column


def _entries(text: str, place: str) -> tuple[list[_Line], list[ImportRefusal]]:
    """The entries with the variables above them, the user still part of the command; and the lines that are none."""
    variables: dict[str, str] = {}
    found, refusals = [], []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if variable := _VARIABLE.fullmatch(stripped):
            variables = {**variables, variable[2]: _unquoted(variable[3])}
        elif entry := _ENTRY.fullmatch(stripped):
            found.append(_Line(f"{place} {number}", stripped, " ".join(entry[1].split()), entry[2], None, variables))
        else:
            remedy = "write five fields or a nickname such as @daily, then the command"
            refusals.append(ImportRefusal(f"{place} {number}", stripped, "this is not a crontab line", remedy))
    return found, refusals


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


# -------------------------------------------------------------------------------------------------------------- users


def _has_users(source: str, commands: list[str]) -> tuple[bool, str]:
    path = PurePath(source)
    if path.parts[-2:] == ("etc", "crontab") or "cron.d" in path.parts:
        return True, "as all files there have one"
    if "crontabs" in path.parts:
        return False, "as a user's own crontab has none"
    found = [_WITH_USER.fullmatch(command) for command in commands]
    if commands and all(found) and any(one and one[1] in _SYSTEM_USERS for one in found):
        return True, "because each sixth word looks like a user; --no-user-column reads it otherwise"
    return False, "because not each sixth word is a user; --user-column reads it otherwise"


def _owner(source: str, user_column: bool) -> str | None:
    """The user whose crontab this is, such as that of /var/spool/cron/crontabs/backup."""
    path = PurePath(source)
    return path.name if not user_column and path.parent.name == "crontabs" else None


def _with_users(entries: list[_Line], user_column: bool, owner: str | None) -> tuple[list[_Line], list[ImportRefusal]]:
    if not user_column:
        return [entry._replace(user=owner) for entry in entries], []
    found, refusals = [], []
    for entry in entries:
        parts = _WITH_USER.fullmatch(entry.command)
        if parts is None:
            reason, remedy = "it has no user before the command", "add one, or import it with --no-user-column"
            refusals.append(ImportRefusal(entry.place, entry.text, reason, remedy))
        else:
            found.append(entry._replace(user=parts[1], command=parts[2]))
    return found, refusals


# --------------------------------------------------------------------------------------------------------------- jobs


def _names(lines: list[_Line], source: str) -> list[str]:
    """A file of /etc/cron.d with a single line gives its name to the job."""
    path = PurePath(source)
    package = job_name(path.name) if "cron.d" in path.parts else None
    if package and len(lines) == 1:
        return [package]
    found = [command_name(read_shell_line(_command_and_input(line.command)[0]).command) for line in lines]
    return [name if package is None or package in name else job_name(f"{package}-{name}") for name in found]


def _job(line: _Line, name: str, tz: str | None, locks: list[str | None]) -> ImportedJob:
    command, standard_input = _command_and_input(line.command)
    read = read_shell_line(command)
    notes: list[ImportNote] = []
    document: dict[str, Any] = {
        "schedule": _schedule(line, tz, read, notes),
        "run": _run(line, read, standard_input, notes),
    }
    if read.lock is not None:
        document |= _lock(read, locks, notes)
    if "run-parts" in read.command:
        text = "One run for all scripts of the folder. As jobs of their own, each has its own outcome and log."
        notes.append(ImportNote((), text))
    # As cron logs it: what the shell gets, without the input.
    replaces = {"command": command, **({} if line.user is None else {"user": line.user})}
    return ImportedJob(name, document, tuple(notes), line.place, line.text, replaces=replaces)


def _schedule(line: _Line, tz: str | None, read: ShellLine, notes: list[ImportNote]) -> dict[str, Any]:
    expression = line.expression
    if "~" in expression:
        expression = " ".join(_chosen(one) for one in expression.split())
        text = "cron chooses the value of ~ when it reads the file; H chooses it by the name of the job."
        notes.append(ImportNote(("schedule", "cron"), text))
    schedule: dict[str, Any] = {"cron": expression}
    fields = expression.split()
    if len(fields) == 5 and not fields[2].startswith("*") and not fields[4].startswith("*"):
        text = "Both day fields are set, so it fires on days that match either one, as in cron."
        notes.append(ImportNote(("schedule", "cron"), text))
    if tz is None and (zone := line.variables.get("CRON_TZ")):
        schedule["tz"] = zone
        text = "From CRON_TZ. Debian's cron ignores it and uses the zone of its machine: then import with --tz ZONE."
        notes.append(ImportNote(("schedule", "tz"), text))
    if read.jitter is not None:
        schedule["jitter"] = duration_text(read.jitter)
        text = f"Instead of: {read.sleep}"
        if "RANDOM" in read.sleep and line.variables.get("SHELL", SHELL) == SHELL:
            text += " (which does not wait where /bin/sh is dash, as on Debian: RANDOM is empty there)"
        notes.append(ImportNote(("schedule", "jitter"), text))
    return schedule


def _chosen(field: str) -> str:
    def one(term: str) -> str:
        low, sign, high = term.partition("~")
        return term if not sign else "H" if not (low or high) else f"H({low or 0}-{high or 59})"

    return ",".join(map(one, field.split(",")))


def _run(line: _Line, read: ShellLine, standard_input: str | None, notes: list[ImportNote]) -> dict[str, Any]:
    command = read.command
    notes += [ImportNote(("run",), text) for text in read.notes]
    if standard_input is not None:
        command = f"{{ {command}\n}} <<'{_INPUT_END}'\n{standard_input}{_INPUT_END}"
        notes.append(ImportNote(("run",), "What follows the first % of a crontab line is the input of the command."))
    shell = line.variables.get("SHELL", SHELL)
    run: dict[str, Any] = {"shell": command} if shell == SHELL else {"argv": [shell, "-c", command]}
    if shell != SHELL:
        notes.append(ImportNote(("run", "argv"), f"From SHELL={shell}."))
    if SYSTEMD_FOLDER in command:
        text = "It does nothing on a machine with systemd, where a timer of the package does its work. If yours have "
        text += "systemd, import that timer instead: cronflow import systemd FILE.timer"
        notes.append(ImportNote((), text))
    if re.match(r"(?:test -x|\[ -x) /usr/sbin/anacron(?: \])? \|\|", command):
        notes.append(ImportNote((), "It does nothing where anacron is installed, which runs these scripts instead."))
    if (home := line.variables.get("HOME", "")).startswith("/"):
        run["cwd"] = home
        notes.append(ImportNote(("run", "cwd"), "From HOME, where cron starts the command."))
    unused = ("SHELL", "MAILTO", "MAILFROM", "CRON_TZ", "RANDOM_DELAY", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING")
    env = {key: value for key, value in line.variables.items() if key not in unused}
    if env:
        run["env"] = env
        if "TZ" in env:
            text = "TZ is the zone of the command alone; the schedule of cron does not follow it."
            notes.append(ImportNote(("run", "env", "TZ"), text))
    if line.user is not None:
        run["run_as"] = line.user
    if read.when_present is not None:
        run["when_present"] = read.when_present
        notes.append(ImportNote(("run", "when_present"), "A node without this file skips the run, as the line did."))
    return run


def _lock(read: ShellLine, locks: list[str | None], notes: list[ImportNote]) -> dict[str, Any]:
    """What replaces flock, which holds on one machine only."""
    said = f"Instead of flock{'' if read.waits_for_lock else ' -n'} {read.lock}, which holds on one machine only"
    if locks.count(read.lock) > 1:
        on_full = "queue" if read.waits_for_lock else "skip"
        notes.append(ImportNote(("concurrency",), f"{said}: jobs with this key run one at a time."))
        key = {"key": job_name(read.lock or ""), "limit": 1, "on_full": on_full}
        return {"overlap": "queue" if read.waits_for_lock else "forbid", "concurrency": [key]}
    notes.append(ImportNote(("overlap",), f"{said}."))
    return {"overlap": "queue" if read.waits_for_lock else "forbid"}


def _command_and_input(command: str) -> tuple[str, str | None]:
    r"""The command, and its standard input: what follows the first `%`. Each further `%` ends a line, `\%` is a %."""
    first, *rest = re.split(r"(?<!\\)%", command)
    plain = [part.replace("\\%", "%") for part in (first, *rest)]
    return plain[0].strip(), "".join(f"{part}\n" for part in plain[1:]) if rest else None


def _file_notes(lines: list[_Line], jobs: list[ImportedJob], tz: str | None) -> list[ImportNote]:
    texts = []
    if tz is None and any("tz" not in job.document["schedule"] for job in jobs):
        texts.append(
            "cron used the time zone of its machine, which is not in the file. These schedules use that of the cluster "
            "(the setting TIMEZONE). To name it, import with --tz ZONE; `timedatectl` on the machine shows it."
        )
    receivers = list(dict.fromkeys(line.variables["MAILTO"] for line in lines if "MAILTO" in line.variables))
    if receivers != [""]:
        to = f" to {', '.join(filter(None, receivers))}" if receivers else ""
        texts.append(
            f"cron mails what a command prints{to}. CronFlow keeps it as the log of the run (cronflow logs). To be "
            "notified of failures, define an alert: an alert by e-mail replaces MAILTO."
        )
    if any(job.document["run"].get("run_as") for job in jobs):
        users = sorted({job.document["run"]["run_as"] for job in jobs if "run_as" in job.document["run"]})
        texts.append(
            f"Nodes need ALLOW_SHELL=true and ALLOW_RUN_AS={','.join(users)}, and must run as root for run_as."
        )
    elif jobs:
        texts.append("Nodes need ALLOW_SHELL=true. The commands run as the user of the node; run_as names another one.")
    if any("env" not in job.document["run"] or "PATH" not in job.document["run"]["env"] for job in jobs):
        texts.append("Without a PATH of its own, a command has that of its node; cron's was /usr/bin:/bin.")
    if any("cwd" not in job.document["run"] for job in jobs):
        texts.append(
            "cron starts commands in the home directory of their user, a node in its own. Where a command uses "
            "relative paths, add cwd."
        )
    if jobs:
        texts.append("cron ignores exit codes; here a run fails unless its code is 0 or in success_exit_codes.")
    return [ImportNote((), text) for text in texts]
