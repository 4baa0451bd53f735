"""Which mutants a change touches: those whose file differs from the commit that the work began from."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

from tests.mutants.catalogue import PACKAGE, Mutant

MAIN = "origin/main"


def base_commit(repository: Path) -> str | None:
    """Where this branch left `origin/main`; on `origin/main` itself the commit before. None in a clone without any."""
    head = _git(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    base = _git(repository, "merge-base", "HEAD", MAIN)
    if base is None or base == head:
        base = _git(repository, "rev-parse", "--verify", "--quiet", "HEAD~1^{commit}")
    return base


def changed_files(repository: Path, base: str) -> frozenset[str]:
    """The files that differ from `base`, committed or not, by their paths below the root."""
    found = _git(repository, "diff", "--name-only", "--no-renames", base, "--")
    if found is None:
        raise RuntimeError(f"git cannot compare the files with {base}")
    return frozenset(found.splitlines())


def touched(mutants: Iterable[Mutant], files: Collection[str]) -> list[Mutant]:
    """Those that change one of these files."""
    return [mutant for mutant in mutants if (PACKAGE / mutant.file).as_posix() in files]


def _git(repository: Path, *words: str) -> str | None:
    """What git prints; None when it fails or is not installed."""
    try:
        done = subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
