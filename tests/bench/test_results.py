from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.results import forget, latest, record


def test_the_latest_figure_of_each_name_counts(tmp_path: Path) -> None:
    file = tmp_path / "new" / "results.json"
    record("drain", 100.0, "runs/s", "a", file=file)
    record("drain", 200.0, "runs/s", "a", file=file)
    record("idle", 1.5, "%", "b", file=file)
    figures = latest(file=file)
    assert {name: figure.value for name, figure in figures.items()} == {"drain": 200.0, "idle": 1.5}
    assert (figures["idle"].unit, figures["idle"].command) == ("%", "b")


def test_a_new_run_forgets_only_its_own_figures(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    record("drain", 100.0, "runs/s", "a", file=file)
    record("lone", 5.0, "ms", "a --quick", file=file)
    record("idle", 1.5, "%", "ab", file=file)
    forget("a", file=file)
    assert set(latest(file=file)) == {"idle"}


def test_no_file_means_no_figures(tmp_path: Path) -> None:
    assert latest(file=tmp_path / "results.json") == {}


def test_no_figure_is_lost_when_benchmarks_record_at_the_same_time(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: record(f"figure-{k}", k, "", "a", file=file), range(40)))
    assert len(latest(file=file)) == 40
