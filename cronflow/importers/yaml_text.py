"""Writes imported files as YAML for `cronflow jobs apply`, with a comment for every decision.

The rules: the original text stands above each job, each note above its key, and each refused entry at the end with its
reason. Reading the text gives the documents that were written.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from cronflow.importers.imported import ImportedFile, ImportedJob, ImportNote, ImportRefusal

WIDTH = 80
_UNLIMITED = 1_000_000
_LONG = 20
_NUMBER_LIKE = re.compile(r"[-+.]*[0-9][0-9_.:+-]*(?:[eE][-+]?[0-9]*)?|0[xo][0-9a-fA-F]+")

_Notes = Mapping[tuple[str, ...], Sequence[str]]


def write_yaml(files: Sequence[ImportedFile]) -> str:
    """One YAML document per file."""
    return "---\n".join("\n".join(_file(file)) + "\n" for file in files)


def _file(file: ImportedFile) -> Iterator[str]:
    notes = _by_path(file.notes)
    yield from _comment(f"Imported from {file.source}.", 0)
    for text in notes.get((), ()):
        yield from _comment(text, 0)
    if file.defaults:
        yield ""
        yield from _entry("defaults", file.defaults, ("defaults",), notes, 0)
    yield ""
    if file.jobs:
        yield "jobs:"
        for number, job in enumerate(file.jobs):
            if number:
                yield ""
            yield from _job(job)
    else:
        yield "jobs: []"
    for refusal in file.refusals:
        yield ""
        yield from _refusal(refusal)


def _job(job: ImportedJob) -> Iterator[str]:
    notes = _by_path(job.notes)
    if job.original:
        yield f"  # {_printable(job.place)}:" if job.place else "  # Original:"
        yield from (f"  #   {_printable(line)}".rstrip() for line in job.original.strip("\n").splitlines())
    for text in notes.get((), ()):
        yield from _comment(text, 2)
    yield from _item(job.document, (), notes, 2)


def _refusal(refusal: ImportRefusal) -> Iterator[str]:
    yield from _comment(f"Not imported, {refusal.place}: {refusal.reason}.", 0)
    yield from _comment(f"To do: {refusal.remedy}.", 0)
    yield from (f"#   {_printable(line)}".rstrip() for line in refusal.text.strip("\n").splitlines())


def _by_path(notes: Sequence[ImportNote]) -> dict[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for note in notes:
        found.setdefault(note.path, []).append(note.text)
    return found


def _comment(text: str, indent: int) -> Iterator[str]:
    begin = " " * indent + "# "
    for line in textwrap.wrap(_printable(text), WIDTH - len(begin), break_long_words=False, break_on_hyphens=False):
        yield begin + line


def _printable(text: str) -> str:
    """On one line, without characters that YAML refuses."""
    return "".join(one if one.isprintable() or one == "\t" else repr(one)[1:-1] for one in text)


# ------------------------------------------------------------------------------------------------------------- values


def _mapping(value: Mapping[str, Any], path: tuple[str, ...], notes: _Notes, indent: int) -> Iterator[str]:
    for key, one in value.items():
        for text in notes.get((*path, key), ()):
            yield from _comment(text, indent)
        yield from _entry(key, one, (*path, key), notes, indent)


def _entry(key: str, value: Any, path: tuple[str, ...], notes: _Notes, indent: int) -> Iterator[str]:
    begin = f"{' ' * indent}{_flow(key)}:"
    noted = any(len(one) > len(path) and one[: len(path)] == path for one in notes)
    if isinstance(value, str) and _suits_block(value):
        yield f"{begin} |{'' if value.endswith(chr(10)) else '-'}"
        yield from (f"{' ' * indent}  {line}".rstrip() for line in value.removesuffix("\n").split("\n"))
    elif not _is_long(value) or (not noted and _is_small(value) and len(begin) + len(_flow(value)) < WIDTH):
        yield f"{begin} {_flow(value)}"
    elif isinstance(value, Mapping):
        yield begin
        yield from _mapping(value, path, notes, indent + 2)
    else:
        yield begin
        for number, one in enumerate(value):
            inner = (*path, str(number))
            for text in notes.get(inner, ()):
                yield from _comment(text, indent + 2)
            yield from _item(one, inner, notes, indent + 2)


def _item(value: Any, path: tuple[str, ...], notes: _Notes, indent: int) -> Iterator[str]:
    """An item of a list. Notes of its first key are above its dash."""
    if not isinstance(value, Mapping) or not value:
        yield f"{' ' * indent}- {_flow(value)}"
        return
    begun = False
    for line in _mapping(value, path, notes, indent + 2):
        if begun:
            yield line
        elif line.lstrip().startswith("#"):
            yield line[2:]
        else:
            yield f"{' ' * indent}- {line.lstrip()}"
            begun = True


def _is_long(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _is_small(value: Mapping[str, Any] | Sequence[Any]) -> bool:
    """Whether it is written on one line: a mapping with one plain value, or a list of plain values."""
    parts = list(value.values()) if isinstance(value, Mapping) else list(value)
    if any(isinstance(one, Mapping | list | tuple) or (isinstance(one, str) and "\n" in one) for one in parts):
        return False
    return not isinstance(value, Mapping) or (len(parts) == 1 and len(str(parts[0])) <= _LONG)


def _suits_block(text: str) -> bool:
    """Whether it reads the same as an indented block of lines."""
    lines = text.removesuffix("\n").split("\n")
    return (
        len(lines) > 1
        and all(line == line.rstrip() and line.replace("\t", "").isprintable() for line in lines)
        and bool(lines[0] and lines[-1])
        and not lines[0].startswith((" ", "\t"))
    )


class _FlowDumper(yaml.SafeDumper):
    """Quotes text that a job file would read as a number, and cron expressions."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    quoted = _NUMBER_LIKE.fullmatch(text) or "*" in text or not text.isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)


_FlowDumper.add_representer(str, _represent_text)
_FlowDumper.add_representer(tuple, yaml.SafeDumper.represent_list)


def _flow(value: object) -> str:
    """On one line."""
    text: str = yaml.dump(
        value, Dumper=_FlowDumper, width=_UNLIMITED, allow_unicode=True, default_flow_style=True, sort_keys=False
    )
    return text.removesuffix("...\n").strip()
