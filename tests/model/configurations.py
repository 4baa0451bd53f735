"""The small configurations that must hold, which `make test` explores."""

from tests.model.state import config

QUICK = [
    ("no fault, 2 instants", config(fires=2, terms=1, ops=2, redispatch=0)),
    ("two leaders, 1 instant, re-dispatch", config(terms=3, redispatch=1)),
    ("leader killed, late CAS", config(kill_leader=1, delay=1, redispatch=1)),
    (
        "at_most_once, item doubled, read-back",
        config(at_most_once=True, read_back=True, workers=2, duplicate=1, redispatch=1),
    ),
    (
        "one edit that keeps what waits, failing attempt",
        config(ops=1, edits=1, keep_waiting=True, fail=1, redispatch=2),
    ),
    ("clean-up", config(fires=2, terms=2, ops=2, purge=1, redispatch=1)),
    ("cancelled once, worker killed, failing attempt", config(cancel=1, kill_worker=1, fail=1, redispatch=2)),
    ("cancelled once, at_most_once", config(at_most_once=True, read_back=True, cancel=1, kill_worker=1, redispatch=1)),
    # The leader inserts late, and workers insert what they record.
    (
        "late insert, leader and worker killed",
        config(guard="redis", insert_late=True, kill_leader=1, kill_worker=1, redispatch=1),
    ),
    (
        "late insert, item doubled, failing attempt",
        config(guard="redis", insert_late=True, ops=1, workers=2, duplicate=1, fail=1, redispatch=1),
    ),
    (
        "late insert, 2 instants, clean-up",
        config(guard="redis", insert_late=True, fires=2, terms=1, ops=3, purge=1, duplicate=1, redispatch=1),
    ),
    (
        "late insert, 2 instants that must not overlap",
        config(guard="redis", insert_late=True, overlap=True, skip=True, fires=2, terms=1, ops=3, fail=1, redispatch=1),
    ),
    (
        "late insert, one edit",
        config(guard="redis", insert_late=True, terms=1, edits=1, keep_waiting="either", redispatch=2),
    ),
    (
        "late insert, mongo guard, item doubled, leader killed",
        config(insert_late=True, ops=1, workers=2, duplicate=1, kill_leader=1, redispatch=1),
    ),
    (
        "late insert, recovery in bulk, leader killed",
        config(guard="redis", insert_late=True, bulk_recovery=True, fires=2, ops=1, kill_leader=1, redispatch=1),
    ),
    (
        "recovery in bulk, one edit, editor killed",
        config(bulk_recovery=True, fires=2, terms=1, edits=1, kill_editor=1, redispatch=1),
    ),
    # A mark in the job instead of the plan.
    ("mark instead of a plan, 2 instants", config(guard="redis", unsettled=True, fires=2, redispatch=1)),
    (
        "mark instead of a plan, one edit, editor killed",
        config(unsettled=True, fires=2, ops=1, edits=1, kill_editor=1, redispatch=0),
    ),
    # Runs are planned before their instant, and held by their worker.
    ("look-ahead, leader and worker killed", config(ahead=1, kill_leader=1, kill_worker=1, redispatch=1)),
    (
        "look-ahead, 2 instants that must not overlap",
        config(ahead=1, overlap=True, skip=True, fires=2, terms=1, ops=3, redispatch=1),
    ),
    (
        "look-ahead, one edit that withdraws, failing attempt",
        config(
            ahead=1,
            withdraw=True,
            punctual=True,
            guard="redis",
            terms=1,
            edits=1,
            keep_waiting="either",
            fail=1,
            redispatch=2,
        ),
    ),
    (
        "look-ahead, late insert, one edit that withdraws",
        config(
            ahead=1,
            withdraw=True,
            punctual=True,
            insert_late=True,
            guard="redis",
            terms=1,
            edits=1,
            keep_waiting="either",
            redispatch=2,
        ),
    ),
    (
        "look-ahead, one edit, its marks lost, five seconds later",
        config(
            ahead=1,
            withdraw=True,
            aging=True,
            guard="redis",
            terms=1,
            edits=1,
            keep_waiting="either",
            flush=1,
            duplicate=1,
            redispatch=2,
        ),
    ),
    (
        "one edit that gives back and withdraws",
        config(withdraw=True, guard="redis", ops=1, edits=1, keep_waiting=True, redispatch=1),
    ),
    # Items wait for a slot, in the list or on the worker.
    (
        "queue ahead, one edit, five seconds later",
        config(aging=True, guard="redis", ops=1, edits=1, keep_waiting="either", redispatch=1),
    ),
    (
        "queue ahead, given back, item doubled, worker killed",
        config(give_back=True, terms=1, ops=3, workers=2, duplicate=1, kill_worker=1, redispatch=2),
    ),
    (
        "queue ahead, given back, at_most_once, item doubled",
        config(give_back=True, at_most_once=True, read_back=True, terms=1, ops=3, workers=2, duplicate=1, redispatch=2),
    ),
    # Outcomes of any age, from the spool too, insert what their job names.
    (
        "outcome spooled, leader and worker killed",
        config(
            guard="redis", insert_late=True, fallback=True, ops=1, spool=1, kill_leader=1, kill_worker=1, redispatch=1
        ),
    ),
    (
        "outcome spooled, 2 instants, clean-up",
        config(guard="redis", insert_late=True, fallback=True, fires=2, terms=1, ops=2, spool=1, purge=1, redispatch=1),
    ),
    (
        "outcome spooled, given back, item doubled, worker killed",
        config(
            guard="redis",
            insert_late=True,
            fallback=True,
            give_back=True,
            terms=1,
            ops=2,
            workers=2,
            duplicate=1,
            spool=1,
            kill_worker=1,
            redispatch=1,
        ),
    ),
    (
        "outcome spooled, job created again",
        config(
            guard="redis",
            insert_late=True,
            fallback=True,
            terms=1,
            ops=2,
            duplicate=1,
            spool=1,
            recreate=1,
            redispatch=0,
        ),
    ),
    # A node that has lost the lead inserts what it has left.
    (
        "late insert, lead lost, leader killed",
        config(guard="redis", insert_late=True, keep_later=True, kill_leader=1, redispatch=1),
    ),
    (
        "late insert, lead lost, 2 instants, clean-up",
        config(guard="redis", insert_late=True, keep_later=True, fires=2, ops=1, purge=1, redispatch=1),
    ),
    # A write without an answer may have been carried out, may be later, or never.
    ("no answer, leader killed", config(unsure=1, kill_leader=1, redispatch=1)),
    (
        "no answer, at_most_once, item doubled",
        config(at_most_once=True, read_back=True, ops=1, workers=2, duplicate=1, unsure=1, redispatch=1),
    ),
    (
        "no answer, late insert, outcome spooled, failing attempt",
        config(
            guard="redis",
            insert_late=True,
            fallback=True,
            read_back=True,
            terms=1,
            unsure=1,
            spool=1,
            fail=1,
            redispatch=1,
        ),
    ),
]
