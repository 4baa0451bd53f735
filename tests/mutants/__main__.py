"""Tries the mutants: `python -m tests.mutants [words that their lines must contain]`."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.running import CannotRun, copy_package, passes, suites_of, survives


def main(words: list[str]) -> int:
    """Print a line per mutant. Returns 1 if one survived or its tests could not run."""
    # Not at the top: the processes that run the tests load this module and must import the package from its copy.
    from cronflow.testing.embedded import MongoServer, RedisServer
    from tests.servers import MONGO_URL, REDIS_URL, started

    chosen = [mutant for mutant in MUTANTS if all(word in str(mutant) for word in words)]
    bad = 0
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronflow-mutants-")))
        for name in ("package", "redis", "mongo"):
            (home / name).mkdir()
        servers = {
            REDIS_URL: stack.enter_context(started(RedisServer(home / "redis", durable=False))).url,
            MONGO_URL: stack.enter_context(started(MongoServer(home / "mongo"))).url,
        }
        folder = home / "package"
        copy_package(folder)
        for tests in sorted({tests for mutant in chosen for tests in suites_of(mutant)}):
            if not passes(folder, tests, servers):
                print((folder / "output").read_text("utf-8"))
                print(f"{' '.join(tests)}: fails without a mutant; fix that first")
                return 1
        for number, mutant in enumerate(chosen, 1):
            began = time.monotonic()
            try:
                verdict = "SURVIVED" if survives(mutant, folder, servers, suites_of(mutant)) else "killed"
            except CannotRun as error:
                verdict = f"CANNOT RUN\n{error}\n"
            bad += verdict != "killed"
            print(f"{number:3}/{len(chosen)}  {time.monotonic() - began:5.1f} s  {verdict:8}  {mutant}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} mutants were killed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
