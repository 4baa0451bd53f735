"""Generated pages are up to date, and all pages build a site without warnings and broken links."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import cronflow.domain
from cronflow.domain.run import ENDED, OPEN
from cronflow.domain.transitions import TRANSITIONS
from tests.docs.blocks import ROOT
from tools.docs import glossary, life_of_a_run

MADE = re.findall(r"^\t\$\(BIN\)/python -m (.+) > (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
"""The modules that `make docs` runs, and the file that each of them generates."""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python module in the root of the repository."""
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(("module", "page"), MADE, ids=[page for _, page in MADE])
def test_a_generated_page_is_up_to_date(module: str, page: str) -> None:
    done = run(*module.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (ROOT / page).read_text("utf-8"), f"{page} is out of date; run: make docs"


def test_make_docs_generates_every_page_marked_as_generated() -> None:
    pages = {
        path
        for path in (ROOT / "docs").rglob("*.md")
        if "by `make docs`; do not" in " ".join(path.read_text("utf-8").split())
    }
    assert {ROOT / page for _, page in MADE} - pages == {ROOT / "docs" / "images" / "life-of-a-run.svg"}
    assert pages - {ROOT / page for _, page in MADE} == set()


def test_the_picture_has_every_transition_and_every_state() -> None:
    drawn = re.findall(r">([a-z_, ]+)</text>", life_of_a_run.svg())
    assert {name for text in drawn for name in text.split(", ")} >= set(TRANSITIONS)
    assert all(f">{state}</text>" in life_of_a_run.svg() for state in OPEN | ENDED)


def test_the_glossary_lists_every_word() -> None:
    lines = (cronflow.domain.__doc__ or "").rpartition("\n\n")[2].strip().splitlines()
    assert len(glossary.words()) == len(lines) > 30


class Page(HTMLParser):
    """The links of a page, the resources it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See HTMLParser."""
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in ("link", "script", "img", "iframe"):
            self.loaded += [found[name] for name in ("href", "src") if name in found]


def test_the_site_builds_without_warnings_and_without_broken_links(tmp_path: Path) -> None:
    done = run("mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path: Page(path.read_text("utf-8")) for path in tmp_path.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 60
    for path, page in pages.items():
        # Pages load nothing from other servers: they work offline, and no one can track the reader.
        assert [link for link in page.loaded if urlsplit(link).netloc] == [], path
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if not parts.scheme:
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                assert target.exists(), f"{path.relative_to(tmp_path)}: {link}"
                if parts.fragment and target in pages:
                    assert unquote(parts.fragment) in pages[target].places, f"{path.relative_to(tmp_path)}: {link}"
