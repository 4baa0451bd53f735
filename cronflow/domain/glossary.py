"""`docs/reference/glossary.md` from the words of the domain: `python -m cronflow.domain.glossary`, or `make docs`."""

from __future__ import annotations

import re
import sys

import cronflow.domain

HEAD = """# Glossary

Made from the docstring of [`cronflow/domain/__init__.py`](../../cronflow/domain/__init__.py) by `make docs`; do not
edit it. Each word has this one meaning in the code, the documents, the commands and the dashboard.

| word | |
|---|---|"""

_ENTRY = re.compile(r"^([A-Z]\S*(?: \S+)*?) {2,}(\S.*)$", re.MULTILINE)


def words() -> list[tuple[str, str]]:
    """Each word with its meaning, in the order of the docstring: a word stands after those that it is made of."""
    return _ENTRY.findall(cronflow.domain.__doc__ or "")


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *(f"| **{word}** | {meaning.replace('|', chr(92) + '|')} |" for word, meaning in words())])


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
