"""The dashboard's own tests, as part of all tests: it is built, its types fit the API, and it works in a real browser.

Node and a browser are no part of CronFlow. Where they are missing these tests are skipped and say what to install; in
CI (`CI` is set) that is a failure.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cronflow.testing.embedded.launch import tied_to_parent
from tests.children import OUTSIDE, child_environment

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "dashboard"
BUILT = ROOT / "cronflow" / "_ui"
OLDEST_NODE = (20, 19)
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


LATER = re.compile(r"[\w.-]+-[\w-]{8}\.(?:js|css|woff2)(?=[`\"')])")
"""Names of files as scripts and styles have them; the eight characters are made of the content."""


def assets(index: str) -> list[str]:
    """The addresses that a page names."""
    return re.findall(r'(?:src|href)="(/[^"]*)"', index)


def missing(what: str, remedy: str) -> None:
    """In CI a failure, elsewhere a reason to skip."""
    said = f"THE DASHBOARD IS NOT TESTED: {what}; {remedy}"
    if os.environ.get("CI"):
        pytest.fail(said)
    pytest.skip(said)


def npm(*arguments: str) -> str:
    """What it said. Fails the test when it does not end well. It installs with the settings of the person."""
    found = subprocess.run(
        ["npm", *arguments],
        cwd=DASHBOARD,
        env=OUTSIDE if arguments[0] == "ci" else child_environment(PYTHON=sys.executable, CHROMIUM=CHROMIUM),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout
    return found.stdout


@contextmanager
def alone() -> Iterator[None]:
    """One process of the tests at a time."""
    with (DASHBOARD / "package.json").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def newest(*paths: Path) -> float:
    """When any of the files below was changed last."""
    return max(file.stat().st_mtime for path in paths for file in (path, *path.rglob("*")) if file.is_file())


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """The page in the package, as its sources are now."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        missing("there is no Node", "install Node 20.19 or later")
        return
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(int(part) for part in version.removeprefix("v").split(".")[:2]) < OLDEST_NODE:
        missing(f"Node is {version}", "install Node 20.19 or later")
    installed, index = DASHBOARD / "node_modules" / ".package-lock.json", BUILT / "index.html"
    lock = DASHBOARD / "package-lock.json"
    with alone():
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            npm("ci", "--no-audit", "--no-fund")
        sources = (DASHBOARD / name for name in ("src", "public", "index.html", "vite.config.ts", "package-lock.json"))
        if not index.exists() or index.stat().st_mtime < newest(*sources):
            npm("run", "build")


def test_it_loads_nothing_from_elsewhere() -> None:
    index = (BUILT / "index.html").read_text("utf-8")
    assert assets(index)
    assert "//" not in index.replace("<!doctype html>", "")


@pytest.fixture(scope="module")
def wheel(built: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CronFlow's wheel, as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    [found] = folder.glob("*.whl")
    return found


def test_a_wheel_has_every_file_that_the_page_names(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        text = {name: archive.read(name).decode() for name in names if name.endswith((".html", ".js", ".css"))}
    wanted = assets(text["cronflow/_ui/index.html"])
    assert len(wanted) >= 4
    assert {f"cronflow/_ui{address}" for address in wanted} <= names
    # What the scripts load later is named by them.
    later = {found for name in text if "_ui/" in name for found in LATER.findall(text[name])}
    assert len(later) > 20
    assert {f"cronflow/_ui/assets/{name}" for name in later} <= names


def test_a_wheel_that_is_installed_runs_a_cluster_and_serves_the_page_without_node(wheel: Path, tmp_path: Path) -> None:
    """In a virtual environment of its own; what CronFlow needs is borrowed from this one, so nothing is downloaded."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    [packages] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", str(wheel)]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    env = child_environment()
    del env["PYTHONPATH"]
    port = free_port()
    (tmp_path / "jobs.yaml").write_text("{name: tick, schedule: {every: 1s}, overlap: queue, run: {shell: 'true'}}\n")
    words = ["dev", "jobs.yaml", "--port", str(port), "--for", "20s"]
    child = subprocess.Popen(
        [*tied_to_parent(), str(python.with_name("cronflow")), *words],
        cwd=tmp_path,
        env={**env, "PATH": str(python.parent), "CRONFLOW_ADMIN_PASSWORD": "only for this test"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert child.stdout is not None
        said = []
        for line in child.stdout:
            said.append(line)
            if f"http://127.0.0.1:{port}" in line:
                break
        else:
            pytest.fail("".join(said))
        index = loaded(port, "/")
        assert loaded(port, "/jobs/any").startswith("<!doctype html>"), "every address of the page leads to it"
        for address in assets(index):
            assert loaded(port, address), address
        where = [str(python), "-c", "import cronflow; print(cronflow.__file__)"]
        found = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        assert found.stdout.startswith(str(packages)), "it was the wheel that served"
        said.append(child.communicate(timeout=180)[0])
        assert child.returncode == 0, "".join(said)
        assert "every fire has exactly one run" in said[-1]
    finally:
        child.terminate()
        child.communicate(timeout=60)


def free_port() -> int:
    """One that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def loaded(port: int, address: str) -> str:
    """The text of an answer that is one."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{address}", timeout=30) as answer:
        text: str = answer.read().decode("utf-8", "replace")
    return text


def test_its_types_are_those_of_the_api() -> None:
    with alone():
        npm("run", "types")
    assert "0 errors and 0 warnings" in npm("run", "check")


def test_its_parts_work_and_its_first_page_loads_at_most_90_kb_of_script() -> None:
    assert "first page" in npm("test"), "the size of the first page was measured"


@pytest.mark.longest
def test_it_works_in_a_real_browser_on_a_made_up_and_on_a_real_cluster() -> None:
    if not Path(CHROMIUM).exists():
        missing(f"there is no browser at {CHROMIUM}", "install Chromium, or say with CHROMIUM where it is")
    npm("run", "test:browser")


def test_its_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (DASHBOARD / "package-lock.json").read_text("utf-8")
