"""Generates `docs/reference/glossary.md` from the docstring of the domain: `python -m tools.docs.glossary`."""

from __future__ import annotations

import re
import sys

import cronflow.domain

HEAD = """# Glossary

Generated from the docstring of [`cronflow/domain/__init__.py`](../../cronflow/domain/__init__.py)
by `make docs`; do not edit it. Each word has this one meaning in the code, the documents, the commands and the
dashboard.

| word | |
|---|---|"""

_ENTRY = re.compile(r"^([A-Z]\S*(?: \S+)*?) {2,}(\S.*)$", re.MULTILINE)


def words() -> list[tuple[str, str]]:
    """Each word with its meaning, in the order of the docstring."""
    return _ENTRY.findall(cronflow.domain.__doc__ or "")


def page() -> str:
    return "\n".join([HEAD, *(f"| **{word}** | {meaning.replace('|', chr(92) + '|')} |" for word, meaning in words())])


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
