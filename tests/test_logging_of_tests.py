"""The logging that a command configures ends with its test."""

from __future__ import annotations

import logging

import structlog

from cronflow.cli.process_log import LogFormat, configure
from tests.conftest import restore_logging


def test_what_a_command_configured_is_undone() -> None:
    configure("error", LogFormat.TEXT)
    restore_logging()
    assert not structlog.is_configured()
    assert logging.getLogger().level == logging.WARNING
    assert not [handler for handler in logging.getLogger().handlers if type(handler) is logging.StreamHandler]
