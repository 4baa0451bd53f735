"""The texts below the fields of shapes, for the OpenAPI document.

Pydantic would collect them too (`use_attribute_docstrings`), but with every schema that it builds, and with CPython
3.11 each class costs the parsing of its whole module: more than half of the time that the API takes to start. They
are needed when somebody asks for the document.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from typing_extensions import is_typeddict


def describe_fields(schemas: dict[str, dict[str, Any]]) -> None:
    """Gives each property of a schema that is named like a shape the text that stands below its field."""
    for module in [module for name, module in sys.modules.items() if name.startswith("cronflow.")]:
        if any(name in schemas for name in _shapes(module)):
            for shape, field, text in _texts(module):
                if field in schemas.get(shape, {}).get("properties", {}):
                    schemas[shape]["properties"][field]["description"] = text


def _shapes(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if is_typeddict(value) and value.__module__ == module.__name__:
            yield name


def _texts(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    shapes = set(_shapes(module))
    for defined in ast.parse(inspect.getsource(module)).body:
        if isinstance(defined, ast.ClassDef) and defined.name in shapes:
            for field, below in zip(defined.body, defined.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(text))):
                        yield defined.name, name, inspect.cleandoc(text)
