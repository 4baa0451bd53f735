"""The texts below the fields of shapes, for the OpenAPI document.

Pydantic would collect them too (`use_attribute_docstrings`), but with every schema that it builds, and with CPython
3.11 each class costs the parsing of its whole module: more than half of the time that the API takes to start. They
are needed when somebody asks for the document.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from typing_extensions import is_typeddict

from cronflow.attribute_docs import texts


def describe_fields(schemas: dict[str, dict[str, Any]]) -> None:
    """Gives each property of a schema that is named like a shape the text that stands below its field."""
    for module in [module for name, module in sys.modules.items() if name.startswith("cronflow.")]:
        shapes = {name for name in _shapes(module) if name in schemas}
        if shapes:
            for shape, field, text in texts(module):
                if shape in shapes and field in schemas[shape].get("properties", {}):
                    schemas[shape]["properties"][field]["description"] = text


def _shapes(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if is_typeddict(value) and value.__module__ == module.__name__:
            yield name
