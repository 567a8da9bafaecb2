"""Every public name with its signature, in `tests/public_surface.txt`.

`make generate ONLY=surface` writes it.

The package is read and not run, so that doors of packages which are not installed are read too.
Public is what a door lists in ``__all__``. A class is written with its constructor, its public
methods and attributes, and the special methods that it has; what it inherits within the package
is its own. Defaults that are constants are written as their values, and behind all names stand the
types that their arguments name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

__all__ = ["PAGE", "ROOMS", "surface"]

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tfio_store"
PAGE = ROOT / "tests/public_surface.txt"

ROOMS = ("beam", "grain", "ray", "spark", "storage", "testing", "torch")
"""Folders that users import. Files directly in the package are all public."""

WIDTH = 100

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
HEAD = """\
# Every public name of tfio_store, and how it is called. `make generate ONLY=surface` writes it,
# and a test compares it with the code: docs/policy.md says which changes are allowed when.
"""


@dataclass(frozen=True)
class Found:
    """Where a name is defined: its module, and the statement there. A module has none."""

    module: str
    name: str
    node: ast.stmt | None


class Package:
    """The modules of a package, as they are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def doors(self) -> list[str]:
        """The modules that a user imports: the package itself, then those in it that have an
        ``__all__``."""
        package = self._folder.name
        names = {path.stem for path in self._folder.glob("[a-z]*.py")} | set(ROOMS)
        inner = [f"{package}.{name}" for name in sorted(names)]
        return [package, *(door for door in inner if self._file(door) and self.listed(door))]

    def listed(self, module: str) -> list[str]:
        """The module's ``__all__``; empty if it has none."""
        found = self._bound(module).get("__all__")
        return list(ast.literal_eval(found.value)) if isinstance(found, ast.Assign) else []

    def find(self, module: str, name: str) -> Found:
        """Follow a name's imports to the statement that defines it."""
        node = self._bound(module).get(name)
        if isinstance(node, ast.ImportFrom):
            (alias,) = (each for each in node.names if (each.asname or each.name) == name)
            home = node.module or ""
            if not home.startswith(self._folder.name):
                return Found(module, name, node)
            inner = f"{home}.{alias.name}"
            return Found(inner, "", None) if self._file(inner) else self.find(home, alias.name)
        match node:
            case ast.Assign(value=ast.Attribute(value=ast.Name(id=holder), attr=attribute)):
                held = self.find(module, holder)
                if held.node is None:
                    return self.find(held.module, attribute)
            case ast.Assign(value=ast.Name(id=other)) if other in self._bound(module):
                return self.find(module, other)
        if node is None:
            raise LookupError(f"{module} does not define {name}")
        return Found(module, name, node)

    def statements(self, module: str, name: str) -> list[Function]:
        """All definitions of a function in its module: its overloads, and what they stand for."""
        tree = self._tree(module)
        return [
            node for node in _flat(tree.body) if isinstance(node, Function) and node.name == name
        ]

    def bases(self, found: Found) -> Iterator[Found]:
        """A class and those that it inherits from within the package, the nearest first."""
        assert isinstance(found.node, ast.ClassDef)
        yield found
        for base in found.node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(plain, ast.Name) and plain.id in self._bound(found.module):
                inner = self.find(found.module, plain.id)
                if isinstance(inner.node, ast.ClassDef):
                    yield from self.bases(inner)

    @lru_cache  # noqa: B019 - one package a run
    def _bound(self, module: str) -> dict[str, ast.stmt]:
        """Names, and the statements that bind them. Of two the first counts: what type checkers
        are given stands before what runs."""
        found: dict[str, ast.stmt] = {}
        for node in _flat(self._tree(module).body):
            for name in _names(node):
                found.setdefault(name, node)
        return found

    @lru_cache  # noqa: B019
    def _tree(self, module: str) -> ast.Module:
        file = self._file(module)
        if file is None:
            raise LookupError(f"there is no module {module}")
        return ast.parse(file.read_text(encoding="utf-8"))

    def _file(self, module: str) -> Path | None:
        path = self._folder.parent.joinpath(*module.split("."))
        # a compiled module is read by its stub
        places = (path / "__init__.py", path.with_suffix(".py"), path.with_suffix(".pyi"))
        return next((place for place in places if place.exists()), None)


def surface(folder: Path = PACKAGE) -> str:
    """The text of the page."""
    package = Package(folder)
    root, *others = package.doors()
    page = Page(package)
    lines = [HEAD]
    for door in (root, *others):
        for name in package.listed(door):
            found = package.find(door, name)
            if door != root and name in package.listed(root) and found == package.find(root, name):
                lines += [f"{door}.{name}: the same as {root}.{name}", ""]
            else:
                lines += [*page.entry(f"{door}.{name}", found), ""]
    return "\n".join([*lines, *page.types(), ""])


