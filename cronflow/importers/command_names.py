"""Derives the name of a job from its command: the program and its first plain words.

The rule: the same command always gives the same name.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

from cronflow.importers.imported import job_name

MOST_WORDS = 3
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_WORD = re.compile(r"[A-Za-z0-9][\w.:+@-]*")
_WRAPPERS = frozenset(
    ("nice", "ionice", "nohup", "timeout", "env", "exec", "sudo", "chronic", "time", "setsid", "then", "if")
)
_INTERPRETERS = frozenset(("sh", "bash", "dash", "zsh", "python", "python3", "perl", "php", "ruby", "node"))
_GUARDS = re.compile(r"(?:\[|test |/usr/bin/test |command -v |which |cd )")


def command_name(command: str) -> str:
    """A valid name for a job that runs the command."""
    parts = [part.strip() for part in re.split(r"&&|\|\||;|\n|\|", command)]
    parts = [re.sub(r"^(?:if|then|do|else|\{|\(|!)\s+", "", part) for part in parts if part]
    plain = [part for part in parts if not _GUARDS.match(part) and not re.fullmatch(r"fi|done|\}|\)|esac", part)]
    words = _words(plain[0] if plain else command)
    while words and (_ASSIGNMENT.fullmatch(words[0]) or _basename(words[0]) in _WRAPPERS or words[0].startswith("-")):
        words.pop(0)
    if not words:
        return job_name(command)
    found = [_program(words[0])]
    rest = words[1:]
    if _basename(words[0]) in _INTERPRETERS:
        rest = [word for word in rest if not word.startswith("-")]
        if rest and "/" in rest[0]:
            found, rest = [_program(rest[0])], rest[1:]
    for word in rest:
        if len(found) >= MOST_WORDS or word.startswith((">", "<", "2>", "&")):
            break
        if _WORD.fullmatch(word):
            found.append(word)
    return job_name("-".join(found))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _basename(word: str) -> str:
    return PurePath(word).name


def _program(word: str) -> str:
    return re.sub(r"\.(?:sh|py|pl|php|rb)$", "", _basename(word)) or word
