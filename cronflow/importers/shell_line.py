"""Recognises what crontab lines have in common: guards, random sleeps, flock.

The rule: a command is rewritten only where the result does the same. A line that is not understood stays as it is. No
shell is started, and variables are not expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

LONGEST_JITTER = timedelta(days=1)
MOST_CHARACTERS = 1000
"""Debian's cron runs no longer command; a longer one stays as it is."""
SYSTEMD_FOLDER = "/run/systemd/system"

_PATH = r"[\"']?(/[\w./+:@-]+)[\"']?"
_TEST = re.compile(rf"(?:\[\s+|(?:/usr)?(?:/bin/)?test\s+)-[efxrsd]\s+{_PATH}(?P<more>\s+-a\s+[^\]&|;]+?)?\s*\]?\s*")
_NOT = re.compile(rf"(?:\[\s+\\?!\s+|(?:/usr)?(?:/bin/)?test\s+\\?!\s+)-[efxrsd]\s+{_PATH}\s*\]?\s*$")
_IF, _THEN = re.compile(r"if\s"), re.compile(r";\s*then\s")
_GUARD = re.compile(r"(?:\[\s|(?:/usr)?(?:/bin/)?test\s|command\s+-v\s|which\s)")
_SLEEPS = (
    re.compile(r"sleep\s+[\"']?\$(?:\(\(|\[)\s*\$?\{?RANDOM\}?\s*%\s*(?P<most>\d+)\s*(?:\)\)|\])[\"']?"),
    re.compile(r"sleep\s+[\"']?(?:\$\(|`)\s*expr\s+\$RANDOM\s+\\?%\s+(?P<most>\d+)\s*(?:\)|`)[\"']?"),
    re.compile(
        r"(?:/usr/bin/)?perl\s+-e\s+(?P<quote>[\"'])\s*sleep\s*\(?\s*int\s*\(?\s*rand\s*\(?\s*(?P<most>\d+)[\s);]*(?P=quote)"
    ),
    re.compile(
        r"sleep\s+[\"']?(?:\$\(|`)\s*shuf\s+(?:-i\s*\d+-(?P<most>\d+)\s+-n\s*1|-n\s*1\s+-i\s*\d+-(?P<other>\d+))\s*(?:\)|`)[\"']?"
    ),
    re.compile(
        r"(?:/usr/bin/)?python3?\s+-c\s+(?P<quote>[\"'])\s*import random;?\s*import time;?\s*"
        r"time\.sleep\(random\.random\(\)\s*\*\s*(?P<most>\d+)\)\s*(?P=quote)"
    ),
    re.compile(r"sleep\s+(?:\$\(|`)\s*od\s+-An\s+-N1\s+-tu1\s+/dev/urandom\s*(?:\)|`)"),
)
_BYTE = 255
_BACKGROUND = re.compile(r"(?<![&><\\])&\s*$")
_FLOCK = re.compile(
    r"(?:/usr/bin/|/bin/)?flock\s+(?P<options>(?:-\S+\s+(?:(?<=-w )\d+\s+|(?<=-E )\d+\s+)?)*)"
    r"(?P<lock>/[\w./+:@-]+)\s+(?P<rest>.+)"
)
_SHELL_C = re.compile(r"(?:(?:/usr)?/bin/)?(?:sh\s+)?-c\s+(?P<quote>[\"'])(?P<inner>[^\"']*)(?P=quote)")
_OPENERS = {"(": ")", "{": "}", "if": "fi", "case": "esac", "do": "done"}


@dataclass(frozen=True, slots=True)
class ShellLine:
    """A command, and what was taken out of it. `notes` are about the command itself."""

    command: str
    when_present: str | None = None
    jitter: timedelta | None = None
    sleep: str = ""
    lock: str | None = None
    waits_for_lock: bool = False
    notes: tuple[str, ...] = field(default=())


