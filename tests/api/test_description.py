"""The OpenAPI document and the reference page generated from it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from typing_extensions import is_typeddict

from tests.api.conftest import Client, the_document
from tests.api.test_access import PUBLIC
from tests.cli.scene import BACKFILL, FAILED
from tools.docs.api import reference

LATER = ("stream", "metrics")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in the_document().content["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_the_reference_has_every_operation_and_every_schema() -> None:
    headings = {line for line in reference(the_document().content).splitlines() if line.startswith("### ")}
    assert {f"### {method.upper()} {path}" for path, method, _ in operations()} <= headings
    assert {f"### {name}" for name in the_document().content["components"]["schemas"]} <= headings


def test_everything_is_described() -> None:
    for path, method, operation in operations():
        assert operation["summary"], path
        assert operation["description"], path
        assert operation["tags"], path
        assert all(parameter["description"] for parameter in operation.get("parameters", ())), (method, path)
        for status, response in operation["responses"].items():
            assert "$ref" in response or int(status) < 400 or path == "/readyz"
    for name, schema in the_document().content["components"]["schemas"].items():
        assert schema["description"], name
        fields = schema.get("properties", {})
        if "step" not in fields:
            # The links of a chain are described as a whole.
            assert [field for field, kind in fields.items() if "description" not in kind] == [], name


def test_no_two_schemas_have_the_same_name() -> None:
    # The descriptions of their fields are found by name.
    the_document()
    modules = [module for name, module in sys.modules.items() if name.startswith("cronflow.")]
    defined = [
        name
        for module in modules
        for name, value in vars(module).items()
        if is_typeddict(value) and value.__module__ == module.__name__
    ]
    assert len(defined) > 100
    assert [name for name, count in Counter(defined).items() if count > 1] == []


def test_references_resolve_and_names_are_unique() -> None:
    def references(part: object) -> Iterator[str]:
        if isinstance(part, dict):
            yield from (value for key, value in part.items() if key == "$ref")
            for value in part.values():
                yield from references(value)
        elif isinstance(part, list):
            for value in part:
                yield from references(value)

    made = the_document().content
    for reference_ in references(made):
        kind, name = reference_.removeprefix("#/components/").split("/")
        assert name in made["components"][kind], reference_
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))


def test_every_route_with_a_role_has_the_login_and_the_problems() -> None:
    for path, _, operation in operations():
        if path.startswith("/api/"):
            if path not in PUBLIC:
                assert operation["security"] == [{"bearer": []}]
                assert "403" in operation["responses"]
            assert {"401", "422", "429", "503"} <= operation["responses"].keys()
            assert ("requestBody" in operation) == ("413" in operation["responses"])


def test_unsupported_features_are_not_documented() -> None:
    assert [path for path, _, _ in operations() for word in LATER if word in path] == []


@pytest.mark.parametrize("path", [path for path, _, operation in operations() if "requestBody" in operation])
async def test_the_example_of_every_body_matches_its_schema_and_is_accepted(client: Client, path: str) -> None:
    for method, operation in the_document().content["paths"][path].items():
        if "requestBody" not in operation:
            continue
        content = operation["requestBody"]["content"]["application/json"]
        the_document().validator(content["schema"]).validate(content["example"])
        place = path.removeprefix("/api/v1").replace("{name}", "node-a" if "/nodes/" in path else "nightly-report")
        place = place.replace("{id}", BACKFILL if "/backfills/" in path else FAILED)
        answer = await client.ask(method.upper(), place, content["example"])
        # The names of the examples exist in the scene, so creating one or cancelling a finished run conflicts.
        if path not in PUBLIC and "/users/" not in path:
            assert answer.status_code < 300 or answer.status_code == 409, answer.text
        else:
            # The examples do not exist in the scene, but the input is valid.
            assert answer.status_code in (204, 401, 404), answer.text
