"""What is public, and how it is called, changes only on purpose."""

from __future__ import annotations

import difflib
import inspect
from pathlib import Path

import pytest

import tfio_store as tfs

pytest.importorskip("griffe")

from scripts.public_surface import PAGE, ROOMS, surface
from tests.test_docstrings import ROOMS as DOCUMENTED

CHANGED = """
The public names are not those of tests/public_surface.txt:

{diff}

Did you mean to change them? Then run `make generate ONLY=surface`, commit the file with your
change, and give CHANGELOG.md a line. Once a release has a name, it goes by a deprecation only
(docs/policy.md; tfio_store/_deprecation.py has what warns). Did you not? Then undo it.
"""


def test_the_public_names_are_the_committed_ones() -> None:
    committed, found = PAGE.read_text(encoding="utf-8"), surface(Path(tfs.__file__).parent)
    diff = difflib.unified_diff(
        committed.splitlines(), found.splitlines(), "committed", "found", lineterm="", n=2
    )
    assert found == committed, CHANGED.format(diff="\n".join(diff))


def test_the_rooms_that_users_import_are_the_documented_ones() -> None:
    assert set(ROOMS) == {*DOCUMENTED, "storage"}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in tfs.__all__
        if name not in tfs._TENSORFLOW and inspect.isfunction(getattr(tfs, name))
    ],
)
def test_the_page_has_the_parameters_that_python_sees(name: str) -> None:
    """An oracle: the page is made of the text, and this is what runs."""
    (_, entry) = PAGE.read_text(encoding="utf-8").split(f"\ntfio_store.{name}(", 1)
    entry = entry.partition("\n\n")[0]
    at = -1
    for parameter in inspect.signature(getattr(tfs, name)).parameters.values():
        place = entry.find(f"{parameter.name}", at + 1)
        assert place > at, f"{name}: {parameter.name} is not on the page, or in another order"
        at = place


DOOR = """
from shop.rooms import Thing, cost, STEP
__all__ = ["Thing", "cost"]
"""
ROOM = """
from dataclasses import dataclass
from typing import Literal
from shop.base import Base
STEP = 4 << 10
Kind = Literal["a", "b"]
class Thing(Base):
    def __init__(self, size: int, *, kind: Kind = "a") -> None: ...
    def __len__(self) -> int: ...
    def _hidden(self) -> None: ...
def cost(thing: Thing, /, *more: int, step: int = STEP) -> float: ...
"""
BASE = """
class Base:
    @property
    def name(self) -> str: ...
    def close(self) -> None: ...
"""
WHOLE = """\
class shop.Thing
    __init__(size: int, *, kind: Kind = 'a') -> None
    close() -> None
    name: str
    __len__

shop.cost(thing: Thing, /, *more: int, step: int = 4 << 10) -> float

Kind = Literal['a', 'b']
"""


def shop(folder: Path, **changed: str) -> str:
    """The surface of a small package, a part of whose text is changed."""
    package = folder / "shop"
    package.mkdir(exist_ok=True)
    for name, text in {"__init__": DOOR, "rooms": ROOM, "base": BASE, **changed}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    return surface(package).partition("\n\n")[2]


def test_a_page(tmp_path: Path) -> None:
    assert shop(tmp_path) == WHOLE


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("size: int", "size: int, colour: str = 'red'", "colour: str = 'red'"),
        ("4 << 10", "5 << 10", "step: int = 5 << 10"),
        ('"a", "b"', '"a"', "Kind = Literal['a']"),
        ("kind: Kind", "sort: Kind", "sort: Kind"),
        ("def __len__", "def __bool__", "__bool__"),
    ],
)
def test_a_change_is_seen(tmp_path: Path, old: str, new: str, line: str) -> None:
    changed = shop(tmp_path, rooms=ROOM.replace(old, new))
    assert changed != WHOLE
    assert line in changed


def test_a_change_of_what_is_inherited_is_seen(tmp_path: Path) -> None:
    changed = shop(tmp_path, base=BASE.replace("def close(self)", "def close(self, now: bool)"))
    assert "    close(now: bool) -> None\n" in changed


def test_what_is_private_is_not_seen(tmp_path: Path) -> None:
    assert shop(tmp_path, rooms=ROOM.replace("_hidden", "_other")) == WHOLE
