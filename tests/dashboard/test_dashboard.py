"""Builds the dashboard, checks its types against the API, runs its own tests, and inspects the wheel.

CronFlow itself needs neither Node nor a browser. If one is missing, these tests are skipped with a hint;
in CI (`CI` is set) they fail.
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

from cronflow.operating_system import tied_to_parent
from tests.children import OUTSIDE, child_environment

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "dashboard"
BUILT = ROOT / "cronflow" / "_ui"
OLDEST_NODE = (20, 19)
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FIREFOX = os.environ.get("FIREFOX", "/usr/bin/firefox-esr")


LAZY_ASSET = re.compile(r"[\w.-]+-[\w-]{8}\.(?:js|css|woff2)(?=[`\"')])")
"""File names in scripts and styles; the eight characters are a content hash."""


def assets(index: str) -> list[str]:
    """The asset URLs in a page."""
    return re.findall(r'(?:src|href)="(/[^"]*)"', index)


def missing(what: str, remedy: str) -> None:
    """Fails in CI and skips elsewhere."""
    reason = f"dashboard not tested: {what}; {remedy}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def npm(*arguments: str) -> str:
    """Returns the output; a non-zero exit status fails the test, with the lines that are not about what passed."""
    found = subprocess.run(
        ["npm", *arguments],
        cwd=DASHBOARD,
        env=OUTSIDE
        if arguments[0] == "ci"
        else child_environment(PYTHON=sys.executable, CHROMIUM=CHROMIUM, FIREFOX=FIREFOX),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.fail("\n".join(line for line in found.stdout.splitlines() if "✓" not in line), pytrace=False)
    return found.stdout


@contextmanager
def exclusive() -> Iterator[None]:
    """Lets one test process at a time change the build."""
    with (DASHBOARD / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def newest(*paths: Path) -> float:
    """The latest modification time of any source in these paths.

    The types, which tests generate anew, are left out, and so is the bytecode, which appears while tests run: the page
    would be built again under a browser that is being tested.
    """
    files = (file for path in paths for file in (path, *path.rglob("*")) if file.is_file() and file.suffix != ".pyc")
    return max(file.stat().st_mtime for file in files if not file.name.startswith("openapi."))


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Builds the page if a source is newer."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        missing("Node is not installed", "install Node 20.19 or later")
        return
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(int(part) for part in version.removeprefix("v").split(".")[:2]) < OLDEST_NODE:
        missing(f"Node is {version}", "install Node 20.19 or later")
    installed, index = DASHBOARD / "node_modules" / ".package-lock.json", BUILT / "index.html"
    lock = DASHBOARD / "package-lock.json"
    with exclusive():
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            npm("ci", "--no-audit", "--no-fund")
        sources = (
            DASHBOARD / name
            for name in ("src", "public", "index.html", "vite.config.ts", "generate.mjs", "package-lock.json")
        )
        if not index.exists() or index.stat().st_mtime < newest(
            *sources, *(ROOT / "cronflow" / name for name in ("api", "schemas", "documents"))
        ):
            npm("run", "build")


def test_the_page_loads_nothing_from_other_hosts() -> None:
    index = (BUILT / "index.html").read_text("utf-8")
    assert assets(index)
    assert "//" not in index.replace("<!doctype html>", "")


@pytest.fixture(scope="module")
def wheel(built: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_the_wheel_contains_every_asset_of_the_page(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        text = {name: archive.read(name).decode() for name in names if name.endswith((".html", ".js", ".css"))}
    wanted = assets(text["cronflow/_ui/index.html"])
    assert len(wanted) >= 4
    assert {f"cronflow/_ui{address}" for address in wanted} <= names
    # Scripts contain the names of lazily loaded files.
    lazy = {found for name in text if "_ui/" in name for found in LAZY_ASSET.findall(text[name])}
    assert len(lazy) > 20
    assert {f"cronflow/_ui/assets/{name}" for name in lazy} <= names


@pytest.mark.prove
def test_an_installed_wheel_runs_a_cluster_and_serves_the_page_without_node(wheel: Path, tmp_path: Path) -> None:
    """Uses a separate virtual environment with the dependencies of this one, so nothing is downloaded."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    [packages] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", str(wheel)]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    env = child_environment()
    del env["PYTHONPATH"]
    port = free_port()
    (tmp_path / "jobs.yaml").write_text("{name: tick, schedule: {every: 1s}, overlap: queue, run: {shell: 'true'}}\n")
    words = ["dev", "jobs.yaml", "--port", str(port), "--for", "20s"]
    child = subprocess.Popen(
        [*tied_to_parent(), str(python.with_name("cronflow")), *words],
        cwd=tmp_path,
        env={**env, "PATH": str(python.parent), "CRONFLOW_ADMIN_PASSWORD": "for this test only"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert child.stdout is not None
        output = []
        for line in child.stdout:
            output.append(line)
            if f"http://127.0.0.1:{port}" in line:
                break
        else:
            pytest.fail("".join(output))
        index = loaded(port, "/")
        assert loaded(port, "/jobs/any").startswith("<!doctype html>"), "every path serves the page"
        for address in assets(index):
            assert loaded(port, address), address
        where = [str(python), "-c", "import cronflow; print(cronflow.__file__)"]
        found = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        assert found.stdout.startswith(str(packages)), "cronflow was imported from the wheel"
        output.append(child.communicate(timeout=180)[0])
        assert child.returncode == 0, "".join(output)
        assert "every fire has exactly one run" in output[-1]
    finally:
        child.terminate()
        child.communicate(timeout=60)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def loaded(port: int, address: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{address}", timeout=30) as answer:
        text: str = answer.read().decode("utf-8", "replace")
    return text


def test_the_types_match_the_api() -> None:
    # The types are written anew with each build, which is newer than the API.
    assert "0 errors and 0 warnings" in npm("run", "check")


def test_unit_tests_and_the_budget_of_90_kb_of_javascript() -> None:
    assert "first page" in npm("test"), "the size of the first page was not measured"


@pytest.mark.longest
def test_the_page_in_a_browser_with_a_simulated_and_a_real_cluster() -> None:
    for name, browser in {"Chromium": CHROMIUM, "Firefox": FIREFOX}.items():
        if not Path(browser).exists():
            missing(f"no browser at {browser}", f"install {name}, or set {name.upper()} to its path")
    # One browser at a time: with two, the other workers of pytest would wait.
    npm("run", "test:browser", "--", "--workers=1")


def test_the_lock_file_contains_no_registry_addresses() -> None:
    assert '"resolved"' not in (DASHBOARD / "package-lock.json").read_text("utf-8")
