"""The docstrings of all that is public have one form, name every argument, and show what runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.records import _pure

ROOT = Path(tfs.__file__).parent


def door_names(door: Path) -> list[str]:
    """The ``__all__`` of a door, which may need a package that is not installed."""
    text = re.search(r"^__all__ = (\[.*?\])", door.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert text, f"{door} has no __all__"
    return [name for name in ast.literal_eval(text[1]) if name not in tfs.__all__]


ROOMS = ("beam", "grain", "ray", "spark", "testing", "torch")
"""Doors that are folders, by their ``__init__``."""

DOORS = {door.stem: door for door in ROOT.glob("[a-z]*.py")} | {
    room: ROOT / room / "__init__.py" for room in ROOMS
}
NAMES = [f"tfio_store.{name}" for name in tfs.__all__] + [
    f"tfio_store.{door}.{name}" for door in sorted(DOORS) for name in door_names(DOORS[door])
]
each_name = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.tensorflow] * (name[11:] in tfs._TENSORFLOW))
        for name in NAMES
    ],
)
SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example")
COMPILED = ("RecordBatch", "crc32c", "masked_crc32c")
TWINS = {getattr(tfs, name): getattr(_pure, name) for name in COMPILED}
"""Compiled names, and those whose signatures Python can read."""

NO_EXAMPLE = {
    "DatasetManifest", "DoorTests", "Feature", "RecordReader.of", "RecordSource.of", "Retry",
    "Schema.of", "TFRecordDatasink",
}  # fmt: skip
"""Methods, and classes with methods, that users have no need to call. Engines and tests may."""


def found(name: str) -> Any:
    """The public object of that name; skips where what it needs is missing."""
    module, _, attribute = name.rpartition(".")
    if attribute in COMPILED and tfs.backend().core == "pure":
        pytest.skip("its docstring is the compiled core's")
    if attribute in tfs._TENSORFLOW:
        pytest.importorskip("tensorflow")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        pytest.skip(f"{module} needs {error.name}")


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that this library defines. Those by which a class that is
    not public overrides another library's are documented there."""
    theirs = {
        name
        for base in cls.__mro__
        if not base.__module__.startswith("tfio_store")
        for name in vars(base)
    }
    for base in (base for base in cls.__mro__ if base.__module__.startswith("tfio_store")):
        for name, member in vars(base).items():
            if base is not cls and name in theirs:
                continue
            if not name.startswith(("_", "test_")) and (callable(member) or is_documented(member)):
                yield name, member if isinstance(member, property) else getattr(cls, name)


def is_documented(member: object) -> bool:
    return isinstance(member, property | classmethod | staticmethod) or inspect.isroutine(member)


def document(obj: Any) -> str:
    """The docstring, without the signature that Cython puts before it."""
    text = inspect.getdoc(obj) or ""
    name = getattr(obj, "__name__", "")
    return re.sub(rf"\A(\w+\.)?{name}\(.*\)\n+", "", text)


