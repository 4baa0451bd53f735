"""A real OpenID Connect provider, and a person's browser that logs in there. Needs Node."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest

from cronflow.operating_system import tied_to_parent
from tests.children import OUTSIDE, child_environment

FOLDER = Path(__file__).parent
SECRET = "a secret of the tests, and of nothing else"
PEOPLE: dict[str, dict[str, object]] = {
    "ada": {"groups": ["cronflow-admins"]},
    "grace": {"groups": ["payroll", "everybody"]},
    "eve": {"groups": ["everybody"]},
}
ROLES = "cronflow-admins=admin, ops=operator, payroll=editor:payroll-*"
FIELD = re.compile(r'<input[^>]*\bname="([^"]+)"(?:[^>]*\bvalue="([^"]*)")?')
ACTION = re.compile(r'<form[^>]*\baction="([^"]*)"')


@dataclass
class Provider:
    """The provider, and what tests may change there."""

    issuer: str

    def change(self, what: str, **content: Any) -> Any:
        """See `provider.mjs`."""
        return httpx2.post(f"{self.issuer}/test/{what}", json=content, timeout=30, verify=False).json()

    @contextmanager
    def entering_codes(self, name: str) -> Iterator[None]:
        """Meanwhile, this person enters the code of every device."""
        over = threading.Event()

        def enter() -> None:
            while not over.wait(0.2):
                for code in self.change("codes"):
                    self.enter_code(code, name)

        thread = threading.Thread(target=enter)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def reset(self) -> None:
        """As at the start."""
        self.change("forge")
        self.change("claims", **{"in": "id_token"})
        self.change("people", **PEOPLE)

    def log_in(self, url: str, name: str) -> httpx2.Response:
        """Open the address and give the name; returns the first answer that leads back from the provider."""
        with httpx2.Client(timeout=30, verify=False) as browser:
            answer = browser.get(url)
            for _ in range(5):
                while answer.is_redirect:
                    target = urljoin(str(answer.url), answer.headers["Location"])
                    if not target.startswith(f"{self.issuer}/"):
                        return answer
                    answer = browser.get(target)
                assert answer.status_code == 200, answer.text
                answer = browser.post(str(answer.url), data={"login": name})
        raise AssertionError(answer.text)

    def enter_code(self, code: str, name: str) -> None:
        """Enter the code of a device, confirm it and log in."""
        with httpx2.Client(timeout=30, verify=False) as browser:
            answer = browser.get(f"{self.issuer}/device")
            for _ in range(10):
                while answer.is_redirect:
                    answer = browser.get(urljoin(str(answer.url), answer.headers["Location"]))
                if answer.text == "done":
                    return
                given = {field: unescape(value) for field, value in FIELD.findall(answer.text)}
                given |= {"user_code": code} if "user_code" in given else {}
                given |= {"login": name} if "login" in given else {}
                action = ACTION.search(answer.text)
                answer = browser.post(unescape(action[1]) if action else str(answer.url), data=given)
        raise AssertionError(answer.text)


def missing(what: str) -> None:
    """Fails in CI and skips elsewhere."""
    reason = f"single sign-on not tested: {what}; install Node 20.19 or later"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def install() -> None:
    """Install the packages of the provider, if that was not done before."""
    installed, lock = FOLDER / "node_modules" / ".package-lock.json", FOLDER / "package-lock.json"
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            done = subprocess.run(
                ["npm", "ci", "--no-audit", "--no-fund"],
                cwd=FOLDER,
                env=OUTSIDE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout


@contextmanager
def providing(port: int = 0) -> Iterator[Provider]:
    """A provider on this port of loopback, or on a free one. Skips without Node."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        missing("Node is not installed")
        return
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(int(part) for part in version.removeprefix("v").split(".")[:2]) < (20, 19):
        missing(f"Node is {version}")
    install()
    child = subprocess.Popen(
        [*tied_to_parent(), node, str(FOLDER / "provider.mjs")],
        env=child_environment(PORT=str(port)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        found = Provider(child.stdout.readline().strip())
        assert found.issuer.startswith("http://127.0.0.1:"), "the provider did not start"
        found.reset()
        yield found
    finally:
        child.stdin.close()
        child.wait(timeout=60)
        child.stdout.close()