class Page:
    """Writes names, and remembers the types that they name."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._types: set[str] = set()

    def entry(self, name: str, found: Found) -> Iterator[str]:
        """The lines of one public name."""
        node = found.node
        if node is None:
            yield f"{name}: a module"
        elif isinstance(node, ast.ClassDef):
            yield from self._class(name, found)
        elif isinstance(node, Function):
            for each in _seen(self._package.statements(found.module, found.name)):
                yield from _wrapped(f"{name}", *self._signature(each, found.module))
        elif isinstance(node, ast.AnnAssign):
            yield f"{name}: {self._annotation(node.annotation, found.module)}"
        else:
            yield f"{name} = {_text(node)}"

    def types(self) -> list[str]:
        """The definitions of the types that arguments name."""
        return sorted(self._types)

    def _class(self, name: str, found: Found) -> Iterator[str]:
        """The class's line, and those of its members, sorted."""
        members: dict[str, list[str]] = {}
        special: set[str] = set()
        fields: list[str] = []
        for part in reversed(list(self._package.bases(found))):
            assert isinstance(part.node, ast.ClassDef)
            made = _is_record(part.node)
            own: dict[str, list[list[str]]] = {}
            for node in _flat(part.node.body):
                for member in _names(node):
                    if _is_special(member):
                        special.add(member)
                    elif member == "__init__" or not member.startswith(("_", "test_")):
                        lines = list(self._member(member, node, part.module, made=made))
                        own.setdefault(member, []).append(lines)
                        if made and isinstance(node, ast.AnnAssign) and member not in fields:
                            fields.append(member)
            members.update({key: _all_seen(ways) for key, ways in own.items()})
        bases = ", ".join(ast.unparse(base) for base in self._named_bases(found))
        head = f"class {name}({bases})" if bases else f"class {name}"
        constructor = members.pop("__init__", [])
        yield f"{head}: made of {', '.join(fields)}" if fields and not constructor else head
        for line in (
            *constructor,
            *(line for member in sorted(members) for line in members[member]),
        ):
            yield f"    {line}"
        if special:
            yield f"    {' '.join(sorted(special))}"

    def _member(self, name: str, node: ast.stmt, module: str, *, made: bool) -> Iterator[str]:
        """``made``: whether an annotated name is an argument of the constructor too."""
        if isinstance(node, Function):
            yield from self._method(name, node, module)
        elif isinstance(node, ast.AnnAssign):
            default = f" = {_text(node.value)}" if made and node.value else ""
            yield f"{name}: {self._annotation(node.annotation, module)}{default}"
        else:
            yield f"{name} = …"

    def _method(self, name: str, node: Function, module: str) -> Iterator[str]:
        marks = [ast.unparse(each) for each in node.decorator_list]
        if any(mark.endswith(("property", ".setter")) for mark in marks):
            yield f"{name}: {self._annotation(node.returns, module) if node.returns else '…'}"
            return
        bound = "staticmethod" not in marks
        kind = next((mark for mark in marks if mark in ("classmethod", "staticmethod")), "")
        given, returned = self._signature(node, module, bound=bound)
        yield from _wrapped(f"{kind} {name}".strip(), given, returned)

    def _signature(
        self, node: Function, module: str, *, bound: bool = False
    ) -> tuple[list[str], str]:
        """Its parameters and what it returns: ``["a: int", "*", "b: str = 'x'"]``, ``"bytes"``. The
        ``self`` of a method is left out."""
        given = node.args
        plain = [*given.posonlyargs, *given.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults))
        pairs = list(zip(plain, [*defaults, *given.defaults], strict=True))[bound:]
        positional = len(given.posonlyargs) - (bound and bool(given.posonlyargs))
        told = [self._parameter(arg, default, module) for arg, default in pairs]
        if positional > 0:
            told.insert(positional, "/")
        if given.vararg:
            told.append("*" + self._parameter(given.vararg, None, module))
        elif given.kwonlyargs:
            told.append("*")
        keywords = zip(given.kwonlyargs, given.kw_defaults, strict=True)
        told += [self._parameter(arg, default, module) for arg, default in keywords]
        if given.kwarg:
            told.append("**" + self._parameter(given.kwarg, None, module))
        return told, self._annotation(node.returns, module) if node.returns else ""

    def _parameter(self, arg: ast.arg, default: ast.expr | None, module: str) -> str:
        kind = f": {self._annotation(arg.annotation, module)}" if arg.annotation else ""
        return f"{arg.arg}{kind}" + (f" = {self._value(default, module)}" if default else "")

    def _value(self, default: ast.expr, module: str) -> str:
        """A constant's value in place of its name."""
        if isinstance(default, ast.Name):
            node = self._definition(module, default.id)
            if isinstance(node, ast.Assign | ast.AnnAssign) and _is_literal(node.value):
                return _text(node.value)
        return ast.unparse(default)

    def _annotation(self, annotation: ast.expr, module: str) -> str:
        """The annotation as it is written. The types of this package that it names are kept."""
        for part in ast.walk(annotation):
            if isinstance(part, ast.Name):
                self._keep(module, part.id)
        return _text(annotation)

    def _keep(self, module: str, name: str) -> None:
        found = self._found(module, name)
        node = found.node if found else None
        if found is None or not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            return
        text = f"{name} = {_text(node.value)}"
        if text not in self._types and not _text(node.value).startswith(("TypeVar", "ParamSpec")):
            self._types.add(text)
            self._annotation(node.value, found.module)

    def _definition(self, module: str, name: str) -> ast.stmt | None:
        found = self._found(module, name)
        return found.node if found else None

    def _found(self, module: str, name: str) -> Found | None:
        """None for what Python or another package defines."""
        try:
            return self._package.find(module, name)
        except LookupError:
            return None

    def _named_bases(self, found: Found) -> list[ast.expr]:
        """Those bases that a user can name: of Python, of other packages, and public errors."""
        assert isinstance(found.node, ast.ClassDef)
        public = set(self._package.listed(self._package.doors()[0]))
        return [
            base
            for base in found.node.bases
            if ast.unparse(base) in public
            or not isinstance(base, ast.Name)
            or not isinstance(self._definition(found.module, base.id), ast.ClassDef)
        ]


