"""Explicit-state model checker of CronFlow's run protocol (protocol.md, section 8).

What it is.  The protocol is written below as a set of atomic steps.  The checker starts from the first state, applies every step that is
possible, and so visits every state that any interleaving can reach.  In each state it tests the invariants; at the end it asks of every
state whether "all instants have ended" can still be reached.  It prints the shortest sequence of steps that breaks a rule.

What is modelled.  ONE job with F instants 0..F-1, two nodes that can lead, one or two workers, one editor (the API), MongoDB and Redis.
* MongoDB is a set of documents; one read or one compare-and-set on one document is one step (assumption A1).
    Job   cursor (= next_fire), version (= ver), pend, term.  `pend` names the run that the last move of the cursor created.
    Plan  a write-ahead note "a process is about to move this job"; it exists from before that move until after the run's insert.
    Run   one document per consumed range of instants [fire..to], identified by its first instant.
          States: D dispatched, R running, T retrying | S succeeded (or failed), K skipped, C cancelled, X lost (at_most_once).
* `rev`, the counter that every write of the job document increments, is not stored as a number: a process that has read the job keeps a
  snapshot, and the snapshot becomes STALE the moment anybody writes the job.  A compare-and-set with a stale snapshot fails.
* Redis holds the leader's key, a queue of items (a multiset: any order) and a job lock.  It may lose any of it, or deliver an item twice.
  The leader's key may expire, be lost or be resigned at any moment, so it is not even stored: any idle node may be elected at any time,
  the former leader may or may not notice, and two leaders at once are normal here.
* There are no clocks, apart from `ahead` and `aging` below.  A timeout may strike at any moment and a process may sleep between any two steps for ever.  That covers garbage
  collection pauses, partitions, clock steps and slow networks.

What a configuration can switch on, besides its faults (decisions 0059, 0060 and 0068).
* insert_late    the leader pushes when the job has moved and inserts the run later; a worker inserts what it records, unless `_id` refuses it.
* fallback       items have an age: an old one, and each outcome of the spool, inserts only what its job names, in steps that others interleave.
* keep_later     a node that loses the lead keeps the runs that it has yet to insert.
* unsettled      no plans: the CAS leaves a mark in the job, which is taken away when the run of pend exists.
* bulk_recovery  the settler writes the job and reads it later.
* overlap        a run is planned only if the job has no open run.
* ahead          instants fall due one by one, and a run is planned up to so many instants before; its worker holds it.  skew: clocks are wrong.
* withdraw       an edit leaves marks in Redis for what it cancels or gives back.  punctual: the reconciler suspects no run that somebody holds.
* give_back      a worker may return what it has taken and not started.
* aging          five seconds after an edit: what was dispatched before it and has not started is too old.

Faults of the budget that need a word.  unsure: a write gets no answer, and is carried out at once, later or never.  spool: an outcome goes to
the disk.  recreate: the job is deleted, cleaned up and created again with the same instants.

What bounds it.  `terms` elections, `ops` plans and re-dispatches per term, and a budget of faults (see Budget).

Run it.   python -m tests.model.check_protocol --quick      small configurations and all mutants, about a minute
          python -m tests.model.check_protocol              the large ones as well (about an hour, 4 GB)
          python -m tests.model.check_protocol --only TEXT  those whose name contains TEXT
Exit status 1 when a good configuration is violated or a mutant (a protocol with one rule removed) survives.
"""

import sys
import time

from tests.model.configurations import QUICK
from tests.model.explore import explore
from tests.model.large import FULL
from tests.model.mutants import MUTANTS


def main(arguments):
    quick = "--quick" in arguments
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    limit = int(arguments[arguments.index("--limit") + 1]) if "--limit" in arguments else 8_000_000
    good = QUICK + ([] if quick else FULL)
    failed = 0
    for name, cfg in [(n, c) for n, c in good if only in n]:
        began = time.time()
        verdict, count, steps = explore(cfg, limit)
        failed += verdict not in ("ok", "cut")
        print(f"{name:<58} {verdict:<6} {count:>9,} states {time.time() - began:6.1f} s", flush=True)
        if steps:
            print("      " + "\n      ".join(steps), flush=True)
    for name, cfg in [(n, c) for n, c in MUTANTS if only in n]:
        began = time.time()
        verdict, count, steps = explore(cfg._replace(mutant=name), limit)
        caught = verdict not in ("ok", "cut")
        failed += not caught
        print(
            f"mutant {name:<51} {'caught' if caught else 'SURVIVED':<8} {count:>9,} states {time.time() - began:6.1f} s: {verdict}",
            flush=True,
        )
        if caught and "--traces" in arguments:
            print("      " + "\n      ".join(steps), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
