"""Files of tables that claim what they do not hold are refused, and cost little."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs

pa = pytest.importorskip("pyarrow")

TEXTS = ["abcdefgh", None, "ijklmnop", "qrstuvwx", "yyyyyyyy"]
VIEWS = [b"a" * 20, b"b" * 20, b"c" * 20]
LISTS = [[1, 2], None, [3, 4], [5, 6], [7, 8]]


def offsets(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


GOOD = offsets(0, 8, 8, 16, 24, 32)


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize(
    ("values", "kind", "good", "bad"),
    [
        (TEXTS, "string", GOOD, offsets(0, 8, 8, 2_000_000_000, 24, 32)),
        (TEXTS, "binary", GOOD, offsets(0, 8, -1_000_000, 16, 24, 32)),
        (VIEWS, "binary_view", b"bbbb" + offsets(0, 20), b"bbbb" + offsets(5, 20)),
        (VIEWS, "binary_view", b"bbbb" + offsets(0, 20), b"bbbb" + offsets(0, 4096)),
        (LISTS, "list", offsets(0, 2, 2, 4, 6, 8), offsets(0, 2, 2, 2_000_000_000, 6, 8)),
    ],
)
def test_arrow_offsets_beyond_the_file_are_refused(
    tmp_path: Path, values: Any, kind: str, good: bytes, bad: bytes, form: str
) -> None:
    held = pa.array(values, pa.list_(pa.int64()) if kind == "list" else getattr(pa, kind)())
    table = pa.table({"s": held})
    source = tmp_path / "f.arrow"
    with (pa.ipc.new_file if form == "file" else pa.ipc.new_stream)(source, table.schema) as writer:
        writer.write_table(table)
    data = source.read_bytes()
    assert good in data
    source.write_bytes(data.replace(good, bad))
    with pytest.raises(ValueError, match=r"f\.arrow: cannot be read as arrow"):
        tfs.convert(str(source), str(tmp_path / "train"))


@pytest.mark.parametrize("error", [pa.ArrowIndexError, pa.ArrowMemoryError])
def test_all_errors_of_arrow_name_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    from tfio_store.tables.formats import table_files

    def read(*_: Any) -> Any:
        raise error("2 of 1")

    (tmp_path / "f.arrow").write_bytes(b"ARROW1")
    monkeypatch.setitem(table_files._READERS, "arrow", read)
    with pytest.raises(ValueError, match=r"f\.arrow: cannot be read as arrow: 2 of 1"):
        tfs.convert(str(tmp_path / "f.arrow"), str(tmp_path / "train"))
