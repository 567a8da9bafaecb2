"""Large objects through an fsspec filesystem, which wants the name of a local file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tfio_store.storage import fsspec_store, open_store

URL = "memory://spooled/object"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, of a machine that has no names for open files."""
    monkeypatch.setattr(fsspec_store, "DESCRIPTORS", str(tmp_path / "none"))
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize("times", [0, 1, 3])
def test_objects_of_any_size_arrive_without_proc(temporary: Path, times: int) -> None:
    store, path = open_store(URL)
    output = store.open_output(path)
    for number in range(times):
        output.write(bytes([number]) * (5 << 20))
    output.write(b"end")
    output.commit()
    data, _ = store.get(path)
    assert data == b"".join(bytes([number]) * (5 << 20) for number in range(times)) + b"end"
    assert not list(temporary.iterdir())


def test_a_file_with_a_name_is_private_and_goes_also_if_sending_fails(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, path = open_store(URL)
    found = []

    def refuse(self: Any, path: str, data: str, *_: object) -> None:
        found.append((os.path.dirname(data), os.stat(data).st_mode & 0o777, os.stat(data).st_size))
        raise PermissionError("no")

    monkeypatch.setattr(fsspec_store.MemoryStore, "_publish", refuse)
    output = store.open_output(path)
    output.write(bytes(9 << 20))
    for _ in range(2):
        with pytest.raises(PermissionError, match="no"):
            output.commit()
    assert found == [(str(temporary), 0o600, 9 << 20)] * 2
    output.abort()
    assert not list(temporary.iterdir())
