"""The house's rules: folders are floors, imports go down, siblings stay apart, nothing goes round.

Every import counts, wherever in a file it stands: lazy ones, those for type checkers only, and
names of modules in strings.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.started import python

PACKAGE = Path(__file__).parent.parent / "tfio_store"

FLOORS = (
    {"errors", "_deprecation"},
    {"records"},
    {"example", "storage"},
    {"dataset"},
    {"read", "write"},
    {"tables", "image"},
    {"maintain"},
    {"episodes", "loader"},
    {"tf", "torch", "grain", "dali", "hf", "ray", "beam", "spark", "dask", "testing"},
    {"show"},
    {"cli", "results", "_startup"},
    {"", "__main__", "accelerate"},
)
"""From the ground up; "" is the package itself. Rooms on one floor are siblings."""

KEEPERS = {
    "fsspec": ("storage",),
    "s3fs": ("storage",),
    "gcsfs": ("storage",),
    "adlfs": ("storage",),
    "obstore": ("storage",),
    "tensorflow": ("tf", "example.feature_spec"),
    "torch": ("torch",),
    "torchdata": ("torch",),
    "grain": ("grain",),
    "datasets": ("hf",),
    "ray": ("ray",),
    "apache_beam": ("beam",),
    "pyspark": ("spark",),
    "dask": ("dask",),
    "distributed": ("dask",),
    "pytest": ("testing",),
    "simplejpeg": ("image",),
    "click": ("cli",),
    "rich": ("cli",),
}
"""Third-party packages, and the only rooms that may know them."""


MOST_FILES = 20
"""Of a room, without the rooms below it."""

MODULE = r"tfio_store(\.\w+)+"


def modules() -> dict[str, Path]:
    """All of the package, as dotted names below it; compiled ones by their stubs."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        .removesuffix("__init__")
        .rstrip("."): path
        for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi"))
    }


MODULES = modules()