def sections(text: str) -> dict[str, str]:
    parts = re.split(rf"^({'|'.join(SECTIONS)}):\n", text, flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters(obj: Any) -> list[inspect.Parameter]:
    if inspect.isclass(obj) and issubclass(obj, Exception) and "__init__" not in vars(obj):
        return []
    if inspect.isclass(obj) and issubclass(obj, Enum):
        return []  # nobody makes one
    signature = inspect.signature(TWINS.get(obj, obj))
    return [one for one in signature.parameters.values() if one.name != "self"]


def entries(section: str) -> dict[str, str]:
    """``name (type): text`` by name."""
    pattern = r"^    (\*{0,2}\w+) \((.+?)\): (.+?)(?=^    \S|\Z)"
    return {
        name: text for name, _, text in re.findall(pattern, section, flags=re.MULTILINE | re.DOTALL)
    }


def check_form(name: str, obj: Any) -> None:
    text = document(obj)
    assert text, f"{name} has no docstring"
    assert re.match(r".*[.)]($|\n\n)", text), f"{name}: the summary is one sentence on one line"
    if isinstance(obj, property) or inspect.isgetsetdescriptor(obj):
        return
    parts = sections(text)
    order = [section for section in SECTIONS if section in parts]
    assert order == [part for part in parts if part], f"{name}: its sections are out of order"
    check_arguments(name, obj, parts)
    if not inspect.isclass(obj) and returns(obj):
        assert parts.keys() & {"Returns", "Yields"}, f"{name} does not say what it returns"
    if raises(obj):
        assert "Raises" in parts, f"{name} does not say what it raises"


def check_arguments(name: str, obj: Any, parts: dict[str, str]) -> None:
    told = entries(parts.get("Args") or parts.get("Attributes", ""))
    wanted = {str(one).partition(":")[0].partition("=")[0]: one for one in parameters(obj)}
    assert list(told) == list(wanted), f"{name}: its Args are not its parameters"
    for argument, one in wanted.items():
        says = one.default is inspect.Parameter.empty or "efault" in told[argument]
        assert says, f"{name}: {argument} does not tell its default"


def returns(obj: Any) -> bool:
    obj = TWINS.get(obj, obj)
    return inspect.signature(obj).return_annotation not in (None, "None")


def raises(obj: Any) -> bool:
    """Whether it raises by itself (not: whether what it calls does)."""
    if inspect.isclass(obj):
        return any(raises(vars(obj)[init]) for init in CHECKING if init in vars(obj))
    try:
        source = inspect.getsource(obj)
    except (OSError, TypeError):  # compiled, or made by dataclasses
        return False
    return re.search(r"^\s+raise \w+Error\(", source, flags=re.MULTILINE) is not None


CHECKING = ("__init__", "__post_init__")


def examples(obj: Any) -> str:
    return sections(document(obj)).get("Example", "")


@each_name
def test_form(name: str) -> None:
    obj = found(name)
    check_form(name, obj)
    if inspect.isclass(obj):
        for method, member in methods(obj):
            check_form(f"{name}.{method}", member)


@each_name
def test_there_is_an_example(name: str) -> None:
    obj = found(name)
    if inspect.isclass(obj) and issubclass(obj, Exception):
        return  # `DataLossError` shows how to catch them
    shown = examples(obj)
    assert shown, f"{name} has no example"
    if not inspect.isclass(obj):
        return
    short = name.rpartition(".")[2]
    shown += "".join(examples(member) for _, member in methods(obj))
    for method, member in methods(obj):
        exempt = isinstance(member, property) or not callable(member)
        if not exempt and not NO_EXAMPLE & {short, f"{short}.{method}"}:
            assert f".{method}(" in shown, f"no example shows {name}.{method}"


@each_name
def test_examples_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    obj = found(name)
    members = methods(obj) if inspect.isclass(obj) else ()
    for number, (own, one) in enumerate([(name, obj), *members]):
        for package in ("tensorflow", "pyarrow", "pandas"):
            if re.search(rf"import {package}|to_{package[2:]}\(", examples(one)):
                pytest.importorskip(package, exc_type=ImportError)
        if re.search(r"encode_image\(|decode_images", examples(one)):
            pytest.importorskip("PIL")
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        run_examples(own, textwrap.dedent(examples(one)))
    assert "Failed example" not in capsys.readouterr().out


def run_examples(name: str, text: str) -> None:
    test = doctest.DocTestParser().get_doctest(text, {"tfs": tfs}, name, name, 0)
    shown: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=shown.append)
    assert not failed, "".join(shown)


def test_what_is_missing_is_found() -> None:
    def undocumented(path: str, limit: int = 3) -> int:
        """Do it.

        Args:
            path (str): Where.
        """
        raise ValueError(path, limit)

    with pytest.raises(AssertionError, match="not its parameters"):
        check_form("undocumented", undocumented)
