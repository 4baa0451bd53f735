"""What is explored: configurations that must hold, and mutants, each the protocol with one rule removed, that must not."""

from tests.model.state import config

QUICK = [
    ("no fault, 2 instants", config(fires=2, terms=1, ops=2, redispatch=0)),
    ("two leaders, 1 instant, re-dispatch", config(terms=3, redispatch=1)),
    ("leader killed, late CAS", config(kill_leader=1, delay=1, redispatch=1)),
    (
        "at_most_once, item doubled, read-back",
        config(at_most_once=True, read_back=True, workers=2, duplicate=1, redispatch=1),
    ),
    ("one edit, editor killed", config(edits=1, kill_editor=1, redispatch=1)),
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
        "look-ahead, one edit, wrong clocks",
        config(ahead=1, skew=True, ops=1, edits=1, keep_waiting="either", redispatch=1),
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
]

FULL = [
    (
        "every Redis fault, leader and worker killed, redis guard",
        config(
            guard="redis",
            workers=2,
            terms=2,
            flush=1,
            lose=1,
            duplicate=1,
            kill_leader=1,
            kill_worker=1,
            redispatch=2,
            fail=1,
        ),
    ),
    (
        "the same, mongo guard",
        config(workers=2, terms=2, flush=1, lose=1, duplicate=1, kill_leader=1, kill_worker=1, redispatch=2, fail=1),
    ),
    (
        "the same, mongo guard, 3 terms",
        config(workers=2, terms=3, lose=1, duplicate=1, kill_leader=1, kill_worker=1, redispatch=2),
    ),
    (
        "at_most_once, every fault, read-back",
        config(
            at_most_once=True,
            read_back=True,
            workers=2,
            flush=1,
            lose=1,
            duplicate=1,
            kill_leader=1,
            kill_worker=1,
            redispatch=2,
        ),
    ),
    (
        "2 instants, coalesced and skipped, leader killed",
        config(fires=2, ops=3, coalesce=True, skip=True, kill_leader=1, redispatch=1),
    ),
    ("2 instants, 3 terms, coalesced", config(fires=2, terms=3, ops=2, coalesce=True, redispatch=1)),
    ("3 instants, coalesced and skipped", config(fires=3, terms=2, ops=3, coalesce=True, skip=True, redispatch=0)),
    ("2 instants, late CAS, leader killed", config(fires=2, ops=3, delay=1, kill_leader=1, redispatch=1)),
    (
        "2 instants, 2 workers, item doubled and lost",
        config(fires=2, ops=3, workers=2, duplicate=1, lose=1, redispatch=1),
    ),
    ("1 edit, 2 instants, 1 leader, re-dispatch", config(fires=2, terms=1, ops=3, edits=1, redispatch=1, lose=1)),
    ("1 edit, 2 instants, 2 leaders, 1 plan each", config(fires=2, ops=1, edits=1, redispatch=1)),
    ("1 edit, 2 instants, 2 leaders, 2 plans each", config(fires=2, ops=2, edits=1, redispatch=1)),
    (
        "1 edit, leader and editor killed, late CAS",
        config(ops=1, edits=1, kill_leader=1, kill_editor=1, delay=1, redispatch=1),
    ),
    ("1 edit, 3 instants, 1 leader, coalesced", config(fires=3, terms=1, ops=4, edits=1, coalesce=True, redispatch=1)),
    ("1 edit, 3 instants, 2 leaders, 1 plan each", config(fires=3, ops=1, edits=1, coalesce=True, redispatch=1)),
    (
        "cancelled once, at_most_once, item doubled, worker killed",
        config(at_most_once=True, read_back=True, workers=2, duplicate=1, cancel=1, kill_worker=1, redispatch=1),
    ),
    (
        "cancelled once, redis guard, every Redis fault, worker killed",
        config(guard="redis", workers=2, flush=1, lose=1, duplicate=1, kill_worker=1, cancel=1, fail=1, redispatch=2),
    ),
    ("cancelled twice, 2 instants, leader killed", config(fires=2, ops=3, cancel=2, kill_leader=1, redispatch=1)),
    ("cancelled once, 1 edit, worker killed", config(ops=1, edits=1, cancel=1, kill_worker=1, redispatch=1)),
    ("2 edits, 1 instant, worker killed", config(ops=1, edits=2, kill_worker=1, redispatch=1)),
    ("2 edits, 2 instants, 1 leader", config(fires=2, terms=1, edits=2, ops=3, redispatch=1)),
    ("2 edits, 2 instants, 2 leaders, 1 plan each", config(fires=2, edits=2, ops=1, redispatch=1)),
    ("2 edits, 2 instants, 2 leaders, 2 plans each", config(fires=2, edits=2, ops=2, redispatch=1)),
    (
        "1 edit, coalesced and skipped, clean-up",
        config(fires=2, edits=1, ops=1, purge=1, coalesce=True, skip=True, redispatch=0),
    ),
    (
        "late insert, every Redis fault, leader and worker killed",
        config(
            guard="redis",
            insert_late=True,
            workers=2,
            flush=1,
            lose=1,
            duplicate=1,
            kill_leader=1,
            kill_worker=1,
            fail=1,
            redispatch=2,
        ),
    ),
    (
        "late insert, the same, mongo guard",
        config(
            insert_late=True,
            workers=2,
            flush=1,
            lose=1,
            duplicate=1,
            kill_leader=1,
            kill_worker=1,
            fail=1,
            redispatch=2,
        ),
    ),
    (
        "late insert, at_most_once, every fault, read-back",
        config(
            at_most_once=True,
            read_back=True,
            insert_late=True,
            workers=2,
            flush=1,
            lose=1,
            duplicate=1,
            kill_leader=1,
            kill_worker=1,
            redispatch=2,
        ),
    ),
    (
        "late insert, 2 instants, late CAS, leader killed",
        config(guard="redis", insert_late=True, fires=2, delay=1, kill_leader=1, redispatch=1),
    ),
    (
        "late insert, 2 instants, coalesced and skipped, clean-up",
        config(guard="redis", insert_late=True, fires=2, ops=2, coalesce=True, skip=True, purge=1, redispatch=1),
    ),
    (
        "late insert, given back, cancelled, worker killed",
        config(
            guard="redis", insert_late=True, give_back=True, workers=2, ops=2, cancel=1, kill_worker=1, redispatch=2
        ),
    ),
    (
        "late insert, 1 edit, leader and editor killed, late CAS",
        config(
            guard="redis",
            insert_late=True,
            ops=1,
            edits=1,
            keep_waiting="either",
            kill_leader=1,
            kill_editor=1,
            delay=1,
            redispatch=1,
        ),
    ),
    (
        "late insert, 1 edit, 2 instants, 2 leaders",
        config(guard="redis", insert_late=True, fires=2, ops=1, edits=1, redispatch=1),
    ),
    ("late insert, 1 edit, 2 instants, mongo guard", config(insert_late=True, fires=2, ops=1, edits=1, redispatch=1)),
    (
        "late insert, recovery in bulk, 1 edit, leader and editor killed",
        config(
            guard="redis",
            insert_late=True,
            bulk_recovery=True,
            ops=1,
            edits=1,
            kill_leader=1,
            kill_editor=1,
            redispatch=1,
        ),
    ),
    (
        "mark instead of a plan, late insert, 1 edit, editor killed, late CAS",
        config(
            guard="redis",
            unsettled=True,
            insert_late=True,
            fires=2,
            ops=1,
            edits=1,
            kill_editor=1,
            delay=1,
            redispatch=1,
        ),
    ),
    (
        "look-ahead, 1 edit, 2 instants, 2 leaders",
        config(ahead=1, fires=2, ops=1, edits=1, keep_waiting="either", redispatch=1),
    ),
    (
        "look-ahead, at_most_once, 1 edit, every Redis fault",
        config(
            ahead=1,
            at_most_once=True,
            read_back=True,
            workers=2,
            terms=1,
            edits=1,
            keep_waiting="either",
            flush=1,
            lose=1,
            duplicate=1,
            redispatch=2,
        ),
    ),
    (
        "look-ahead, given back, 1 edit, worker killed, wrong clocks",
        config(ahead=1, skew=True, give_back=True, ops=1, edits=1, keep_waiting="either", kill_worker=1, redispatch=2),
    ),
    (
        "look-ahead, late insert, 1 edit that withdraws, 2 instants",
        config(
            ahead=1,
            withdraw=True,
            punctual=True,
            insert_late=True,
            guard="redis",
            fires=2,
            terms=1,
            ops=3,
            edits=1,
            keep_waiting="either",
            fail=1,
            redispatch=2,
        ),
    ),
    (
        "look-ahead, marks lost, five seconds later, 2 leaders",
        config(
            ahead=1,
            withdraw=True,
            aging=True,
            guard="redis",
            ops=1,
            edits=1,
            keep_waiting="either",
            flush=1,
            duplicate=1,
            redispatch=1,
        ),
    ),
    (
        "look-ahead, late insert, recovery in bulk, 1 edit, leader killed",
        config(
            ahead=1,
            withdraw=True,
            aging=True,
            bulk_recovery=True,
            insert_late=True,
            guard="redis",
            ops=1,
            edits=1,
            keep_waiting="either",
            kill_leader=1,
            redispatch=1,
        ),
    ),
    (
        "queue ahead, given back, every Redis fault, worker killed",
        config(
            give_back=True, guard="redis", workers=2, flush=1, lose=1, duplicate=1, kill_worker=1, fail=1, redispatch=2
        ),
    ),
    (
        "queue ahead, given back, at_most_once, every fault",
        config(
            give_back=True,
            at_most_once=True,
            read_back=True,
            workers=2,
            flush=1,
            lose=1,
            duplicate=1,
            kill_leader=1,
            kill_worker=1,
            redispatch=2,
        ),
    ),
]

