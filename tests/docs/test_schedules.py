"""The examples of the reference page about schedules: what it shows is what the engine computes."""

from __future__ import annotations

from typing import get_type_hints

import yaml

from cronflow.documents.schedules import AnyForm, CronForm, DstForm, EveryForm, OnceForm
from tools.docs.schedules import PAGE, examples, filled

TEXT = PAGE.read_text("utf-8")


def test_the_page_shows_what_the_engine_computes() -> None:
    assert filled(TEXT) == TEXT, "run `make docs`"


def test_every_yaml_block_of_the_page_is_an_example() -> None:
    assert len(examples(TEXT)) == TEXT.count("```yaml\n") > 30


def test_every_key_of_a_schedule_has_an_example() -> None:
    shown: set[str] = set()
    for example in examples(TEXT):
        if example.show != "error":
            _collect(yaml.safe_load(example.document)["schedule"], shown)
    keys = {key for form in (CronForm, EveryForm, OnceForm, AnyForm, DstForm) for key in get_type_hints(form)}
    assert keys - shown == set()


def _collect(value: object, found: set[str]) -> None:
    if isinstance(value, dict):
        found.update(value)
        for inner in value.values():
            _collect(inner, found)
    elif isinstance(value, list):
        for inner in value:
            _collect(inner, found)
