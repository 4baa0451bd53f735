"""The contract of searching the lines of runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.errors import InvalidInput
from cronflow.domain.run import at_least
from cronflow.ports import LineQuery, LogLine
from tests.contracts.builders import T0
from tests.contracts.conftest import Stores

WORDS = ("Sending 120 invoices", "connection REFUSED (a+b)", "done")


def a_line(n: int, job: str = "report") -> LogLine:
    level = ("info", "error", "success")[n % 3]
    return LogLine(
        run=f"{job}@1",
        job=job,
        fence=7,
        attempt=1,
        n=n,
        at=T0 + timedelta(seconds=n // 2),
        level=level,
        text=WORDS[n % 3],
        node=f"n{n % 2}",
    )


LINES = [a_line(n) for n in range(20)] + [a_line(n, "other") for n in range(4)]


async def every(stores: Stores, query: LineQuery) -> list[LogLine]:
    """All pages, one after another."""
    from dataclasses import replace

    found: list[LogLine] = []
    for _ in range(100):
        page = await stores.logs.find(query)
        assert len(page.lines) <= query.limit
        found += page.lines
        if page.following is None:
            return found
        query = replace(query, before=page.following)
    raise AssertionError("the pages never end")


@pytest.mark.parametrize("look_at", [3, 1000])
@pytest.mark.parametrize("limit", [2, 100])
async def test_lines_are_found_by_text_level_node_and_job_page_by_page(
    stores: Stores, limit: int, look_at: int
) -> None:
    await stores.logs.append(LINES)
    order = sorted(LINES, key=lambda line: (line.at, line.run, line.n), reverse=True)
    cases = [
        (LineQuery(), order),
        (LineQuery(text="REfused (A+"), [line for line in order if line.level == "error"]),
        (LineQuery(levels=at_least("warn")), [line for line in order if line.level == "error"]),
        (LineQuery(levels=at_least("success")), [line for line in order if line.level != "info"]),
        (LineQuery(node="n1", job="other"), [line for line in order if line.job == "other" and line.node == "n1"]),
        (LineQuery(job="report", text="done"), [line for line in order if line.job == "report" and line.n % 3 == 2]),
        (LineQuery(since=T0 + timedelta(seconds=8)), [line for line in order if line.n >= 16]),
        (LineQuery(until=T0 + timedelta(seconds=8)), [line for line in order if line.n < 16]),
        (
            LineQuery(since=T0 + timedelta(seconds=4), until=T0 + timedelta(seconds=8), job="report"),
            [line for line in order if 8 <= line.n < 16 and line.job == "report"],
        ),
        (LineQuery(text="nowhere"), []),
        (LineQuery(text="\0"), []),
    ]
    from dataclasses import replace

    for query, expected in cases:
        assert await every(stores, replace(query, limit=limit, look_at=look_at)) == expected, query


async def test_the_last_lines_of_a_run_come_in_their_order(stores: Stores) -> None:
    await stores.logs.append(LINES)
    assert [line.n for line in await stores.logs.tail("report@1", 3)] == [17, 18, 19]


async def test_a_search_looks_at_no_more_than_it_may(mongo_url: str, namespace: str) -> None:
    from cronflow.backends.mongo.logs import MongoLogStore

    async with MongoDatabase(mongo_url, namespace) as database:
        logs = MongoLogStore(database)
        await logs.append([a_line(n) for n in range(500)])
        page = await logs.find(LineQuery(text="nowhere", look_at=50))
        assert page.lines == []
        assert page.following is not None
        # The bound is the fiftieth line, so the next page goes on right behind it.
        assert page.following[0] == T0 + timedelta(seconds=450 // 2)


def test_a_level_that_there_is_not_is_an_error() -> None:
    assert at_least("WARN") == {"warn", "error"}
    assert at_least("progress") == {"progress"}
    with pytest.raises(InvalidInput, match="debug, info, success, warn, error"):
        at_least("loud")
