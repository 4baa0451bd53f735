"""The environment of the tests, and of the processes that they start.

The rule: no test depends on the person who runs it. Of that person's environment a test has the few variables in
`KEPT`; its home, its working directory and with them every saved login, `cronflow.toml` and spool are its own
(`tests.conftest` sees to it, and refuses a child whose environment was not made here). A child dies with the process of
the tests, however that one ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from cronflow.operating_system import tied_to_parent

ROOT = Path(__file__).parents[1]

OUTSIDE = dict(os.environ)
"""The environment of the person who runs the tests, for tools that install something."""
PERSONAL_HOME = OUTSIDE.get("HOME", "")

KEPT = frozenset({"CHROMIUM", "CI", "FIREFOX", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "USER", "VIRTUAL_ENV"})
KEPT_PREFIXES = ("COVERAGE_", "CRONFLOW_TEST_", "HYPOTHESIS_", "NODE_", "PYTEST_", "npm_config_")
KEPT_OF_PYTHON = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPYCACHEPREFIX"})
SAME_FOR_ALL = {"LANG": "C.UTF-8", "TZ": "UTC"}

PASSWORD = "only-for-this-test"
ADMIN = {"CRONFLOW_ADMIN_PASSWORD": PASSWORD, "CRONFLOW_JWT_SECRET": "of-thirty-two-bytes-or-some-more"}
"""What an API needs besides its servers."""

NO_HOME = "/nonexistent"
"""The home until the first fixture is made: modules of tests have none."""


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """What may be kept of an environment; without a home."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in KEPT or name in KEPT_OF_PYTHON or name.startswith(KEPT_PREFIXES)
    }
    return kept | SAME_FOR_ALL


def child_environment(**own: str) -> dict[str, str]:
    """The environment of a child: CronFlow of this checkout, the home of the test, and its own variables."""
    inherited = {name: value for name, value in clean(os.environ).items() if not name.startswith("CRONFLOW_")}
    return {**inherited, "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT), **own}


def cluster_environment(redis_url: str, mongo_url: str, namespace: str, **own: str) -> dict[str, str]:
    """The environment of a process of a cluster."""
    servers = {"CRONFLOW_REDIS_URL": redis_url, "CRONFLOW_MONGO_URL": mongo_url, "CRONFLOW_NAMESPACE": namespace}
    return child_environment(**servers, **own)


class Child(Protocol):
    """A child process: a `Popen`, or a `tests.forked.Forked`."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


def python(*arguments: str | Path) -> list[str]:
    """Python with these arguments, as a process that dies with this one; for `Popen` on a thread that stays."""
    return [*tied_to_parent(), sys.executable, *map(str, arguments)]


def start(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, output: IO[bytes], *, own_session: bool = False
) -> Child:
    """Start `python -m` with these words in the folder, with both outputs in a file and an empty input."""
    return subprocess.Popen(
        python("-m", *words),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=own_session,
    )


@contextmanager
def process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[Child]:
    """A module with arguments, in the folder of its log; ended by its id, whatever happens."""
    with log.open("wb") as out:
        child = start(command, environment, log.parent, out)
        with ended(child):
            yield child


@contextmanager
def ended(child: Child) -> Iterator[None]:
    """End the child by its id, whatever happens."""
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def refuse_the_home_of_the_person(args: str | Sequence[Any], env: Mapping[str, str] | None) -> None:
    """AssertionError for a child that would run CronFlow with the home of the person who runs the tests."""
    words = [args] if isinstance(args, str) else [os.fsdecode(word) for word in args]
    home = (os.environ if env is None else env).get("HOME", "")
    runs_cronflow = any(sys.executable in word or "cronflow" in word for word in words)
    if runs_cronflow and home in ("", PERSONAL_HOME):
        raise AssertionError(f"{words} would have the home of whoever runs the tests: use tests.children")