def _wrapped(name: str, given: list[str], returned: str) -> Iterator[str]:
    """One line, or one for each parameter if it would be a long one."""
    arrow = f" -> {returned}" if returned else ""
    line = f"{name}({', '.join(given)}){arrow}"
    if len(line) <= WIDTH - 4:
        yield line
        return
    yield f"{name}("
    for parameter in given:
        yield f"    {parameter},"
    yield f"){arrow}"


def _is_record(node: ast.ClassDef) -> bool:
    """Whether its annotated names are arguments of its constructor."""
    marks = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
    return any("dataclass" in mark or mark.endswith("NamedTuple") for mark in marks)


def _is_special(name: str) -> bool:
    """The constructor is written with its arguments; what dataclasses call is not for users."""
    return name.startswith("__") and name not in (
        "__init__",
        "__new__",
        "__post_init__",
        "__slots__",
    )


def _is_literal(value: ast.expr | None) -> bool:
    """Whether it is made of numbers, texts and signs alone."""
    plain = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Tuple, ast.Load)
    return value is not None and all(isinstance(part, plain) for part in ast.walk(value))


def _text(node: ast.AST | None) -> str:
    """As it is written, without the quotes of an annotation that is a text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "[" in node.value:
        return node.value
    return ast.unparse(node) if node is not None else ""


def _seen(written: list[Function]) -> list[Function]:
    """What a caller sees: the overloads where there are some, and otherwise the one definition."""
    return [node for node in written if _is_overload(node)] or written[-1:]


def _all_seen(ways: list[list[str]]) -> list[str]:
    """Of a method with overloads the last stands for all of them; a property that can be set is
    defined twice."""
    if len(ways) == 2 and "(" not in ways[0][0].partition(":")[0]:
        return [f"{ways[0][0]} (can be set)"]
    return [line for way in (ways[:-1] if len(ways) > 2 else ways[-1:]) for line in way]


def _is_overload(node: Function) -> bool:
    return any(ast.unparse(each).endswith("overload") for each in node.decorator_list)


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements, and those inside ``if``, ``try`` and ``with``."""
    for node in body:
        if isinstance(node, ast.If | ast.With):
            yield from _flat(node.body)
            yield from _flat(getattr(node, "orelse", []))
        elif isinstance(node, ast.Try):
            yield from _flat(node.body)
            yield from _flat(node.orelse)
        else:
            yield node


def _names(node: ast.stmt) -> list[str]:
    """What a statement binds."""
    if isinstance(node, ast.ClassDef | Function):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


if __name__ == "__main__":
    PAGE.write_text(surface(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {len(PAGE.read_text().splitlines())} lines\n")
