"""The texts that stand below the fields of a class: what a document says of them.

Read from the source, because Python keeps the docstrings of classes and functions and not those of fields.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType


def texts(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Class, field and text, for each field of a module's classes that has one."""
    for defined in ast.parse(inspect.getsource(module)).body:
        if isinstance(defined, ast.ClassDef):
            for field, below in zip(defined.body, defined.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(text))):
                        yield defined.name, name, inspect.cleandoc(text)
