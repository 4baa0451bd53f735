"""Every setting of a process with its value, its default and where the value comes from, for people."""

from __future__ import annotations

from dataclasses import MISSING
from functools import cache

from cronflow.api.field_docs import texts
from cronflow.config import Settings
from cronflow.config import settings as module
from cronflow.config.settings import FIELDS, describe, shown
from cronflow.schemas.cluster import SettingSchema


def setting_rows(settings: Settings) -> list[SettingSchema]:
    """In the order of the reference page. Passwords and keys are masked."""
    defaults, docs = Settings(), _docs()
    return [
        {
            "name": name,
            "value": value,
            # A default that is made from the machine differs from process to process.
            "default": None if FIELDS[field].default is MISSING else shown(getattr(defaults, field)),
            "source": source,
            "hidden": "hidden" in FIELDS[field].metadata,
            "description": docs.get(field, ""),
        }
        for field, (name, value, source) in zip(FIELDS, describe(settings), strict=True)
    ]


@cache
def _docs() -> dict[str, str]:
    return {field: " ".join(text.split()) for kind, field, text in texts(module) if kind == Settings.__name__}
