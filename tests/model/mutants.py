"""The mutants: the protocol with one rule removed, and a configuration in which its check must fail."""

from tests.model.state import config

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
    (
        "fallback_trusts_that_it_exists",
        config(guard="redis", insert_late=True, fallback=True, terms=1, spool=1, redispatch=0),
    ),
    (
        "fallback_trusts_that_it_is_not_named",
        config(guard="redis", insert_late=True, fallback=True, fires=2, terms=1, spool=1, redispatch=0),
    ),
    (
        "fallback_ignores_the_run",
        config(
            guard="redis",
            insert_late=True,
            fallback=True,
            fires=2,
            terms=1,
            duplicate=1,
            spool=1,
            purge=1,
            redispatch=0,
        ),
    ),
    (
        "fallback_ignores_the_fence",
        config(guard="redis", insert_late=True, fallback=True, terms=1, duplicate=1, recreate=1, redispatch=0),
    ),
    (
        "insert_at_any_age",
        config(guard="redis", insert_late=True, fallback=True, fires=2, terms=1, purge=1, duplicate=1, redispatch=0),
    ),
    (
        "clean_up_ignores_pend",
        config(guard="redis", insert_late=True, fallback=True, terms=1, purge=1, duplicate=1, redispatch=0),
    ),
    ("late_insert_replaces", config(guard="redis", insert_late=True, keep_later=True, redispatch=1)),
    (
        "late_insert_at_any_age",
        config(guard="redis", insert_late=True, keep_later=True, fires=2, purge=1, redispatch=0),
    ),
    (
        "resent_finish_is_not_read_back",
        config(guard="redis", insert_late=True, fallback=True, read_back=True, terms=1, unsure=1, redispatch=0),
    ),
    ("no_answer_is_an_insert", config(unsure=1, redispatch=0)),
    ("no_answer_is_a_refusal", config(delay=1, redispatch=0)),
    (
        "no_answer_is_a_start",
        config(at_most_once=True, read_back=True, workers=2, duplicate=1, unsure=1, redispatch=0),
    ),
]
