"""`make upgrade-test`: upgrades under load, with two versions side by side, and checks every run.

    python -m tests.upgrade                    every part
    python -m tests.upgrade within             one of them
    python -m tests.upgrade --folder DIR       keep the environments and the logs of the nodes there

* `across`: from 0.6.0 to this tree, node by node, with each of them as the leader of the other, and killed leaders.
* `within`: from this tree to a newer patch of its minor version, and back.
* `newer`: a version with a newer protocol takes over; a node of this tree then refuses to start, and changes nothing.

The releases are built into wheels and installed by pip; a package index must be reachable. The servers are embedded.
The exit status is 1 unless every instant has exactly one run, every history keeps the rules H1 to H15, and
`cronflow cluster sweep` found nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from cronflow.domain.cluster import PROTOCOL
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.testing.history.history import History
from tests.servers import fast_folder
from tests.upgrade import scenarios
from tests.upgrade.cluster import MixedCluster
from tests.upgrade.releases import CannotBuild, Release, Releases, next_minor, next_patch
from tests.upgrade.verdict import judged, table

EARLIER = "0.6.0"
PARTS = ("across", "within", "newer")
EVERY = "all"

Scenario = Callable[[MixedCluster, Release, Release], Awaitable[History]]


def built(part: str, releases: Releases, present: Release) -> tuple[Scenario, Release, Release]:
    """The scenario of a part, and its two releases. CannotBuild if they cannot be built here."""
    match part:
        case "across":
            return scenarios.across, releases.earlier(EARLIER), present
        case "within":
            return scenarios.within, present, releases.changed(present, next_patch(present.version))
        case _:
            newer = {"cronflow/domain/cluster.py": (f"\nPROTOCOL = {PROTOCOL}", f"\nPROTOCOL = {PROTOCOL + 1}")}
            return scenarios.newer_protocol, present, releases.changed(present, next_minor(present.version), newer)


async def tried(scenario: Scenario, first: Release, second: Release, folder: Path) -> bool:
    """Run the scenario on servers of its own, and print its table. False unless it holds."""
    with ExitStack() as stack:
        data = stack.enter_context(fast_folder(folder))
        redis, mongo = stack.enter_context(RedisServer(data)), stack.enter_context(MongoServer(data))
        cluster = MixedCluster(redis, mongo, folder)
        stack.callback(cluster.close)
        watching = asyncio.create_task(cluster.watch())
        try:
            history = await scenario(cluster, first, second)
        finally:
            watching.cancel()
    verdict = judged(history)
    print(*table(cluster.stages, verdict), sep="\n", flush=True)
    return verdict.holds


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parts to run, and the folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", default=EVERY, choices=[EVERY, *PARTS])
    parser.add_argument("--folder", type=Path, help="keep environments and logs in this folder")
    options = parser.parse_args(arguments)
    options.parts = PARTS if options.part == EVERY else (options.part,)
    return options


async def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    options = parsed(arguments)
    holds = True
    with tempfile.TemporaryDirectory(prefix="cronflow-upgrade-") as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        os.environ["HOME"] = temporary
        releases = Releases(folder)
        try:
            present = releases.present()
            for part in options.parts:
                scenario, first, second = built(part, releases, present)
                print(f"{part}: {first.version} and {second.version}", flush=True)
                logs = Path(tempfile.mkdtemp(prefix=f"{part}-", dir=folder))
                holds = await tried(scenario, first, second, logs) and holds
        except CannotBuild as error:
            print(f"cannot build: {error}", file=sys.stderr)
            return 1
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
