"""Every public name with its signature, in `tests/public_surface.txt`.

`make generate ONLY=surface` writes it. Griffe reads the package and does not run it, so that doors
of packages which are not installed are read too. Public is what a door lists in ``__all__``. A
class is written with its constructor, its public methods and attributes, and the special methods
that it has; what it inherits within the package is its own. Defaults that are constants are written
as their values, and behind all names stand the types that their arguments name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

__all__ = ["PAGE", "ROOMS", "surface"]

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "tests/public_surface.txt"
ROOMS = ("beam", "grain", "ray", "spark", "storage", "testing", "torch")
"""Folders that users import. Files directly in the package are all public."""

WIDTH = 100
LITERAL = re.compile(r"""[-+*/<>()\s\d._]+|'[^']*'|"[^"]*"|None|True|False""")
UNSEEN = {"__new__", "__post_init__", "__slots__", "__init__"}
HEAD = """\
# Every public name of tfio_store, and how it is called. `make generate ONLY=surface` writes it,
# and a test compares it with the code: docs/policy.md says which changes are allowed when.
"""


def surface(folder: Path = ROOT / "tfio_store") -> str:
    """The text of the page."""
    loader = griffe.GriffeLoader(search_paths=[folder.parent], allow_inspection=False)
    package = loader.load(folder.name)
    names = {path.stem for path in folder.glob("[a-z]*.py")} | set(ROOMS)
    inner = [package[name] for name in sorted(names) if name in package.members]
    doors = [package, *(each for each in inner if each.is_module and each.exports)]
    page, lines = Page(package), [HEAD]
    public = {name: meant(package, package, name) for name in listed(package)}
    for door in doors:
        for name in listed(door):
            found = meant(package, door, name)
            if door is not package and public.get(name) is found:
                lines += [f"{door.path}.{name}: the same as {package.path}.{name}", ""]
            else:
                lines += [*page.entry(f"{door.path}.{name}", found), ""]
    return "\n".join([*lines, *sorted(page.types), ""])


def listed(door: Any) -> list[str]:
    return [str(name).strip("'\"") for name in door.exports]


def target(found: Any) -> Any:
    """What a name means, behind all imports."""
    return found.final_target if found.is_alias else found


def meant(package: Any, door: Any, name: str) -> Any:
    """What a door's name means. A module of the same name does not hide what is imported."""
    found = target(door[name])
    if found.is_module and name in door.imports:
        found = target(package[door.imports[name].partition(".")[2]])
    if found.is_attribute and found.annotation is None:  # such as `crc32c = core.crc32c`
        path = str(getattr(found.value, "canonical_path", ""))
        if path.startswith(f"{package.path}."):
            return target(package[path.partition(".")[2]])
    return found


class Page:
    """Writes names, and remembers the types that they name."""

    def __init__(self, package: Any) -> None:
        self._package, self.types = package, set[str]()

    def entry(self, name: str, found: Any) -> Iterator[str]:
        """The lines of one public name."""
        if found.is_module:
            yield f"{name}: a module"
        elif found.is_class:
            yield from self._class(name, found)
        elif found.is_function:
            for each in found.overloads or [found]:
                yield from self._call(name, each)
        elif found.annotation is not None:
            yield f"{name}: {self._text(found.annotation)}"
        else:
            yield f"{name} = {found.value}"

    def _class(self, name: str, found: Any) -> Iterator[str]:
        """The class's line, and those of its members, sorted."""
        public = {meant(self._package, self._package, each).path for each in listed(self._package)}
        bases = [
            str(base)
            for base in found.bases
            if not str(getattr(base, "canonical_path", "")).startswith(f"{self._package.path}.")
            or base.canonical_path in public
        ]
        head = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
        members = {key: target(each) for key, each in found.all_members.items()}
        yield head
        shown = [
            key
            for key, each in members.items()
            if not key.startswith(("_", "test_"))
            and (each.labels != {"instance-attribute"} or each.value is None)  # set in __init__
        ]
        for key in [key for key in members if key == "__init__"] + sorted(shown):
            yield from (f"    {line}" for line in self._member(key, members[key]))
        special = {key for key in members if key.startswith("__") and key not in UNSEEN}
        special -= {"__module__", "__qualname__", "__doc__", "__annotations__"}
        if special:
            yield f"    {' '.join(sorted(special))}"

    def _member(self, name: str, found: Any) -> Iterator[str]:
        if found.is_function:
            kind = next(
                (each for each in ("classmethod", "staticmethod") if each in found.labels), ""
            )
            for each in found.overloads or [found]:
                yield from self._call(f"{kind} {name}".strip(), each)
        elif found.is_attribute and found.annotation is not None:
            set_ = " (can be set)" if "writable" in found.labels else ""
            yield f"{name}: {self._text(found.annotation)}{set_}"
        else:
            yield f"{name} = …"

    def _call(self, name: str, found: Any) -> Iterator[str]:
        """One line, or one for each parameter if it would be a long one."""
        given = list(self._parameters(found))
        arrow = f" -> {self._text(found.returns)}" if found.returns is not None else ""
        line = f"{name}({', '.join(given)}){arrow}"
        if len(line) <= WIDTH - 4:
            yield line
            return
        yield from (f"{name}(", *(f"    {each}," for each in given), f"){arrow}")

    def _parameters(self, found: Any) -> Iterator[str]:
        inside = found.parent is not None and found.parent.is_class
        bound = inside and "staticmethod" not in found.labels
        kinds = griffe.ParameterKind
        before = None
        for number, each in enumerate(found.parameters):
            if number == 0 and bound:
                continue
            if before is kinds.positional_only and each.kind is not before:
                yield "/"
            if each.kind is kinds.keyword_only and before not in (
                kinds.keyword_only, kinds.var_positional,
            ):  # fmt: skip
                yield "*"
            before = each.kind
            star = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(each.kind, "")
            kind = f": {self._text(each.annotation)}" if each.annotation is not None else ""
            default = "" if star or each.default is None else f" = {self._value(each.default)}"
            yield f"{star}{each.name}{kind}{default}"

    def _value(self, default: Any) -> str:
        """A constant's value in place of its name."""
        found = self._found(default)
        if found is not None and LITERAL.fullmatch(str(found.value)):
            return str(found.value)
        return str(default)

    def _text(self, annotation: Any) -> str:
        """The annotation as it is written. The types of this package that it names are kept."""
        if not isinstance(annotation, str):
            for part in annotation.iterate(flat=True):
                found = self._found(part)
                if found is None:
                    continue
                text = f"{found.name} = {self._unquoted(found.value)}"
                if text not in self.types and "Var(" not in text:
                    self.types.add(text)
                    self._text(found.value)
        return self._unquoted(annotation)

    @staticmethod
    def _unquoted(annotation: Any) -> str:
        return str(annotation).strip("'\"") if "[" in str(annotation) else str(annotation)

    def _found(self, name: Any) -> Any:
        """The constant or type of this package that it names."""
        path = str(getattr(name, "canonical_path", ""))
        if not path.startswith(f"{self._package.path}."):
            return None
        try:
            found = target(self._package[path.partition(".")[2]])
        except (KeyError, griffe.AliasResolutionError):
            return None
        known = found.is_attribute and found.parent.is_module and found.value is not None
        known = known and not isinstance(found.value, griffe.ExprAttribute)  # a name of a class
        return found if known else None


if __name__ == "__main__":
    PAGE.write_text(surface(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(PAGE.read_text('utf-8').splitlines())} lines")
