"""Generates the JSON Schema of job files from the tables of the documents: `python -m tools.docs.job_file_schema`.

The forms are those of the OpenAPI document. Files have what requests have not: `defaults`, several jobs, and the short
forms of values (`Key.also`). Keys have the defaults of the format, except those that settings of the cluster complete.
It is draft 7, which editors support.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from cronflow.api.openapi import REF
from cronflow.documents.amqp import AMQP_MESSAGE
from cronflow.documents.jobs import (
    ARGV,
    BREAKER,
    CONCURRENCY,
    JOB,
    MISFIRE,
    PYTHON,
    REQUEST,
    RESOURCES,
    SHELL,
    TABLES,
    UPSTREAM,
)
from cronflow.documents.schedules import ANY, CRON, DST, EVERY
from cronflow.documents.tables import DocumentTable
from cronflow.files.defaults import KEYS
from tools.docs.api import document

TARGET = Path(__file__).parents[2] / "cronflow" / "files" / "job-file.schema.json"
DRAFT = "http://json-schema.org/draft-07/schema#"
DEFINITIONS = "#/definitions/"
WITH_DEFAULTS = (
    *(JOB, CRON, EVERY, ANY, DST, PYTHON, SHELL, ARGV, REQUEST),
    *(AMQP_MESSAGE, BREAKER, MISFIRE, CONCURRENCY, RESOURCES, UPSTREAM),
)
"""The mappings whose defaults belong to the format."""
COMPLETED = ("tz", "retry")
"""Keys that settings of the cluster complete."""
Schema = dict[str, Any]


def made() -> Schema:
    """The schema."""
    components = document()["components"]["schemas"]
    for table in TABLES:
        _add_short_forms(components[_input(table.form.__name__)], table)
    for table in WITH_DEFAULTS:
        _add_defaults(components[_input(table.form.__name__)], table)
    job = components["JobInput"]
    defaults = {
        "type": "object",
        "title": "Defaults",
        "description": "Keys that the jobs of the file share. A job's own keys take precedence.",
        "additionalProperties": False,
        "properties": {
            "tz": {"type": "string", "description": "The IANA time zone of schedules that have none."},
            **{key: _without_required(job["properties"][key], components) for key in KEYS if key != "tz"},
        },
    }
    several = {
        "type": "object",
        "title": "Jobs",
        "additionalProperties": False,
        "required": ["jobs"],
        "properties": {
            "defaults": defaults,
            "jobs": {"type": "array", "description": "The jobs.", "items": {"$ref": f"{REF}JobInput"}},
        },
    }
    schema: Schema = {"anyOf": [several, {"$ref": f"{REF}JobInput"}]}
    found: Schema = {}
    _collect(schema, components, found)
    described = {name: _draft_7(one) for name, one in sorted(found.items())}
    return {"$schema": DRAFT, "title": "CronFlow job file", **_draft_7(schema), "definitions": described}


def text() -> str:
    return orjson.dumps(made(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _input(form: str) -> str:
    return form.replace("Form", "Input")


def _add_short_forms(schema: Schema, table: DocumentTable[Any]) -> None:
    for name, key in table.keys.items():
        if key.also is None:
            continue
        property_ = schema["properties"][name]
        description = property_.pop("description", "")
        more = _renamed(TypeAdapter(key.also).json_schema(ref_template=REF + "{model}"))
        more.pop("$defs", None)
        options = [*property_.get("anyOf", [property_]), *more.get("anyOf", [more])]
        schema["properties"][name] = {"anyOf": options, "description": description}


def _add_defaults(schema: Schema, table: DocumentTable[Any]) -> None:
    for name, default in table.defaults.items():
        if default is not None and name not in COMPLETED:
            schema["properties"][name]["default"] = default


def _renamed(part: Any) -> Any:
    if isinstance(part, Mapping):
        return {key: _input(value) if key == "$ref" else _renamed(value) for key, value in part.items()}
    return [*map(_renamed, part)] if isinstance(part, list) else part


def _without_required(part: Schema, components: Mapping[str, Schema]) -> Schema:
    """A mapping of the defaults may be completed by each job."""
    if "$ref" in part:
        found = components[part["$ref"].removeprefix(REF)]
        return {key: value for key, value in found.items() if key != "required"} | {
            key: value for key, value in part.items() if key == "description"
        }
    return part


def _collect(part: Any, components: Mapping[str, Schema], found: Schema) -> None:
    """The definitions that a part needs."""
    if isinstance(part, Mapping):
        if isinstance(ref := part.get("$ref"), str) and (name := ref.removeprefix(REF)) not in found:
            found[name] = components[name]
            _collect(components[name], components, found)
        for value in part.values():
            _collect(value, components, found)
    elif isinstance(part, list):
        for value in part:
            _collect(value, components, found)


def _draft_7(part: Any) -> Any:
    """References stand alone in draft 7, and titles that only repeat a key are left out."""
    if isinstance(part, list):
        return [*map(_draft_7, part)]
    if not isinstance(part, Mapping):
        return part
    kept = {key: _draft_7(value) for key, value in part.items() if key != "title" or not isinstance(value, str)}
    if isinstance(ref := kept.get("$ref"), str):
        ref = ref.replace(REF, DEFINITIONS)
        rest = {key: value for key, value in kept.items() if key != "$ref"}
        return {"allOf": [{"$ref": ref}], **rest} if rest else {"$ref": ref}
    return kept


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
