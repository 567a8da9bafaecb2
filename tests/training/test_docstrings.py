"""The docstrings of the doors to training loops, whose packages only this environment has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_docstrings import (
    NAMES,
    test_examples_run as examples_run,
    test_form as form,
    test_there_is_an_example as there_is_an_example,
)

each_name = pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if name.startswith(("tfio_store.torch.", "tfio_store.hf.", "tfio_store.grain."))
    ],
)


@each_name
def test_form_and_examples(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    form(name)
    there_is_an_example(name)
    examples_run(name, tmp_path, monkeypatch, capsys)
