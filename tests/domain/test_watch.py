"""The life of a watcher's findings: open once, repeat seldom, close once, and nothing while nobody can tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cronflow.domain.watch import FindingLog, Observation, WatchKind, WatchStage

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AWAY, LEADER = WatchKind.MONGODB_AWAY, WatchKind.NO_LEADER


def a_log() -> FindingLog:
    return FindingLog(confirm=MINUTE, repeat=60 * MINUTE)


def away(since: datetime, text: str = "MongoDB is unavailable") -> Observation:
    return Observation(AWAY, since, text)


def test_a_finding_opens_when_it_has_lasted_repeats_once_an_hour_and_closes_once() -> None:
    log = a_log()
    stages = []
    for minute in range(130):
        now = START + minute * MINUTE
        # A look gives the present time: the finding keeps its first one.
        stages += [(minute, one.stage, one.since) for one in log.update([away(now)], (), now)]
    assert stages == [
        (1, WatchStage.OPENED, START),
        (61, WatchStage.REPEATED, START),
        (121, WatchStage.REPEATED, START),
    ]
    [closed] = log.update([], (), START + 130 * MINUTE)
    assert (closed.stage, closed.text) == (WatchStage.CLOSED, "recovered after 2h 10m: MongoDB is unavailable")
    assert log.update([], (), START + 131 * MINUTE) == []
    assert log.findings == []


def test_what_ends_before_it_has_lasted_is_never_reported() -> None:
    log = a_log()
    assert log.update([away(START)], (), START) == []
    assert (len(log.findings), log.open) == (1, [])
    assert log.update([], (), START + MINUTE / 2) == []
    # It begins anew.
    assert log.update([away(START + MINUTE)], (), START + MINUTE) == []


def test_a_finding_that_is_known_to_be_old_opens_at_once() -> None:
    [opened] = a_log().update([away(START - MINUTE)], (), START)
    assert (opened.stage, opened.since) == (WatchStage.OPENED, START - MINUTE)


def test_while_nobody_can_tell_a_finding_neither_closes_nor_repeats() -> None:
    log = a_log()
    leaderless = Observation(LEADER, START, "the cluster has no leader")
    assert len(log.update([leaderless], (), START + MINUTE)) == 1
    for minute in range(2, 200):
        assert log.update([], {LEADER}, START + minute * MINUTE) == []
    assert [one.kind for one in log.open] == [LEADER]
    [closed] = log.update([], (), START + 200 * MINUTE)
    assert closed.stage is WatchStage.CLOSED


def test_findings_are_apart_and_the_latest_text_is_repeated() -> None:
    log = a_log()
    log.update([away(START), Observation(LEADER, START, "none")], (), START + MINUTE)
    assert [one.kind for one in log.update([away(START)], (), START + 2 * MINUTE)] == [LEADER]
    [again] = log.update([away(START, "still away")], (), START + 62 * MINUTE)
    assert (again.stage, again.text) == (WatchStage.REPEATED, "still away")


def test_a_remark_takes_the_place_of_recovered() -> None:
    log = a_log()
    log.update([away(START)], (), START + MINUTE)
    [closed] = log.update([], (), START + 2 * MINUTE, {AWAY: "2 never came back"})
    assert closed.text == "over after 2m: MongoDB is unavailable; 2 never came back"


def test_a_log_that_was_stored_goes_on() -> None:
    log = a_log()
    log.update([away(START)], (), START + MINUTE)
    later = FindingLog(MINUTE, 60 * MINUTE, log.findings)
    assert later.update([away(START + 2 * MINUTE)], (), START + 2 * MINUTE) == []
    [closed] = later.update([], (), START + 3 * MINUTE)
    assert closed.since == START


def test_every_kind_has_words() -> None:
    assert all(kind.words for kind in WatchKind)
