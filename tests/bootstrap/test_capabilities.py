"""What a node announces in its heartbeat, by its settings and apps."""

from __future__ import annotations

from pathlib import Path

from cronflow.app import App
from cronflow.bootstrap.node import capabilities
from cronflow.config import Settings, load_settings
from cronflow.domain.capabilities import Capabilities

APP = App("shop")


@APP.job(every="1h")
def tick() -> None:
    """A job of the app."""


def settings(folder: Path, **environ: str) -> Settings:
    return load_settings({}, environ={f"CRONFLOW_{name}": value for name, value in environ.items()}, folder=folder)


def test_a_node_announces_what_its_settings_and_apps_allow(tmp_path: Path) -> None:
    assert capabilities(settings(tmp_path), []) == Capabilities(
        shell=False, modules=(), hosts=None, secrets=False, amqp=True
    )
    allowed = settings(
        tmp_path,
        ALLOW_SHELL="true",
        ALLOW_PYTHON="billing.jobs",
        ALLOW_HTTP_HOSTS="*.example.com",
        SECRETS_KEY="A" * 43 + "=",
    )
    assert capabilities(allowed, [APP]) == Capabilities(
        shell=True, modules=("billing.jobs", __name__), hosts=("*.example.com",), secrets=True, amqp=True
    )
    # Handler processes have loaded the apps.
    assert capabilities(allowed, [], ("shop",)).modules == ("billing.jobs", "shop")
