"""Python source that is read and never executed: constants, imported names and functions.

A value is a constant when its text alone determines it. Names that are assigned once, arithmetic, `timedelta` and
`datetime`, and the defaults of environment variables count; everything else raises `NotConstant`.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import PurePath
from typing import Any

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.importers.job_draft import JobDraft, Refused

_DEEPEST = 50
_LARGEST = 10**15
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_BUILDERS: Mapping[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "list": list,
    "tuple": tuple,
    "set": set,
    "dict": dict,
    "range": lambda *args: list(_short(range(*args))),
    "datetime.timedelta": timedelta,
    "datetime.datetime": datetime,
    "datetime.date": date,
}
_LONGEST_RANGE = 1000


def _short(values: range) -> range:
    if len(values) > _LONGEST_RANGE:
        raise ValueError
    return values


_ENVIRONMENT = ("os.getenv", "os.environ.get")
_ZONES = ("zoneinfo.ZoneInfo", "pytz.timezone", "dateutil.tz.gettz")
_UTC_NAMES = ("pytz.utc", "pytz.UTC", "datetime.timezone.utc", "datetime.UTC", "django.utils.timezone.utc")


class NotConstant(Exception):
    """The text of an expression does not determine its value."""


@dataclass(frozen=True, slots=True)
class DottedName:
    """A name of the source with its module, such as `shop.tasks.clean`."""

    text: str


@dataclass(frozen=True, slots=True)
class SourceCall:
    """A call that is not evaluated. `function` has its module."""

    function: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def short(self) -> str:
        """The name of the function without its module."""
        return self.function.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class FunctionPath:
    """A function as `module:name`, and the names of its parameters if it is defined in the same file."""

    path: str
    parameters: tuple[str, ...] | None = None


class PythonSource:
    """One file. `module` is its name for the functions that it defines; None if it is not known."""

    def __init__(self, text: str, source: str, module: str | None = None) -> None:
        try:
            with warnings.catch_warnings():
                # Such as those about backslashes in text, which are none of our business.
                warnings.simplefilter("ignore")
                self.tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            place = source if line is None else f"{source}:{line}"
            raise InvalidInput(Problem(place, f"not Python: {error.args[0]}", "name a file of Python 3")) from None
        self._text = text
        stem = PurePath(source).stem
        self.module = module or (stem if stem.isidentifier() else None)
        self.guessed_module = module is None
        self.environment: dict[str, object] = {}
        """The variables whose defaults were used since it was cleared."""
        self._imports: dict[str, str] = {}
        self._assigned: dict[str, list[ast.expr]] = {}
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        for node in ast.walk(self.tree):
            self._remember(node)
        for statement in self.tree.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[statement.name] = statement

    def set_run(self, draft: JobDraft, function: FunctionPath, args: Any, kwargs: Any) -> None:
        """Let the job call the function with these arguments. Raises Refused and NotConstant."""
        run: dict[str, Any] = {"python": function.path}
        if named := by_name(function, args, kwargs):
            run["args"] = named
        draft.set("run", run)
        if function.parameters is not None and self.guessed_module:
            draft.note("The module is the name of the file; --module names another one.", "run")

    def _remember(self, node: ast.AST) -> None:
        match node:
            case ast.Import():
                for one in node.names:
                    first = one.name.partition(".")[0]
                    self._imports[one.asname or first] = one.name if one.asname else first
            case ast.ImportFrom():
                base = "." * node.level + (node.module or "")
                for one in node.names:
                    self._imports[one.asname or one.name] = f"{base}.{one.name}" if node.module else base + one.name
            case ast.Assign():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._assigned.setdefault(target.id, []).append(node.value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._assigned.setdefault(name, []).append(value)

    # ---------------------------------------------------------------------------------------------------------- text

    def place(self, node: ast.AST) -> str:
        return f"line {getattr(node, 'lineno', '?')}"

    def text(self, node: ast.AST) -> str:
        """The node as it is written, without the indentation of its later lines."""
        found = ast.get_source_segment(self._text, node) or ""
        first, *rest = found.splitlines() or [""]
        indent = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
        return "\n".join([first, *(line[indent:] for line in rest)])

    # --------------------------------------------------------------------------------------------------------- names

    def dotted(self, node: ast.AST) -> str | None:
        """The full name of a name or attribute; None for other expressions."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        return ".".join([self._imports.get(node.id, node.id), *reversed(parts)])

    def assignments(self, *names: str) -> Iterator[tuple[ast.AST, ast.expr]]:
        """The statements or keywords that give one of these names, or an attribute of that name, a value."""
        for node in ast.walk(self.tree):
            match node:
                case (
                    ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value)
                ):
                    if (isinstance(target, ast.Name) and target.id in names) or (
                        isinstance(target, ast.Attribute) and target.attr in names
                    ):
                        yield node, value
                case ast.keyword(arg=str(name), value=value) if name in names:
                    yield value, value
                case ast.Dict(keys=keys, values=values):
                    for key, value in zip(keys, values, strict=True):
                        if isinstance(key, ast.Constant) and key.value in names:
                            yield value, value

    def function(self, node: ast.AST) -> FunctionPath:
        """The function that an expression names. Raises Refused."""
        name = self.dotted(node)
        if name is None or name.split(".")[0] in ("self", "cls"):
            remedy = "move it to a function of a module, and write run: {python: module:function}"
            raise Refused(f"{self.text(node)} is not a function of a module", remedy)
        if name in self.functions:
            return self._own(name)
        module, _, function = name.rpartition(".")
        if not module or name.startswith(".") or (isinstance(node, ast.Name) and node.id not in self._imports):
            remedy = "write its full module: run: {python: package.module:function}"
            raise Refused(f"the module of {self.text(node)} is not known from this file", remedy)
        return FunctionPath(f"{module}:{function}")

    def _own(self, name: str) -> FunctionPath:
        if self.module is None:
            raise Refused(f"{name} is defined in this file, whose module is not known", "name it with --module")
        arguments = self.functions[name].args
        parameters = [one.arg for one in [*arguments.posonlyargs, *arguments.args]]
        if any(isinstance(one, ast.keyword) and one.arg == "bind" for one in ast.walk(self.functions[name])):
            parameters = parameters[1:]
        return FunctionPath(f"{self.module}:{name}", tuple(parameters))

    # -------------------------------------------------------------------------------------------------------- values

    def value(self, node: ast.AST, depth: int = 0) -> Any:
        """The value of an expression. Raises NotConstant."""
        if depth > _DEEPEST:
            raise NotConstant(self.text(node))
        match node:
            case ast.Constant(value=value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._calculated(node, lambda: -self.value(operand, depth + 1))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._calculated(
                    node, lambda: _bounded(type(op), self.value(left, depth + 1), self.value(right, depth + 1))
                )
            case ast.List(elts=elements):
                return [self.value(one, depth + 1) for one in elements]
            case ast.Tuple(elts=elements):
                return tuple(self.value(one, depth + 1) for one in elements)
            case ast.Set(elts=elements):
                return self._calculated(node, lambda: {self.value(one, depth + 1) for one in elements})
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                return self._calculated(
                    node, lambda: {self._key(k, node, depth): self.value(v, depth + 1) for k, v in pairs}
                )
            case ast.Name() | ast.Attribute():
                return self._named(node, depth)
            case ast.Call():
                return self._call(node, depth)
        raise NotConstant(self.text(node))

    def _key(self, node: ast.expr | None, parent: ast.AST, depth: int) -> Any:
        if node is None:
            raise NotConstant(self.text(parent))
        return self.value(node, depth + 1)

    def _named(self, node: ast.Name | ast.Attribute, depth: int) -> Any:
        name = self.dotted(node)
        if isinstance(node, ast.Name) and node.id in self._assigned:
            values = self._assigned[node.id]
            if len(values) != 1:
                raise NotConstant(f"{node.id}, which is assigned several times")
            return self.value(values[0], depth + 1)
        if name in _UTC_NAMES:
            return UTC
        if isinstance(node, ast.Name) and node.id not in self._imports and node.id not in self.functions:
            raise NotConstant(node.id)
        if name is None or name.startswith("django.conf.settings"):
            raise NotConstant(self.text(node))
        return DottedName(name)

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = self.dotted(node.func)
        if name is None or any(one.arg is None for one in node.keywords):
            raise NotConstant(self.text(node))
        args = tuple(self.value(one, depth + 1) for one in node.args)
        kwargs = {str(one.arg): self.value(one.value, depth + 1) for one in node.keywords}
        if name in _ENVIRONMENT:
            values = [*args[1:2], *kwargs.values()]
            if not values or values[0] is None:
                raise NotConstant(f"the environment variable {args[0] if args else ''}")
            self.environment[str(args[0])] = values[0]
            return values[0]
        if name in _ZONES and args:
            return args[0]
        if name in _BUILDERS:
            return self._calculated(node, lambda: _BUILDERS[name](*args, **kwargs))
        return SourceCall(name, args, kwargs)

    def _calculated(self, node: ast.AST, calculate: Callable[[], Any]) -> Any:
        try:
            return calculate()
        except (TypeError, ValueError, ArithmeticError):
            raise NotConstant(self.text(node)) from None


def _bounded(op: type[ast.operator], left: Any, right: Any) -> Any:
    """Raises TypeError for what is not a number or a duration, and for results that are too large."""
    if not all(isinstance(one, int | float | timedelta) for one in (left, right)):
        raise TypeError
    result = _OPERATORS[op](left, right)
    if isinstance(result, int | float) and abs(result) > _LARGEST:
        raise TypeError
    return result


def plain(value: Any) -> Any:
    """A value that JSON has. Raises NotConstant for the name of something, for a call, and for other objects."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple() | set():
            return [plain(one) for one in value]
        case DottedName(text=text) | SourceCall(function=text):
            raise NotConstant(text)
    raise NotConstant(repr(value))


def by_name(function: FunctionPath, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by the names of parameters; None for no arguments. Raises Refused and NotConstant."""
    values, named = plain(() if args is None else args), plain({} if kwargs is None else kwargs)
    if not isinstance(values, list) or not isinstance(named, dict):
        raise Refused("its arguments are not a list and a mapping", "correct args and kwargs")
    if not values:
        return named
    if function.parameters is None or len(values) > len(function.parameters):
        remedy = "give the arguments by name: kwargs in the source, or args: in the job"
        raise Refused("its arguments have no names, and CronFlow passes them by name", remedy)
    return {**dict(zip(function.parameters, values, strict=False)), **named}