def read_shell_line(command: str) -> ShellLine:
    """Take the guard, the random sleep and flock out of a command, in the order in which they occur."""
    line = ShellLine(command.strip())
    if len(command) > MOST_CHARACTERS:
        return line
    if found := _BACKGROUND.search(line.command):
        text = "Without the & at its end: CronFlow stops what a command leaves behind, and waits for the rest."
        line = ShellLine(line.command[: found.start()].strip(), notes=(text,))
    # The order differs from line to line: each step looks at the begin of what is left.
    for _ in range(4):
        for step in (_without_guard, _without_sleep, _without_flock):
            line = step(line)
    return _with_harmless_guard(line)


def operators(command: str) -> Iterator[tuple[int, str]]:
    """The operators outside of quotes, substitutions, groups and compound commands, with their positions."""
    position, word_begins = 0, True
    closing: list[str] = []
    while position < len(command):
        char = command[position]
        if char == "\\":
            position += 2
            word_begins = False
            continue
        if char in "'\"`":
            position = _after_quote(command, position)
            word_begins = False
            continue
        if command.startswith("$(", position):
            closing.append(")")
            position += 2
            continue
        word = re.match(r"[A-Za-z]+(?=[\s;&|()]|$)", command[position:]) if word_begins else None
        if word and word[0] in _OPENERS:
            closing.append(_OPENERS[word[0]])
        elif closing and ((word and word[0] == closing[-1]) or char == closing[-1]):
            closing.pop()
        elif char in "({" and word_begins:
            closing.append(_OPENERS[char])
        elif not closing and char in ";&|\n" and not _is_redirection(command, position):
            found = command[position : position + 2] if command[position : position + 2] in ("&&", "||") else char
            yield position, found
            position += len(found)
            word_begins = True
            continue
        position += len(word[0]) if word else 1
        word_begins = not word and (char.isspace() or char in "({;&|")


def _is_redirection(command: str, position: int) -> bool:
    return command[position] == "&" and (
        command[position - 1 : position] in (">", "<") or command[position + 1 : position + 2] == ">"
    )


def _after_quote(command: str, position: int) -> int:
    quote, position = command[position], position + 1
    while position < len(command) and command[position] != quote:
        position += 2 if command[position] == "\\" and quote != "'" else 1
    return position + 1


def _first(command: str) -> tuple[str, str, str] | None:
    """The part before the first operator, the operator, and the rest."""
    found = next(operators(command), None)
    if found is None:
        return None
    position, operator = found
    return command[:position].strip(), operator, command[position + len(operator) :].strip()


def _is_one_list(command: str) -> bool:
    """Whether a false guard in front of it, with &&, means that none of it runs."""
    return all(operator in ("&&", "|") for _, operator in operators(command))


def _without_guard(line: ShellLine) -> ShellLine:
    if line.when_present is not None:
        return line
    command = line.command
    if (block := _if_block(command)) and not re.search(r"(?:^|[\s;])(?:else|elif|fi|if)(?:[\s;]|$)", block[1]):
        return _without_if(line, *block)
    parts = _first(command)
    if parts is None:
        return line
    begin, operator, rest = parts
    if operator == "&&" and (found := _TEST.fullmatch(begin)) and found[1] != SYSTEMD_FOLDER and _is_one_list(rest):
        return _guarded(line, found[1], _and(_remaining(begin, found), rest))
    if operator == "||" and (found := _TEST.fullmatch(begin)) and not found["more"]:
        exits = re.match(r"exit(?:\s+0)?\s*;\s*", rest)
        if exits:
            return _guarded(line, found[1], rest[exits.end() :])
    if operator == "||" and (found := _NOT.fullmatch(begin)) and found[1] != SYSTEMD_FOLDER and _is_one_list(rest):
        return _guarded(line, found[1], rest)
    return line


def _if_block(command: str) -> tuple[str, str] | None:
    """The condition and the body of `if …; then …; fi`. Searched part by part, as one expression would backtrack."""
    begin, then = _IF.match(command), _THEN.search(command)
    end = command.rstrip().removesuffix(";").rstrip()
    if begin is None or then is None or not re.search(r"[\s;]fi$", end):
        return None
    condition = command[begin.end() : then.start()].strip()
    body = end.removesuffix("fi").rstrip()[then.end() :].removesuffix(";").strip()
    return (condition, body) if condition and body else None


