"""What `cronflow init` writes runs as it is, on real servers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.children import child_environment, python


@pytest.mark.prove
def test_the_folder_runs(tmp_path: Path) -> None:
    def cronflow(*words: str, cwd: Path) -> str:
        done = subprocess.run(
            python("-m", "cronflow", *words),
            cwd=cwd,
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    cronflow("init", "shop", cwd=tmp_path)
    for file in (tmp_path / "shop" / "jobs.py", tmp_path / "shop" / "jobs.yaml"):
        file.write_text(file.read_text().replace('every="1m"', 'every="1s"').replace("every: 1m", "every: 1s"))
    found = json.loads(cronflow("dev", "jobs.yaml", "jobs.py", "--for", "6s", "-o", "json", cwd=tmp_path / "shop"))
    assert found["fires_due"] >= 6
    assert (found["lost"], found["doubled"], found["dead"]) == (0, 0, [])
