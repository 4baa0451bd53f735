"""The model of chains: small configurations hold, and each rule is needed."""

from __future__ import annotations

import pytest

from tests.model.chains import Config, explore

MOST = 100_000
ANY, JOIN, CHAIN = Config("X"), Config("XY", "all"), Config("XY", "chain")
HOLDS = {
    "runs that are planned while the job is applied": Config("XX"),
    "a failed run, and a pause": Config("X", failures=True, pauses=True),
    "two jobs that are followed": Config("XY"),
    "a join of three runs": Config("XYY", "all"),
    "a join whose arrivals expire": Config("XY", "all", expires=True),
    "a chain with one replay": Config("XXY", "chain"),
}
MUTANTS = {
    # the mark
    "job_inserted_before_the_marks": ANY,
    "followed_without_a_new_rev": ANY,
    "worker_inserts_without_the_mark": ANY,
    "job_read_before_the_runs": ANY,
    "unmark_before_the_insert": ANY,
    "all_marks_are_removed": Config("XX"),
    # the runs that follow
    "random_ids": ANY,
    "skipped_runs_have_their_own_ids": Config("X", pauses=True),
    "dispatch_ignores_a_pause": Config("X", pauses=True),
    # joins
    "written_without_rev": JOIN,
    "unmarked_after_a_refusal": JOIN,
    "known_arrivals_ensure_nothing": JOIN,
    "pending_not_ensured": Config("XXY", "all"),
    "marks_not_read_after_the_join": Config("XYY", "all"),
    "nothing_is_remembered": Config("XYY", "all"),
    "marked_arrivals_are_forgotten": Config("XYY", "all"),
    "pending_found_by_marks_only": Config("XY", "all", expires=True),
    "cleared_without_rev": Config("XX", "all", expires=True),
    "older_replaces_newer": Config("XXY", "chain"),
}
"""With the smallest configuration that shows it."""

REFUTED = {
    "the last two arrivals are remembered, and terms compared": Config("XXY", "all", memory=2, terms=True),
    "marked arrivals are remembered, and terms compared, but marks not read again": Config(
        "XYY", "all", terms=True, mutant="marks_not_read_after_the_join"
    ),
}


@pytest.mark.parametrize("name", HOLDS)
def test_every_end_has_one_answer_and_no_mark_stays(name: str) -> None:
    verdict, states, steps = explore(HOLDS[name], MOST)
    assert verdict == "ok", "\n".join(steps)
    assert states > 100


@pytest.mark.parametrize("rule", MUTANTS)
def test_without_one_rule_an_end_has_two_answers_or_none(rule: str) -> None:
    verdict, _, steps = explore(MUTANTS[rule]._replace(mutant=rule), MOST)
    assert verdict not in {"ok", "cut"}
    assert steps


@pytest.mark.parametrize("design", REFUTED)
def test_comparing_terms_does_not_keep_an_arrival_from_being_used_twice(design: str) -> None:
    verdict, _, steps = explore(REFUTED[design], MOST)
    assert verdict == "two runs of D follow one end"
    assert steps
