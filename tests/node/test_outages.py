"""When an outage ends: every affected role works again, and the service has answered."""

from __future__ import annotations

from structlog.testing import capture_logs

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import Event, ServiceLost, ServiceRecovered
from cronflow.node.role_loop import Outages

MONGO = BackendUnavailable("MongoDB", "there", "timed out")
REDIS = BackendUnavailable("Redis", "there", "refused")


class Seen:
    """Outages with a clock that the test moves, and their events."""

    def __init__(self) -> None:
        self.now = 100.0
        self.answered = 0.0
        self.events: list[Event] = []
        self.outages = Outages(lambda: self.now, self.events.append, lambda _: self.answered)

    def fails(self, role: str, error: BackendUnavailable, after: float = 1.0) -> None:
        self.now += after
        self.outages.failed(role, error)

    def works(self, role: str, after: float = 1.0, *, answered: bool) -> None:
        self.now += after
        if answered:
            self.answered = self.now
        self.outages.worked(role)


def test_a_step_that_asked_nothing_of_the_service_does_not_end_its_outage() -> None:
    seen = Seen()
    seen.fails("elector", MONGO)
    with capture_logs() as logs:
        for _ in range(5):
            seen.works("elector", answered=False)
    assert logs == []
    assert seen.outages.away_s("MongoDB") == 5.0
    seen.works("elector", answered=True)
    assert seen.events == [ServiceLost("MongoDB", "timed out"), ServiceRecovered("MongoDB", 6.0)]
    assert seen.outages.began("MongoDB") is None


def test_only_an_answer_after_the_failure_ends_the_outage() -> None:
    seen = Seen()
    seen.answered = 100.5
    seen.fails("elector", MONGO)
    seen.works("elector", answered=False)
    assert seen.outages.away == {"MongoDB"}
    seen.answered = seen.now
    seen.works("elector", answered=False)
    assert seen.outages.away == set()


def test_an_outage_lasts_until_each_role_that_felt_it_works() -> None:
    seen = Seen()
    seen.fails("elector", MONGO)
    seen.fails("recorder", MONGO)
    seen.works("elector", answered=True)
    assert seen.outages.away == {"MongoDB"}
    seen.works("recorder", answered=True)
    assert seen.events[1:] == [ServiceRecovered("MongoDB", 3.0)]


def test_a_role_that_fails_at_one_service_and_then_at_another_ends_both_outages() -> None:
    seen = Seen()
    seen.fails("planner", MONGO)
    seen.fails("planner", REDIS)
    assert seen.outages.away == {"MongoDB", "Redis"}
    seen.works("planner", answered=True)
    assert seen.outages.away == set()
    assert (seen.outages.began("MongoDB"), seen.outages.began("Redis")) == (None, None)
    assert seen.events[2:] == [ServiceRecovered("MongoDB", 2.0), ServiceRecovered("Redis", 1.0)]


def test_an_outage_within_an_outage_is_one() -> None:
    seen = Seen()
    seen.fails("planner", MONGO)
    seen.fails("planner", MONGO, after=9.0)
    seen.works("planner", answered=True)
    assert seen.events == [ServiceLost("MongoDB", "timed out"), ServiceRecovered("MongoDB", 10.0)]
    last = seen.outages.last("MongoDB")
    assert last is not None
    assert (last.began, last.ended) == (101.0, 111.0)


def test_a_role_that_went_on_without_the_service_needs_no_more_work_to_end_the_outage() -> None:
    """Outcomes that went to the spool do not come again, and a node that reports an outage gets no runs."""
    seen = Seen()
    seen.fails("finishes", MONGO)
    seen.works("finishes", answered=False)
    assert seen.outages.away == {"MongoDB"}
    seen.works("spool", answered=True)
    assert seen.outages.away == set()
    assert seen.events[1:] == [ServiceRecovered("MongoDB", 2.0)]


def test_a_role_that_still_fails_keeps_the_outage_although_others_work() -> None:
    seen = Seen()
    seen.fails("starts", MONGO)
    seen.works("starts", answered=False)
    seen.fails("starts", MONGO)
    seen.works("spool", answered=True)
    assert seen.outages.away == {"MongoDB"}
