"""Releases to run side by side: an earlier one from the history of the repository, this tree, and this tree changed.

Each is built into a wheel and installed by pip, with the dependencies of its own constraints.txt. A changed tree has
the dependencies of this one, so its wheel alone is installed, in front of them. Nothing is written to the repository.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.children import OUTSIDE, ROOT

PARTS = ("cronflow", "deploy/share", "pyproject.toml", "constraints.txt", "README.md", "LICENSE")
"""What of the tree a wheel is built from."""


class CannotBuild(Exception):
    """A release cannot be built or installed here."""


@dataclass(frozen=True, slots=True)
class Release:
    """An installed version. `path` has the folders in front of the packages of its environment."""

    version: str
    python: Path
    path: tuple[Path, ...] = ()


class Releases:
    """Builds and installs into a folder. What an earlier call installed there is used again, except this tree."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def earlier(self, version: str) -> Release:
        """The release of the commit that made the version. CannotBuild in a clone without it."""
        python = self._folder / version / "environment" / "bin" / "python"
        if not python.exists():
            tree = self._new(version) / "tree"
            tree.mkdir()
            archive = tree.with_suffix(".tar")
            _run(["git", "archive", f"--output={archive}", commit_of(version)], ROOT)
            shutil.unpack_archive(archive, tree)
            self._install(tree)
        return Release(version, python)

    def present(self) -> Release:
        """This tree, with what is not committed."""
        version = version_of(ROOT)
        tree = _copied(self._new(version) / "tree")
        return Release(version, self._install(tree))

    def changed(self, present: Release, version: str, edits: Mapping[str, tuple[str, str]] | None = None) -> Release:
        """This tree with another version, and with edits: by file, a text that occurs once and its replacement."""
        folder = self._new(version)
        tree = _copied(folder / "tree")
        own = {"pyproject.toml": (f'\nversion = "{present.version}"', f'\nversion = "{version}"')}
        for file, (text, replacement) in (own | dict(edits or {})).items():
            (tree / file).write_text(substituted((tree / file).read_text("utf-8"), text, replacement), "utf-8")
        packages = folder / "packages"
        _pip(present.python, "--no-deps", "--target", str(packages), str(_wheel(tree)))
        return replace(present, version=version, path=(packages,))

    def _new(self, version: str) -> Path:
        folder = self._folder / version
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _install(self, tree: Path) -> Path:
        environment = tree.parent / "environment"
        _run([sys.executable, "-m", "venv", str(environment)], tree)
        python = environment / "bin" / "python"
        try:
            _pip(python, "--constraint", str(tree / "constraints.txt"), str(_wheel(tree)))
        except CannotBuild:
            # Otherwise a later call would take it for complete.
            shutil.rmtree(environment)
            raise
        return python


def version_of(tree: Path) -> str:
    """The version of a tree."""
    found: str = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return found


def next_patch(version: str) -> str:
    """The next version of the same minor one: 0.13.0 -> 0.13.1."""
    *minor, patch = version.split(".")
    return ".".join([*minor, str(int(patch) + 1)])


def next_minor(version: str) -> str:
    """The next minor version: 0.13.1 -> 0.14.0."""
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.0"


def substituted(source: str, text: str, replacement: str) -> str:
    """ValueError unless the text occurs exactly once."""
    if source.count(text) != 1:
        raise ValueError(f"{text!r} occurs {source.count(text)} times; it must occur once")
    return source.replace(text, replacement)


def commit_of(version: str) -> str:
    """The first commit whose pyproject.toml has the version. CannotBuild if there is none."""
    found = _run(["git", "log", "--reverse", "--format=%H", f'-Sversion = "{version}"', "--", "pyproject.toml"], ROOT)
    if not found:
        raise CannotBuild(f"no commit has the version {version}; fetch the whole history: git fetch --unshallow")
    return found.split()[0]


def _copied(tree: Path) -> Path:
    for part in PARTS:
        source, target = ROOT / part, tree / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return tree


def _wheel(tree: Path) -> Path:
    _run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", "wheel"], tree)
    (wheel,) = (tree / "wheel").glob("*.whl")
    return wheel


def _pip(python: Path, *words: str) -> None:
    _run([str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *words], python.parent)


def _run(command: list[str], folder: Path) -> str:
    """What the command prints. CannotBuild, with the end of its output, if it fails."""
    done = subprocess.run(command, cwd=folder, env=OUTSIDE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild("\n".join([" ".join(command), *(done.stdout + done.stderr).splitlines()[-15:]]))
    return done.stdout
