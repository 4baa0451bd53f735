"""The page of the first day, as a whole on real servers: what it starts runs, and its mail arrives."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import orjson

from tests.children import process
from tests.docs.blocks import ROOT, blocks
from tests.docs.conftest import Cluster
from tests.docs.test_pages import LOGGED_IN, replaced, tools
from tests.provider import providing
from tests.waiting import eventually

PAGE = ROOT / "docs" / "how-to" / "first-day.md"
NODE = re.compile(r"cronflow node (.+)")
WHY = "cronflow jobs why shop-report"
REASON = "no node has shop_jobs:shop_report"


async def bash(text: str, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run,
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def explained(folder: Path, environment: Mapping[str, str]) -> str:
    """What `jobs why` prints once it has the reason."""
    done = await bash(WHY, folder, environment)
    return done.stdout if REASON in done.stdout else ""


async def test_the_first_day(cluster: Cluster, tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    stand_ins = {"https://cron.example.com": cluster.url, "/srv/shop/bin/": f"{tmp_path}/bin/"}
    # The backup of the page is missing.
    program = tmp_path / "bin" / "shop-feeds"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho feeds >> {tmp_path}/feeds.log\n")
    program.chmod(0o755)
    environment = {
        **cluster.environment,
        **LOGGED_IN,
        "PATH": f"{tools(tmp_path, cluster.program)}:{cluster.environment['PATH']}",
        "HOME": str(home),
    }
    node = cluster.environment | {"CRONFLOW_DRAIN_TIMEOUT": "1s", "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    printed = ""
    before = len(cluster.mail)
    try:
        with ExitStack() as stack:
            provider = stack.enter_context(providing(cluster.provider_port))
            stack.enter_context(provider.entering_codes("ada"))
            for block in blocks(PAGE):
                text = replaced(block.text, stand_ins)
                if block.name:
                    (folder / block.name).write_text(text, "utf-8")
                elif started := NODE.match(text):
                    words = ["cronflow", "node", *started[1].split()]
                    stack.enter_context(process(words, node, tmp_path / "node-4.log"))
                elif block.language == "sh":
                    done = await bash(text, folder, environment)
                    assert done.returncode == 0, f"{block.place}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
                    printed += done.stdout
                    if WHY in text:
                        # The leader may not have tried to place the run when the page asks.
                        printed += await eventually(partial(explained, folder, environment), what=REASON)
            await eventually(
                lambda: any("shop-backup" in subject for subject in cluster.mail[before:]), what="the mail has arrived"
            )

            async def each_once() -> object:
                """Whether each run of shop-feeds was executed once: two by hand, and others by its schedule."""
                done = await bash("cronflow runs list --job shop-feeds -o json", folder, environment)
                runs = orjson.loads(done.stdout)
                kinds = [run["kind"] for run in runs if run["state"] == "succeeded"]
                lines = (tmp_path / "feeds.log").read_text().splitlines()
                return kinds.count("manual") == 2 and lines == ["feeds"] * len(runs) and len(kinds) == len(runs)

            await eventually(each_once, what="each run of shop-feeds was executed once")
    finally:
        cluster.reset()
    for expected in (
        "oidc:ada",
        REASON,
        "the receiver answered 250",
        "node-4",
        "key:ci    job.create",
    ):
        assert expected in printed, f"{expected!r} is not in\n{printed}"
