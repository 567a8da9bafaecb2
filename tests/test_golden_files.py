"""What was kept is read: states of readers, and caches. tests/dataset/test_vectors.py
does so for datasets."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from tests.vectors import make_cache as golden_cache
from tests.vectors.make_states import NAMES, STATES, mixture, numbers, reader
from tfio_store import RecordReader, write_table

READ = sorted(path.stem for path in STATES.glob("*.json"))


def kept(name: str) -> tuple[Any, dict[str, Any]]:
    """A reader as the one that the state is of, and the file's contents."""
    document = json.loads((STATES / f"{name}.json").read_text(encoding="utf-8"))
    made = mixture() if document.get("mixed") else reader(document["dataset"], document["steps"])
    return made, document


def test_each_state_is_tested() -> None:
    assert sorted(NAMES) == READ


@pytest.mark.parametrize("name", READ)
def test_a_reader_goes_on_from_a_golden_state(name: str) -> None:
    made, document = kept(name)
    made.restore(document["state"])
    assert numbers(made) == document["then"]


@pytest.mark.parametrize("name", READ)
def test_an_order_is_what_it_was(name: str) -> None:
    """The order of a shuffled reader for one seed, the shares, and the choices of a mixture."""
    made, document = kept(name)
    count = len(document["first"])
    if name != "resharded":  # whose order is that of what others left
        assert numbers(made)[:count] == document["first"]


def test_a_state_of_a_later_form_asks_for_an_update(tmp_path: Path) -> None:
    write_table({"x": [1]}, tmp_path / "train")
    reader = RecordReader(tmp_path / "train")
    with pytest.raises(ValueError, match="format 99, which a newer tfio_store wrote"):
        reader.restore({**reader.state(), "format": 99})


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The golden cache, where it may be written to."""
    return Path(shutil.copytree(golden_cache.HERE, tmp_path / "cache"))


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 70_000), (5, 6), (65_535, 65_537), (69_999, 70_000), (90_000, 102_400)]
)
def test_what_a_golden_cache_holds_is_not_fetched(cache: Path, start: int, stop: int) -> None:
    shop = golden_cache.Shop()
    assert golden_cache.read(shop, cache, start, stop) == golden_cache.DATA[start:stop]
    assert shop.reads == []


def test_what_a_golden_cache_lacks_is_fetched(cache: Path) -> None:
    shop = golden_cache.Shop()
    assert golden_cache.read(shop, cache, 60_000, 100_000) == golden_cache.DATA[60_000:100_000]
    assert shop.reads == [(70_000, 90_000)]


def test_a_golden_cache_is_laid_out_as_its_text_says() -> None:
    """By nothing but the layout that `tfio_store.storage.cache.folder` tells."""
    found = sorted((golden_cache.HERE / "v1/ranges").rglob("*-*"))
    assert [path.name for path in found] == ["0-70000", "90000-102400"]
    for path in found:
        data = path.read_bytes()
        magic, digest, start, stop = struct.unpack_from("<8s20sQQ", data)
        assert (magic, digest.hex()) == (b"TFIOSRNG", path.parent.name)
        assert f"{start}-{stop}" == path.name
        pieces = -(-(stop - start) // 65_536)
        body = data[44 + 4 * pieces + 4 :]
        assert body == golden_cache.DATA[start:stop]
        crcs = struct.unpack_from(f"<{pieces + 1}I", data, 44)
        parts = [body[at : at + 65_536] for at in range(0, len(body), 65_536)]
        assert list(crcs[:-1]) == [google_crc32c.value(part) for part in parts]
        assert crcs[-1] == google_crc32c.value(data[: 44 + 4 * pieces])