MUTANTS = [
    ("plan_not_written", config(kill_leader=1, redispatch=1)),
    ("plan_before_read", config(kill_leader=1, redispatch=1)),
    ("plan_deleted_before_insert", config(kill_leader=1, redispatch=1)),
    ("settle_without_writing_the_job", config(redispatch=1)),
    ("no_rev", config(delay=1, redispatch=1)),
    ("term_from_redis", config(fires=2, redispatch=1)),
    ("no_term_guard", config(fires=2, redispatch=0)),
    ("no_settler", config(kill_leader=1, terms=3, redispatch=1)),
    ("pend_overwritten_blindly", config(fires=2, redispatch=0)),
    ("edit_ignores_pend", config(edits=1, redispatch=0)),
    ("edit_writes_no_plan", config(edits=1, redispatch=0)),
    ("edit_skips_silently", config(edits=1, redispatch=0)),
    ("edit_acks_at_once", config(edits=1, redispatch=0)),
    ("redispatch_ignores_version", config(edits=1, redispatch=1)),
    ("reassign_without_cas", config(redispatch=1)),
    ("finish_without_fence", config(guard="redis", workers=2, redispatch=1)),
    ("finish_blindly", config(guard="redis", workers=2, redispatch=1)),
    ("no_reconciler", config(lose=1, redispatch=1)),
    ("redis_lock_only", config(at_most_once=True, workers=2, duplicate=1, redispatch=1)),
    ("read_back_by_fence", config(at_most_once=True, read_back=True, workers=2, duplicate=1)),
    ("at_most_once_redispatches_running", config(at_most_once=True, redispatch=1)),
    ("clean_up_ignores_pend", config(fires=2, purge=1, redispatch=1)),
    ("redispatch_ignores_cancel", config(cancel=1, kill_worker=1, redispatch=1)),
    ("dispatch_does_not_compare_cancel", config(cancel=1, kill_worker=1, redispatch=1)),
    ("cancel_ends_what_has_ended", config(cancel=1, redispatch=0)),
    ("push_before_cas", config(guard="redis", insert_late=True, redispatch=1)),
    ("plan_deleted_before_the_run_exists", config(guard="redis", insert_late=True, redispatch=1)),
    ("finish_without_insert", config(guard="redis", insert_late=True, redispatch=1)),
    ("start_mark_without_insert", config(guard="redis", insert_late=True, redispatch=1)),
    ("insert_replaces", config(guard="redis", insert_late=True, workers=2, duplicate=1, redispatch=1)),
    (
        "insert_at_any_age",
        config(guard="redis", insert_late=True, fires=2, terms=1, purge=1, duplicate=1, redispatch=0),
    ),
    (
        "overlap_ignores_the_pending_run",
        config(guard="redis", insert_late=True, overlap=True, skip=True, fires=2, terms=1, ops=3, redispatch=0),
    ),
    ("settle_by_fence", config(unsettled=True, fires=2, ops=1, edits=1, redispatch=0)),
    ("settle_blindly", config(unsettled=True, fires=2, ops=1, redispatch=0)),
    ("redispatch_forgets_the_instant", config(ahead=1, redispatch=1)),
    ("start_recorded_before_the_instant", config(ahead=1, ops=1, edits=1, keep_waiting="either", redispatch=0)),
    (
        "edit_withdraws_nothing",
        config(
            ahead=1, withdraw=True, punctual=True, guard="redis", terms=1, edits=1, keep_waiting="either", redispatch=2
        ),
    ),
    (
        "withdrawal_seen_at_take_only",
        config(
            ahead=1, withdraw=True, punctual=True, guard="redis", terms=1, edits=1, keep_waiting="either", redispatch=2
        ),
    ),
    ("withdrawal_without_fence", config(withdraw=True, guard="redis", ops=1, edits=1, keep_waiting=True, redispatch=1)),
    ("start_by_at_take_only", config(aging=True, guard="redis", ops=1, edits=1, keep_waiting="either", redispatch=0)),
    ("start_by_from_the_push", config(aging=True, guard="redis", ops=1, edits=1, keep_waiting="either", redispatch=0)),
    (
        "give_back_running",
        config(give_back=True, at_most_once=True, read_back=True, terms=1, ops=3, workers=2, duplicate=1, redispatch=2),
    ),
]
