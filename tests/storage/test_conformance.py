"""What every store does the same way."""

from __future__ import annotations

import pytest

from tests.servers.place import Place
from tfio_store.storage import Store, open_store


def opened(place: Place, name: str) -> tuple[Store, str]:
    return open_store(place.url(name), place.storage_options)


def test_put_then_read_back(place: Place) -> None:
    store, path = opened(place, "folder/name.bin")
    written = store.put(path, b"0123456789")
    assert (written.path, written.size) == (path, 10)
    assert store.info(path).size == 10
    assert store.info(path).etag == written.etag
    assert bytes(store.read(path, 2, 5).result()) == b"234"
    assert place.get("folder/name.bin") == b"0123456789"


@pytest.mark.parametrize("size", [0, 1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 20 << 20])
def test_output_appears_on_commit_only(place: Place, size: int) -> None:
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    store, path = opened(place, "out.bin")
    output = store.open_output(path)
    for start in range(0, size, 3 << 20):
        output.write(data[start : start + (3 << 20)])
    with pytest.raises(FileNotFoundError):
        store.info(path)
    assert output.commit().size == size
    assert place.get("out.bin") == data
    assert store.pending_uploads(path.rpartition("/")[0]) == []
