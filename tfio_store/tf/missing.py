"""Stand-ins for names whose package is not installed. They can be listed, imported and read about;
a call says what to install."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any


def is_missing(package: str) -> bool:
    """Whether there is no such package to import."""
    try:
        return package not in sys.modules and find_spec(package) is None
    except ModuleNotFoundError:
        return True


def stand_in(name: str, package: str, home: str) -> Any:
    """Make a class or function that raises ModuleNotFoundError when it is called. Its signature and
    its docstring are those of the real one, read from the text of ``home``, its module."""
    needs = (
        f"tfio_store.{name} needs {package}, which is not installed: "
        f"pip install 'tfio_store[{package}]'"
    )

    found = _definition(name, home)
    made: Any
    if isinstance(found, ast.ClassDef):
        methods = {one.name: _function(one, needs, package) for one in _methods(found)}
        made = type(name, (), methods)
    else:
        made = _function(found, needs, package)
    text = ast.get_docstring(found) if found is not None else None
    made.__doc__ = f"{needs}\n\n{text}" if text else needs
    made.__name__ = made.__qualname__ = name
    made.__module__ = "tfio_store"
    return made


_Definition = ast.FunctionDef | ast.ClassDef


def _definition(name: str, home: str) -> _Definition | None:
    """None where the installed package has no text."""
    path = Path(__file__).parents[2].joinpath(*home.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        with contextlib.suppress(OSError):
            body = ast.parse(file.read_text(encoding="utf-8")).body
            return next(
                (one for one in body if isinstance(one, _Definition) and one.name == name), None
            )
    return None


def _methods(found: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for one in found.body:
        public = isinstance(one, ast.FunctionDef) and not one.name.startswith("_")
        if isinstance(one, ast.FunctionDef) and (public or one.name == "__init__"):
            yield one


def _function(found: _Definition | None, needs: str, package: str) -> Callable[..., Any]:
    def function(*_: Any, **__: Any) -> Any:
        raise ModuleNotFoundError(needs, name=package)

    if isinstance(found, ast.FunctionDef):
        function.__name__ = function.__qualname__ = found.name
        function.__doc__ = ast.get_docstring(found)
        function.__signature__ = _signature(found)  # type: ignore[attr-defined]
    return function


class _Text:
    """Code that help() shows as it stands."""

    def __init__(self, code: ast.expr) -> None:
        self._code = ast.unparse(code)

    def __repr__(self) -> str:
        return self._code


def _signature(found: ast.FunctionDef) -> Signature:
    of, made = found.args, []

    def add(one: ast.arg, kind: Any, default: ast.expr | None = None) -> None:
        annotation = Parameter.empty if one.annotation is None else _Text(one.annotation)
        value = Parameter.empty if default is None else _Text(default)
        made.append(Parameter(one.arg, kind, default=value, annotation=annotation))

    plain = [*of.posonlyargs, *of.args]
    without = [None] * (len(plain) - len(of.defaults))
    for i, (one, default) in enumerate(zip(plain, [*without, *of.defaults], strict=True)):
        first = i < len(of.posonlyargs)
        add(one, Parameter.POSITIONAL_ONLY if first else Parameter.POSITIONAL_OR_KEYWORD, default)
    if of.vararg is not None:
        add(of.vararg, Parameter.VAR_POSITIONAL)
    for one, default in zip(of.kwonlyargs, of.kw_defaults, strict=True):
        add(one, Parameter.KEYWORD_ONLY, default)
    if of.kwarg is not None:
        add(of.kwarg, Parameter.VAR_KEYWORD)
    returned = Signature.empty if found.returns is None else _Text(found.returns)
    return Signature(made, return_annotation=returned)