def _without_if(line: ShellLine, condition: str, body: str) -> ShellLine:
    """Of `if A && B; then …; fi`, whose parts may come in any order, take out a test whether a file exists."""
    found = [(at, operator) for at, operator in operators(condition)]
    if any(operator != "&&" for _, operator in found):
        return line
    parts, begin = [], 0
    for at, operator in [*found, (len(condition), "")]:
        parts.append(condition[begin:at].strip())
        begin = at + len(operator)
    for number, part in enumerate(parts):
        test = _TEST.fullmatch(part)
        if test and not test["more"] and test[1] != SYSTEMD_FOLDER:
            rest = " && ".join(parts[:number] + parts[number + 1 :])
            return _guarded(line, test[1], f"if {rest}; then {body}; fi" if rest else body)
    return line


def _remaining(begin: str, found: re.Match[str]) -> str:
    """Of `test -x A -a B`, the command `test B`."""
    if not found["more"]:
        return ""
    more = re.sub(r"^\s+-a\s+", "", found["more"]).strip()
    return f"[ {more} ]" if begin.startswith("[") else f"test {more}"


def _and(first: str, rest: str) -> str:
    return f"{first} && {rest}" if first else rest


def _guarded(line: ShellLine, path: str, command: str) -> ShellLine:
    return replace(line, command=_ungrouped(command), when_present=path)


def _ungrouped(command: str) -> str:
    """The content of `{ …; }` or `( … )` when that is the whole command."""
    if not re.fullmatch(r"(?:\{\s.*;\s*\}|\(.*\))", command, re.DOTALL) or any(True for _ in operators(command)):
        return command
    return command[1:-1].strip().removesuffix(";").strip()


def _without_sleep(line: ShellLine) -> ShellLine:
    parts = _first(line.command)
    if line.jitter is not None or parts is None or parts[1] not in ("&&", ";"):
        return line
    for pattern in _SLEEPS:
        if found := pattern.fullmatch(parts[0]):
            groups = found.groupdict()
            most = int(groups.get("most") or groups.get("other") or _BYTE)
            if "RANDOM" in parts[0]:
                most = min(most, 32768)
            length = min(timedelta(seconds=most), LONGEST_JITTER)
            return replace(line, command=parts[2], jitter=length, sleep=parts[0]) if length else line
    if parts[1] == "&&" and _GUARD.match(parts[0]):
        # Behind a guard that stays, such as the one for systemd: the delay may as well come first.
        inner = _without_sleep(replace(line, command=parts[2]))
        return replace(inner, command=f"{parts[0]} && {inner.command}")
    return line


def _without_flock(line: ShellLine) -> ShellLine:
    if line.lock is not None or any(operator != "|" for _, operator in operators(line.command)):
        return line
    found = _FLOCK.fullmatch(line.command)
    if found is None:
        return line
    options = found["options"].split()
    if any(not re.fullmatch(r"-[nxeoF]+|--(?:nonblock|nb|exclusive|close|no-fork)|-w|-E|\d+", one) for one in options):
        return line
    at_once = (
        any(re.fullmatch(r"-[xeoF]*n[xeoF]*|--nonblock|--nb", one) for one in options) or "-w 0" in found["options"]
    )
    if "-w" in options and not at_once:
        return line
    rest = found["rest"]
    inner = _SHELL_C.fullmatch(rest)
    if rest.startswith("-") and not inner:
        return line
    return replace(line, command=inner["inner"] if inner else rest, lock=found["lock"], waits_for_lock=not at_once)


def _with_harmless_guard(line: ShellLine) -> ShellLine:
    """cron ignores exit codes, so `test … && …` never fails there; as `if` it does not fail here either."""
    parts = _first(line.command)
    if parts is None or parts[1] != "&&" or not _GUARD.match(parts[0]) or not _is_one_list(parts[2]):
        return line
    command = f"if {parts[0]}; then {parts[2].removesuffix(';')}; fi"
    text = "Written as if … then, because a false condition is no failure: its exit code would be one."
    return replace(line, command=command, notes=(*line.notes, text))
