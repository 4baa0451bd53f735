"""Shell completion of names: of jobs, runs and nodes of the cluster; silent and quick without one."""

from __future__ import annotations

import asyncio
import threading

import pytest
from typer.testing import CliRunner

from cronflow.cli import completion, connect
from cronflow.cli.main import app
from cronflow.config import Settings
from cronflow.domain.errors import BackendUnavailable
from cronflow.usecases import UseCases
from tests.waiting import PATIENCE_S


def completed(words: str) -> list[str]:
    """What the shell would suggest for the last word of `cronflow <words>`."""
    env = {"_CRONFLOW_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": f"cronflow {words}"}
    result = CliRunner().invoke(app, [], env={**env, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, prog_name="cronflow")
    assert result.stderr == ""
    return [line.partition("\t")[0] for line in result.stdout.splitlines() if line]


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "WITHIN_S", PATIENCE_S)


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        ("jobs show night", "nightly-report"),
        ("jobs pause sync-tokens night", "nightly-report"),
        ("runs list --job night", "nightly-report"),
        ("runs show nightly-report@20261121", "nightly-report@20261121T010000Z"),
        ("nodes drain node-", "node-a"),
        ("logs --node node-", "node-a"),
    ],
)
def test_names_of_the_cluster_are_completed(words: str, suggestion: str) -> None:
    found = completed(words)
    assert suggestion in found
    assert all(name.startswith(words.split()[-1]) for name in found)


def test_without_a_connection_nothing_is_suggested_or_printed() -> None:
    assert completed("jobs show night") == []


def test_a_silent_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    enough = threading.Event()

    class Silent:
        async def __aenter__(self) -> UseCases:
            await asyncio.to_thread(enough.wait)
            raise BackendUnavailable("Redis", "nowhere", "silent")

        async def __aexit__(self, *_: object) -> None:
            """Never entered."""

    def silent(_: Settings) -> Silent:
        return Silent()

    monkeypatch.setattr(connect, "open_service", silent)
    monkeypatch.setattr(completion, "WITHIN_S", 0.01)
    monkeypatch.setenv("CRONFLOW_REDIS_URL", "redis://nowhere")
    assert completed("jobs show night") == []
    enough.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.name == completion.__name__:
            thread.join(PATIENCE_S)
