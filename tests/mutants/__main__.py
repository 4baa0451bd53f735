"""Tries every mutant: `python -m tests.mutants [words of the lines to try]`.

`--changed` tries those whose file has changed since the commit that this work began from, and `--within SECONDS` begins
no further one after that time.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, Mutant
from tests.mutants.changed import base_commit, changed_files, touched
from tests.mutants.running import ROOT, CannotRun, copy_package, passes, suites_of, survives


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The words, and the options."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("words", nargs="*", help="words of the lines to try")
    parser.add_argument("--changed", action="store_true", help="those whose file has changed since the base")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS", help="begin none later")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Prints a line a mutant. 1 when one survived or its tests could not be run."""
    given = parsed(arguments)
    chosen = [mutant for mutant in MUTANTS if all(word in str(mutant) for word in given.words)]
    if given.changed:
        base = base_commit(ROOT)
        if base is None:
            print("no mutant was tried: there is no earlier commit to compare with")
            return 0
        chosen = touched(chosen, changed_files(ROOT, base))
        print(f"{len(chosen)} mutants are in files that have changed since {base[:12]}")
        # Where the time does not suffice for all, each has its chance.
        random.shuffle(chosen)
    return tried(chosen, given.within) if chosen else 0


def tried(chosen: list[Mutant], within_s: float) -> int:
    """Try them all, or as many as there is time for."""
    # Not above: the processes that run the tests load this module, and are to import the package from its copy.
    from cronflow.testing.embedded import MongoServer, RedisServer
    from tests.servers import MONGO_URL, REDIS_URL, fast_folder, started

    until = time.monotonic() + within_s
    bad = done = 0
    with ExitStack() as stack:
        on_disk = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronflow-mutants-")))
        home = stack.enter_context(fast_folder(on_disk))
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
        for done, mutant in enumerate(chosen, 1):
            began = time.monotonic()
            if began > until:
                done -= 1
                print(f"{len(chosen) - done} mutants were not tried within {within_s:g} s")
                break
            try:
                verdict = "SURVIVED" if survives(mutant, folder, servers, suites_of(mutant)) else "killed"
            except CannotRun as error:
                verdict = f"CANNOT RUN\n{error}\n"
            bad += verdict != "killed"
            print(f"{done:3}/{len(chosen)}  {time.monotonic() - began:5.1f} s  {verdict:8}  {mutant}", flush=True)
    print(f"{done - bad} of {done} mutants were killed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
