"""Checks the built wheel: its metadata, and an installation by each Python that CronFlow supports.

    python -m tools.check_wheel [--python PATH]…

Every installation is into a new virtual environment with the versions of constraints.txt. There a cluster in memory
runs the example jobs for a few seconds, and a command explains a schedule. Pythons that are not on the PATH are named
and not checked; exit code 1 means that a check failed.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TWINE = "twine==7.0.0"
FAILED = 1
LAST_LINES = 15


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], help="a Python that is not on the PATH")
    given = parser.parse_args().python
    files = sorted(str(path) for path in (ROOT / "dist").iterdir())
    wheels = [path for path in files if path.endswith(".whl")]
    if len(wheels) != 1:
        print("dist has no wheel, or more than one; run make build", file=sys.stderr)
        return FAILED
    went_well = has_valid_metadata(files)
    for version in VERSIONS:
        program = shutil.which(f"python{version}")
        if program is None:
            print(f"- python{version} is not on the PATH; not checked")
        else:
            given.append(program)
    for python in given:
        went_well = installs(python, wheels[0]) and went_well
    return 0 if went_well else FAILED


def has_valid_metadata(files: list[str]) -> bool:
    """Whether PyPI accepts the files, and renders their description."""
    with tempfile.TemporaryDirectory() as folder:
        twine = f"{folder}/bin/python -m twine check --strict".split()
        return (
            passed("twine: environment", [sys.executable, "-m", "venv", folder])
            and passed("twine: install", [f"{folder}/bin/python", "-m", "pip", "--quiet", "install", TWINE])
            and passed("metadata", [*twine, *files])
        )


def installs(python: str, wheel: str) -> bool:
    """Whether this Python can install and use the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        environment = f"{folder}/environment"
        constraints = str(ROOT / "constraints.txt")
        pip = f"{environment}/bin/python -m pip --quiet --disable-pip-version-check".split()
        cronflow = f"{environment}/bin/cronflow"
        jobs = f"{folder}/jobs.yaml"
        Path(jobs).write_text("jobs:\n  - {name: tick, schedule: {every: 1s}, run: {shell: 'true'}}\n", "utf-8")
        return (
            passed(f"{python}: environment", [python, "-m", "venv", environment])
            and passed(f"{python}: install", [*pip, "install", "-c", constraints, wheel])
            and passed(f"{python}: dependencies", [*pip, "check"])
            and passed(f"{python}: command", [cronflow, "cron", "explain", "0 9 * * MON#2", "--tz", "Europe/Berlin"])
            and passed(
                f"{python}: cluster", [cronflow, "dev", jobs, "--memory", "--port", free_port(), "--for", "4s"], folder
            )
        )


def free_port() -> str:
    """A port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return str(listening.getsockname()[1])


def passed(what: str, command: list[str], folder: str | None = None) -> bool:
    """Run a command and print one line, or the end of its output if it failed."""
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    print("✓" if done.returncode == 0 else "✗", what, flush=True)
    if done.returncode:
        print("\n".join(f"    {line}" for line in done.stdout.decode(errors="replace").splitlines()[-LAST_LINES:]))
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
