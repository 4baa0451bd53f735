"""Writes jobs as YAML files that apply again without a change.

The rule: a file means the same in every cluster, so it has what settings would complete. References to secrets stay
references; a value that is masked is refused, because applying the mask would destroy it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import yaml

from cronflow.documents import JobForm, complete_document, parse_job
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job
from cronflow.domain.secret import HIDDEN
from cronflow.files.schema import FILE_NAME, HINT, schema_text
from cronflow.files.yaml_values import scalar_of

WIDTH = 100


def job_of(shown: Mapping[str, object], *, may_be_masked: bool) -> Job:
    """The job of a document that may have more keys, such as its state. Raises InvalidInput if a value is masked."""
    document = {key: value for key, value in shown.items() if key in JobForm.__annotations__}
    if may_be_masked and (hidden := next(_masked(document), None)):
        what = f"{shown['name']}: {hidden} has a password or token that is hidden from you"
        remedy = "ask somebody who may change the job, or move it to a secret: cronflow secrets set NAME"
        raise InvalidInput(Problem("", what, remedy))
    return parse_job(document, str(shown["name"]))


def file_text(jobs: Sequence[Job]) -> str:
    """A job file."""
    documents = {"jobs": [complete_document(job) for job in jobs]}
    text = yaml.dump(documents, Dumper=_BlockDumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return f"{HINT}\n{text}"


def write_folder(jobs: Sequence[Job], folder: Path, *, force: bool = False) -> list[Path]:
    """Write a file per job, and the schema that they name. Raises InvalidInput, before anything is written, if one of
    the files exists.
    """
    texts = {folder / f"{job.name}.yaml": file_text([job]) for job in jobs}
    if not force and (present := [path for path in texts if path.exists()]):
        what = "exists" if len(present) == 1 else f"and {len(present) - 1} more exist"
        raise InvalidInput(Problem("--out", f"{present[0]} {what}", "give another folder, or --force to replace them"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in {**texts, folder / FILE_NAME: schema_text()}.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(Problem("--out", f"{folder} cannot be written: {error.strerror}")) from None
    return list(texts)


def _masked(value: object, place: str = "") -> Iterator[str]:
    """The places of masked values."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _masked(one, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for n, one in enumerate(value):
            yield from _masked(one, f"{place}[{n}]")
    elif isinstance(value, str) and HIDDEN in value:
        yield place


class _BlockDumper(yaml.SafeDumper):
    """Indents lists, repeats values that occur twice, and writes text of several lines as a block."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text and _is_plain_block(text):
        style = "|"
    elif not text.isprintable() or not isinstance(scalar_of(text), str):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_plain_block(text: str) -> bool:
    lines = text.splitlines()
    return lines[0][:1].strip() != "" and all(line == line.rstrip() and line.isprintable() for line in lines)


_BlockDumper.add_representer(str, _text)
_BlockDumper.add_multi_representer(StrEnum, lambda dumper, word: dumper.represent_str(word.value))
