"""A test of the tests: `StoreTests` passes a right store, and fails each of many wrong ones."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.storage.wrong_stores import WRONG, LocalFiles, SiteByHand
from tfio_store.testing import StoreTests


class TestRightStore(StoreTests):
    @pytest.fixture
    def site(self) -> SiteByHand:
        return SiteByHand(f"right://{uuid.uuid4().hex}", one_process=True)


def cases(test: Callable[..., object]) -> Iterator[dict[str, Any]]:
    """What pytest would call the test with, beside its site."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    every = []
    for mark in marks:
        names = mark.args[0]
        names = names.split(",") if isinstance(names, str) else names
        values = [each if len(names) > 1 else (each,) for each in mark.args[1]]
        every.append([dict(zip(names, each, strict=True)) for each in values])
    for chosen in itertools.product(*every):
        yield {name: value for each in chosen for name, value in each.items()}


def fault_found(name: str, root: str, *, one_process: bool) -> BaseException | None:
    """How a test fails at this place, if it does."""
    test = getattr(StoreTests(), name)
    for number, case in enumerate(cases(test)):
        try:
            test(site=SiteByHand(f"{root}{number}", one_process=one_process), **case)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception) as fault:
            return fault
    return None


@pytest.mark.parametrize("scheme", WRONG)
def test_a_wrong_store_fails(scheme: str, tmp_path: Path) -> None:
    store, name = WRONG[scheme]
    local = issubclass(store, LocalFiles)
    root = f"{tmp_path}/" if local else uuid.uuid4().hex
    assert fault_found(name, f"{scheme}://{root}", one_process=not local) is not None


def test_each_test_that_needs_no_second_process_passes_the_right_store() -> None:
    """Else the wrong ones would fail whatever they do."""
    for name in sorted({name for _, name in WRONG.values()}):
        fault = fault_found(name, f"right://{uuid.uuid4().hex}", one_process=True)
        assert fault is None, name
