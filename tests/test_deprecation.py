"""What goes warns first, at the line that uses it."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store._deprecation import Deprecation, deprecated, renamed


def caught(call: Any) -> tuple[Any, list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return call(), told


def test_a_function_that_goes_works_and_warns_at_the_callers_line() -> None:
    @deprecated("tfs.new()", since="1.2", goes="1.4")
    def old(x: int, *, y: int = 1) -> int:
        """What it does."""
        return x + y

    answer, (warning,) = caught(lambda: old(1, y=2))
    assert answer == 3
    assert warning.category is DeprecationWarning
    assert warning.filename == __file__
    assert "old() is deprecated since tfio_store 1.2 and goes in 1.4: use tfs.new()" in str(
        warning.message
    )
    assert old.__doc__ == "What it does."


def test_an_argument_with_a_new_name() -> None:
    @renamed({"files": "source"}, since="1.2", goes="1.4")
    def named(source: str) -> str:
        return source

    count: Any = named

    answer, (warning,) = caught(lambda: count(files="a"))
    assert answer == "a"
    assert warning.filename == __file__
    assert "files= of " in str(warning.message)
    assert str(warning.message).endswith("use source=")
    assert caught(lambda: count("a")) == ("a", [])
    assert caught(lambda: count(source="a")) == ("a", [])
    with pytest.raises(TypeError, match="give source= alone"):
        count(source="a", files="b")


def test_a_name_that_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = Deprecation("tfio_store.tally", "count", "1.2", "1.4")
    monkeypatch.setitem(tfs._MOVED, "tally", moved)
    answer, (warning,) = caught(lambda: tfs.tally)  # type: ignore[attr-defined]
    assert answer is tfs.count
    assert warning.filename == __file__
    assert "tfio_store.tally is deprecated" in str(warning.message)
    assert "tally" not in dir(tfs)


def test_what_goes_is_gone_in_its_version() -> None:
    """Fails once the version is there in which something was promised to be gone. Whatever the
    decorators know is in the list when its module was imported."""
    decorated = re.compile(r"@(?:deprecated|renamed)\((.*?)goes=\"([\d.]+)\"", re.DOTALL)
    found = {each.what: each.goes for each in tfs._MOVED.values()}
    for path in Path(tfs.__file__).parent.rglob("[a-z]*.py"):
        text = path.read_text(encoding="utf-8")
        found |= {f"{path.name}: {what}": goes for what, goes in decorated.findall(text)}
    here = version(tfs.__version__)
    for what, goes in found.items():
        assert version(goes) > here, f"{what} was to go in {goes}: remove it"


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3])
