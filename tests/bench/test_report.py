from __future__ import annotations

import pytest

from tests.bench import report
from tests.bench.report import BEGIN, END

FIGURES = {
    "drain_arq_1": 2000.4,
    "drain_arq_1_cpu": 0.456,
    "drain_arq_3": 3500.0,
    "drain_default": 1000.0,
    "drain_1xdefault": 1000.0,
    "drain_1xdefault_cpu": 0.9,
    "drain_best": 2000.0,
    "bare_path": 10_000.0,
    "herd_apscheduler_threads_cron_10000_p50": 1000.0,
    "herd_apscheduler_threads_cron_10000_p99": 1700.0,
    "herd_best_cron_10000_p50": 400.0,
    "herd_best_cron_10000_p99": 850.0,
    "herd_best_cron_10000_max": 900.0,
    "lone_p99": 12.34,
}
SETUPS = {"drain_1xdefault": "1 node, default slots"}
FOUND = report.tables(FIGURES, SETUPS)


def test_every_target_has_its_limit_its_figure_and_the_result() -> None:
    rows = {row[1]: row[2:] for row in dict(FOUND)["Targets"]}
    assert rows["Drain, best setup, relative to the bare path"] == ["≥ 60%", "20%", "missed"]
    assert rows["A lone job: p99 lateness"] == ["≤ 20 ms", "12.3 ms", "met"]
    assert rows["Apply jobs from a file"] == ["≥ 5,000 jobs/s", "-", "not measured here"]
    herd = "10,000 jobs with a cron schedule, due at one instant: p99 lateness, relative to APScheduler in memory"
    assert rows[herd] == ["≤ 0.50x", "0.50x", "met"]


def test_drains_are_listed_by_the_number_of_processes() -> None:
    (drains,) = (rows for title, rows in FOUND if title.startswith("No-op executions"))
    rows = {row[0]: row[1:] for row in drains}
    assert rows["arq"] == ["2,000", "-", "3,500", "0.46"]
    assert rows["saq"] == ["-", "-", "-", "-"]
    assert rows["CronFlow, 1 node, default slots"] == ["1,000", "", "", "0.90"]


def test_lateness_has_a_row_for_each_herd_that_was_measured() -> None:
    (herds,) = (rows for title, rows in FOUND if title.startswith("Lateness"))
    assert herds[1:] == [
        ["10,000 cron", "APScheduler, threads", "1,000", "1,700", "-"],
        ["10,000 cron", "CronFlow, best setup", "400", "850", "900"],
    ]


def test_the_terminal_shows_columns() -> None:
    text = report.text([("Title", [["a", "b"], ["long", "c"]])])
    assert text == "Title\n\na     b\nlong  c\n"


def test_the_page_has_tables() -> None:
    block = report.markdown(["a machine"], [("Title", [["a", "b"], ["1", "2"]])])
    assert block == "* a machine\n\n### Title\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_only_the_generated_block_of_the_page_changes() -> None:
    page = f"before\n{BEGIN}\n\nold\n\n{END}\nafter\n"
    new = report.replaced(page, "new")
    assert new == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert report.replaced(new, "new") == new
    with pytest.raises(ValueError, match="missing"):
        report.replaced("a page without markers", "new")


def test_the_page_of_the_documentation_has_the_markers() -> None:
    assert "new" in report.replaced(report.PAGE.read_text("utf-8"), "new")


def test_the_picture_shows_what_was_measured() -> None:
    picture = report.picture(FIGURES)
    for label in ("arq, best number of processes", "CronFlow, best setup", "bare path on the same stores"):
        assert f">{label}</text>" in picture
    assert ">APScheduler, threads, cron</text>" in picture
    assert "saq" not in picture
