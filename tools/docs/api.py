"""Generates `docs/reference/api.md` from the OpenAPI document: `python -m tools.docs.api`.

With `json` it prints the document itself, from which the dashboard's types are generated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import orjson

from cronflow.api.access import ClosedGate
from cronflow.api.app import create_api
from cronflow.api.bodies import Deployment
from cronflow.api.openapi import REF, Document
from cronflow.usecases import UseCases

if TYPE_CHECKING:
    from cronflow.api.routes.chaos import Chaos

HEAD = """# The REST API

Generated from the OpenAPI document by `make docs`; do not edit it. A running API serves the document at
`/openapi.json` and a page to try it at `/docs`. To get started: [use the API](../how-to/use-the-api.md).
"""


def document(deployment: Deployment | None = None) -> Document:
    """The OpenAPI document, without a cluster."""
    # No route is called, so no service is needed.
    return create_api(cast("UseCases", None), ClosedGate(), deployment).openapi()


def reference(made: Document) -> str:
    return "\n".join([HEAD, made["info"]["description"], "", *_operations(made), *_schemas(made)])


def _operations(made: Document) -> Iterator[str]:
    for tag in made["tags"]:
        yield from (f"## {tag['name'].capitalize()}", "", tag["description"], "")
        for path, operations in made["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    yield from _operation(method, path, operation)


def _operation(method: str, path: str, operation: Document) -> Iterator[str]:
    yield from (f"### {method.upper()} {path}", "", operation["description"], "")
    rows = [
        f"| `{one['name']}` | {one['in']}{', required' if one['required'] else ''} "
        f"| {_kind(one['schema']).removesuffix(' or null')} | {_text(one['description'])} |"
        for one in operation.get("parameters", ())
    ]
    if rows:
        yield from ("| parameter | in | kind | |", "|---|---|---|---|", *rows, "")
    body = operation.get("requestBody")
    if body is not None:
        optional = "" if body["required"] else ", optional"
        yield from (f"Body: {_kind(body['content']['application/json']['schema'])}{optional}.", "")
    good, bad = [], []
    for status, response in sorted(operation["responses"].items()):
        content = response.get("content", {}).get("application/json", {}).get("schema")
        if content is None:
            bad.append(status)
        else:
            good.append(f"{status} {_kind(content)}")
    problems = f"; problems: {', '.join(bad)}" if bad else ""
    yield from (f"Answers: {', '.join(good)}{problems}.", "")


def _schemas(made: Document) -> Iterator[str]:
    yield from ("## Schemas", "", "A field marked with `?` may be missing; all others are always present.", "")
    for name, schema in made["components"]["schemas"].items():
        yield from (f"### {name}", "", _text(schema.get("description", "")), "")
        if "enum" in schema:
            yield from (", ".join(f"`{word}`" for word in schema["enum"]), "")
        required = schema.get("required", ())
        rows = [
            f"| `{field}`{'' if field in required else '?'} | {_kind(kind)}{_default(kind)} "
            f"| {_text(kind.get('description', ''))} |"
            for field, kind in schema.get("properties", {}).items()
        ]
        if rows:
            yield from ("| field | kind | |", "|---|---|---|", *rows, "")


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REF)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "const" in schema:
        return f"`{str(schema['const']).lower()}`"
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {_kind(schema['items'])}"
        case "object":
            inner = schema.get("additionalProperties")
            return f"object of {_kind(inner)}" if isinstance(inner, Mapping) else "object"
        case None:
            return "anything"
        case kind:
            low, high = schema.get("minimum"), schema.get("maximum")
            return str(kind) if low is None else f"{kind} {low} to {high}"


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return f", default `{str(default).lower()}`" if default not in (None, "", []) else ""


def _text(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    if sys.argv[1:] == ["json"]:
        # The dashboard uses what `cronflow dev` offers too.
        sys.stdout.write(orjson.dumps(document(Deployment(chaos=cast("Chaos", object())))).decode())
    else:
        sys.stdout.write(reference(document()).rstrip() + "\n")