def named(tree: ast.AST) -> Iterator[str]:
    """Absolute names that a file imports, or holds as strings that are nothing but such a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports absolutely"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(MODULE, str(node.value)):
            yield str(node.value)


def module_of(name: str, known: Mapping[str, object]) -> str | None:
    """The module of ours that a name is of, or is itself."""
    package, _, below = name.partition(".")
    if package != "tfio_store":
        return None
    while below and below not in known:
        below = below.rpartition(".")[0]
    return below


def arrows(path: Path) -> set[str]:
    found = {module_of(name, MODULES) for name in named(ast.parse(path.read_text("utf-8")))}
    return {name for name in found if name is not None}


def floor(module: str) -> int:
    room = module.split(".")[0]
    return next(i for i, rooms in enumerate(FLOORS) if room in rooms)


def complaint(module: str, target: str) -> str | None:
    """What is wrong with an import, if anything is."""
    if floor(target) > floor(module):
        return f"{module} imports {target}, which stands above it"
    if floor(target) == floor(module) and target.split(".")[0] != module.split(".")[0]:
        return f"{module} imports {target}: siblings stay apart"
    return None


def circle(graph: Mapping[str, set[str]]) -> list[str] | None:
    """Modules that import each other in a round, if there are any."""
    done: set[str] = set()

    def walk(module: str, way: list[str]) -> list[str] | None:
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done:
            return None
        for target in sorted(graph.get(module, ())):
            found = walk(target, [*way, module])
            if found is not None:
                return found
        done.add(module)
        return None

    return next(filter(None, (walk(module, []) for module in sorted(graph))), None)


def whole_graph() -> dict[str, set[str]]:
    return {module: arrows(path) - {module} for module, path in MODULES.items()}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_down(module: str) -> None:
    for target in arrows(MODULES[module]):
        if target == "" and module:
            continue  # a format's or a logger's name, or the package's own version
        assert complaint(module, target) is None


def test_a_room_can_be_seen_at_a_glance() -> None:
    files = Counter(path.parent for path in PACKAGE.rglob("*.py"))
    assert [f"{room}: {n} files" for room, n in files.items() if n > MOST_FILES] == []


def test_nothing_goes_round() -> None:
    graph = {name: {t for t in targets if t} for name, targets in whole_graph().items() if name}
    assert circle(graph) is None


LISTING = ("storage", "read", "loader", "torch.iterable", "records.framing")
"""Rooms and modules that list what others may use of them."""


@pytest.mark.parametrize("module", sorted(MODULES))
def test_names_are_listed_where_users_import_them(module: str) -> None:
    """Or where a module hands on those of others. Elsewhere the underscore says what is private."""
    path = MODULES[module]
    doors = path.parent == PACKAGE or path.name == "__init__.py" or path.suffix == ".pyi"
    if doors or f"{module}.".startswith(tuple(f"{name}." for name in LISTING)):
        return
    body = ast.parse(path.read_text("utf-8")).body
    lists = [node for node in body if isinstance(node, ast.Assign)]
    names = [ast.literal_eval(n.value) for n in lists if ast.unparse(n.targets[0]) == "__all__"]
    imported = {
        alias.asname or alias.name
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not names or imported & set(names[0])


DAMAGE = {"DataLossError", "CorruptRecordError", "TruncatedRecordError"}


def test_damage_is_told_in_one_file() -> None:
    """Errors of damage are made in one file, and no sentence of theirs is passed to it as a text,
    but what a decoder says of values."""
    makers, texts = set(), set()
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in DAMAGE:
                makers.add(module)
            if called == "damaged" and any(map(_is_text, node.args)):
                texts.add(module)
    assert makers == {"records.damage"}
    assert texts == {"episodes.decoding"}  # where in an episode, and the decoder's words


def _is_text(argument: ast.expr) -> bool:
    words = [n.value for n in ast.walk(argument) if isinstance(n, ast.Constant)]
    return any(isinstance(word, str) and " " in word for word in words)


# The C and Cython of the bridge to TensorFlow. What Cython makes of it is not counted.


EXT = PACKAGE.parent / "ext"
BRIDGE = EXT / "tensorflow"
MOST_OF_BRIDGE = 40
MOST_OF_OPS = 24
PREFIX = "op_"
"""Of every name that one file of the ops has of another: types and functions."""


def handwritten(room: Path) -> list[Path]:
    files = (path for path in room.rglob("*") if path.is_file())
    cython = (".pyx", ".pxi", ".pxd")
    return sorted(
        path
        for path in files
        if path.suffix in cython or (path.suffix in (".c", ".h") and path.name[0] != "_")
    )


def includes() -> dict[str, set[str]]:
    """Which units (a header, and the file of C of its name) of the bridge include which."""
    graph: dict[str, set[str]] = {}
    for path in handwritten(BRIDGE):
        if path.suffix in (".c", ".h"):
            text = path.read_text("utf-8")
            found = re.findall(r'#include "tensorflow/([^"]+)\.h"', text)
            unit = str(path.relative_to(BRIDGE).with_suffix(""))
            graph.setdefault(unit, set()).update({*found} - {unit})
    return graph


def declared(header: str) -> set[str]:
    """The types and functions of a header."""
    code = re.sub(r"/\*.*?\*/|^#.*?(?<!\\)$", "", header, flags=re.S | re.M)
    flat = re.sub(r"\{[^{}]*\}", "", code)
    types = re.findall(r"\btypedef [^;]*?(\w+);", flat)
    pointers = re.findall(r"^extern [^;]*\(\*(\w+)\)", flat, flags=re.M)
    functions = re.findall(r"^[\w ]+?[ *](\w+)\(", flat, flags=re.M)
    return {*types, *pointers, *functions}


def test_the_bridge_can_be_seen_at_a_glance() -> None:
    assert len(handwritten(BRIDGE)) <= MOST_OF_BRIDGE
    assert len(handwritten(BRIDGE / "ops")) <= MOST_OF_OPS


def test_no_c_of_the_bridge_goes_round() -> None:
    graph = includes()
    assert "ops/op_records" in graph["ops/op_python"]
    assert circle(graph) is None
    graph["ops/op_records"].add("ops/op_python")
    assert circle(graph) is not None


def test_the_ops_have_one_prefix() -> None:
    names: set[str] = set()
    for path in (BRIDGE / "ops").glob("*.h"):
        names |= declared(path.read_text("utf-8"))
    assert {"op_block", "op_call_begin", "op_return_lent", "op_is_raw_local"} <= names
    assert sorted(name for name in names if not name.startswith(PREFIX)) == []
    files = [path.name for path in handwritten(BRIDGE / "ops") if path.suffix in (".c", ".h")]
    assert [name for name in files if not name.startswith(PREFIX)] == []


def test_a_circle_made_by_hand_is_found() -> None:
    graph = whole_graph()
    assert "records.framing" in graph["storage.local"]
    graph["records.framing"] = {*graph["records.framing"], "storage.local"}
    del graph[""]
    found = circle(graph)
    assert found is not None
    assert {"records.framing", "storage.local"} <= set(found)


def test_what_goes_up_or_aside_is_told() -> None:
    assert "stands above" in str(complaint("dataset.model", "read.reader"))
    assert "siblings" in str(complaint("read.reader", "write.commit"))
    assert "siblings" in str(complaint("example.schema", "storage.store"))
    assert complaint("read.reader", "dataset.model") is None


def test_lazy_imports_and_names_in_strings_count() -> None:
    text = "def f():\n    from tfio_store.read import reader\n    return 'tfio_store.write.claim'\n"
    found = {module_of(name, MODULES) for name in named(ast.parse(text))}
    assert found == {"read.reader", "write.claim"}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_only_its_keeper_imports_a_package(module: str) -> None:
    for name in named(ast.parse(MODULES[module].read_text("utf-8"))):
        keepers = KEEPERS.get(name.split(".")[0])
        allowed = keepers is None or any(f"{module}.".startswith(f"{k}.") for k in keepers)
        assert allowed, f"only {keepers} may import {name}"


def test_no_room_or_door_bears_the_name_of_a_public_function() -> None:
    import tfio_store

    beneath = {name.split(".")[0] for name in MODULES} - {"accelerate"}  # the function's program
    assert not beneath & set(tfio_store.__all__)


def test_import_is_light() -> None:
    heavy = ("numpy", "fsspec", "google_crc32c", "tensorflow", "pyarrow", "click", "rich")
    code = f"import sys, tfio_store; print([m for m in {heavy!r} if m in sys.modules])"
    found = python(code, check=True)
    assert found.stdout.strip() == "[]"


def test_what_storage_takes_is_light() -> None:
    heavy = ("tensorflow", "pyarrow", "pandas", "s3fs", "gcsfs", "adlfs", "obstore", "torch")
    names = "t.ShardedWriter, t.RecordReader"
    code = (
        f"import sys, tfio_store as t; {names}; print([m for m in {heavy!r} if m in sys.modules])"
    )
    found = python(code, check=True)
    assert found.stdout.strip() == "[]"


def test_type_checkers_see_each_name_where_it_comes_from() -> None:
    import tfio_store

    (block,) = (
        node
        for node in ast.parse((PACKAGE / "__init__.py").read_text("utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: str(node.module) for node in imports for alias in node.names}
    homes = {**tfio_store._HOMES, **tfio_store._TENSORFLOW}
    assert seen == homes | dict.fromkeys(tfio_store._ROOMS, "tfio_store")
    assert sorted(homes) == tfio_store.__all__


def test_a_name_that_is_none() -> None:
    import tfio_store

    assert not hasattr(tfio_store, "no_such_name")
    assert tfio_store.storage is sys.modules["tfio_store.storage"]


def test_all_is_sorted_and_resolves() -> None:
    import tfio_store

    assert tfio_store.__all__ == sorted(tfio_store.__all__)
    for name in tfio_store.__all__:
        if name not in tfio_store._TENSORFLOW:
            getattr(tfio_store, name)
