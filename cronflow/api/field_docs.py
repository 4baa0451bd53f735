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

from pydantic import BaseModel
from typing_extensions import get_original_bases, is_typeddict


def describe_fields(schemas: dict[str, dict[str, Any]]) -> None:
    """Give the properties of each schema the docstrings of the class of the same name and of its bases."""
    described: dict[ModuleType, dict[tuple[str, str], str]] = {}
    for module in [module for name, module in sys.modules.items() if name.startswith("cronflow.")]:
        for kind in _schemas(module):
            for owner in _with_bases(kind) if kind.__name__ in schemas else ():
                home = sys.modules[owner.__module__]
                if home not in described:
                    described[home] = {(name, field): text for name, field, text in texts(home)}
                for field, schema in schemas[kind.__name__].get("properties", {}).items():
                    if (owner.__name__, field) in described[home]:
                        schema.setdefault("description", described[home][owner.__name__, field])


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
        match defined:
            case ast.Assign(value=ast.Call(args=[ast.Constant(value=str(form)), ast.Dict(keys=keys, values=values)])):
                # A form with a key that is a word of Python. Its texts are the last part of each annotation.
                for key, value in zip(keys, values, strict=True):
                    match key, value:
                        case (
                            ast.Constant(value=str(key_name)),
                            ast.Subscript(slice=ast.Tuple(elts=[*_, ast.Constant(value=str(words))])),
                        ):
                            yield form, key_name, words


def _schemas(module: ModuleType) -> Iterator[type]:
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__ and _is_schema(value):
            yield value


def _is_schema(kind: type) -> bool:
    return is_typeddict(kind) or issubclass(kind, BaseModel)


def _with_bases(kind: type) -> Iterator[type]:
    yield kind
    for base in get_original_bases(kind):
        if isinstance(base, type) and base.__module__.startswith("cronflow."):
            yield from _with_bases(base)
