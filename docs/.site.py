"""What MkDocs lacks for these documents: links to files of the repository that are not documents lead to pages, too.

The rule: a link that works where the documents stand works on the site. A source file that is linked becomes a page
that shows it, a Markdown file outside of docs/ a page like the others, and a folder a list of its files.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "sh", ".lua": "lua", ".toml": "toml", ".json": "json"}

made: dict[Path, str] = {}
"""The page of each file or folder that a document links to, as its place in the docs."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    made.clear()
    waiting = [ROOT / "docs" / one.src_uri for one in files.documentation_pages()]
    while waiting:
        document = waiting.pop()
        for target in targets(document):
            if target not in made:
                page = made[target] = place(target)
                files.append(File.generated(config, page, content=shown(target)))
                if target.suffix == ".md":
                    waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead the links to the pages."""
    original = next((file for file, uri in made.items() if uri == page.file.src_uri), DOCS / page.file.src_uri)

    def led(found: re.Match[str]) -> str:
        target = (original.parent / found[1]).resolve()
        if target in made:
            return posixpath.relpath(made[target], posixpath.dirname(page.file.src_uri))
        if target.is_relative_to(DOCS):
            return posixpath.relpath(target.relative_to(DOCS).as_posix(), posixpath.dirname(page.file.src_uri))
        return found[1]

    return LINK.sub(led, markdown)


def targets(document: Path) -> list[Path]:
    """What a document links to and the site would not have."""
    linked = [(document.parent / link).resolve() for link in LINK.findall(FENCED.sub("", document.read_text("utf-8")))]
    return [
        one
        for one in linked
        if one.exists() and one.is_relative_to(ROOT) and (one.is_dir() or not one.is_relative_to(DOCS))
    ]


def place(target: Path) -> str:
    """Below `source/`. No page is called README or index: it would take the place of a folder's."""
    name = target.relative_to(ROOT).as_posix()
    return f"source/{'the-' if name == 'README.md' else ''}{name.removesuffix('.md').lower()}.md"


def shown(target: Path) -> str:
    """The text of its page."""
    name = target.relative_to(ROOT).as_posix()
    if target.suffix == ".md":
        return target.read_text("utf-8")
    if target.is_dir():
        names = sorted(one.name for one in target.iterdir() if not one.name.startswith(("_", ".")))
        return "\n".join([f"# {name}", "", *(f"* `{one}`" for one in names)])
    return f"# {name}\n\n```{LANGUAGES.get(target.suffix, 'text')}\n{target.read_text('utf-8')}\n```\n"
