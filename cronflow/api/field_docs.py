"""Descriptions of fields for the OpenAPI document and the reference pages: the docstrings below them.

Pydantic would collect them too (`use_attribute_docstrings`), but with every schema that it builds, and on CPython 3.11
each class costs the parsing of its whole module: more than half of the API's start-up time. They are needed only when
a client requests the document.
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
    """Give the properties of each schema the docstrings of the class of the same name."""
    for module in [module for name, module in sys.modules.items() if name.startswith("cronflow.")]:
        declared = {name for name in _schemas(module) if name in schemas}
        if declared:
            for name, field, text in texts(module):
                if name in declared and field in schemas[name].get("properties", {}):
                    schemas[name]["properties"][field]["description"] = text


def texts(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Class, field and docstring of each documented field of a module's classes.

    Read from the source: Python keeps the docstrings of classes and functions, but not those of fields.
    """
    for defined in ast.parse(inspect.getsource(module)).body:
        if isinstance(defined, ast.ClassDef):
            for field, below in zip(defined.body, defined.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(text))):
                        yield defined.name, name, inspect.cleandoc(text)


def _schemas(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if is_typeddict(value) and value.__module__ == module.__name__:
            yield name
