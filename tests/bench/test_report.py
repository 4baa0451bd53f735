from __future__ import annotations

import pytest

from tests.bench import against_peers, report, targets
from tests.bench.own_loads import IncompleteDrain
from tests.bench.report import BEGIN, END
from tests.bench.results import Figure

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


def test_the_page_names_the_day_the_load_and_what_failed() -> None:
    figures = [
        Figure("load_before", 0.25, "", "make bench-peers", "2026-01-02T03:04:05+00:00"),
        Figure("failed: 2 nodes, 64 slots", 1, "", "make bench-peers", "2026-01-02T03:04:05+00:00"),
    ]
    day, versions, failed = against_peers.headings({figure.name: figure for figure in figures})
    assert day.startswith("2026-01-02, ")
    assert day.endswith("load average before the run 0.2")
    assert versions.startswith("CronFlow ")
    assert all(f", {peer} " in versions for peer in targets.PEERS)
    assert failed == "Failed measurements: 2 nodes, 64 slots"


def test_a_measurement_that_fails_is_recorded_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(against_peers, "keep", lambda name, value, unit: kept.append(name))

    def drain() -> None:
        raise IncompleteDrain(jobs=10, runs=9, succeeded=8)

    with against_peers.reported("a drain"):
        drain()
    assert kept == ["failed: a drain"]


def test_the_best_setup_is_marked() -> None:
    labels = against_peers.setups({"drain_1x64": 800.0, "drain_2x64": 700.0, "drain_best": 800.0})
    assert labels["drain_1x64"] == "1 node, 64 slots (best)"
    assert labels["drain_2x64"] == "2 nodes, 64 slots"
